"""Limits of errors: against an independent implementation, against their formula, and by drawing."""

import numpy as np
import pytest
from scipy import stats

from sooner.errors import InvalidArgument
from sooner.evaluate import class_errors
from sooner.evaluate.intervals import balanced_limits, exact_limits


def test_exact_limits_are_those_of_the_binomial_test_and_of_class_errors():
    wrong = np.arange(8)
    low, high = exact_limits(wrong, 7)
    for w in wrong:
        interval = stats.binomtest(int(w), 7).proportion_ci(0.95, method="exact")
        np.testing.assert_allclose([low[w], high[w]], [interval.low, interval.high])
        errors = class_errors([1] * w + [0] * (7 - w), [0] * 7)
        assert (errors.low[0], errors.high[0]) == (low[w], high[w])


def test_balanced_limits_follow_their_formula():
    wrong, counts = np.array([[3, 0, 8], [0, 0, 0], [10, 4, 8]]), np.array([10, 4, 8])
    low, high = balanced_limits(wrong, counts, confidence=0.9)
    for row, bottom, top in zip(wrong, low, high, strict=True):
        shares = row / counts
        limits = [
            stats.binomtest(int(w), int(n)).proportion_ci(0.9, method="exact") for w, n in zip(row, counts, strict=True)
        ]
        below = np.linalg.norm([share - limit.low for share, limit in zip(shares, limits, strict=True)]) / 3
        above = np.linalg.norm([limit.high - share for share, limit in zip(shares, limits, strict=True)]) / 3
        assert bottom == pytest.approx(max(shares.mean() - below, 0))
        assert top == pytest.approx(min(shares.mean() + above, 1))


def test_without_errors_the_upper_limit_stays_above_zero_and_below_that_of_one_class():
    low, high = balanced_limits([0, 0, 0, 0], [50] * 4)
    assert low == 0.0
    assert exact_limits(0, 200).high < high < exact_limits(0, 50).high


def test_of_one_class_the_limits_are_the_exact_ones():
    np.testing.assert_allclose(balanced_limits([3, 0], [20, 0]), exact_limits(3, 20), rtol=1e-12)


@pytest.mark.parametrize("rates", [(0.05, 0.2, 0.1), (0.5, 0.4, 0.6), (0.01, 0.002, 0.3)])
def test_limits_hold_the_true_error_about_as_often_as_they_say(rates):
    counts, generator = np.array([40, 25, 60]), np.random.default_rng(0)
    low, high = balanced_limits(generator.binomial(counts, rates, size=(4000, 3)), counts)
    held = ((low <= np.mean(rates)) & (np.mean(rates) <= high)).mean()
    assert 0.945 < held < 0.995


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(InvalidArgument, match=r"`wrong` must be in 0..counts, and counts at least 1, got 3.0 of 2.0\."):
        exact_limits(3, 2)
    with pytest.raises(InvalidArgument, match=r"`counts` must be of a shape that fits \(2,\), got shape \(3,\)\."):
        exact_limits([1, 2], [3, 3, 3])
    with pytest.raises(InvalidArgument, match=r"`counts` must be of shape \(classes,\) = \(2,\)"):
        balanced_limits([1, 2], [0, 0])
    with pytest.raises(InvalidArgument, match=r"`confidence` must be in 0\.\.1, got 95\.0"):
        balanced_limits([1, 2], [5, 5], confidence=95)
