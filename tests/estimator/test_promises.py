"""A promise rests on series that were used for nothing else, and is gone when anything it rests on changes."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import sooner
from sooner import EarlyClassifier, Series
from sooner.container import seal, unseal
from sooner.errors import InvalidArgument, NotCertified, PromiseDropped
from sooner.estimator import file
from sooner.evaluate import RISKS, certified_threshold
from sooner.rules import MSPRT, NotBefore
from waves import waves


@pytest.fixture(scope="module")
def fitted():
    return EarlyClassifier().fit(*waves(60))


@pytest.fixture(scope="module")
def calibration():
    return waves(300, seed=7)


@pytest.fixture
def promised(fitted, calibration, tmp_path):
    fitted.save(tmp_path / "before.sooner")
    clf = sooner.load(tmp_path / "before.sooner")
    clf.choose_threshold(*calibration, max_error=0.05, confidence=0.95)
    return clf


def test_a_certified_threshold_is_the_one_of_the_walk_and_says_so(fitted, calibration, promised):
    x, y = calibration
    wanted = certified_threshold(MSPRT, fitted.judged(x, y), "balanced_error", 0.05, 0.95)
    assert promised.rule_ == wanted.rule
    promise = promised.promise_
    assert promise.data == wanted.data
    assert promise.claim == "balanced error at most 5% with 95% confidence"
    assert str(promise) == f"promised: {promise.claim}, certified on 300 series, {wanted.date}"
    found = promised.choose_threshold(x, y, max_error=0.05, confidence=0.95)
    assert str(found).endswith(f"on 300 series ({promise})")
    assert found.error < 0.05


def test_without_a_confidence_the_answer_is_an_estimate_and_no_promise(promised, calibration):
    found = promised.choose_threshold(*calibration, max_error=0.05)
    assert str(found).endswith("on 300 series (an estimate, not a promise)")
    assert promised.promise_ is None


@pytest.mark.parametrize("risk", RISKS)
def test_every_risk_can_be_promised_and_survives_a_file(calibration, promised, tmp_path, risk):
    promised.choose_threshold(*calibration, max_error=0.1, confidence=0.9, risk=risk)
    assert promised.promise_.risk == risk
    assert isinstance(promised.rule_, NotBefore if risk == "early_error" else MSPRT)
    promised.save(tmp_path / "model.sooner")
    loaded = sooner.load(tmp_path / "model.sooner")
    assert loaded.promise_ == promised.promise_
    loaded.choose_threshold(*calibration, max_error=0.1, confidence=0.9)  # of the rule inside, after a start as well
    assert isinstance(loaded.rule_, MSPRT)


def _set_threshold(clf):
    clf.threshold = clf.threshold + 0.5


def _set_rule(clf):
    clf.rule_ = MSPRT(1.0)


def _set_priors(clf):
    clf.set_params(priors={"calm": 2, "fast": 1, "slow": 1})


def _refit(clf):
    clf.fit(*waves(60, seed=3))


def _change_a_weight(clf):
    next(iter(clf.model_.state_dict().values())).view(-1)[0] += 1


def _change_the_standardizer(clf):
    clf.standardizer_.mean[0] += 1


@pytest.mark.parametrize(
    "change", [_set_threshold, _set_rule, _set_priors, _refit, _change_a_weight, _change_the_standardizer]
)
def test_a_promise_is_dropped_when_anything_it_rests_on_changes(promised, change):
    assert promised.promise_ is not None
    change(promised)
    assert promised.promise_ is None


def test_a_promise_stays_through_what_does_not_change_decisions(promised, calibration):
    promised.calibrate(*waves(40, seed=11))
    promised.decide(calibration[0])
    promised.set_params(verbose=0, hidden=3)
    assert promised.promise_ is not None


def _rewritten(path, change):
    """The file with other contents, and with a checksum that fits them."""
    about, tensors = unseal(file._kind(path), path.read_bytes())
    change(about)
    path.write_bytes(seal(file._kind(path), about, tensors))


CHANGES = {
    "another threshold": lambda about: about["rule"]["MSPRT"].update(threshold=0.1),
    "another rule in the promise": lambda about: about["promise"].update(rule={"MSPRT": {"threshold": 0.1}}),
    "other priors": lambda about: (
        about["parameters"].update(priors="training", calibration_share=0.0) or about.update(class_counts=[9, 1, 1])
    ),
    "another fingerprint": lambda about: about["promise"].update(fingerprint="00"),
    "no fingerprint": lambda about: about["promise"].pop("fingerprint"),
    "an unknown risk": lambda about: about["promise"].update(risk="everything"),
    "a field too many": lambda about: about["promise"].update(extra=1),
    "no table": lambda about: about.update(promise=[1, 2]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_promise_does_not_fit_is_read_without_it(promised, tmp_path, change):
    path = tmp_path / "model.sooner"
    promised.save(path)
    _rewritten(path, CHANGES[change])
    with pytest.warns(PromiseDropped, match="does not fit its model, rule or priors, so it was dropped"):
        loaded = sooner.load(path)
    assert loaded.promise_ is None


def test_changed_bytes_are_refused_as_a_whole(promised, tmp_path):
    path = tmp_path / "model.sooner"
    promised.save(path)
    data = path.read_bytes()
    assert b"at most" not in data
    path.write_bytes(data.replace(b'\\"level\\": 0.05', b'\\"level\\": 0.01'))
    assert path.read_bytes() != data
    with pytest.raises(InvalidArgument, match="bytes that were changed since"):
        sooner.load(path)


def test_a_calibration_share_is_seen_by_nothing_else(tmp_path):
    x, y = waves(300)
    clf = EarlyClassifier(calibration_share=0.4).fit(x, y)
    assert len(clf.calibration_) == 120
    assert clf.training_["series"] == 180
    assert clf.class_counts_.sum() == 180
    again = EarlyClassifier(calibration_share=0.4)
    # Whatever stands in the calibration share, the model and its threshold stay what they are.
    series = Series.of(x, y)
    _, kept = series.hold_out(0.4, 0)
    rows = [row for row, case in enumerate(series.observations) if (kept.observations == case).all(dim=(1, 2)).any()]
    assert len(rows) == 120
    changed = x.copy()
    changed[rows] += np.random.default_rng(1).normal(size=changed[rows].shape)
    again.fit(changed, y)
    assert again.rule_ == clf.rule_
    np.testing.assert_array_equal(again.held_out_.scores, clf.held_out_.scores)
    assert not np.array_equal(again.calibration_.scores, clf.calibration_.scores)
    found = clf.choose_threshold(max_error=0.1, confidence=0.9)
    assert found.series == 120
    clf.save(tmp_path / "model.sooner")
    loaded = sooner.load(tmp_path / "model.sooner")
    assert loaded.promise_ == clf.promise_
    assert loaded.get_params()["calibration_share"] == 0.4
    np.testing.assert_array_equal(loaded.calibration_.scores, clf.calibration_.scores)
    assert clone(loaded).calibration_share == 0.4


def test_groups_are_kept_for_calibration_as_a_whole():
    x, y = waves(240)
    groups = np.arange(240) // 3
    clf = EarlyClassifier(calibration_share=0.5).fit(x, y, groups=groups)
    assert np.bincount(clf.calibration_.groups).tolist() == [3] * 40
    clf.choose_threshold(max_error=0.25, confidence=0.9)
    assert clf.promise_.where == "120 series in 40 groups"


def test_calibration_series_are_scored_without_priors_and_replace_those_before(fitted, calibration):
    x, y = calibration
    clf = clone(fitted).set_params(priors=[4, 1, 1]).fit(*waves(60))
    assert clf.calibrate(x[:90], y[:90], groups=np.arange(90) // 2) is clf
    np.testing.assert_allclose(clf.calibration_.scores, fitted.scores(x[:90]).scores, atol=1e-6)
    assert clf.calibration_.groups.max() == 44
    clf.calibrate(Series.of(x, y))
    assert len(clf.calibration_) == 300
    clf.choose_threshold(max_error=0.1, confidence=0.9)
    kept = clf.promise_
    clf.choose_threshold(x, y, max_error=0.1, confidence=0.9)
    assert clf.promise_ == kept


def test_series_of_the_training_are_no_calibration_series(fitted, calibration, tmp_path):
    x, y = waves(60)
    for clf in (fitted, _loaded(fitted, tmp_path)):
        both = np.concatenate([calibration[0][:5], x[7:9]]), np.concatenate([calibration[1][:5], y[7:9]])
        match = (
            "`X` must be series that training has not seen, got 2 that the model was trained on, the first at index 5"
        )
        with pytest.raises(InvalidArgument, match=match):
            clf.calibrate(*both)
        with pytest.raises(InvalidArgument, match="series that training has not seen"):
            clf.choose_threshold(*both, max_error=0.5, confidence=0.5)
    assert fitted.calibration_ is None


def _loaded(clf, tmp_path):
    clf.save(tmp_path / "again.sooner")
    return sooner.load(tmp_path / "again.sooner")


def test_nothing_is_promised_from_scores_that_chose_the_model(fitted):
    with pytest.raises(InvalidArgument, match=r"must be calibration series for a promise, got None\. Pass labelled"):
        fitted.choose_threshold(max_error=0.1, confidence=0.9)
    with pytest.raises(InvalidArgument, match="got the held-out series"):
        fitted.choose_threshold(fitted.judged(), max_error=0.1, confidence=0.9)


def test_bad_input_gets_a_sentence(fitted, calibration):
    x, y = calibration
    ask = fitted.choose_threshold
    with pytest.raises(NotCertified, match="with these 20 series the least level is"):
        ask(x[:20], y[:20], max_error=0.05, confidence=0.95)
    with pytest.raises(InvalidArgument, match="`y` must be of every class, got none of 'slow'"):
        ask(x[y != "slow"], y[y != "slow"], max_error=0.05, confidence=0.95)
    for confidence in (0.0, 1.0, 95, -1):
        with pytest.raises(InvalidArgument, match="`confidence` must be between 0 and 1, ends left out"):
            ask(x, y, max_error=0.05, confidence=confidence)
    with pytest.raises(InvalidArgument, match="`max_error` must be between 0 and 1, ends left out"):
        ask(x, y, max_error=5, confidence=0.95)
    with pytest.raises(InvalidArgument, match="`max_error` must be given alone with a confidence, got another target"):
        ask(x, y, max_mean_time=5, confidence=0.95)
    with pytest.raises(InvalidArgument, match="`confidence` must be given for the risk 'error'"):
        ask(x, y, max_error=0.05, risk="error")
    with pytest.raises(InvalidArgument, match="`y` must be given together with X"):
        fitted.calibrate(x)
    with pytest.raises(InvalidArgument, match="`y` must be of 300 labels, got 299"):
        fitted.calibrate(x, y[1:])
    with pytest.raises(InvalidArgument, match="`calibration_share` must be between 0 and 1"):
        EarlyClassifier(calibration_share=1.0).fit(x, y)
    assert fitted.promise_ is None


def test_a_file_of_a_classifier_without_a_share_can_be_read_by_earlier_versions(fitted, tmp_path):
    path = tmp_path / "model.sooner"
    fitted.save(path)
    about, _ = unseal(file._kind(path), path.read_bytes())
    assert "calibration_share" not in about["parameters"]
    assert about["promise"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert json.dumps(sooner.load(path).promise_) == "null"
