"""Thresholds from error targets, and what thresholds promise about time.

With exact scores the matrix test keeps P_l(decide k) <= e^{-a_lk} for decisions that crossed; forced ones are outside of
every bound and are reported apart. Matrices are indexed [true class, decided class] and go to `MSPRT` as they are.

========== ====================================================
symbol     meaning
========== ====================================================
a_lk       threshold that s_k - s_l must reach
alpha_lk   P_l(decide k), the error "k although l"
I_kl       Kullback-Leibler rate: mean gain of s_k - s_l under k
========== ====================================================
"""

import math

import numpy as np

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_nonnegative, as_real, as_whole
from sooner.types import ArrayLike, FloatArray

_CLASSES = "It is the number of classes."


def for_pair_errors(alpha: ArrayLike) -> FloatArray:
    """a_lk = log(1 / alpha_lk): bounds each P_l(decide k) by alpha[l, k].

    Args:
        alpha: K x K, in (0, 1]; its diagonal is ignored.
    """
    matrix = as_real(alpha, name="alpha")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InvalidArgument("alpha", "a K x K matrix", f"shape {matrix.shape}", "Entry [l, k] bounds P_l(decide k).")
    np.fill_diagonal(matrix, 1.0)
    return 0.0 - np.log(_as_probabilities(matrix, name="alpha"))


def for_class_errors(alpha: ArrayLike, *, classes: int) -> FloatArray:
    """a_lk = log((K-1) / alpha_l): bounds each P_l(decide anything but l) by alpha[l].

    Args:
        alpha: one target for all classes, or (K,), in (0, 1].
        classes: K.

    >>> for_class_errors(0.01, classes=3).round(2)
    array([[0. , 5.3, 5.3],
           [5.3, 0. , 5.3],
           [5.3, 5.3, 0. ]])
    """
    classes = as_whole(classes, name="classes", low=2, remedy=_CLASSES)
    rows = math.log(classes - 1) - np.log(_per_class(alpha, classes, name="alpha"))
    return _off_diagonal(np.repeat(rows[:, None], classes, axis=1))


def for_decision_errors(beta: ArrayLike, *, weights: ArrayLike | None = None, classes: int | None = None) -> FloatArray:
    """a_lk = log(sum_{m != k} w_mk / beta_k): bounds each weighted error beta_k = sum_{m != k} w_mk P_m(decide k).

    Args:
        beta: one target for all classes, or (K,), above 0. A target that no rule can miss gives a threshold of 0.
        weights: K x K, entry [m, k] the weight of "k although m", for example the prior of m; by default all 1.
        classes: K, where there are no weights.
    """
    if (weights is None) == (classes is None):
        raise InvalidArgument("weights", "given, or else `classes`", "both or neither", "Either one tells K.")
    size = classes if weights is None else len(np.atleast_1d(as_real(weights, name="weights")))
    size = as_whole(size, name="classes", low=2, remedy=_CLASSES)
    remedy = "Entry [m, k] weighs the error of deciding k although m is true."
    matrix = as_nonnegative(
        np.ones((size, size)) if weights is None else weights, (size, size), name="weights", remedy=remedy
    )
    targets = _per_class(beta, size, name="beta", high=math.inf)
    with np.errstate(divide="ignore"):
        columns = np.log(_off_diagonal(matrix).sum(axis=0)) - np.log(targets)
    return _off_diagonal(np.repeat(columns.clip(0)[None], size, axis=0))


def error_bounds(threshold: ArrayLike, *, classes: int) -> FloatArray:
    """What a threshold promises: the bound e^{-a_lk} on each P_l(decide k); the sum of row l bounds the error of class l.

    >>> error_bounds(5.0, classes=2).round(4)
    array([[0.    , 0.0067],
           [0.0067, 0.    ]])
    """
    return _off_diagonal(np.exp(-_as_thresholds(threshold, as_whole(classes, name="classes", low=2, remedy=_CLASSES))))


def first_order_times(threshold: ArrayLike, rates: ArrayLike) -> FloatArray:
    """max_l a_lk / I_kl, the mean time of class k to first order as thresholds grow: (K,).

    Args:
        threshold: one number, or K x K.
        rates: K x K, entry [k, l] is I_kl (`sooner.data.synthetic` gives it for its processes).
    """
    matrix = _as_rates(rates)
    return _slowest(_as_thresholds(threshold, len(matrix)).T, matrix)


def least_mean_times(alpha: float, rates: ArrayLike) -> FloatArray:
    """A floor for the mean time of class k, for EVERY test whose class errors are at most alpha: (K,).

    From Wald's identity and Jensen's inequality, max_l d(1-alpha, alpha) / I_kl, with the binary divergence
    d(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q)).

    Args:
        alpha: bound on P_l(decide anything but l) for every l, between 0 and 1/2.
        rates: K x K, entry [k, l] is I_kl.
    """
    alpha = as_between(alpha, name="alpha", low=0.0, high=0.5, remedy="At 1/2 and above the floor is 0.")
    matrix = _as_rates(rates)
    divergence = (1 - 2 * alpha) * (math.log1p(-alpha) - math.log(alpha))
    return _slowest(np.full_like(matrix, divergence), matrix)


def _slowest(amounts: FloatArray, rates: FloatArray) -> FloatArray:
    """max over l of amount_kl / I_kl; a ratio that never grows takes for ever, unless nothing is asked of it."""
    times = np.divide(amounts, rates, out=np.where(amounts > 0, np.inf, 0.0), where=rates > 0)
    slowest: FloatArray = _off_diagonal(times).max(axis=1)
    return slowest


def _as_rates(rates: ArrayLike) -> FloatArray:
    size = len(np.atleast_1d(as_real(rates, name="rates")))
    return as_nonnegative(rates, (size, size), name="rates", remedy="Entry [k, l] is the rate of s_k - s_l under k.")


def _as_thresholds(threshold: ArrayLike, classes: int) -> FloatArray:
    matrix = as_real(threshold, name="threshold")
    matrix = np.full((classes, classes), matrix) if matrix.ndim == 0 else matrix
    remedy = "Give a number or one entry for each pair of classes."
    if matrix.shape == (classes, classes):
        np.fill_diagonal(matrix, 0.0)
    return as_nonnegative(matrix, (classes, classes), name="threshold", remedy=remedy)


def _per_class(value: ArrayLike, classes: int, *, name: str, high: float = 1.0) -> FloatArray:
    array = as_real(value, name=name)
    if array.shape not in ((), (classes,)):
        raise InvalidArgument(
            name, f"one number or of shape ({classes},)", f"shape {array.shape}", "Give one target for each class."
        )
    return _as_probabilities(np.broadcast_to(array, (classes,)), name=name, high=high)


def _as_probabilities(array: FloatArray, *, name: str, high: float = 1.0) -> FloatArray:
    outside = ~((array > 0) & (array <= high))
    if outside.any():
        expected = "above 0" if math.isinf(high) else f"above 0 and at most {high:g}"
        remedy = (
            "It bounds a probability of error." if high == 1.0 else "It bounds a weighted sum of error probabilities."
        )
        raise InvalidArgument(name, expected, float(array[outside][0]), remedy)
    return array


def _off_diagonal(matrix: FloatArray) -> FloatArray:
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)
