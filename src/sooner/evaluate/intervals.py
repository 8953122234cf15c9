"""How sure one can be of an error: exact limits for each class, and limits for their mean, the balanced error.

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
    """Clopper-Pearson limits of a share of wrong decisions: they hold the true one at least so often, whatever it is.

    Args:
        wrong: how many decisions were wrong; any shape.
        counts: of how many, at least 1; a shape that fits.
        confidence: of the two-sided intervals.

    >>> exact_limits(0, 10).high.round(3)
    np.float64(0.308)
    """
    return beta_limits(*_counts(wrong, counts), tail_of(confidence))


def tail_of(confidence: float) -> float:
    """The probability beyond each end of a two-sided interval."""
    remedy = "It is the probability that an interval holds the true error."
    return (1 - as_number(confidence, name="confidence", low=0.0, high=1.0, remedy=remedy)) / 2


def beta_limits(bad: FloatArray, of: FloatArray, tail: float) -> Limits:
    """Clopper-Pearson limits by the beta distribution, which takes fractions of series too."""
    low = np.where(bad > 0, special.betaincinv(np.where(bad > 0, bad, 1.0), of - bad + 1, tail), 0.0)
    high = np.where(bad < of, special.betaincinv(bad + 1, np.where(bad < of, of - bad, 1.0), 1 - tail), 1.0)
    return Limits(low[()], high[()])


def balanced_limits(wrong: ArrayLike, counts: ArrayLike, *, confidence: float = 0.95) -> Limits:
    """Limits of the balanced error, from the exact limits of the classes (MOVER: Zou and Donner 2008, Statist. Med. 27).

    low = p - sqrt(sum_k (p_k - l_k)^2) / K and high = p + sqrt(sum_k (u_k - p_k)^2) / K, where p is the mean of the p_k. The
    classes are independent, so their distances to the limits add up as standard errors do; and where no decision is wrong,
    the upper limit stays above zero, which the usual normal approximation misses.

    Args:
        wrong: (..., classes), how many decisions of each class were wrong.
        counts: (classes,), of how many; a class without a series is left out.
        confidence: of the two-sided interval.

    >>> low, high = balanced_limits([2, 0], [100, 50])
    >>> low.round(4), high.round(4)
    (np.float64(0.0012), np.float64(0.0536))
    """
    bad, of = as_real(wrong, name="wrong"), as_real(counts, name="counts")
    if of.ndim != 1 or bad.shape[-1:] != of.shape or not (of > 0).any():
        raise InvalidArgument(
            "counts",
            f"of shape (classes,) = {bad.shape[-1:]}, with a series of at least 1 class",
            f"{of.tolist()}",
            "Give the number of series of each class.",
        )
    bad, of = bad[..., of > 0], of[of > 0]
    low, high = exact_limits(bad, of, confidence=confidence)
    shares = bad / of
    centre, below, above = (_in_turn(part) for part in (shares, (shares - low) ** 2, (high - shares) ** 2))
    return Limits(
        np.maximum(centre / len(of) - np.sqrt(below) / len(of), 0.0),
        np.minimum(centre / len(of) + np.sqrt(above) / len(of), 1.0),
    )


def _in_turn(parts: FloatArray) -> FloatArray:
    """The sum over the last axis in its order, as the curve adds up class errors, so that others can repeat it to the bit."""
    total = np.zeros(parts.shape[:-1])
    for k in range(parts.shape[-1]):
        total = total + parts[..., k]
    return total


def _counts(wrong: ArrayLike, counts: ArrayLike) -> tuple[FloatArray, FloatArray]:
    bad, of = as_real(wrong, name="wrong"), as_real(counts, name="counts")
    try:
        bad, of = np.broadcast_arrays(bad, of)
    except ValueError:
        raise InvalidArgument(
            "counts",
            f"of a shape that fits {bad.shape}",
            f"shape {of.shape}",
            "Give one count for each number of errors.",
        ) from None
    if not ((bad >= 0) & (bad <= of) & (of >= 1)).all():
        raise InvalidArgument(
            "wrong",
            "in 0..counts, and counts at least 1",
            f"{bad.tolist()} of {of.tolist()}",
            "Count decisions, not shares.",
        )
    return bad, of
