"""Confidence intervals of errors: exact limits for each class, and limits for their mean, the balanced error.

========= =======================================================
symbol    meaning
========= =======================================================
p_k       share of wrong decisions among the n_k series of class k
l_k, u_k  its exact limits
K         classes that have at least one series
========= =======================================================
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from sooner.errors import InvalidArgument
from sooner.inputs import as_number, as_real
from sooner.types import ArrayLike, FloatArray


class Limits(NamedTuple):
    """The two ends of an interval, or of one interval at each point of a curve."""

    low: FloatArray
    high: FloatArray


def exact_limits(wrong: ArrayLike, counts: ArrayLike, *, confidence: float = 0.95) -> Limits:
    """Clopper-Pearson limits of a share of wrong decisions; their coverage is at least the confidence.

    `wrong` and `counts` are the numbers of wrong and of all decisions, of any shapes that fit.

    >>> exact_limits(0, 10).high.round(3)
    np.float64(0.308)
    """
    bad, of = as_real(wrong, name="wrong"), as_real(counts, name="counts")
    try:
        bad, of = np.broadcast_arrays(bad, of)
    except ValueError:
        remedy = "Give one count for each number of errors."
        raise InvalidArgument("counts", f"of a shape that fits {bad.shape}", f"shape {of.shape}", remedy) from None
    if not ((bad >= 0) & (bad <= of) & (of >= 1)).all():
        got = f"{bad.tolist()} of {of.tolist()}"
        raise InvalidArgument("wrong", "in 0..counts, and counts at least 1", got, "Count decisions, not shares.")
    return beta_limits(bad, of, tail_of(confidence))


def tail_of(confidence: float) -> float:
    """The probability beyond each end of a two-sided interval."""
    remedy = "It is the probability that an interval holds the true error."
    return (1 - as_number(confidence, name="confidence", low=0.0, high=1.0, remedy=remedy)) / 2


def beta_limits(bad: FloatArray, of: FloatArray, tail: float) -> Limits:
    """Clopper-Pearson limits by the beta distribution; the counts may be fractions."""
    low = np.where(bad > 0, special.betaincinv(np.where(bad > 0, bad, 1.0), of - bad + 1, tail), 0.0)
    high = np.where(bad < of, special.betaincinv(bad + 1, np.where(bad < of, of - bad, 1.0), 1 - tail), 1.0)
    return Limits(low[()], high[()])


def balanced_limits(wrong: ArrayLike, counts: ArrayLike, *, confidence: float = 0.95) -> Limits:
    """Limits of the balanced error, from the exact limits of the classes (MOVER: Zou and Donner 2008, Statist. Med. 27).

    low = p - sqrt(sum_k (p_k - l_k)^2) / K and high = p + sqrt(sum_k (u_k - p_k)^2) / K, where p is the mean of the p_k. If no
    decision is wrong, the upper limit is still above zero, unlike that of the normal approximation.

    Args:
        wrong: (..., classes), number of wrong decisions in each class.
        counts: (classes,), number of decisions in each class; a class without a series is left out.

    >>> low, high = balanced_limits([2, 0], [100, 50])
    >>> low.round(4), high.round(4)
    (np.float64(0.0012), np.float64(0.0536))
    """
    bad, of = as_real(wrong, name="wrong"), as_real(counts, name="counts")
    if of.ndim != 1 or bad.shape[-1:] != of.shape or not (of > 0).any():
        expected = f"of shape (classes,) = {bad.shape[-1:]}, with a series of at least 1 class"
        raise InvalidArgument("counts", expected, f"{of.tolist()}", "Give the number of series of each class.")
    bad, of = bad[..., of > 0], of[of > 0]
    low, high = exact_limits(bad, of, confidence=confidence)
    shares = bad / of
    centre, below, above = map(_ordered_sum, (shares, (shares - low) ** 2, (high - shares) ** 2))
    return Limits(
        np.maximum(centre / len(of) - np.sqrt(below) / len(of), 0.0),
        np.minimum(centre / len(of) + np.sqrt(above) / len(of), 1.0),
    )


def _ordered_sum(values: FloatArray) -> FloatArray:
    """The sum over the last axis in its order, so that the report page can repeat it to the last bit."""
    total = np.zeros(values.shape[:-1])
    for k in range(values.shape[-1]):
        total = total + values[..., k]
    return total
