"""P-values against "the error is above the level", and the greatest observed error that each of them lets pass.

======== ==============================================================================================
symbol   meaning
======== ==============================================================================================
n, R     series (or groups), and how many of them were decided wrongly
eps      the level: the null hypothesis is an error of at least eps
delta    1 - confidence: a p-value of at most delta passes
n_k, p_k series of class k, and its true error
w_k      1 / (K n_k), the weight of a series in the balanced error
S        the observed balanced error
======== ==============================================================================================

A p-value p is valid if P(p <= delta) <= delta for every delta, whatever the true error is, as long as it is at least eps. All
grow with the observed error, so "p <= delta" and "the observed error is at most a limit" are the same.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from sooner.types import ArrayLike, FloatArray, IntArray

NEVER = -1.0
"""The limit where not even 0 errors pass."""
_GRID, _ZOOMS, _HALVINGS = 48, 3, 48


def binomial_p(wrong: ArrayLike, count: ArrayLike, level: float) -> FloatArray:
    """P(Bin(n, eps) <= R), of independent series that are wrong with the same probability.

    >>> binomial_p(0, 45, 0.05).round(3), binomial_p(0, 59, 0.05).round(3)
    (np.float64(0.099), np.float64(0.048))
    """
    p: FloatArray = special.bdtr(np.asarray(wrong, np.float64), _whole(count), level)
    return p


def binomial_limit(count: ArrayLike, level: float, delta: float) -> FloatArray:
    """The greatest R with `binomial_p` at most delta, `NEVER` if there is none."""
    n = _whole(count)
    # The inverse is a continuous one, and rounded: so its neighbours are tried.
    near = np.floor(np.nan_to_num(special.bdtrik(delta, n, level), nan=-1.0))
    limit = np.full(n.shape, NEVER)
    for step in (-1, 0, 1):
        here = np.clip(near + step, 0, n)
        limit = np.where((n > 0) & (special.bdtr(here, n, level) <= delta), here, limit)
    return limit[()]


def pooled_p(wrong: ArrayLike, count: int, level: float) -> FloatArray:
    """The same tail for n independent series whose errors differ, and have a mean of at least eps.

    Of all such series, those with equal errors make few errors most probable: P(S <= R) <= P(Bin(n, eps) <= R) for R <= n eps - 1
    (Hoeffding 1956, Ann. Math. Statist. 27). Above, p = 1.
    """
    bad = np.asarray(wrong, np.float64)
    p: FloatArray = np.where(bad <= count * level - 1, binomial_p(bad, count, level), 1.0)[()]
    return p


def pooled_limit(count: int, level: float, delta: float) -> float:
    """The greatest R with `pooled_p` at most delta, `NEVER` if there is none."""
    return float(max(min(binomial_limit(count, level, delta), np.floor(count * level - 1)), NEVER))


def hoeffding_bentkus_p(mean: ArrayLike, count: ArrayLike, level: float) -> FloatArray:
    """For n independent losses from 0 to 1 with the given mean: the smaller one of the bounds of Hoeffding and of Bentkus.

    p = min(exp(-n h(min(mean, eps), eps)), e P(Bin(n, eps) <= ceil(n mean))), h(a, b) = a log(a/b) + (1-a) log((1-a)/(1-b)):
    Bates et al. 2021, J. ACM 68; Angelopoulos et al. 2025, Ann. Appl. Stat. 19 (learn then test).
    """
    share, n = np.asarray(mean, np.float64), _whole(count)
    least = np.minimum(share, level)
    spread = special.rel_entr(least, level) + special.rel_entr(1 - least, 1 - level)
    bentkus = np.e * special.bdtr(np.ceil(np.round(n * share, 9)), n, level)
    p: FloatArray = np.minimum(np.minimum(np.exp(-n * spread), bentkus), 1.0)
    return p


def hoeffding_bentkus_limit(count: ArrayLike, level: float, delta: float) -> FloatArray:
    """The greatest mean with `hoeffding_bentkus_p` at most delta, `NEVER` if there is none."""
    n = _whole(count)
    low, high = np.zeros(n.shape), np.full(n.shape, level)
    for _ in range(_HALVINGS):  # of Hoeffding's bound; low always passes
        middle = (low + high) / 2
        spread = special.rel_entr(middle, level) + special.rel_entr(1 - middle, 1 - level)
        passes = -n * spread <= np.log(delta)
        low, high = np.where(passes, middle, low), np.where(passes, high, middle)
    hoeffding = np.where(n * np.log1p(-level) <= np.log(delta), low, NEVER)
    whole = binomial_limit(n, level, delta / np.e)
    limit: FloatArray = np.maximum(hoeffding, np.where(whole >= 0, whole / np.maximum(n, 1), NEVER))[()]
    return limit


def weighted_p(error: ArrayLike, counts: ArrayLike, level: float) -> FloatArray:
    """For a balanced error of independent losses from 0 to 1: Chernoff's bound, with the worst class errors there can be.

    For every lambda >= 0 and every class errors with a mean of at least eps,
    P(S <= s) <= E exp(lambda (s - S)) <= exp(lambda s) prod_k (1 - p_k c_k)^(n_k), c_k = 1 - exp(-lambda w_k),
    because exp is convex, so that losses of 0 and 1 are the worst. The largest product over the p_k is taken, and the best lambda
    for each s: all of these bound one probability, so the smallest of them does.

    Args:
        error: the observed balanced error.
        counts: (classes,), n_k, none of them 0.
        level: eps.
    """
    worst = _Worst(np.asarray(counts, np.float64), level)

    def p_of(share: float) -> float:
        least = _least(lambda tilts: tilts * share + worst.log_product(tilts), *worst.range)
        return float(np.exp(min(least, 0.0)))

    shares = np.asarray(error, np.float64)
    p: FloatArray = np.array([p_of(share) for share in shares.ravel().tolist()]).reshape(shares.shape)[()]
    return p


def weighted_limit(counts: ArrayLike, level: float, delta: float) -> float:
    """The greatest balanced error with `weighted_p` at most delta, `NEVER` if there is none."""
    worst = _Worst(np.asarray(counts, np.float64), level)
    # p(s) <= delta where lambda s + G(lambda) <= log(delta) for some lambda.
    best = -_least(lambda tilts: (worst.log_product(tilts) - np.log(delta)) / tilts, *worst.range)
    return best if best >= 0 else NEVER


def _whole(count: ArrayLike) -> IntArray:
    return np.asarray(count).astype(np.int64)


class _Worst:
    """G(lambda): the largest log of prod_k (1 - p_k c_k)^(n_k) over class errors p_k in 0..1 with a mean of at least eps."""

    def __init__(self, counts: FloatArray, level: float) -> None:
        self._counts, self._level = counts, level
        self._weights = 1 / (len(counts) * counts)
        # Below, p is near 1; above, c_k is 1 to the last bit.
        self.range = (1e-3 / self._weights.max(), 50 / self._weights.min())

    def log_product(self, tilts: FloatArray) -> FloatArray:
        """(tilts,): water-filling. The sum of n_k log(1 - p_k c_k) is concave, and at its maximum all p_k that are not at an
        end have the same slope -nu: p_k = 1 / c_k - n_k / nu. nu is found by bisection, so that they add up to K eps.

        The value is that of the dual at nu, which is an upper bound for every nu >= 0: the bisection errs on the safe side.
        """
        counts, shares = self._counts, -np.expm1(-tilts[:, None] * self._weights)
        needed = len(counts) * self._level
        low, high = np.zeros(len(tilts)), np.full(len(tilts), counts.max() / (1 - self._level))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = self._errors(shares, middle).sum(axis=1) >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        errors = self._errors(shares, high)
        logs = (counts * np.log1p(-errors * shares)).sum(axis=1)
        value: FloatArray = logs + high * (errors.sum(axis=1) - needed)
        return value

    def _errors(self, shares: FloatArray, slopes: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            errors: FloatArray = np.clip(1 / shares - self._counts / slopes[:, None], 0.0, 1.0)
        return errors


def _least(objective: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
    """The least value of a function with one minimum, on grids that close in on it."""
    least = np.inf
    for _ in range(_ZOOMS):
        grid = np.geomspace(low, high, _GRID)
        values = objective(grid)
        place = int(np.argmin(values))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, _GRID - 1)]
        least = min(least, float(values[place]))
    return least
