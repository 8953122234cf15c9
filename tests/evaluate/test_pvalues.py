"""P-values: against scipy, against brute force over class errors, and against the shape of their own limits."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sooner.evaluate import pvalues
from sooner.evaluate.pvalues import NEVER


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_the_binomial_p_value_is_the_tail_of_scipy(level):
    wrong = np.arange(60)
    np.testing.assert_allclose(pvalues.binomial_p(wrong, 59, level), stats.binom.cdf(wrong, 59, level))


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_a_binomial_limit_is_the_greatest_count_that_passes(level, delta):
    for count, limit in enumerate(pvalues.binomial_limit(np.arange(400), level, delta)):
        passes = np.flatnonzero(stats.binom.cdf(np.arange(count + 1), count, level) <= delta) if count else []
        assert limit == (passes[-1] if len(passes) else NEVER)


@pytest.mark.parametrize(("level", "delta", "least"), [(0.05, 0.1, 45), (0.05, 0.05, 59), (0.01, 0.05, 299)])
def test_so_many_series_without_an_error_are_needed(level, delta, least):
    for limit in (pvalues.binomial_limit, pvalues.hoeffding_bentkus_limit):
        assert (limit(np.array([least - 1, least]), level, delta) >= 0).tolist() == [False, True]
    assert pvalues.weighted_limit([least - 1], level, delta) == NEVER
    assert 0 <= pvalues.weighted_limit([least], level, delta) < 0.001


def _worst_tails(counts, level, weights, at_most):
    """The largest P(sum of weights x wrong decisions <= each limit) over a grid of class errors whose mean is the level."""
    tables = [stats.binom.pmf(np.arange(n + 1), n, np.linspace(0, 1, 21)[:, None]) for n in counts]
    sums = sum(np.meshgrid(*(np.arange(n + 1) * w for n, w in zip(counts, weights, strict=True)), indexing="ij"))
    within = [sums <= limit + 1e-12 for limit in at_most]
    worst = np.zeros(len(at_most))
    for first in itertools.product(range(21), repeat=len(counts) - 1):
        last = len(counts) * level - sum(first) / 20
        if not -1e-12 <= last <= 1 + 1e-12:
            continue
        chances = stats.binom.pmf(np.arange(counts[-1] + 1), counts[-1], np.clip(last, 0, 1))
        for table, index in zip(tables[-2::-1], first[::-1], strict=True):
            chances = np.multiply.outer(table[index], chances)
        worst = np.maximum(worst, [chances[cells].sum() for cells in within])
    return worst


@pytest.mark.parametrize(("counts", "level"), [((6, 6), 0.4), ((4, 4, 4), 0.5), ((9, 9), 0.3)])
def test_the_pooled_tail_is_the_worst_one_of_all_class_errors(counts, level):
    total = sum(counts)
    wrong = np.arange(int(total * level))
    worst, p = _worst_tails(counts, level, [1] * len(counts), wrong), pvalues.pooled_p(wrong, total, level)
    assert (worst <= p + 1e-12).all()
    exact = wrong <= total * level - 1
    np.testing.assert_allclose(
        worst[exact], p[exact]
    )  # equal class errors are the worst: nothing smaller would be valid


def test_above_its_range_the_pooled_tail_would_be_wrong():
    # Hoeffding's inequality turns round near the mean: class errors of 0 and 1 make 5 errors of 10 certain.
    assert _worst_tails((5, 5), 0.5, (1, 1), [5]) == pytest.approx(1.0)
    assert stats.binom.cdf(5, 10, 0.5) < 0.7
    assert pvalues.pooled_p(5, 10, 0.5) == 1.0


@pytest.mark.parametrize(("counts", "level"), [((3, 12), 0.3), ((8, 8), 0.25), ((2, 4, 5), 0.4), ((30, 4), 0.2)])
def test_the_bound_for_weights_holds_for_all_class_errors(counts, level):
    weights = 1 / (len(counts) * np.array(counts))
    errors = np.linspace(0, level, 15)
    worst, p = _worst_tails(counts, level, weights, errors), pvalues.weighted_p(errors, counts, level)
    assert (worst <= p + 1e-9).all()
    assert worst[0] - 1e-9 <= p[0] <= 1.1 * worst[0]  # without an error it is exact, up to the grid


@pytest.mark.parametrize("counts", [(40, 40), (300, 30), (10, 20, 400, 50)])
def test_a_limit_of_the_bound_for_weights_is_where_its_p_value_is_delta(counts):
    limit = pvalues.weighted_limit(counts, 0.2, 0.1)
    low, high = pvalues.weighted_p(np.array([limit - 1e-4, limit + 1e-4]), counts, 0.2)
    assert low <= 0.1 < high
    assert low == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("count", [20, 59, 400])
def test_a_limit_of_hoeffding_and_bentkus_is_the_greatest_mean_that_passes(count):
    limit = float(pvalues.hoeffding_bentkus_limit(count, 0.1, 0.1))
    means = np.linspace(0, 0.2, 4001)
    passes = means[pvalues.hoeffding_bentkus_p(means, count, 0.1) <= 0.1]
    assert (len(passes) == 0) == (limit == NEVER)
    if len(passes):
        assert passes[-1] == pytest.approx(limit, abs=5e-5)


def test_hoeffding_and_bentkus_bound_the_tail_of_means():
    random = np.random.default_rng(0)
    for a, b in [(0.2, 1.8), (1.0, 9.0), (5.0, 45.0)]:  # beta losses with mean 0.1
        means = random.beta(a, b, size=(20_000, 40)).mean(axis=1)
        rejected = (pvalues.hoeffding_bentkus_p(means, 40, 0.1) <= 0.1).mean()
        assert rejected <= 0.1 + 3 * np.sqrt(0.09 / 20_000)
