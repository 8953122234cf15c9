"""`predict_proba` is calibrated on held-out scores; nothing else depends on the calibration."""

import numpy as np
import pytest
from scipy import special

import sooner
from sooner import EarlyClassifier
from sooner.container import ContainerFormat, seal, unseal
from sooner.errors import InvalidArgument
from sooner.evaluate import PosteriorCalibration, fit_posterior
from waves import NAMES, waves


@pytest.fixture(scope="module")
def x():
    return waves(150, seed=2)[0]


@pytest.fixture
def fitted():
    return EarlyClassifier().fit(*waves(90, seed=1))


def plain(clf):
    """What the scores at the decision say without a calibration."""
    found = clf.scores
    return lambda x: special.softmax(
        found(x).scores[np.arange(len(x)), clf.decide(x).times - 1].astype(np.float64), axis=1
    )


def test_scores_and_decisions_do_not_depend_on_the_calibration(fitted, x):
    before, scores, curve = fitted.decide(x), fitted.scores(x).scores, fitted.speed_accuracy()
    fitted.posterior_calibration_ = PosteriorCalibration(log_slope=-1.0, doubt=0.0)
    assert fitted.decide(x) == before
    np.testing.assert_array_equal(fitted.scores(x).scores, scores)
    np.testing.assert_array_equal(fitted.speed_accuracy().thresholds, curve.thresholds)


@pytest.mark.parametrize("priors", ["equal", [0.6, 0.3, 0.1]])
def test_without_a_calibration_probabilities_are_those_of_the_scores(priors, fitted, x):
    fitted.priors = priors
    fitted.posterior_calibration_ = PosteriorCalibration()
    np.testing.assert_allclose(fitted.predict_proba(x), plain(fitted)(x), rtol=1e-5, atol=1e-7)


def test_probabilities_on_few_series_are_less_sure_than_the_scores(fitted, x):
    assert not fitted.posterior_calibration_.plain
    assert (fitted.predict_proba(x).max(axis=1) < plain(fitted)(x).max(axis=1)).all()


def test_other_priors_move_probabilities_but_not_their_calibration(fitted, x):
    calibration, equal = fitted.posterior_calibration_, fitted.predict_proba(x)
    fitted.threshold = sooner.rules.FixedTime(10)  # decides at the same time whatever the priors
    equal = fitted.predict_proba(x)
    fitted.priors = dict(zip(NAMES.tolist(), [8.0, 1.0, 1.0], strict=True))
    assert fitted.posterior_calibration_ is calibration
    moved = equal * np.array([8.0, 1.0, 1.0])
    np.testing.assert_allclose(fitted.predict_proba(x), moved / moved.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_loaded_classifier_gives_the_same_probabilities(fitted, x, tmp_path):
    fitted.save(tmp_path / "clf.sooner")
    again = sooner.load(tmp_path / "clf.sooner")
    assert again.posterior_calibration_ == fitted.posterior_calibration_
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))


def test_a_file_of_an_earlier_version_has_plain_probabilities_and_can_be_saved_again(fitted, x, tmp_path):
    path, form = tmp_path / "clf.sooner", ContainerFormat("clf", "a model of sooner", "sooner.model", 1, "")
    fitted.save(path)
    about, tensors = unseal(form, path.read_bytes())
    del about["posterior"]
    path.write_bytes(seal(form, about, tensors))
    earlier = sooner.load(path)
    assert earlier.posterior_calibration_.plain
    np.testing.assert_allclose(earlier.predict_proba(x), plain(fitted)(x), rtol=1e-5, atol=1e-7)
    earlier.save(path)
    assert sooner.load(path).posterior_calibration_.plain


def test_reliability_on_new_series_counts_each_of_them(fitted):
    found = fitted.reliability(*waves(150, seed=2))
    assert found.counts.sum() == 150
    assert found.error < 0.2


def test_reliability_needs_labels(fitted, x):
    with pytest.raises(InvalidArgument, match="`y` must be"):
        fitted.reliability(x)


def test_a_trained_model_and_one_on_prefixes_are_calibrated_too():
    x, y = waves(90, seed=1)
    for clf in (EarlyClassifier(model="prefix"), EarlyClassifier(model="recurrent", max_epochs=2, hidden=8)):
        assert clf.fit(x, y).posterior_calibration_.log_slope != 0


def test_enough_calibration_series_calibrate_the_posterior_and_change_no_decision(fitted, x):
    before, decisions = fitted.posterior_calibration_, fitted.decide(x)
    fitted.calibrate(*waves(49, seed=3))
    assert fitted.posterior_calibration_ is before
    fitted.calibrate(*waves(60, seed=4))
    assert fitted.posterior_calibration_ == fit_posterior(fitted.calibration_, slope_spread=0.0) != before
    assert fitted.decide(x) == decisions


def test_a_share_kept_for_calibration_calibrates_the_posterior():
    clf = EarlyClassifier(calibration_share=0.5).fit(*waves(120, seed=1))
    assert clf.posterior_calibration_ == fit_posterior(clf.calibration_, slope_spread=0.0)
