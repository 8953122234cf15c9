"""The exact speed-accuracy curve: every threshold at once, without a grid.

As the threshold rises, the stopping time of a series changes only where its statistic sets a new record. So all records
of all series are sorted once, and running sums of the change in time and in error give every point.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sooner.errors import InvalidArgument
from sooner.inputs import (
    as_labels,
    as_lengths,
    as_real_tensor,
    as_tensor,
    as_whole,
    refuse_empty,
    refuse_nonfinite,
    running,
)
from sooner.rules import MSPRT, ThresholdRule, leader
from sooner.rules.records import Sweep
from sooner.scores import Scored
from sooner.types import ArrayLike, IntArray, SATCurve


def sat_curve(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    rule: type[ThresholdRule] = MSPRT,
    halting: ArrayLike | None = None,
) -> SATCurve:
    """The exact curve of a threshold rule; point j is the result of `rule.at(thresholds[j])`.

    It is exact to the last bit for `MSPRT` and `FixedTime`. The statistics of `LogOdds` and `ProbabilityThreshold` may be rounded
    differently for other shapes, so a live series that meets such a threshold exactly can differ.

    >>> scores = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]])
    >>> curve = sat_curve(scores, [0, 1])
    >>> curve.thresholds, curve.mean_times, curve.errors
    (array([ 1.,  2.,  3.,  4., inf]), array([1. , 1.5, 2. , 2. , 2. ]), array([0.5, 0. , 0. , 0. , 0. ]))
    """
    return curve_of(Scored.of(scores, labels, lengths=lengths, halting=halting), as_threshold_family(rule))


def as_threshold_family(rule: object) -> type[ThresholdRule]:
    """A checked class of threshold rules."""
    if not (isinstance(rule, type) and issubclass(rule, ThresholdRule)):
        expected, remedy = "a class of threshold rules, for example MSPRT", "Only a threshold can be swept."
        raise InvalidArgument("rule", expected, repr(rule), remedy)
    return rule


def curve_of(scored: Scored, rule: type[ThresholdRule] = MSPRT) -> SATCurve:
    """`sat_curve` of a checked record."""
    scores = torch.from_numpy(scored.scores)
    halting = None if scored.halting is None else torch.from_numpy(scored.halting)
    statistic, guesses = rule.statistic_with(scores, halting).numpy(), leader(scores).numpy()
    return curve_of_statistic(statistic, guesses, scored.truths, lengths=scored.lengths, classes=scores.shape[2])


def stopping_curve(
    statistic: ArrayLike,
    predictions: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    classes: int,
) -> SATCurve:
    """`sat_curve` of any statistic that grows with the evidence, for example a model's own halting probability.

    Args:
        statistic: (batch, time); a series stops at the first t at which it reaches the threshold.
        predictions: (batch, time), the predicted class at t.
    """
    classes = as_whole(classes, name="classes", low=2, remedy="It is the number of classes.")
    guesses = as_tensor(predictions, name="predictions")
    numbers = as_real_tensor(statistic, name="statistic")
    if numbers.ndim != 2 or guesses.shape != numbers.shape or guesses.is_floating_point():
        expected = f"class indices of the shape of `statistic`, (batch, time) = {tuple(numbers.shape)}"
        got = f"shape {tuple(guesses.shape)} and dtype {guesses.dtype}"
        raise InvalidArgument("predictions", expected, got, "Give the class that would be named at each time.")
    if numbers.isnan().any():
        raise InvalidArgument("statistic", "free of NaN", "NaN", "Check for a missing value or a diverged training.")
    refuse_empty(numbers, name="statistic")
    if numbers.shape[1] == 0:
        expected = "of shape (batch, time) with at least 1 observation"
        raise InvalidArgument("statistic", expected, f"shape {tuple(numbers.shape)}", "Drop empty series.")
    truths = as_labels(labels, numbers, classes=classes)
    ends = as_lengths(lengths, numbers, time=numbers.shape[1])
    refuse_nonfinite(numbers[..., None], running(ends, numbers.shape[1]), name="statistic")
    arrays = (tensor.detach().cpu().numpy() for tensor in (numbers.double(), guesses, truths))
    return curve_of_statistic(*arrays, lengths=ends.cpu().numpy(), classes=classes)


def curve_of_statistic(
    statistic: npt.NDArray[np.floating[Any]],
    predictions: IntArray,
    labels: IntArray,
    *,
    lengths: IntArray,
    classes: int,
) -> SATCurve:
    """`stopping_curve` of checked arrays."""
    sweep, series = Sweep.of(statistic, lengths), len(labels)
    wrong = predictions != labels[:, None]
    delays, moved = sweep.later - sweep.time, labels[sweep.series]
    change = wrong[sweep.series, sweep.later].astype(np.int64) - wrong[sweep.series, sweep.time]
    counts = np.bincount(labels, minlength=classes)
    present = np.flatnonzero(counts)
    # Wrong decisions are counted as integers, so that an error of 0 is exactly 0.
    mistakes = {
        k: sweep.sums(int(wrong[labels == k, 0].sum()), np.where(moved == k, change, 0)) for k in present.tolist()
    }
    return SATCurve(
        thresholds=sweep.thresholds,
        mean_times=sweep.sums(series, delays) / series,
        errors=np.asarray(sum(mistakes[k] / counts[k] for k in mistakes) / len(present)),
        forced=sweep.sums(0, sweep.last) / series,
        error_rates=np.asarray(sum(mistakes.values()) / series),
        earliness=sweep.sums((1 / lengths).sum(), delays / lengths[sweep.series]) / series,
        absent=tuple(np.flatnonzero(counts == 0).tolist()),
    )
