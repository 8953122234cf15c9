import numpy as np
import pytest
from scipy import special
from scipy.optimize import check_grad

from sooner.data import Gaussian
from sooner.evaluate import PosteriorCalibration, fit_posterior, log_loss, reliability
from sooner.evaluate.posterior import _Shape
from sooner.rules import MSPRT, FixedTime
from sooner.scores import Scored

GAUSSIAN = Gaussian.equidistant(classes=3, distance=1.0)


def drawn(seed, series=2000, time=12, *, times=1.0, wrong=0.0):
    """Exact scores times a factor, of series of which a share has a random label."""
    x, y = GAUSSIAN.sample(series, time, seed=seed)
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(series) < wrong, rng.integers(0, 3, series), y.numpy())
    return Scored(times * GAUSSIAN.scores(x).numpy(), np.full(series, time), labels)


def at_the_decision(scored, threshold=2.0):
    times = MSPRT(threshold).decide(*scored).times
    return scored.scores[np.arange(len(scored)), times - 1], times


def test_without_a_calibration_the_posterior_is_the_softmax_of_scores_and_log_prior():
    scores, log_prior = np.random.default_rng(0).normal(size=(20, 4)), np.log([0.1, 0.2, 0.3, 0.4])
    found = PosteriorCalibration().posterior(scores, np.arange(1, 21), log_prior)
    np.testing.assert_allclose(found, special.softmax(scores + log_prior, axis=1))
    assert PosteriorCalibration().plain


@pytest.mark.parametrize(
    "calibration", [PosteriorCalibration(-0.5, -2.0, -0.7, 8), PosteriorCalibration(0.7, 0.0, 0.3, 8)]
)
def test_a_calibrated_posterior_adds_up_to_one_and_keeps_the_order_of_the_classes(calibration):
    scores = np.random.default_rng(1).normal(size=(50, 5), scale=3)
    found = calibration.posterior(scores, np.arange(50) % 12 + 1)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(np.argsort(found), np.argsort(scores))
    assert not calibration.plain


def test_without_evidence_the_posterior_is_the_prior_whatever_the_calibration():
    prior = np.array([0.5, 0.3, 0.2])
    found = PosteriorCalibration(0.4, -1.0, 0.5, 9).posterior(np.zeros((4, 3)), np.arange(1, 5), np.log(prior))
    np.testing.assert_allclose(found, np.tile(prior, (4, 1)))


def test_a_constant_that_all_classes_share_changes_nothing():
    scores, times = np.random.default_rng(2).normal(size=(9, 3)), np.arange(1, 10)
    calibration = PosteriorCalibration(0.3, -2.0, 0.4, 9)
    np.testing.assert_allclose(calibration.posterior(scores + 7.0, times), calibration.posterior(scores, times))


def test_beyond_the_longest_series_of_the_fit_the_doubt_stays_what_it_was():
    scores, calibration = np.array([[2.0, 0.0], [2.0, 0.0]]), PosteriorCalibration(0.0, -1.0, 0.9, 6)
    late, last = calibration.posterior(scores, np.array([600, 6]))
    np.testing.assert_array_equal(late, last)


def test_the_gradient_of_the_log_loss_is_that_of_finite_differences():
    rng = np.random.default_rng(3)
    shape = _Shape(rng.normal(size=(30, 4)), np.log(rng.uniform(0.1, 1, 30)))
    given = rng.integers(0, 4, 30), rng.uniform(0.5, 2, 30), np.array([0.4, 0.3, 0.2, 0.1])
    for start in rng.normal(size=(5, 3)):
        error = check_grad(lambda p: shape.log_loss(p, *given)[0], lambda p: shape.log_loss(p, *given)[1], start)
        assert error < 1e-4


@pytest.mark.parametrize("times", [0.5, 3.0])
def test_scores_that_are_wrongly_scaled_get_their_slope_back(times):
    found = fit_posterior(drawn(0, times=times))
    assert np.exp(found.log_slope) == pytest.approx(1 / times, rel=0.1)


def test_a_slope_without_spread_stays_one():
    assert fit_posterior(drawn(0, times=3.0), slope_spread=0.0).log_slope == 0


def test_a_share_of_random_labels_becomes_doubt():
    found = fit_posterior(drawn(0, 6000, wrong=0.2), slope_spread=0.0)
    # At t = T all three labels are equally likely for the share that is wrong.
    assert special.expit(found.doubt) == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("change", [{"times": 2.0}, {"times": 0.5}, {"wrong": 0.2}])
def test_new_decisions_have_less_log_loss_and_calibration_error_than_before(change):
    calibration, new = fit_posterior(drawn(0, **change)), drawn(1, **change)
    scores, times = at_the_decision(new)
    before, after = (each.posterior(scores, times) for each in (PosteriorCalibration(), calibration))
    assert log_loss(after, new.labels) < log_loss(before, new.labels)
    assert reliability(after, new.labels).error < 0.5 * reliability(before, new.labels).error


def test_the_fit_uses_the_rules_it_is_given():
    found = drawn(0, 300, wrong=0.1)
    assert fit_posterior(found, FixedTime) != fit_posterior(found, MSPRT)


def test_what_lies_beyond_the_end_of_a_series_has_no_effect():
    found = drawn(0, 300)
    lengths = np.random.default_rng(0).integers(1, 13, 300)
    lengths[0] = 12
    other = np.where(np.arange(12)[:, None] < lengths[:, None, None], found.scores, 99.0 * np.arange(3))
    one, two = (fit_posterior(Scored(scores, lengths, found.labels)) for scores in (found.scores, other))
    assert one == two


def test_series_of_one_class_leave_the_posterior_as_it_is():
    assert fit_posterior(Scored(np.zeros((5, 2, 3)), np.full(5, 2), np.ones(5, dtype=int))).plain
