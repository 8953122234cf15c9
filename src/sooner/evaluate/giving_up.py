"""Giving up early with a promise: the error among the series that are answered, in two stages.

========= ===============================================================================================
symbol    meaning
========= ===============================================================================================
s, b      `at` and `below`: a series that is open at s with a margin less than b is given up
n_b       how many series of the second half are answered with b: they get a label, whether early or at their end
W_b       how many of these labels are wrong
eps       the level
delta     1 - confidence
========= ===============================================================================================

The inner rule is fixed before. The first half of the calibration series chooses s, an order of values of b, and where it begins;
anything may be done with that half. On the second half, which it has not seen, b walks from there to less cautious values (a
smaller b gives fewer series up) as long as P(Bin(n_b, eps) <= W_b) <= delta. Whether a series is answered depends on its scores
alone, and series are independent. So given that n_b are answered, W_b is binomial with the error among the answered series, the
p-values are valid, and the walk is a fixed sequence: with probability at most delta, it takes a b whose error is above eps.
"""

from collections.abc import Callable
from datetime import date as calendar
from typing import Any, NamedTuple

import numpy as np
import torch

from sooner.errors import InvalidArgument, NotCertified
from sooner.evaluate.promise import Promise, claim_of, data_hash
from sooner.evaluate.pvalues import NEVER, binomial_limit, binomial_p
from sooner.evaluate.risk_bounds import bound_for, halves
from sooner.inputs import as_between
from sooner.rules import GiveUp, Rule
from sooner.rules.base import NO_CLASS
from sooner.scores import Scored, leader_margin
from sooner.types import ArrayLike, BoolArray, FloatArray, IntArray

RISK = "answered_error"
_QUARTILES = (0.25, 0.5, 0.75)
_CANDIDATES = 64
_SAFE = 0.1  # of delta: the first half chose the candidate, so it looks too good there
_THOUSAND = 1000  # levels that a refusal names are whole thousandths
_DOUBLINGS = 40


def certify_giving_up(
    rule: Rule,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    level: float = 0.05,
    confidence: float = 0.95,
    lengths: ArrayLike | None = None,
    groups: Any = None,
    halting: ArrayLike | None = None,
) -> Promise:
    """When to give up, so that the error among the answered series is at most `level` with `confidence`, as a promise.

    Its rule is a `GiveUp` of the given rule, which must have been fixed before the scores are looked at, as level and confidence
    must. Among a few times, it takes the one with most answered series. For a classifier,
    `clf.give_up(X, y, max_error=0.05, confidence=0.95)` does the same.

    Args:
        rule: the rule that stops the series that are not given up.
        scores: (batch, time, classes), of series that neither training nor any choice has seen.
        labels: (batch,), in 0..K-1.
        level: the promised upper limit of the error among the series that get a label, a fraction.
        confidence: of the promise, over the draw of these series.
        lengths: (batch,); what lies beyond is padding.
        groups: (batch,), group IDs, if series come in groups: one series of each, drawn at random, is then read.
        halting: (batch, time), the model's own halting probability, for rules that read it.

    >>> from sooner.rules import MSPRT
    >>> scores = np.tile([[[0.0, 1.0], [0.0, 3.0]]], (120, 1, 1))
    >>> certify_giving_up(MSPRT(2.0), scores, [1] * 120).claim
    'error among the answered series at most 5% with 95% confidence; 100% of the calibration series were answered'
    """
    if not isinstance(rule, Rule):
        raise InvalidArgument("rule", "a rule, for example MSPRT(2.0)", repr(rule), "Make one of it first.")
    scored = Scored.of(scores, labels, lengths=lengths, groups=groups, halting=halting)
    return certified_giving_up(rule, scored, level, confidence)


def certified_giving_up(
    rule: Rule, scored: Scored, level: float = 0.05, confidence: float = 0.95, *, date: str | None = None
) -> Promise:
    """`certify_giving_up` of a checked record; `date` is today's by default."""
    remedy = "It is a fraction: 0.05 means 5%."
    level = as_between(level, name="level", low=0.0, high=1.0, remedy=remedy)
    delta = 1 - as_between(confidence, name="confidence", low=0.0, high=1.0, remedy="For example 0.95.")
    first, second = (_Half.of(rule, scored.take(rows)) for rows in halves(scored))
    plan = planned(first, level, delta)
    taken = walked(second, plan, level, delta)
    if taken is None:
        raise _not_certified(first, second, scored, level, confidence)
    below = float(plan.belows[taken])
    answered = float(second.tally(plan.at, plan.belows[[taken]]).answered[0]) / len(second.lengths)
    bound = bound_for(RISK, scored, level, delta)
    day = calendar.today().isoformat() if date is None else date
    given = GiveUp(rule, plan.at, below)
    return Promise(
        RISK, level, confidence, bound.series, bound.groups, day, data_hash(scored), given, bound.name, answered
    )


class _Walk(NamedTuple):
    """What the first half chooses: when to give up, and values of `below` in the order of the walk, which descend."""

    at: int
    belows: FloatArray


class _Tally(NamedTuple):
    """For each candidate: how many series are answered, how many of these wrongly, and the sum of all times."""

    answered: IntArray
    wrong: IntArray
    times: IntArray


class _Half(NamedTuple):
    """What the inner rule alone decides about some series, and their margins."""

    times: IntArray
    named: BoolArray  # whether it gives a label
    wrong: BoolArray  # whether that is a wrong one
    crossed: BoolArray
    lengths: IntArray
    margins: FloatArray

    @classmethod
    def of(cls, rule: Rule, scored: Scored) -> "_Half":
        """The decisions of the rule on a checked record, which may be empty."""
        decisions = rule.decide(*scored, halting=scored.halting)
        named = decisions.labels != NO_CLASS
        margins = leader_margin(torch.from_numpy(scored.scores)).double().numpy()
        wrong = named & (decisions.labels != scored.truths)
        return cls(decisions.times, named, wrong, decisions.crossed, scored.lengths, margins)

    def open_at(self, at: int) -> BoolArray:
        """Which series the inner rule has not stopped when it has read `at` observations, so that they may be given up."""
        is_open: BoolArray = (self.times > at) | ((self.times == at) & ~self.crossed)
        return is_open

    def tally(self, at: int, belows: FloatArray) -> _Tally:
        """The counts with each of these values of `below`."""
        given_up = self.open_at(at)[:, None] & (self.margins[:, at - 1, None] < belows)
        answered = self.named[:, None] & ~given_up
        times = np.where(given_up, at, self.times[:, None]).sum(axis=0)
        return _Tally(answered.sum(axis=0), (answered & self.wrong[:, None]).sum(axis=0), times)

    def candidates(self, at: int) -> FloatArray:
        """Values of `below` from infinity down to 0, between neighbouring margins of open series."""
        values = np.unique(self.margins[self.open_at(at), at - 1])
        middles = (values[1:] + values[:-1])[::-1] / 2
        rows = np.unique(np.linspace(0, len(middles) - 1, min(_CANDIDATES, len(middles))).round().astype(np.int64))
        return np.concatenate([[np.inf], middles[rows], [0.0]])


def planned(first: _Half, level: float, delta: float) -> _Walk:
    """The time with most answered series among the candidates that pass safely on the first half, the faster one in a tie.

    The walk is to begin at the candidate with the least p-value. Where none passes safely, it is the time with the least one.
    """
    if not len(first.lengths):
        return _Walk(1, np.array([0.0]))
    low, high = first.times.min(), first.times.max()
    best: tuple[tuple[float, ...], _Walk] | None = None
    for at in np.unique(np.floor(low + np.array(_QUARTILES) * (high - low)).astype(np.int64)).tolist():
        belows = first.candidates(at)
        tally = first.tally(at, belows)
        p = binomial_p(tally.wrong, tally.answered, level)
        passing = np.flatnonzero((p <= _SAFE * delta) & (tally.answered > 0))
        start = int(np.argmin(p))
        if len(passing):
            most = int(passing[np.argmax(tally.answered[passing])])
            merit = (1.0, float(tally.answered[most]), -float(tally.times[most]))
        else:
            merit = (0.0, -float(p[start]), 0.0)
        if best is None or merit > best[0]:
            best = merit, _Walk(at, belows[start:])
    assert best is not None
    return best[1]


def walked(second: _Half, plan: _Walk, level: float, delta: float) -> int | None:
    """The index of the last candidate that passes before the first failure, on series that the plan has not seen; or None."""
    tally = second.tally(plan.at, plan.belows)
    limits = np.atleast_1d(binomial_limit(tally.answered, level, delta))
    failures = np.flatnonzero(tally.wrong > limits)
    last = int(failures[0]) - 1 if len(failures) else len(plan.belows) - 1
    return last if last >= 0 else None


def _not_certified(first: _Half, second: _Half, scored: Scored, level: float, confidence: float) -> NotCertified:
    """What these series allow, and how many would do, by the most cautious candidate."""
    delta = 1 - confidence

    def passes(thousandths: int) -> bool:
        lower = thousandths / _THOUSAND
        return walked(second, planned(first, lower, delta), lower, delta) is not None

    least = None
    if level < 1 - 1 / _THOUSAND and passes(_THOUSAND - 1):
        least = _least(passes, int(np.floor(level * _THOUSAND)), _THOUSAND - 1) / _THOUSAND
    plan = planned(first, level, delta)
    tally = second.tally(plan.at, plan.belows[:1])
    answered, wrong = int(tally.answered[0]), int(tally.wrong[0])
    seen = wrong / answered if answered else 1.0
    place = "among the series answered by the most cautious one" if answered else "with no label counted as an error"
    needed = _needed(len(scored), answered, seen, level, delta) if seen < level else None
    return NotCertified(
        claim_of(RISK, level, confidence),
        len(scored),
        least,
        needed,
        seen=seen,
        subject="way of giving up",
        where=place,
    )


def _needed(series: int, answered: int, seen: float, level: float, delta: float) -> int | None:
    """About how many series would do, if the shares stayed as they are."""

    def passes(count: int) -> bool:
        limit = float(binomial_limit(count, level, delta))
        return limit > NEVER and limit >= np.floor(seen * count + 1e-9)

    most = next((answered << power for power in range(_DOUBLINGS) if passes(answered << power)), None)
    if most is None:
        return None
    return int(np.ceil(_least(passes, most // 2, most) * series / answered))


def _least(passes: Callable[[int], bool], low: int, high: int) -> int:
    """A whole number that passes although the one before does not, between one that does not and one that does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
