"""Asymptotic optimality of the matrix test, measured on exact scores: flaws, floors of mean times, and moments."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from sooner.data import Gaussian
from sooner.errors import InvalidArgument
from sooner.evaluate import hitting_times
from sooner.rules import MSPRT, bounds

OFF = ~np.eye(3, dtype=bool)


def _normal_flaws(rates, time=2000):
    """In closed form: s_k(t) - s_l(t) is normal under k, with mean t I_kl and variance 2 t I_kl."""
    times = np.arange(1, time + 1)[:, None, None]
    return bounds.cumulative_flaws(norm.cdf(-np.sqrt(times * rates / 2)))


class Sampled:
    """Exact scores of a Gaussian process, and what a rule decides on them."""

    def __init__(self, process, series, time, seed=0):
        observations, labels = process.sample(series, time, seed=seed)
        self.rates, self.labels = process.rates(), labels.numpy()
        self.scores = process.scores(observations)

    def decide(self, threshold):
        decisions = MSPRT(threshold).decide(self.scores)
        size = len(self.rates)
        errors = np.zeros((size, size))
        np.add.at(errors, (self.labels, decisions.labels), 1)
        errors /= errors.sum(axis=1, keepdims=True)
        np.fill_diagonal(errors, 0.0)
        times = np.array([decisions.times[self.labels == k].mean() for k in range(size)])
        return decisions, errors, times

    def weighed(self, decisions, wrong, right):
        """P_wrong(decide right) without its noise: the mean over series of `right` of e^-(s_right - s_wrong) where they stop."""
        rows = np.flatnonzero((self.labels == right) & (decisions.labels == right))
        stopped = self.scores.numpy()[rows, decisions.times[rows] - 1]
        return np.exp(stopped[:, wrong] - stopped[:, right]).sum() / (self.labels == right).sum()


@pytest.fixture(scope="module")
def two():
    return Sampled(Gaussian.equidistant(2, 1.0), 20_000, 80)


@pytest.fixture(scope="module")
def three():
    """Three classes at unequal distances: 0.6, 0.8 and 1.0."""
    return Sampled(Gaussian(((0.0, 0.0), (0.6, 0.0), (0.0, 0.8))), 20_000, 150)


@pytest.fixture(scope="module")
def long():
    """Each class with one nearest rival, so that the formula's limit is approached quickly."""
    return Sampled(Gaussian(((0.0,), (1.0,), (3.0,))), 3000, 400)


class TestFlaws:
    def test_are_the_mean_of_the_exponential_overshoot_times_the_rate(self, two):
        flaws = _normal_flaws(two.rates)
        decisions, _, _ = two.decide(5.0)
        assert hitting_times(decisions).forced < 0.001
        found = two.weighed(decisions, wrong=0, right=1) * np.exp(5.0)
        assert found == pytest.approx(flaws[0, 1] / two.rates[0, 1], rel=0.02)

    def test_of_small_steps_are_siegmunds(self):
        for distance in (0.1, 0.3):
            rates = Gaussian.equidistant(2, distance).rates()
            expected = np.exp(-0.5826 * distance) * rates[0, 1]
            assert _normal_flaws(rates, 100_000)[0, 1] == pytest.approx(expected, rel=0.002)

    def test_counted_on_scores_are_those_in_closed_form(self, three):
        counted = bounds.cumulative_flaws(bounds.pairwise_errors(three.scores, three.labels))
        np.testing.assert_allclose(counted, _normal_flaws(three.rates), rtol=0.05)
        np.testing.assert_array_equal(counted, counted.T)
        np.testing.assert_array_equal(counted.diagonal(), 1.0)

    def test_follow_their_definition_with_ties(self):
        """One flip of two coins: heads with 0.75 or 0.25. After two flips a tie has the same probability under both."""
        first = np.array([[0.0, 0.25], [0.25, 0.0]])
        second = np.array([[0.0, 0.0625 + 0.375 / 2], [0.0625 + 0.375 / 2, 0.0]])
        printed = (0.25 + 0.25) / 1 + (0.0625 + (0.0625 + 0.375)) / 2
        assert bounds.cumulative_flaws([first, second])[0, 1] == pytest.approx(np.exp(-printed))

    def test_ties_count_one_half_and_series_that_ended_count_no_more(self):
        scores = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 9.0]], [[1.0, 1.0], [1.0, 2.0]]]
        found = bounds.pairwise_errors(scores, [0, 0, 1], lengths=[2, 1, 2])
        np.testing.assert_array_equal(found, [[[0, 0.5], [0.5, 0]], [[0, 0.5], [0, 0]]])


class TestThresholdsOfACost:
    WEIGHTS = np.array([[0.0, 1.0, 0.5], [2.0, 0.0, 1.0], [0.3, 1.0, 0.0]])

    def test_follow_their_formula(self):
        flaws = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.3], [0.4, 0.3, 1.0]])
        found = bounds.for_cost(0.01, flaws, weights=self.WEIGHTS)
        for wrong, right in itertools.permutations(range(3), 2):
            expected = np.log(self.WEIGHTS[wrong, right] * flaws[right, wrong] / 0.01)
            assert found[wrong, right] == pytest.approx(expected)
        assert (bounds.for_cost(5.0, flaws) == 0).all()

    @pytest.mark.parametrize("weight", [1.0, 3.0])
    def test_make_an_error_cost_what_the_theory_says(self, two, weight):
        cost, weights = 0.002, np.array([[0.0, weight], [1.0, 0.0]])
        decisions, _, _ = two.decide(bounds.for_cost(cost, _normal_flaws(two.rates), weights=weights))
        for wrong, right in ((0, 1), (1, 0)):
            found = weights[wrong, right] * two.weighed(decisions, wrong, right)
            assert found == pytest.approx(cost / two.rates[right, wrong], rel=0.03)

    @pytest.mark.parametrize("beta", [0.1, 0.02])
    def test_keep_the_targets_of_decision_errors(self, three, beta):
        flaws, targets = _normal_flaws(three.rates), beta * np.array([1.0, 0.5, 2.0])
        cost = bounds.cost_for_decision_errors(targets, flaws)
        thresholds = bounds.for_cost(cost, flaws, weights=self.WEIGHTS)
        promised = (self.WEIGHTS * bounds.error_bounds(thresholds, classes=3)).sum(axis=0)
        assert (promised <= targets * (1 + 1e-12)).all()
        assert (promised / targets).max() == pytest.approx(1.0)
        decisions, errors, _ = three.decide(thresholds)
        assert hitting_times(decisions).forced < 0.001
        assert ((self.WEIGHTS * errors).sum(axis=0) < targets).all()


class TestFloorOfMeanTimes:
    def test_lies_below_the_measured_time_of_two_classes_and_not_far(self, two):
        decisions, _, times = two.decide(3.0)
        errors = [[0.0, two.weighed(decisions, 0, 1)], [two.weighed(decisions, 1, 0), 0.0]]
        floor = bounds.least_mean_times_of(errors, two.rates)
        assert (floor < 0.98 * times).all()
        assert (floor > 0.93 * times).all()  # the overshoot is what is between them
        np.testing.assert_allclose(bounds.least_mean_times(errors + np.eye(2), two.rates), floor)

    @pytest.mark.parametrize("threshold", [1.0, 3.0])
    def test_of_the_whole_matrix_lies_below_the_measured_time_and_above_that_of_bounds(self, three, threshold):
        _, errors, times = three.decide(threshold)
        exactly = bounds.least_mean_times_of(errors, three.rates)
        at_most = bounds.least_mean_times(errors + np.eye(3), three.rates)
        assert (exactly < times).all()
        assert (exactly > 0.6 * times).all()
        assert (at_most <= exactly * (1 + 1e-9)).all()
        assert (at_most > 0.6 * times).all()

    def test_holds_for_decisions_that_the_end_forced(self, three):
        decisions = MSPRT(9.0).decide(three.scores[:, :10])
        errors = np.zeros((3, 3))
        np.add.at(errors, (three.labels, decisions.labels), 1)
        errors = np.where(OFF, errors / errors.sum(axis=1, keepdims=True), 0)
        assert hitting_times(decisions).forced > 0.5
        assert (bounds.least_mean_times_of(errors, three.rates) < 10).all()

    def test_follows_its_formula(self):
        errors = np.array([[0.0, 0.1, 0.05], [0.02, 0.0, 0.03], [0.01, 0.2, 0.0]])
        rates = np.array([[0.0, 0.5, 2.0], [0.25, 0.0, 1.0], [1.0, 4.0, 0.0]])
        decided = np.array([[0.85, 0.1, 0.05], [0.02, 0.95, 0.03], [0.01, 0.2, 0.79]])
        for k, found in enumerate(bounds.least_mean_times_of(errors, rates)):
            rivals = [rival for rival in range(3) if rival != k]
            sums = [sum(decided[k, m] * np.log(decided[k, m] / decided[r, m]) for m in range(3)) for r in rivals]
            assert found == pytest.approx(max(s / rates[k, r] for s, r in zip(sums, rivals, strict=True)))

    def test_is_infinite_where_one_class_is_taken_for_a_third_and_the_other_never_is(self):
        errors = [[0.0, 0.1, 0.1], [0.1, 0.0, 0.0], [0.1, 0.1, 0.0]]
        found = bounds.least_mean_times_of(errors, np.ones((3, 3)))
        assert np.isinf(found).tolist() == [True, False, True]

    def test_of_exact_errors_is_none_for_smaller_ones(self):
        """The paper's lemma says "at most": a third class far away shows that it takes "exactly"."""
        sampled = Sampled(Gaussian(((0.0, 0.0), (0.3, 0.0), (0.0, 20.0))), 4000, 300)
        _, errors, times = sampled.decide(2.0)
        allowed = np.array([[1.0, 0.15, 0.15], [0.15, 1.0, 1e-9], [1e-9, 1e-9, 1.0]])
        assert (errors <= allowed).all()
        assert bounds.least_mean_times_of(allowed, sampled.rates)[0] > times[0]
        assert (bounds.least_mean_times(allowed, sampled.rates) < times).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_of_bounds_is_the_least_of_all_within_them(self, seed):
        generator = np.random.default_rng(seed)
        alpha = np.exp(generator.uniform(-6, -1.5, (4, 4)))
        np.fill_diagonal(alpha, 1.0)
        rates = np.where(np.eye(4), 0.0, 1e6)
        rates[0, 1] = 1.0  # class 0 against class 1 alone
        p, q = alpha[0] / 4, alpha[1] / 4

        def divergence(free):
            p[1:], q[[0, 2, 3]] = free[:3], free[3:]
            p[0], q[1] = 1 - p[1:].sum(), 1 - q[[0, 2, 3]].sum()
            return float((p * np.log(p / q)).sum())

        limits = [*alpha[0, 1:], *alpha[1, [0, 2, 3]]]
        found = minimize(
            divergence, np.array(limits) / 2, bounds=[(1e-9, limit) for limit in limits], options={"ftol": 1e-14}
        )
        assert bounds.least_mean_times(alpha, rates)[0] == pytest.approx(found.fun, rel=1e-3)

    def test_of_bounds_that_allow_guessing_is_zero(self):
        found = bounds.least_mean_times(np.full((3, 3), 0.34), np.ones((3, 3)))
        np.testing.assert_array_equal(found, 0.0)
        assert (bounds.least_mean_times(np.full((3, 3), 0.33), np.ones((3, 3))) > 0).all()


class TestMoments:
    @pytest.mark.parametrize(("moment", "gap"), [(1, 0.02), (2, 0.06), (3.5, 0.15)])
    def test_approach_the_formula_as_thresholds_grow(self, long, moment, gap):
        gaps = []
        for threshold in (5.0, 25.0, 125.0):
            decisions, _, _ = long.decide(threshold)
            powers = decisions.times.astype(float) ** moment
            found = np.array([powers[long.labels == k].mean() for k in range(3)])
            gaps.append(abs(found / bounds.first_order_moments(threshold, long.rates, moment=moment) - 1))
        assert (gaps[0] > gaps[1]).all()
        assert (gaps[1] > gaps[2]).all()
        assert (gaps[2] < gap).all()

    def test_are_powers_of_the_first_order_times(self):
        rates = [[0.0, 0.5], [2.0, 0.0]]
        np.testing.assert_allclose(
            bounds.first_order_moments(6.0, rates, moment=1), bounds.first_order_times(6.0, rates)
        )
        np.testing.assert_allclose(bounds.first_order_moments(6.0, rates, moment=3), [12.0**3, 3.0**3])


HALF = [[1.0, 0.5], [0.5, 1.0]]
MESSAGES = {
    "errors of another shape": (
        lambda: bounds.cumulative_flaws(np.zeros((2, 2))),
        "`errors` must be of shape (time, K, K), got shape (2, 2). Entry [t-1, k, l] is P_k(s_k(t) <= s_l(t)).",
    ),
    "errors that are none": (
        lambda: bounds.cumulative_flaws(np.full((1, 2, 2), 1.5)),
        "`errors` must be in 0..1, got 1.5. Entry [t-1, k, l] is P_k(s_k(t) <= s_l(t)).",
    ),
    "no cost": (
        lambda: bounds.for_cost(0.0, HALF),
        "`cost` must be above 0, got 0.0. It is the price of an observation.",
    ),
    "flaws above 1": (
        lambda: bounds.for_cost(0.1, [[1.0, 2.0], [2.0, 1.0]]),
        "`flaws` must be above 0 and at most 1, got 2.0. It bounds a probability of error.",
    ),
    "flaws that are no matrix": (
        lambda: bounds.cost_for_decision_errors(0.1, [0.5, 0.5]),
        "`flaws` must be a K x K matrix, got shape (2,). Take the matrix that `cumulative_flaws` gives.",
    ),
    "weights of another shape": (
        lambda: bounds.for_cost(0.1, HALF, weights=np.ones((3, 3))),
        "`weights` must be of shape (2, 2), got shape (3, 3). Entry [m, k] weighs the error of deciding k although m is true.",
    ),
    "rows above 1": (
        lambda: bounds.least_mean_times_of([[0.0, 1.2], [0.1, 0.0]], HALF),
        "`errors` must be of rows that sum to at most 1, got 1.2. "
        "Entry [l, k] is P_l(decide k); a row holds all decisions under l.",
    ),
    "errors of other classes": (
        lambda: bounds.least_mean_times_of(np.zeros((3, 3)), HALF),
        "`errors` must be of shape (2, 2), got shape (3, 3). Entry [l, k] is P_l(decide k); a row holds all decisions under l.",
    ),
    "bounds of other classes": (
        lambda: bounds.least_mean_times(np.full((3, 3), 0.1), HALF),
        "`alpha` must be of shape (2, 2), as `rates`, got shape (3, 3). Entry [l, k] bounds P_l(decide k).",
    ),
    "a moment of nothing": (
        lambda: bounds.first_order_moments(1.0, HALF, moment=0),
        "`moment` must be above 0, got 0.0. It is the m of E[tau^m].",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, sentence = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == sentence
