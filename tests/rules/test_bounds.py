"""Error targets and mean times, with exact scores: the promises of the sequential test, measured."""

import numpy as np
import pytest

from sooner.data import Gaussian
from sooner.evaluate import class_errors, hitting_times, mean_time
from sooner.rules import MSPRT, LogOdds, bounds

K, SERIES, ALPHA = 3, 20_000, 1e-3


@pytest.fixture(scope="module")
def gaussian():
    process = Gaussian.equidistant(classes=K, distance=0.5)
    observations, labels = process.sample(SERIES, 330, seed=1)
    return process, process.scores(observations), labels.numpy()


def _confusions(decisions, labels):
    """Counts [true, decided] of crossed decisions."""
    counts = np.zeros((K, K))
    np.add.at(counts, (labels[decisions.crossed], decisions.labels[decisions.crossed]), 1)
    return counts


def _upper(bound, trials):
    """What a frequency may reach by chance (about 1 in 30,000) if the probability is at its bound."""
    return bound + 4 * np.sqrt(bound / trials)


@pytest.mark.parametrize("alpha", [0.1, 0.01, ALPHA])
def test_class_errors_stay_below_their_target(gaussian, alpha):
    _, scores, labels = gaussian
    decisions = MSPRT(bounds.for_class_errors(alpha, classes=K)).decide(scores)
    assert hitting_times(decisions).forced < 0.001
    assert (class_errors(decisions, labels).errors < alpha).all()


@pytest.mark.parametrize("scale", [0.05, 0.005])
def test_pair_errors_stay_below_targets_that_differ_from_pair_to_pair(gaussian, scale):
    _, scores, labels = gaussian
    alpha = scale * np.array([[0, 1, 0.2], [0.5, 0, 1], [0.3, 0.6, 0]]) + np.eye(K)
    decisions = MSPRT(bounds.for_pair_errors(alpha)).decide(scores)
    assert hitting_times(decisions).forced < 0.001
    counts = np.bincount(labels)[:, None]
    wrong = _confusions(decisions, labels) / counts
    off = ~np.eye(K, dtype=bool)
    assert (wrong <= _upper(alpha, counts))[off].all()
    assert wrong[off].sum() < alpha[off].sum()


@pytest.mark.parametrize("beta", [0.1, 0.01])
def test_decision_errors_stay_below_their_target(gaussian, beta):
    _, scores, labels = gaussian
    weights = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [1.0, 0.3, 0.0]])
    targets = beta * np.array([1.0, 0.5, 2.0])
    decisions = MSPRT(bounds.for_decision_errors(targets, weights=weights)).decide(scores)
    assert hitting_times(decisions).forced < 0.001
    wrong = _confusions(decisions, labels) / np.bincount(labels)[:, None]
    assert ((weights * wrong).sum(axis=0) < targets).all()


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_log_odds_bound_the_average_error_and_stop_earlier(gaussian, alpha):
    _, scores, labels = gaussian
    by_odds = LogOdds.for_error(alpha).decide(scores)
    by_margin = MSPRT(bounds.for_class_errors(alpha, classes=K)).decide(scores)
    assert (by_odds.labels != labels).mean() < alpha
    assert mean_time(by_odds) < mean_time(by_margin)


def test_mean_time_lies_between_its_floor_and_first_order_theory(gaussian):
    process, scores, labels = gaussian
    thresholds = bounds.for_class_errors(ALPHA, classes=K)
    decisions = MSPRT(thresholds).decide(scores)
    times = np.array([decisions.times[labels == k].mean() for k in range(K)])
    assert (times > bounds.least_mean_times(ALPHA, process.rates())).all()
    assert (times < 1.35 * bounds.first_order_times(thresholds, process.rates())).all()


def test_first_order_times_follow_the_formula():
    rates = np.array([[0.0, 0.5, 2.0], [0.25, 0.0, 1.0], [1.0, 4.0, 0.0]])
    np.testing.assert_allclose(bounds.first_order_times(6.0, rates), [12.0, 24.0, 6.0])


def test_times_stand_up_to_thresholds_of_any_size():
    rates = [[0.0, 0.5], [0.5, 0.0]]
    np.testing.assert_allclose(bounds.first_order_times(800.0, rates), [1600.0, 1600.0])
    np.testing.assert_array_equal(bounds.first_order_times(0.0, np.zeros((2, 2))), [0.0, 0.0])
    np.testing.assert_array_equal(bounds.first_order_times(1.0, np.zeros((2, 2))), [np.inf, np.inf])


def test_floor_of_mean_times_follows_its_formula():
    alpha, rates = 0.01, np.array([[0.0, 0.5, 2.0], [0.25, 0.0, 1.0], [1.0, 4.0, 0.0]])
    divergence = (1 - alpha) * np.log((1 - alpha) / alpha) + alpha * np.log(alpha / (1 - alpha))
    np.testing.assert_allclose(bounds.least_mean_times(alpha, rates), divergence / np.array([0.5, 0.25, 1.0]))


def test_thresholds_follow_their_formulas():
    alpha = np.array([[1.0, 0.1, 0.2], [0.3, 1.0, 0.4], [0.5, 0.6, 1.0]])
    np.testing.assert_allclose(bounds.for_pair_errors(alpha), np.log(1 / alpha))
    by_class = bounds.for_class_errors([0.1, 0.2, 0.3], classes=3)
    np.testing.assert_allclose(by_class[:, [1, 2, 0]].diagonal(), np.log(2 / np.array([0.1, 0.2, 0.3])))
    weights = np.array([[9.0, 1.0, 2.0], [0.5, 9.0, 1.0], [1.0, 0.3, 9.0]])
    by_decision = bounds.for_decision_errors([0.1, 0.2, 5.0], weights=weights)
    np.testing.assert_allclose(by_decision[2], [np.log(1.5 / 0.1), np.log(1.3 / 0.2), 0.0])
    np.testing.assert_allclose(by_decision[0, 2], 0.0)  # 3.0 / 5.0: a target that no rule can miss


def test_bounds_invert_the_thresholds():
    thresholds = bounds.for_class_errors([0.1, 0.02, 0.3], classes=3)
    np.testing.assert_allclose(bounds.error_bounds(thresholds, classes=3).sum(axis=1), [0.1, 0.02, 0.3])


def test_log_odds_stop_about_thirty_percent_earlier_at_fifty_classes():
    process = Gaussian.equidistant(classes=50, distance=1.0)
    observations, labels = process.sample(1000, 80, seed=0)
    scores = process.scores(observations)
    by_odds = LogOdds.for_error(0.05).decide(scores)
    by_margin = MSPRT(bounds.for_class_errors(0.05, classes=50)).decide(scores)
    assert (by_odds.labels != labels.numpy()).mean() < 0.05
    assert mean_time(by_odds) < 0.75 * mean_time(by_margin)
