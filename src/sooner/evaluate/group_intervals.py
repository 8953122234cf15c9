"""Confidence intervals for series that come in groups: ten series of one patient are not ten patients.

========= ============================================================================================
symbol    meaning
========= ============================================================================================
G         number of groups; n_g of the n series are in group g
p, p_(g)  balanced error (or a mean) of all series, and without group g
v         (G - 1) / G sum_g (p_(g) - p)^2, the jackknife variance of p
G_e       effective number of groups (Kish): 1 / sum_g w_g^2, where w_g is the weight of group g in p
m         effective number of series: p (1 - p) / v, times (z / t)^2 for Student's t with G_e - 1 degrees of freedom
========= ============================================================================================

An error gets the exact limits of m series with p m wrong decisions (Korn and Graubard 1998, Survey Methodology 24), which hold
near zero, unlike p +- t sqrt(v). A mean gets that interval.

After a few errors, spread evenly over groups, the jackknife limits would be narrower than after none, although a group whose
series are all wrong may not have been observed yet. So the limits are never narrower than those without any error.
"""

import numpy as np
from scipy import special

from sooner.errors import InvalidArgument
from sooner.evaluate.intervals import Limits, beta_limits, exact_limits, tail_of
from sooner.inputs import as_real
from sooner.types import ArrayLike, FloatArray, IntArray


def group_limits(wrong: ArrayLike, counts: ArrayLike, *, confidence: float = 0.95) -> Limits:
    """Limits of the balanced error of series that come in groups.

    If all decisions of a class are right, or all wrong, the variance between its groups is unknown: each group then counts as one
    series, and the limits of the classes are combined as in `balanced_limits`. The upper limit is at least the one without any
    error, the lower limit at most the one without a right decision. The limits of a class in a single group are 0 and 1.

    Args:
        wrong: (..., groups, classes), number of wrong decisions.
        counts: (groups, classes), number of decisions; a class or a group without a series is left out.

    >>> low, high = group_limits([[5, 0], [0, 0], [0, 1], [1, 0]], [[5, 5]] * 4)
    >>> low.round(3), high.round(3)
    (np.float64(0.002), np.float64(0.726))
    >>> from sooner.evaluate import balanced_limits
    >>> balanced_limits([6, 1], [20, 20]).high.round(3)  # as if all 40 were independent
    np.float64(0.332)
    """
    bad, of = as_real(wrong, name="wrong"), as_real(counts, name="counts")
    if of.ndim != 2 or bad.shape[-2:] != of.shape or not (of > 0).any():
        expected = f"of shape (groups, classes) = {bad.shape[-2:]}, with at least 1 series"
        raise InvalidArgument("counts", expected, f"shape {of.shape}", "Count the series of each group and class.")
    kept, named = (of > 0).any(axis=1), (of > 0).any(axis=0)
    bad, of = bad[..., kept, :][..., named], of[kept][:, named]
    tail, groups, classes = tail_of(confidence), len(of), of.shape[1]
    totals, members = of.sum(axis=0), (of > 0).sum(axis=0)
    if groups == 1:
        nothing = np.zeros(bad.shape[:-2])
        return Limits(nothing[()], nothing[()] + 1.0)
    shares = bad.sum(axis=-2) / totals
    error = shares.mean(axis=-1)
    variance = np.maximum(_jackknife(bad, of, shares), (shares * (1 - shares) / totals).sum(axis=-1) / classes**2)
    # If no group has two classes, each class loses a degree of freedom to its own mean.
    lost = classes if ((of > 0).sum(axis=1) == 1).all() else 1
    ratio = special.ndtri(1 - tail) / special.stdtrit(max(_effective(of / totals) - lost, 1.0), 1 - tail)
    known = variance > 0
    size = np.where(known, error * (1 - error) / np.where(known, variance, 1.0) * ratio**2, 1.0)
    low, high = beta_limits(error * size, size, tail)
    # A class without an error, or without a right decision, adds nothing to the variance, although it is uncertain.
    least, most = _limits_of_groups(shares, members, confidence)
    unseen = (members == 1) | (shares == 0) | (shares == 1)
    low = error - np.hypot(np.where(known, error - low, 0.0), _combined(np.where(unseen, shares - least, 0.0)))
    high = error + np.hypot(np.where(known, high - error, 0.0), _combined(np.where(unseen, most - shares, 0.0)))
    low = np.minimum(low, 1 - _combined(1 - _limits_of_groups(np.ones(classes), members, confidence).low))
    high = np.maximum(high, _combined(_limits_of_groups(np.zeros(classes), members, confidence).high))
    return Limits(np.maximum(low, 0.0)[()], np.minimum(high, 1.0)[()])


def group_mean_limits(values: ArrayLike, groups: IntArray, *, confidence: float = 0.95) -> Limits:
    """Limits of the mean of one number per series, for example its decision time; infinite with a single group.

    >>> low, high = group_mean_limits([1.0, 1.0, 3.0, 3.0, 8.0], np.array([0, 0, 1, 1, 2]))
    >>> low.round(1), high.round(1)
    (np.float64(-4.3), np.float64(10.7))
    """
    numbers, tail = as_real(values, name="values"), tail_of(confidence)
    sizes = np.bincount(groups).astype(np.float64)
    if (sizes > 0).sum() == 1:
        return Limits(np.float64(-np.inf), np.float64(np.inf))  # type: ignore[arg-type]
    sums, mean = np.bincount(groups, numbers)[sizes > 0], numbers.mean()
    sizes = sizes[sizes > 0]
    without = (numbers.sum() - sums) / (len(numbers) - sizes)
    variance = (len(sizes) - 1) / len(sizes) * ((without - mean) ** 2).sum()
    freedom = max(_effective(sizes[:, None] / len(numbers)) - 1, 1.0)
    reach = special.stdtrit(freedom, 1 - tail) * np.sqrt(variance)
    return Limits(mean - reach, mean + reach)


def group_counts(labels: IntArray, groups: IntArray, *, classes: int, weights: ArrayLike | None = None) -> FloatArray:
    """(groups, classes): the number of series, or the sum of their weights."""
    size = (int(groups.max()) + 1) * classes
    numbers = None if weights is None else as_real(weights, name="weights")
    counts = np.bincount(groups * classes + labels, numbers, minlength=size)
    return counts.reshape(-1, classes).astype(np.float64)


def _jackknife(bad: FloatArray, of: FloatArray, shares: FloatArray) -> FloatArray:
    """The jackknife variance of the balanced error; the error of a class is kept if its only group is left out."""
    left = of.sum(axis=0) - of
    without = (bad.sum(axis=-2, keepdims=True) - bad) / np.where(left > 0, left, 1.0)
    moved = np.where(left > 0, without - shares[..., None, :], 0.0).mean(axis=-1)
    variance: FloatArray = (len(of) - 1) / len(of) * (moved**2).sum(axis=-1)
    return variance


def _limits_of_groups(shares: FloatArray, members: IntArray, confidence: float) -> Limits:
    """The limits of each class if each of its groups counts as one series; 0 and 1 for a class in a single group."""
    low, high = exact_limits(shares * members, members, confidence=confidence)
    return Limits(np.where(members == 1, 0.0, low), np.where(members == 1, 1.0, high))


def _combined(distances: FloatArray) -> FloatArray:
    """Distance of the limits of the mean over classes, from the distances of each class (as in `balanced_limits`)."""
    combined: FloatArray = np.sqrt((distances**2).sum(axis=-1)) / distances.shape[-1]
    return combined


def _effective(weights: FloatArray) -> float:
    """Kish's effective number of groups, from the weights (groups, classes)."""
    return float(1 / (weights.mean(axis=1) ** 2).sum())
