"""Error and mean time of a rule on labelled series, with confidence intervals."""

import math
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
from sooner.rules.base import NO_CLASS
from sooner.scores import Scored
from sooner.types import ArrayLike, BoolArray, Decisions, IntArray

# A rule is near chance if its error is at least 85% of chance, or at least half of chance where the 99% upper limit of the error
# reaches chance. The margins are wide because rules are mostly chosen on the series that show their error. Few series are no
# reason to warn of a rule without errors.
_NEAR, _NEAR_IF_UNCERTAIN, _CONFIDENCE = 0.85, 0.5, 0.99


@dataclass(frozen=True)
class Achieved:
    """Error and mean time of one rule on labelled series, with two-sided confidence intervals.

    Attributes:
        rule: the rule with its threshold.
        series: number of series.
        error: balanced error, with the confidence interval `error_low` to `error_high`.
        error_rate: share of wrong decisions.
        mean_time: mean number of observations until the decision, with the interval `mean_time_low` to `mean_time_high`.
        earliness: mean share of a series that was read.
        forced: share of decisions that were forced by the end of a series.
        chance: balanced error of guessing, 1 - 1/K.
        error_at_most: one-sided upper limit of the balanced error with 99% confidence, ignoring groups.
        near_chance: whether the error is 85% of chance, or half of it where `error_at_most` reaches chance.
        groups: number of groups if they are known; the intervals are then for new groups.
        note: what `choose_threshold` says of the error: a promise, or that it is an estimate.
        answered: share of series that got a label. No label (`SingleLabel`, `GiveUp`) counts as an error in `error` and in
            `error_rate`.
        answered_error: share of wrong labels among these; NaN if there are none.
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
    note: str = ""
    answered: float = 1.0
    answered_error: float = math.nan

    def to_dict(self) -> dict[str, Any]:
        """The record for JSON, with the rule as text."""
        return {**{key: value for key, value in asdict(self).items() if key != "rule"}, "rule": repr(self.rule)}

    def __str__(self) -> str:
        groups = "" if self.groups is None else f" in {self.groups:,} groups, limits by group"
        note = f" ({self.note})" if self.note else ""
        answered = ""
        if self.answered < 1:
            answered = f"answered {self.answered:.1%} with an error of {self.answered_error:.2%} among them, "
        return (
            f"balanced error {self.error:.2%} (95% confidence interval {self.error_low:.2%} to {self.error_high:.2%}), "
            f"mean time {self.mean_time:.2f} ({self.mean_time_low:.2f} to {self.mean_time_high:.2f}), "
            f"forced {self.forced:.1%}, {answered}on {self.series:,} series{groups}{note}"
        )

    def warning(self) -> NearChance | None:
        """The warning for a rule that is hardly better than guessing."""
        if not self.near_chance:
            return None
        return NearChance(repr(self.rule), self.error, self.error_at_most, self.chance, self.series)

    def warn_near_chance(self) -> None:
        """Warn with the line of the user's code if the rule is hardly better than guessing."""
        if (warning := self.warning()) is not None:
            warnings.warn(warning, stacklevel=user_level())


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

    For unbiased estimates, use series that were used neither for training nor for choosing the rule. The confidence intervals are
    exact for each class, and use Student's t for the mean time; with `groups` they are for new groups, not for new series of the
    same groups (see `sooner.evaluate.group_intervals`).

    >>> from sooner.rules import MSPRT
    >>> result = achieved(MSPRT(2.0), [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1])
    >>> result.error, result.mean_time
    (0.0, 1.5)
    """
    scored = Scored.of(scores, labels, lengths=lengths, groups=groups, halting=halting)
    return achieved_of(rule, scored, confidence=confidence)


def achieved_of(rule: Rule, scored: Scored, *, confidence: float = 0.95) -> Achieved:
    """`achieved` of a checked record."""
    decisions = rule.decide(*scored, halting=scored.halting)
    truths, chance = scored.truths, 1 - 1 / scored.scores.shape[2]
    errors, times = class_errors(decisions, truths), hitting_times(decisions)
    error, mean_time, forced = _limits(decisions, truths, scored.groups, confidence)
    counts, wrong = np.bincount(truths), np.bincount(truths, decisions.labels != truths)
    at_most = float(
        balanced_limits(wrong, counts, confidence=2 * _CONFIDENCE - 1).high
    )  # one end of a two-sided interval
    answered = decisions.labels != NO_CLASS
    near = _NEAR_IF_UNCERTAIN if at_most >= chance else _NEAR
    return Achieved(
        rule=rule,
        series=len(truths),
        error=errors.balanced,
        error_low=float(error.low),
        error_high=float(error.high),
        error_rate=float((decisions.labels != truths).mean()),
        mean_time=times.mean,
        mean_time_low=max(float(mean_time.low), 1.0),
        mean_time_high=float(mean_time.high),
        earliness=float((decisions.times / scored.lengths).mean()),
        forced=times.forced,
        forced_low=float(forced.low),
        forced_high=float(forced.high),
        chance=chance,
        error_at_most=at_most,
        near_chance=errors.balanced >= near * chance,
        groups=None if scored.groups is None else int(scored.groups.max()) + 1,
        answered=float(answered.mean()),
        answered_error=float((decisions.labels != truths)[answered].mean()) if answered.any() else math.nan,
    )


def user_level() -> int:
    """The `stacklevel` of the line outside of this package that led here."""
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
    """The limits of the balanced error, of the mean time, and of the share of forced decisions."""
    wrong, forced, times, series = decisions.labels != truths, ~decisions.crossed, decisions.times, len(truths)
    if groups is None:
        freedom = max(series - 1, 1)
        reach = special.stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(times.var() / freedom)
        return (
            balanced_limits(np.bincount(truths, wrong), np.bincount(truths), confidence=confidence),
            Limits(times.mean() - reach, times.mean() + reach),
            exact_limits(forced.sum(), series, confidence=confidence),
        )

    def grouped(labels: IntArray, bad: BoolArray) -> Limits:
        classes = int(labels.max()) + 1
        counts = group_counts(labels, groups, classes=classes)
        return group_limits(group_counts(labels, groups, classes=classes, weights=bad), counts, confidence=confidence)

    mean_time = group_mean_limits(times, groups, confidence=confidence)
    return grouped(truths, wrong), mean_time, grouped(np.zeros_like(truths), forced)
