"""Metrics of decisions: errors, times, and their combinations."""

import functools
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sooner.errors import InvalidArgument
from sooner.evaluate.group_intervals import group_counts, group_limits
from sooner.evaluate.intervals import exact_limits
from sooner.inputs import as_entries, as_groups, as_number, as_real
from sooner.scores import Scored
from sooner.types import ArrayLike, Decisions, FloatArray, IntArray


@dataclass(frozen=True)
class ClassErrors:
    """The error of each class in the data, with confidence limits; `absent` are the known classes without a series."""

    classes: npt.NDArray[Any]
    errors: FloatArray
    low: FloatArray
    high: FloatArray
    counts: IntArray
    absent: tuple[Any, ...] = ()

    @property
    def balanced(self) -> float:
        """The mean of the class errors, summed in the order of the classes as in the curve."""
        return float(functools.reduce(operator.add, self.errors.tolist()) / len(self.errors))


@dataclass(frozen=True)
class HittingTimes:
    """Mean and variance of the stopping times, counted from 1, and the share of forced decisions."""

    mean: float
    variance: float
    forced: float


@dataclass(frozen=True)
class OverSeeds:
    """Mean over seeds, and its standard error, which is NaN for a single seed."""

    mean: FloatArray
    sem: FloatArray


def balanced_error(predicted: Decisions | ArrayLike, labels: ArrayLike) -> float:
    """One minus the mean recall of the classes that occur in `labels`.

    >>> balanced_error([0, 0, 0, 1], [0, 0, 0, 0])
    0.25
    >>> balanced_error([0, 0, 0, 0], [0, 0, 0, 1])
    0.5
    """
    return class_errors(predicted, labels).balanced


def class_errors(
    predicted: Decisions | ArrayLike,
    labels: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    groups: Any = None,
    confidence: float = 0.95,
) -> ClassErrors:
    """The error of each class with its confidence interval.

    Args:
        predicted: decisions, or predicted labels of any type.
        labels: the true labels.
        classes: all known classes; those that do not occur in `labels` become `absent`.
        groups: group IDs; without them the limits are exact (Clopper-Pearson).
        confidence: of the two-sided intervals.
    """
    guesses, truths = _pair(predicted, labels)
    present, index = np.unique(truths, return_inverse=True)
    counts = np.bincount(index)
    wrong = np.bincount(index, weights=guesses != truths)
    if groups is None:
        low, high = exact_limits(wrong, counts, confidence=confidence)
    else:
        members = as_groups(groups, len(truths))
        of = group_counts(index, members, classes=len(present))
        bad = group_counts(index, members, classes=len(present), weights=guesses != truths)
        limits = [group_limits(bad[:, [k]], of[:, [k]], confidence=confidence) for k in range(len(present))]
        low, high = np.array(limits).T
    known = present if classes is None else np.asarray(classes)
    return ClassErrors(present, wrong / counts, low, high, counts, tuple(np.setdiff1d(known, present).tolist()))


def mean_time(times: Decisions | ArrayLike) -> float:
    """The mean stopping time, counted from 1.

    >>> mean_time([2, 4])
    3.0
    """
    array = as_real(times.times if isinstance(times, Decisions) else times, name="times")
    if array.size == 0:
        remedy = "The mean of an empty batch is undefined."
        raise InvalidArgument("times", "of at least 1 series", "an empty batch", remedy)
    return float(array.mean())


def hitting_times(decisions: Decisions | ArrayLike) -> HittingTimes:
    """Mean and variance of the stopping times, and the share of forced decisions."""
    if not isinstance(decisions, Decisions):
        remedy = "Take what a rule's `decide` gives; `mean_time` also reads plain times."
        raise InvalidArgument("decisions", "Decisions", f"a {type(decisions).__name__}", remedy)
    return HittingTimes(mean_time(decisions), float(decisions.times.var()), float(1 - decisions.crossed.mean()))


def earliness(decisions: Decisions, lengths: ArrayLike) -> float:
    """The mean of t / T, the share of each series that was read, with full lengths T; lower is better."""
    full = as_real(lengths, name="lengths")
    if full.shape not in ((), decisions.times.shape) or not (full >= decisions.times).all():
        expected = "one length, or one for each series, none below its decision time"
        got = f"shape {full.shape}, least {full.min() if full.size else 'none'}"
        raise InvalidArgument("lengths", expected, got, "Give the full lengths of the series that were decided.")
    return mean_time(decisions.times / full)


def average_cost(decisions: Decisions, labels: ArrayLike, *, lengths: ArrayLike, alpha: float = 0.5) -> float:
    """alpha * (1 - accuracy) + (1 - alpha) * earliness, as benchmarks of the field report it; lower is better."""
    weight = as_number(alpha, name="alpha", low=0.0, high=1.0, remedy="It weighs errors against waiting.")
    guesses, truths = _pair(decisions, labels)
    return weight * float((guesses != truths).mean()) + (1 - weight) * earliness(decisions, lengths)


def harmonic_mean(decisions: Decisions, labels: ArrayLike, *, lengths: ArrayLike) -> float:
    """Harmonic mean of accuracy and 1 - earliness, as the field reports it; higher is better."""
    guesses, truths = _pair(decisions, labels)
    accuracy, saved = float((guesses == truths).mean()), 1 - earliness(decisions, lengths)
    return 2 * accuracy * saved / (accuracy + saved) if accuracy + saved else 0.0


def mean_accuracy(scores: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None) -> float:
    """The metric for choosing models: balanced accuracy of the leading class at t, averaged over t.

    At each time only classes with a series that still runs count.
    """
    return mean_accuracy_of(Scored.of(scores, labels, lengths=lengths))


def mean_accuracy_of(scored: Scored) -> float:
    """`mean_accuracy` of a checked record."""
    scores, labels = torch.from_numpy(scored.scores), torch.from_numpy(scored.truths)
    member = torch.nn.functional.one_hot(labels, scores.shape[2]).double().T
    live = torch.from_numpy(scored.live).double()
    right = (scores.argmax(dim=2) == labels[:, None]) * live
    counts = member @ live
    recalls = (member @ right) / counts.clamp_min(1)
    present = counts.sum(dim=0) > 0
    return float((recalls.sum(dim=0) / (counts > 0).sum(dim=0).clamp_min(1))[present].mean())


def last_error_of(scored: Scored) -> float:
    """The balanced error at the last observation of each series, of a checked record."""
    at_end = scored.scores[np.arange(len(scored.scores)), scored.lengths - 1]
    present, index = np.unique(scored.truths, return_inverse=True)
    wrong = np.bincount(index, weights=at_end.argmax(axis=1) != scored.truths, minlength=len(present))
    return float((wrong / np.bincount(index)).mean())


def over_seeds(values: ArrayLike) -> OverSeeds:
    """Mean and standard error over the first axis, with one row per seed.

    >>> over_seeds([[1.0], [3.0]])
    OverSeeds(mean=array([2.]), sem=array([1.]))
    """
    rows = as_real(values, name="values")
    if rows.ndim == 0 or len(rows) == 0:
        expected = "one row for each of at least 1 seed"
        raise InvalidArgument("values", expected, f"shape {rows.shape}", "Stack the seeds.")
    if np.isinf(rows).any():
        raise InvalidArgument("values", "finite", "infinity among them", "It has no mean: leave that seed out.")
    with np.errstate(over="ignore"):
        spread = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.full(rows.shape[1:], np.nan)
    return OverSeeds(rows.mean(axis=0), spread / np.sqrt(len(rows)))


def _pair(predicted: Decisions | ArrayLike, labels: ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    guesses = as_entries(predicted.labels if isinstance(predicted, Decisions) else predicted, name="predicted")
    truths = as_entries(labels, name="labels")
    if guesses.shape != truths.shape or guesses.ndim != 1:
        expected = f"of the shape of the predictions {guesses.shape}, one axis"
        raise InvalidArgument("labels", expected, f"shape {truths.shape}", "Give one true label for each prediction.")
    if len(truths) == 0:
        remedy = "The error of an empty batch is undefined."
        raise InvalidArgument("labels", "of at least 1 series", "an empty batch", remedy)
    if truths.dtype == object and len(set(map(type, truths.tolist()))) > 1:
        raise InvalidArgument("labels", "of one type", "several", "Turn them all into text.")
    return guesses, truths
