"""The exact speed-accuracy curve: every threshold at once, without a grid.

As the threshold rises, the stopping time of a series changes only where its statistic sets a new record. So all records
of all series are sorted once, and running sums of the change in time and in error give every point.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sooner.errors import InvalidArgument
from sooner.inputs import as_tensor, as_whole, labelled, running
from sooner.rules import MSPRT, ThresholdRule, leader
from sooner.types import ArrayLike, BoolArray, FloatArray, IntArray, SATCurve


class _Events(NamedTuple):
    """What happens when the threshold passes a record: sorted record values, and the change each one brings."""

    values: FloatArray
    waits: IntArray
    wrong: IntArray
    forced: IntArray
    classes: IntArray
    lengths: IntArray


def sat_curve(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    rule: type[ThresholdRule] = MSPRT,
) -> SATCurve:
    """The curve of a threshold rule on stored scores; point j is what `rule.at(thresholds[j])` gives.

    To the last bit for `MSPRT` and `FixedTime`; a statistic with an exponential in it (`LogOdds`, `ProbabilityThreshold`) may be
    rounded otherwise when it is computed for other shapes, so a live series that meets such a threshold exactly can differ.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        lengths: (batch,); what lies beyond is padding.
        rule: the family of rules: `MSPRT` by default; `FixedTime` gives the curve of the fixed-time test.

    >>> scores = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]])
    >>> curve = sat_curve(scores, [0, 1])
    >>> curve.thresholds, curve.mean_times, curve.errors
    (array([ 1.,  2.,  3.,  4., inf]), array([1. , 1.5, 2. , 2. , 2. ]), array([0.5, 0. , 0. , 0. , 0. ]))
    """
    if not (isinstance(rule, type) and issubclass(rule, ThresholdRule)):
        raise InvalidArgument(
            "rule", "a class of threshold rules, for example MSPRT", repr(rule), "Only a threshold can be swept."
        )
    batch = labelled(scores, labels, lengths)
    statistic = rule.statistic(batch.scores)
    return _sweep(statistic, leader(batch.scores), batch.labels, batch.lengths, classes=batch.scores.shape[2])


def stopping_curve(
    statistic: ArrayLike,
    predictions: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    classes: int,
) -> SATCurve:
    """The same for any number that grows as one should stop, for example a model's own halting probability.

    Args:
        statistic: (batch, time); a series stops at the first t at which it reaches the threshold.
        predictions: (batch, time), the class that would be named at t.
        labels: (batch,), in 0..K-1.
        lengths: (batch,); what lies beyond is padding.
        classes: K.
    """
    classes = as_whole(classes, name="classes", low=2, remedy="It is the number of classes.")
    guesses = as_tensor(predictions, name="predictions")
    numbers = as_tensor(statistic, name="statistic")
    if numbers.ndim != 2 or guesses.shape != numbers.shape or guesses.is_floating_point():
        raise InvalidArgument(
            "predictions",
            f"class indices of the shape of `statistic`, (batch, time) = {tuple(numbers.shape)}",
            f"shape {tuple(guesses.shape)} and dtype {guesses.dtype}",
            "Give the class that would be named at each time.",
        )
    if numbers.isnan().any():
        raise InvalidArgument("statistic", "free of NaN", "NaN", "Look for a missing value or a diverged training.")
    # The one door for labels and lengths; the statistic stands in for scores, once for each class.
    batch = labelled(numbers[..., None].expand(-1, -1, classes), labels, lengths)
    return _sweep(batch.scores[..., 0], guesses.to(numbers.device), batch.labels, batch.lengths, classes=classes)


def _sweep(
    statistic: torch.Tensor, guesses: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor, *, classes: int
) -> SATCurve:
    truths, series = labels.cpu().numpy(), len(labels)
    live = running(lengths, statistic.shape[1])
    wrong = (guesses != labels[:, None]).cpu().numpy()
    masked = torch.where(live, statistic, -torch.inf).detach().cpu().double().numpy()
    horizons = lengths.cpu().numpy()
    events = _events(masked, wrong, truths, horizons)
    ends = np.flatnonzero(np.append(events.values[1:] != events.values[:-1], True))
    counts = np.bincount(truths, minlength=classes)
    present = np.flatnonzero(counts)
    # Whole numbers of wrong decisions in each class, so that an error of 0 is 0 and an attained error is met exactly.
    mistakes = {
        k: _running_sum(int(wrong[truths == k, 0].sum()), np.where(events.classes == k, events.wrong, 0), ends)
        for k in present
    }
    return SATCurve(
        thresholds=np.append(events.values[ends], np.inf),
        mean_times=_running_sum(series, events.waits, ends) / series,
        errors=np.asarray(sum(mistakes[k] / counts[k] for k in present) / len(present)),
        forced=_running_sum(0, events.forced, ends) / series,
        error_rates=np.asarray(sum(mistakes.values()) / series),
        earliness=_running_sum((1 / horizons).sum(), events.waits / events.lengths, ends) / series,
        absent=tuple(np.flatnonzero(counts == 0).tolist()),
    )


def _events(statistic: FloatArray, wrong: BoolArray, truths: IntArray, lengths: IntArray) -> _Events:
    """The records of every series, sorted by value. Beyond its last record a series is forced at its end."""
    is_record = np.ones(statistic.shape, dtype=bool)
    is_record[:, 1:] = statistic[:, 1:] > np.maximum.accumulate(statistic, axis=1)[:, :-1]
    series, time = np.nonzero(is_record)
    last = np.append(series[1:] != series[:-1], True)
    then = np.where(last, lengths[series] - 1, np.roll(time, -1))
    change = wrong[series, then].astype(np.int64) - wrong[series, time]
    values = statistic[series, time]
    order = np.argsort(values)
    return _Events(
        values[order],
        (then - time)[order],
        change[order],
        last[order].astype(np.int64),
        truths[series][order],
        lengths[series][order],
    )


def _running_sum(start: float, changes: npt.NDArray[Any], ends: IntArray) -> npt.NDArray[Any]:
    sums: npt.NDArray[Any] = start + np.append(0, np.cumsum(changes)[ends])
    return sums
