"""What a rule reaches on labelled series, and how sure one can be of it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from sooner.evaluate.bands import balanced_limits, exact_limits
from sooner.evaluate.metrics import class_errors, hitting_times
from sooner.inputs import labelled
from sooner.rules import Rule
from sooner.types import ArrayLike


@dataclass(frozen=True)
class Achieved:
    """The numbers of one rule on labelled series, each with its two-sided confidence limits.

    Attributes:
        rule: what decided.
        series: how many were decided.
        error: balanced; `error_low` and `error_high` are its limits.
        error_rate: the plain share of wrong decisions.
        mean_time: counted from 1; `mean_time_low` and `mean_time_high` are its limits.
        earliness: the mean share of a series that was read.
        forced: the share of decisions that the end of a series forced.
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the rule as it is written."""
        return {**{key: value for key, value in asdict(self).items() if key != "rule"}, "rule": repr(self.rule)}

    def __str__(self) -> str:
        return (
            f"balanced error {self.error:.2%} (95 % limits {self.error_low:.2%} to {self.error_high:.2%}), "
            f"mean time {self.mean_time:.2f} ({self.mean_time_low:.2f} to {self.mean_time_high:.2f}), "
            f"forced {self.forced:.1%}, on {self.series:,} series"
        )


def achieved(
    rule: Rule, scores: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None, confidence: float = 0.95
) -> Achieved:
    """What the rule reaches on these series.

    Args:
        rule: any.
        scores: (batch, time, classes), of series that neither training nor the choice of the rule saw, for honest limits.
        labels: (batch,), in 0..K-1.
        lengths: (batch,); what lies beyond is padding.
        confidence: of the limits: exact ones of the classes joined for the balanced error, Student's for the mean time.

    >>> from sooner.rules import MSPRT
    >>> found = achieved(MSPRT(2.0), [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1])
    >>> found.error, found.mean_time
    (0.0, 1.5)
    """
    batch = labelled(scores, labels, lengths)
    decisions = rule.decide(batch.scores, batch.lengths)
    truths, series = batch.labels.cpu().numpy(), len(batch.labels)
    errors, times = class_errors(decisions, truths), hitting_times(decisions)
    wrong = np.rint(errors.errors * errors.counts)
    low, high = balanced_limits(wrong, errors.counts, confidence=confidence)
    forced = exact_limits(np.sum(~decisions.crossed), series, confidence=confidence)
    reach = special.stdtrit(max(series - 1, 1), (1 + confidence) / 2) * np.sqrt(times.variance / max(series - 1, 1))
    return Achieved(
        rule=rule,
        series=series,
        error=errors.balanced,
        error_low=float(low),
        error_high=float(high),
        error_rate=float((decisions.labels != truths).mean()),
        mean_time=times.mean,
        mean_time_low=float(max(times.mean - reach, 1.0)),
        mean_time_high=float(times.mean + reach),
        earliness=float((decisions.times / batch.lengths.cpu().numpy()).mean()),
        forced=times.forced,
        forced_low=float(forced.low),
        forced_high=float(forced.high),
    )
