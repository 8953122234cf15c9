"""Thresholds from error targets, and the mean times that follow from thresholds.

With exact scores the matrix test keeps P_l(decide k) <= e^{-a_lk} for crossed decisions; forced ones are outside of every
bound. Matrices are indexed [true class, decided class], as `MSPRT` takes them.

========== ====================================================
symbol     meaning
========== ====================================================
a_lk       threshold that s_k - s_l must reach
alpha_lk   P_l(decide k), the error "k although l"
w_lk       weight of that error
I_kl       Kullback-Leibler rate: mean gain of s_k - s_l under k
Upsilon_kl cumulative flaw: I_kl times the mean of e^{-overshoot}
c          price of an observation, as a share of an error's
========== ====================================================

Reference: Tartakovsky, Nikiforov, Basseville, Sequential Analysis (2014), chapter 4; Miyagawa and Ebihara (ICML 2021), appendix
on the asymptotic optimality of the test.
"""

import math

import numpy as np

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_nonnegative, as_real, as_whole
from sooner.scores import Scored
from sooner.types import ArrayLike, FloatArray

_CLASSES = "It is the number of classes."
_PAIRS = "Entry [l, k] bounds P_l(decide k)."


def for_pair_errors(alpha: ArrayLike) -> FloatArray:
    """a_lk = log(1 / alpha_lk): bounds each P_l(decide k) by alpha[l, k].

    `alpha` is K x K, in (0, 1]; its diagonal is ignored.
    """
    return 0.0 - np.log(_as_pairs(alpha, name="alpha", remedy=_PAIRS))


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
        raise InvalidArgument("weights", "given, or else `classes`", "both or neither", "Either one gives K.")
    size = classes if weights is None else len(np.atleast_1d(as_real(weights, name="weights")))
    size = as_whole(size, name="classes", low=2, remedy=_CLASSES)
    matrix = _as_weights(weights, size)
    targets = _per_class(beta, size, name="beta", high=math.inf)
    with np.errstate(divide="ignore"):
        columns = np.log(_off_diagonal(matrix).sum(axis=0)) - np.log(targets)
    return _off_diagonal(np.repeat(columns.clip(0)[None], size, axis=0))


def pairwise_errors(scores: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None) -> FloatArray:
    """The share of the series of class k with s_k(t) < s_l(t), on exact scores: (time, K, K), entry [t-1, k, l].

    A tie counts one half. Series that have ended are left out; if none is left, or a class has no series, the entry is 0.

    >>> pairwise_errors([[[2.0, 1.0], [3.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]], [0, 1])[:, 1, 0]
    array([1. , 0.5])
    """
    scored = Scored.of(scores, labels, lengths=lengths)
    shares = np.zeros((*scored.scores.shape[1:], scored.scores.shape[2]))
    for k in np.unique(scored.truths):
        rows = scored.truths == k
        values, live = scored.scores[rows].astype(np.float64), scored.live[rows]
        behind = (np.sign(values - values[:, :, k, None]) + 1) / 2 * live[:, :, None]
        shares[:, k] = behind.sum(axis=0) / np.maximum(live.sum(axis=0), 1)[:, None]
    return _off_diagonal(shares)


def cumulative_flaws(errors: ArrayLike) -> FloatArray:
    """Upsilon_kl = exp(-sum_t (1/t) [P_l(s_k(t) > s_l(t)) + P_k(s_k(t) <= s_l(t))]), symmetric, in (0, 1]: K x K.

    For independent observations Upsilon_kl / I_kl is the mean of e^{-overshoot} of s_k - s_l over a high threshold, so
    P_l(decide k) comes near to e^{-a_lk} Upsilon_kl / I_kl where two classes are left. The diagonal is 1.

    Args:
        errors: (time, K, K), entry [t-1, k, l] is P_k(s_k(t) <= s_l(t)), a tie counting one half, for example from
            `pairwise_errors`. They should reach 0 at the last time; if the sum ends earlier, Upsilon is too large.

    >>> from scipy.stats import norm
    >>> times, rates = np.arange(1, 500)[:, None, None], np.array([[0.0, 0.5], [0.5, 0.0]])
    >>> flaws = cumulative_flaws(norm.cdf(-np.sqrt(times * rates / 2)))    # normal, means at a distance of 1
    >>> round(float(flaws[0, 1] / 0.5), 3)                                 # Siegmund's e^{-0.583} is 0.558
    0.56
    """
    array = as_real(errors, name="errors")
    remedy = "Entry [t-1, k, l] is P_k(s_k(t) <= s_l(t))."
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < 2 or not len(array):
        raise InvalidArgument("errors", "of shape (time, K, K)", f"shape {array.shape}", remedy)
    outside = ~((array >= 0) & (array <= 1))
    if outside.any():
        raise InvalidArgument("errors", "in 0..1", float(array[outside][0]), remedy)
    # A tie is equally likely under both classes, so two halves add up to the paper's "<=" under one of them.
    both = _off_diagonal(array + array.transpose(0, 2, 1))
    flaws: FloatArray = np.exp(-np.einsum("tkl,t->kl", both, 1 / np.arange(1, len(array) + 1)))
    return flaws


def for_cost(cost: float, flaws: ArrayLike, *, weights: ArrayLike | None = None) -> FloatArray:
    """a_lk = log(w_lk Upsilon_kl / c), never below 0: the test with nearly the least mean times for its decision errors.

    As c falls, its mean times differ by o(1) from the least ones of all tests whose weighted errors beta_k are not greater
    (Lorden 1977). Each weighted error w_lk P_l(decide k) is at most c / Upsilon_kl, and comes near to c / I_kl where two
    classes are left: one more observation costs as much as it saves.

    Args:
        cost: c, above 0.
        flaws: K x K, in (0, 1], from `cumulative_flaws`; the diagonal is ignored.
        weights: K x K, entry [l, k] the weight of "k although l"; by default all 1.

    >>> for_cost(0.001, [[1.0, 0.28], [0.28, 1.0]]).round(2)
    array([[0.  , 5.63],
           [5.63, 0.  ]])
    """
    cost = as_between(cost, name="cost", low=0.0, high=math.inf, remedy="It is the price of an observation.")
    matrix = _as_flaws(flaws)
    with np.errstate(divide="ignore"):
        thresholds = np.log(_as_weights(weights, len(matrix))) + np.log(matrix.T) - math.log(cost)
    return _off_diagonal(thresholds.clip(0))


def cost_for_decision_errors(beta: ArrayLike, flaws: ArrayLike) -> float:
    """The largest cost with which `for_cost` keeps each beta_k: c = min_k beta_k / sum_{l != k} 1 / Upsilon_kl.

    Args:
        beta: one target for all classes, or (K,), above 0: bounds sum_{l != k} w_lk P_l(decide k) for any weights.
        flaws: K x K, as in `for_cost`.

    >>> cost_for_decision_errors(0.01, [[1.0, 0.25], [0.25, 1.0]])
    0.0025
    """
    matrix = _as_flaws(flaws)
    targets = _per_class(beta, len(matrix), name="beta", high=math.inf)
    return float((targets / _off_diagonal(1 / matrix).sum(axis=1)).min())


def error_bounds(threshold: ArrayLike, *, classes: int) -> FloatArray:
    """The bound e^{-a_lk} of a threshold on each P_l(decide k); the sum of row l bounds the error of class l.

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


def first_order_moments(threshold: ArrayLike, rates: ArrayLike, *, moment: float) -> FloatArray:
    """(max_l a_lk / I_kl)^m, the m-th moment E_k[tau^m] of the decision time to first order as thresholds grow: (K,).

    Threshold and rates are those of `first_order_times`; `moment` is m, above 0.

    >>> first_order_moments(6.0, [[0.0, 0.5], [0.25, 0.0]], moment=2)
    array([144., 576.])
    """
    power = as_between(moment, name="moment", low=0.0, high=math.inf, remedy="It is the m of E[tau^m].")
    return np.power(first_order_times(threshold, rates), power)  # the paper writes E[tau]^m for it


def least_mean_times_of(errors: ArrayLike, rates: ArrayLike) -> FloatArray:
    """A floor for the mean time of class k, for every test that has EXACTLY these error probabilities: (K,).

    max_l (1 / I_kl) sum_m alpha_km log(alpha_km / alpha_lm), alpha_kk = 1 - sum_{m != k} alpha_km: from Wald's identity and
    Jensen's inequality, for independent observations; forced decisions count like all others. Where m is decided under k but
    never under l, the floor is infinite.

    Args:
        errors: K x K, entry [l, k] is P_l(decide k); the diagonal is ignored.
        rates: K x K, entry [k, l] is I_kl.

    >>> least_mean_times_of([[0.0, 0.05], [0.1, 0.0]], [[0.0, 0.5], [0.5, 0.0]]).round(2)
    array([3.99, 4.75])
    """
    # The paper says "at most" instead of "exactly". With three classes or more that is a slip: a test that decides m under k less
    # often may have a smaller sum, and be faster. `least_mean_times` with a matrix is the floor for "at most".
    matrix = _as_rates(rates)
    remedy = "Entry [l, k] is P_l(decide k); a row holds all decisions under l."
    errors = as_real(errors, name="errors")
    if errors.shape == matrix.shape:
        np.fill_diagonal(errors, 0.0)
    errors = as_nonnegative(errors, matrix.shape, name="errors", remedy=remedy)
    if (errors.sum(axis=1) > 1).any():
        raise InvalidArgument("errors", "of rows that sum to at most 1", errors.sum(axis=1).max(), remedy)
    decided = errors + np.diag(1 - errors.sum(axis=1))
    return _slowest(np.stack([_divergences(row, decided) for row in decided]), matrix)


def least_mean_times(alpha: ArrayLike, rates: ArrayLike) -> FloatArray:
    """A floor for the mean time of class k, for EVERY test whose errors are at most alpha: (K,).

    One number bounds class errors: from Wald's identity and Jensen's inequality, max_l d(1-alpha, alpha) / I_kl, with the
    binary divergence d(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q)). A matrix bounds the error of each pair: the floor is
    max_l D_kl / I_kl, D_kl the least divergence of two distributions of decisions that stay within rows k and l.

    Args:
        alpha: bound on P_l(decide anything but l) for every l, between 0 and 1/2; or K x K, entry [l, k] in (0, 1] the bound on
            P_l(decide k), the diagonal ignored.
        rates: K x K, entry [k, l] is I_kl.

    >>> rates = [[0.0, 0.5], [0.5, 0.0]]
    >>> least_mean_times(0.05, rates).round(2), least_mean_times([[1.0, 0.05], [0.1, 1.0]], rates).round(2)
    (array([5.3, 5.3]), array([3.99, 4.75]))
    """
    if as_real(alpha, name="alpha").ndim == 0:
        alpha = as_between(alpha, name="alpha", low=0.0, high=0.5, remedy="At 1/2 and above the floor is 0.")
        divergence = (1 - 2 * alpha) * (math.log1p(-alpha) - math.log(alpha))
        matrix = _as_rates(rates)
        return _slowest(np.full_like(matrix, divergence), matrix)
    bounds, matrix = _as_pairs(alpha, name="alpha", remedy=_PAIRS), _as_rates(rates)
    if bounds.shape != matrix.shape:
        raise InvalidArgument("alpha", f"of shape {matrix.shape}, as `rates`", f"shape {bounds.shape}", _PAIRS)
    least = np.zeros_like(bounds)
    for k, rival in np.argwhere(~np.eye(len(bounds), dtype=bool)):
        least[k, rival] = _least_divergence(bounds, k, rival)
    return _slowest(least, matrix)


def _least_divergence(alpha: FloatArray, k: int, rival: int) -> float:
    """min sum_m p_m log(p_m / q_m) over decisions p under k and q under its rival l.

    Bounds are p_m <= alpha_km for m != k and q_m <= alpha_lm for m != l. At the minimum each p_m and q_m is at its bound,
    unless the ratio p_m / q_m would then exceed p_k / q_k or fall below p_l / q_l: the ratio is limited to these two.
    """
    others = np.delete(np.arange(len(alpha)), [k, rival])
    under_k, under_rival = alpha[k, others], alpha[rival, others]
    to_k, to_rival = alpha[rival, k], alpha[k, rival]
    top = _end_ratio(to_k, 1 - to_rival, under_k, under_rival)
    bottom = _end_ratio(to_rival, 1 - to_k, under_rival, under_k)
    if min(top, bottom) <= 1:
        return 0.0  # the bounds leave room for decisions that do not depend on the class
    p = np.array([top * to_k, to_rival, *np.minimum(under_k, top * under_rival)])
    q = np.array([to_k, bottom * to_rival, *np.minimum(under_rival, bottom * under_k)])
    return float(_divergences(p, q[None])[0])


def _end_ratio(end: float, total: float, over: FloatArray, under: FloatArray) -> float:
    """The r with r end + sum_m min(over_m, r under_m) = total."""
    order = np.argsort(over / under)
    capped = np.concatenate([[0.0], np.cumsum(over[order])])
    free = end + np.concatenate([np.cumsum(under[order][::-1])[::-1], [0.0]])
    # The left side is the minimum of these straight lines, one for each number of terms that have reached their cap.
    return float(((total - capped) / free).max())


def _divergences(p: FloatArray, rows: FloatArray) -> FloatArray:
    """sum_m p_m log(p_m / q_m) for each row q; infinite where q_m is 0 and p_m is not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        divergences: FloatArray = np.where(p > 0, p * (np.log(p) - np.log(rows)), 0.0).sum(axis=1)
    return divergences


def _slowest(amounts: FloatArray, rates: FloatArray) -> FloatArray:
    """max over l of amount_kl / I_kl; at rate 0, an amount above 0 takes infinitely long."""
    times = np.divide(amounts, rates, out=np.where(amounts > 0, np.inf, 0.0), where=rates > 0)
    slowest: FloatArray = _off_diagonal(times).max(axis=1)
    return slowest


def _as_rates(rates: ArrayLike) -> FloatArray:
    size = len(np.atleast_1d(as_real(rates, name="rates")))
    return as_nonnegative(rates, (size, size), name="rates", remedy="Entry [k, l] is the rate of s_k - s_l under k.")


def _as_pairs(value: ArrayLike, *, name: str, remedy: str) -> FloatArray:
    """K x K in (0, 1], the diagonal 1."""
    matrix = as_real(value, name=name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InvalidArgument(name, "a K x K matrix", f"shape {matrix.shape}", remedy)
    np.fill_diagonal(matrix, 1.0)
    return _as_probabilities(matrix, name=name)


def _as_flaws(flaws: ArrayLike) -> FloatArray:
    return _as_pairs(flaws, name="flaws", remedy="Take the matrix that `cumulative_flaws` gives.")


def _as_weights(weights: ArrayLike | None, size: int) -> FloatArray:
    remedy = "Entry [m, k] weighs the error of deciding k although m is true."
    given = np.ones((size, size)) if weights is None else weights
    return as_nonnegative(given, (size, size), name="weights", remedy=remedy)


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
        remedy = "Give one target for each class."
        raise InvalidArgument(name, f"one number or of shape ({classes},)", f"shape {array.shape}", remedy)
    return _as_probabilities(np.broadcast_to(array, (classes,)), name=name, high=high)


def _as_probabilities(array: FloatArray, *, name: str, high: float = 1.0) -> FloatArray:
    outside = ~((array > 0) & (array <= high))
    if outside.any():
        expected = "above 0" if math.isinf(high) else f"above 0 and at most {high:g}"
        bounded = "a probability of error" if high == 1.0 else "a weighted sum of error probabilities"
        raise InvalidArgument(name, expected, float(array[outside][0]), f"It bounds {bounded}.")
    return array


def _off_diagonal(matrix: FloatArray) -> FloatArray:
    return np.where(np.eye(matrix.shape[-1], dtype=bool), 0.0, matrix)
