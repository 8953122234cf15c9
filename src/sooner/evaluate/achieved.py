"""What a rule reaches on labelled series, and how sure one can be of it."""

import sys
import warnings
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import numpy as np
from scipy import special

from sooner.errors import NearChance
from sooner.evaluate.group_intervals import group_counts, group_limits, group_mean_limits
from sooner.evaluate.intervals import Limits, balanced_limits, exact_limits
from sooner.evaluate.metrics import class_errors, hitting_times
from sooner.rules import Rule
from sooner.scores import Scored
from sooner.types import ArrayLike, Decisions, IntArray

NEAR, SURE, HALF = 0.85, 0.99, 0.5
"""A rule is near chance if its error is so large a share of chance (`NEAR`), or at least half of it where, with so much
confidence, it may be chance itself. Few series, or few groups of them, are no reason to warn of a rule without errors.

The rule was mostly chosen on the series that show its error, which is then too good: hence so much. Classifiers fitted to pure
noise are mostly found out so, not always.
"""


@dataclass(frozen=True)
class Achieved:
    """Error and mean time of one rule on labelled series, with two-sided confidence intervals.

    Attributes:
        rule: the rule with its threshold.
        series: number of series.
        error: the balanced error; its confidence interval is `error_low` to `error_high`.
        error_rate: the plain share of wrong decisions.
        mean_time: mean number of observations until the decision; its interval is `mean_time_low` to `mean_time_high`.
        earliness: the mean share of a series that was read.
        forced: the share of decisions that were forced by the end of a series.
        chance: the balanced error of guessing, 1 - 1/K.
        error_at_most: one-sided upper limit of the balanced error with 99% confidence, ignoring groups.
        near_chance: whether the error is 85% of chance, or half of it where `error_at_most` reaches chance.
        groups: number of groups if they are known; the intervals are then for new groups.
    """

    rule: Rule
    series: int
    error: float
    error_low: float
    error_high: float
    error_rate: float
    mean_time: float
    mean_time_low: float
    mean_time_high: float
    earliness: float
    forced: float
    forced_low: float
    forced_high: float
    chance: float
    error_at_most: float
    near_chance: bool
    groups: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the rule as it is written."""
        return {**{key: value for key, value in asdict(self).items() if key != "rule"}, "rule": repr(self.rule)}

    def __str__(self) -> str:
        return (
            f"balanced error {self.error:.2%} (95% confidence interval {self.error_low:.2%} to {self.error_high:.2%}), "
            f"mean time {self.mean_time:.2f} ({self.mean_time_low:.2f} to {self.mean_time_high:.2f}), "
            f"forced {self.forced:.1%}, on {self.where}"
        )

    @property
    def where(self) -> str:
        """What it was measured on."""
        return f"{self.series:,} series" + (
            "" if self.groups is None else f" in {self.groups:,} groups, limits by group"
        )

    def warning(self) -> NearChance | None:
        """What is to be said of a rule that is little better than guessing."""
        if not self.near_chance:
            return None
        return NearChance(repr(self.rule), self.error, self.error_at_most, self.chance, self.series)

    def warn_near_chance(self) -> None:
        """Warn in the user's own line, if the rule is little better than guessing."""
        if (said := self.warning()) is not None:
            warnings.warn(said, stacklevel=_user_level())


def achieved(
    rule: Rule,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    groups: Any = None,
    confidence: float = 0.95,
    halting: ArrayLike | None = None,
) -> Achieved:
    """Evaluate a rule on the scores of labelled series. For a classifier, `clf.evaluate(X, y)` does the same.

    Args:
        rule: any.
        scores: (batch, time, classes). For unbiased estimates, use series that were used neither for training nor for choosing
            the rule.
        labels: (batch,), in 0..K-1.
        lengths: (batch,); everything beyond is padding.
        groups: (batch,), group IDs (for example the patient): the confidence intervals are then for new groups, not for new
            series of the same groups (see `sooner.evaluate.group_intervals`).
        confidence: of the intervals, which are exact for each class and combined for the balanced error, and use Student's t for
            the mean time.
        halting: (batch, time), the model's own halting probability, for rules that read it.

    >>> from sooner.rules import MSPRT
    >>> found = achieved(MSPRT(2.0), [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1])
    >>> found.error, found.mean_time
    (0.0, 1.5)
    """
    return achieved_of(
        rule, Scored.of(scores, labels, lengths=lengths, groups=groups, halting=halting), confidence=confidence
    )


def achieved_of(rule: Rule, scored: Scored, *, confidence: float = 0.95) -> Achieved:
    """`achieved` of a checked record."""
    decisions = rule.decide(*scored, halting=scored.halting)
    truths, chance = scored.truths, 1 - 1 / scored.scores.shape[2]
    errors, times = class_errors(decisions, truths), hitting_times(decisions)
    limits = _limits(decisions, truths, scored.groups, confidence)
    at_most = float(_limits(decisions, truths, None, 2 * SURE - 1)[0].high)  # of a two-sided interval the upper end
    doubtful = HALF if at_most >= chance else NEAR
    return Achieved(
        rule=rule,
        series=len(truths),
        error=errors.balanced,
        error_low=float(limits[0].low),
        error_high=float(limits[0].high),
        error_rate=float((decisions.labels != truths).mean()),
        mean_time=times.mean,
        mean_time_low=max(float(limits[1].low), 1.0),
        mean_time_high=float(limits[1].high),
        earliness=float((decisions.times / scored.lengths).mean()),
        forced=times.forced,
        forced_low=float(limits[2].low),
        forced_high=float(limits[2].high),
        chance=chance,
        error_at_most=at_most,
        near_chance=errors.balanced >= doubtful * chance,
        groups=None if scored.groups is None else int(scored.groups.max()) + 1,
    )


def _user_level() -> int:
    """The `stacklevel` of the line that called into this package, for a warning of the caller's."""
    frame: FrameType | None = sys._getframe(0)
    level = depth = 0
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sooner."):
            level = depth
        frame, depth = frame.f_back, depth + 1
    return level + 1


def _limits(
    decisions: Decisions, truths: IntArray, groups: IntArray | None, confidence: float
) -> tuple[Limits, Limits, Limits]:
    """Those of the balanced error, of the mean time and of the share of forced decisions."""
    wrong, forced, classes = decisions.labels != truths, ~decisions.crossed, int(truths.max()) + 1
    if groups is None:
        series, counts = len(truths), np.bincount(truths)
        reach = special.stdtrit(max(series - 1, 1), (1 + confidence) / 2) * np.sqrt(
            decisions.times.var() / max(series - 1, 1)
        )
        mean = decisions.times.mean()
        return (
            balanced_limits(np.bincount(truths, wrong), counts, confidence=confidence),
            Limits(mean - reach, mean + reach),
            exact_limits(forced.sum(), series, confidence=confidence),
        )
    alike = np.zeros_like(truths)
    bad, end = (
        group_counts(truths, groups, classes=classes, weights=wrong),
        group_counts(alike, groups, classes=1, weights=forced),
    )
    return (
        group_limits(bad, group_counts(truths, groups, classes=classes), confidence=confidence),
        group_mean_limits(decisions.times, groups, confidence=confidence),
        group_limits(end, group_counts(alike, groups, classes=1), confidence=confidence),
    )
