"""Learn then test: the least threshold for which an error is promised, by a walk over all thresholds from the most cautious down.

The walk stops at the first threshold whose p-value (`sooner.evaluate.pvalues`) is above delta = 1 - confidence, and the last one
before it is certified: fixed-sequence testing, as in learn then test (Angelopoulos et al. 2025, Ann. Appl. Stat. 19).

Why P(risk of the answer > level) <= delta, although thresholds are not a finite list, and those of the sweep depend on the data:

1. The order is fixed before the data are seen: all real thresholds, descending from infinity.
2. The risk R(a) is left-continuous in a. If a rises to b, the series that stop otherwise at a than at b have a statistic in
   [a, b), and that set shrinks to nothing. So at a*, the supremum of all a with R(a) > level, the risk is still at least the
   level: either a* is such a point, or it is the limit of such points from below. a* is fixed by the distribution, not by data.
3. The p-value at a* is valid, for it is against "risk >= level": P(p(a*) <= delta) <= delta.
4. The walk certifies some a with R(a) > level only if it passes all thresholds above, a* among them. By 3, that has probability
   at most delta. Errors need not be monotone in a, and there is no factor for the number of thresholds.
5. Between neighbouring record values of the calibration series no decision changes (`Sweep`), so neither does a p-value: the walk
   over record values is the walk over all real thresholds, and it certifies the whole interval above the next record.
"""

from collections.abc import Callable
from datetime import date as calendar
from typing import Any

import numpy as np
import torch

from sooner.errors import NotCertified, UnknownName
from sooner.evaluate.choose import midpoint_rule_at
from sooner.evaluate.curve import as_threshold_family
from sooner.evaluate.early import early_rule
from sooner.evaluate.promise import RISKS, Promise, claim_of, data_hash
from sooner.evaluate.risk_bounds import RiskBound, bound_for, halves, losses_of
from sooner.inputs import as_between
from sooner.rules import Rule, ThresholdRule, leader
from sooner.rules.records import Sweep
from sooner.scores import Scored
from sooner.types import ArrayLike, BoolArray

_ROUNDING = 1e-12  # of sums of shares
_HALVINGS, _DOUBLINGS = 20, 40


def certify(
    rule: type[ThresholdRule],
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    risk: str = "balanced_error",
    level: float = 0.05,
    confidence: float = 0.95,
    lengths: ArrayLike | None = None,
    groups: Any = None,
    halting: ArrayLike | None = None,
) -> Promise:
    """The least threshold for which the risk is at most `level` with `confidence`, as a promise; its rule is `promise.rule`.

    Risk, level and confidence must be fixed before the scores are looked at. For a classifier,
    `clf.choose_threshold(X, y, max_error=0.05, confidence=0.95)` does the same.

    Args:
        rule: `MSPRT`, `LogOdds`, `FixedTime`, `ProbabilityThreshold` or `Halting`.
        scores: (batch, time, classes), of series that neither training nor any choice has seen.
        labels: (batch,), in 0..K-1.
        risk: "error" (share of wrong decisions), "balanced_error" (mean over classes), "class_error" (the error of every class),
            "gap" (wrong now, and right at the end of the series), or "early_error" (error among the series that are decided by t,
            for every t from a start on: the rule is then `NotBefore`).
        level: the promised upper limit, a fraction.
        confidence: of the promise, over the draw of these series.
        lengths: (batch,); what lies beyond is padding.
        groups: (batch,), group IDs, if series come in groups: the promise is then about the mean loss in a new group.
        halting: (batch, time), the model's own halting probability, for `Halting`.

    >>> from sooner.rules import MSPRT
    >>> scores = np.zeros((60, 2, 2))
    >>> scores[:, :, 0] = [1.0, 3.0]
    >>> promise = certify(MSPRT, scores, [0] * 60, risk="error")
    >>> promise.rule, promise.claim, promise.where
    (MSPRT(threshold=1.0), 'error at most 5% with 95% confidence', '60 series')
    """
    scored = Scored.of(scores, labels, lengths=lengths, groups=groups, halting=halting)
    return certified_threshold(as_threshold_family(rule), scored, risk, level, confidence)


def certified_threshold(
    family: type[ThresholdRule],
    scored: Scored,
    risk: str = "balanced_error",
    level: float = 0.05,
    confidence: float = 0.9,
    *,
    date: str | None = None,
) -> Promise:
    """`certify` of a checked record; `date` is today's by default."""
    if risk not in RISKS:
        raise UnknownName("risk", risk, RISKS)
    remedy = "It is a fraction: 0.05 means 5%."
    level = as_between(level, name="level", low=0.0, high=1.0, remedy=remedy)
    delta = 1 - as_between(confidence, name="confidence", low=0.0, high=1.0, remedy="For example 0.95.")
    scores = torch.from_numpy(scored.scores)
    halting = None if scored.halting is None else torch.from_numpy(scored.halting)
    statistic = family.statistic_with(scores, halting).numpy()
    wrong = leader(scores).numpy() != scored.truths[:, None]
    bound = bound_for(risk, scored, level, delta)
    rule: Rule | None
    if risk == "early_error":
        parts = halves(scored)
        rule = early_rule(family, statistic, wrong, scored.lengths, parts=parts, level=level, delta=delta)
    else:
        rule = _walk(family, Sweep.of(statistic, scored.lengths), losses_of(risk, wrong, scored.lengths), bound)
    if rule is None:
        ends = losses_of(risk, wrong, scored.lengths)[np.arange(len(scored)), scored.lengths - 1]
        raise _not_certified(risk, scored, ends, level, confidence)
    day = calendar.today().isoformat() if date is None else date
    return Promise(risk, level, confidence, bound.series, bound.groups, day, data_hash(scored), rule, bound.name)


def _walk(family: type[ThresholdRule], sweep: Sweep, losses: BoolArray, bound: RiskBound) -> ThresholdRule | None:
    """The rule of the last threshold that passed before the first failure, or None."""
    change = losses[sweep.series, sweep.later].astype(np.float64) - losses[sweep.series, sweep.time]
    passes = np.ones(len(sweep.thresholds), dtype=np.bool_)
    for stratum, limit in enumerate(bound.limits(1.0)):
        mass = np.where(bound.strata == stratum, bound.mass, 0.0)
        totals = sweep.sums(float(mass @ losses[:, 0]), mass[sweep.series] * change)
        passes &= totals / bound.units[stratum] <= limit + _ROUNDING
    failures = np.flatnonzero(~passes)
    first = int(failures[-1]) + 1 if len(failures) else 0
    return midpoint_rule_at(family, sweep.thresholds, first) if first < len(passes) else None


def _not_certified(risk: str, scored: Scored, ends: BoolArray, level: float, confidence: float) -> NotCertified:
    """What these series allow, and how many would do: by their losses at their ends, where every walk begins."""
    delta = 1 - confidence

    def within(bound: RiskBound, growth: float) -> bool:
        return bool((bound.shares(ends) <= bound.limits(growth) + _ROUNDING).all())

    def at(level: float) -> bool:
        return within(bound_for(risk, scored, level, delta), 1.0)

    bound = bound_for(risk, scored, level, delta)
    seen = float(bound.shares(ends).max())
    least = _least(at, level, 1 - 1e-6) if at(1 - 1e-6) else None
    growth = None
    if seen < level:
        most = next((2.0**power for power in range(_DOUBLINGS) if within(bound, 2.0**power)), None)
        growth = None if most is None else _least(lambda factor: within(bound, factor), most / 2, most)
    needed = None if growth is None else int(np.ceil(growth * len(scored)))
    return NotCertified(claim_of(risk, level, confidence), len(scored), least, needed, seen=seen)


def _least(passes: Callable[[float], bool], low: float, high: float) -> float:
    """About the least number that passes, between one that does not and one that does."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
