"""`sooner` inside other people's tools: aeon's early classifiers, and ml_edm's triggers."""

import inspect
import pickle
import subprocess
import sys
from abc import ABCMeta
from types import SimpleNamespace

import numpy as np
import pytest
from aeon.base import BaseAeonEstimator
from aeon.classification.early_classification import TEASER
from aeon.classification.early_classification.base import BaseEarlyClassifier
from aeon.testing.estimator_checking import check_estimator
from sklearn.base import clone

import sooner.estimator.adapters as adapters
from sooner import EarlyClassifier
from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.adapters import AeonEarlyClassifier, Trigger
from sooner.evaluate import average_cost, harmonic_mean, sat_curve, threshold_of_least_average_cost
from sooner.rules import MSPRT, Patience, ProbabilityThreshold
from waves import NAMES, unequal, waves

STATE = "check_non_state_changing_method"


@pytest.fixture(scope="module")
def fitted():
    return AeonEarlyClassifier(EarlyClassifier(random_state=3)).fit(*waves(90, seed=1))


@pytest.fixture(scope="module")
def unseen():
    return waves(60, seed=2)


def fed_in_batches(clf, x, points, method):
    """What aeon's own users do: send longer prefixes of the cases that are left."""
    clf.reset_state_info()
    left, answers, states = np.arange(len(x)), {}, np.zeros((len(x), 4), dtype=int)
    for point in points:
        given, safe = getattr(clf, method)(x[:, :, :point])
        states[left[safe]] = clf.get_state_info()[safe]
        kept = left
        x, left, final = clf.split_indices_and_filter(x, left, safe)
        answers |= dict(zip(final.tolist(), given[safe], strict=True))
        assert sorted((*left, *final)) == sorted(kept)
        if not len(x):
            break
    return [answers[case] for case in range(len(states))], states


@pytest.mark.parametrize("classifier", [None, EarlyClassifier(missing="mask")], ids=["plain", "mask"])
@pytest.mark.filterwarnings("ignore")
def test_aeons_own_checks_pass(classifier, monkeypatch):
    """But one, which aeon leaves out for its own early classifiers too: to remember what was said is their contract."""
    # aeon looks at the arguments of the constructor, which the shape checks of these tests wrap.
    monkeypatch.setattr(AeonEarlyClassifier, "__init__", inspect.unwrap(AeonEarlyClassifier.__init__))
    checks = check_estimator(AeonEarlyClassifier(classifier))
    assert len(checks) > 20
    assert any("check_early_classifier_output" in name for name in checks)
    failed = {name.split("(")[0]: said for name, said in checks.items() if said != "PASSED"}
    assert list(failed) == [STATE]
    assert "['state_info']" in failed[STATE]


@pytest.mark.filterwarnings("ignore")
def test_teaser_itself_fails_the_same_check():
    from aeon.testing import testing_config

    assert STATE in testing_config.EXCLUDED_TESTS["TEASER"]


def test_it_has_every_public_method_of_teaser(fitted):
    assert isinstance(fitted, BaseEarlyClassifier)
    assert {name for name in dir(TEASER) if not name.startswith("_")} <= set(dir(fitted))


def test_full_series_are_decided_as_the_classifier_decides_them(fitted, unseen):
    labels, safe = fitted.predict(unseen[0])
    decisions = fitted.classifier_.decide(unseen[0])
    assert safe.all()
    np.testing.assert_array_equal(labels, decisions.labels)
    state = fitted.get_state_info()
    np.testing.assert_array_equal(state[:, 0], decisions.times - 1)
    np.testing.assert_array_equal(state[:, 1], 1)
    np.testing.assert_array_equal(NAMES[state[:, 2]], decisions.labels)
    np.testing.assert_array_equal(state[:, 3], decisions.times)
    assert state.dtype == np.int64


def test_probabilities_are_those_of_the_classifier(fitted, unseen):
    probabilities, safe = fitted.predict_proba(unseen[0])
    assert safe.all()
    np.testing.assert_allclose(probabilities, fitted.classifier_.predict_proba(unseen[0]))


@pytest.mark.parametrize("points", [range(1, 31), (3, 10, 11, 29, 30), (30,)], ids=["each", "some", "at once"])
def test_batch_by_batch_gives_what_the_full_series_give(fitted, unseen, points):
    x = unseen[0]
    labels, states = fed_in_batches(fitted, x, points, "update_predict")
    probabilities, _ = fed_in_batches(fitted, x, points, "update_predict_proba")
    np.testing.assert_array_equal(labels, fitted.predict(x)[0])
    np.testing.assert_array_equal(states, fitted.get_state_info())
    np.testing.assert_allclose(probabilities, fitted.predict_proba(x)[0], atol=1e-6)


def test_what_the_rule_has_not_decided_is_not_safe(fitted, unseen):
    times = fitted.classifier_.decide(unseen[0]).times
    labels, safe = fitted.predict(unseen[0][:, :, :6])
    np.testing.assert_array_equal(safe, times <= 6)
    assert 0 < safe.sum() < len(safe)
    assert set(labels[~safe]) == {"-1"}
    state = fitted.get_state_info()
    assert (state[~safe][:, [0, 1, 3]] == [5, 0, 6]).all()
    assert (fitted.predict_proba(unseen[0][:, :, :6])[0][~safe] == -1).all()


def test_labels_of_numbers_stay_numbers():
    x, y = waves(60)
    clf = AeonEarlyClassifier(EarlyClassifier(rule="fixed_time")).fit(x, np.unique(y, return_inverse=True)[1] + 7)
    clf.classifier_.threshold = 5
    assert clf.predict(x[:, :, :4])[0].tolist() == [-1] * 60
    assert set(clf.predict(x[:, :, :5])[0].tolist()) <= {7, 8, 9}


def test_at_the_length_of_training_all_is_safe_and_what_lies_beyond_is_not_read(unseen):
    clf = AeonEarlyClassifier().fit(*waves(90, time=20, seed=1))
    clf.classifier_.threshold = np.inf
    assert not clf.predict(unseen[0][:, :, :19])[1].any()
    labels, safe = clf.predict(unseen[0][:, :, :20])
    assert safe.all()
    np.testing.assert_array_equal(labels, clf.predict(unseen[0])[0])
    assert set(clf.get_state_info()[:, 3]) == {20}


def test_scores_are_in_aeons_order(fitted, unseen):
    mean, accuracy, early = fitted.score(*unseen)
    decisions = fitted.classifier_.decide(unseen[0])
    assert accuracy == (decisions.labels == unseen[1]).mean()
    assert early == pytest.approx((decisions.times / 30).mean())
    assert mean == pytest.approx(harmonic_mean(decisions, unseen[1], lengths=30))
    assert fitted.compute_harmonic_mean(fitted.get_state_info(), unseen[1]) == (mean, accuracy, early)


def test_rows_that_are_not_those_left_are_refused(fitted, unseen):
    x = unseen[0]
    fitted.reset_state_info()
    _, safe = fitted.update_predict(x[:, :, :6])
    with pytest.raises(InvalidArgument) as refused:
        fitted.update_predict(x[:, :, :7])
    assert str(refused.value) == (
        f"`X` must be the {(~safe).sum()} cases that are not decided yet, got 60 cases. Drop the decided cases, keep the "
        "order of the others, and call reset_state_info() before other series."
    )
    with pytest.raises(InvalidArgument, match="longer than the 6 time points of the last call, got 6 time points"):
        fitted.update_predict_proba(x[~safe][:, :, :6])
    fitted.reset_state_info()
    assert fitted.get_state_info() is None
    assert fitted.update_predict(x)[1].all()


def test_incomplete_series_have_no_score(fitted, unseen):
    with pytest.raises(InvalidArgument, match="`X` must be of the full 30 time points, got 20"):
        fitted.score(unseen[0][:, :, :20], unseen[1])


def test_unequal_lengths_are_refused_as_aeon_does():
    x, y = waves(60)
    with pytest.raises(ValueError, match="unequal length series"):
        AeonEarlyClassifier().fit(unequal(x), y)


def test_missing_values_are_for_classifiers_that_mask_them():
    x, y = waves(60)
    x[3, 0, 4] = np.nan
    with pytest.raises(ValueError, match="missing values"):
        AeonEarlyClassifier().fit(x, y)
    assert AeonEarlyClassifier(EarlyClassifier(missing="mask")).fit(x, y).predict(x)[1].all()


def test_the_seed_and_the_settings_reach_the_classifier():
    x, y = waves(60)
    clf = AeonEarlyClassifier(EarlyClassifier(rule="log_odds"), random_state=5).fit(x, y)
    assert clf.classifier_.random_state == 5
    assert clf.get_params()["classifier__rule"] == "log_odds"
    assert not hasattr(clf.classifier, "classes_")
    again = clone(clf).set_params(classifier__rule="msprt").fit(x, y)
    assert isinstance(again.classifier_.rule_, MSPRT)


def test_a_pickled_one_goes_on_where_it_was(fitted, unseen):
    x = unseen[0]
    fitted.reset_state_info()
    _, safe = fitted.update_predict(x[:, :, :6])
    copy = pickle.loads(pickle.dumps(fitted))
    here, there = fitted.update_predict(x[~safe]), copy.update_predict(x[~safe])
    np.testing.assert_array_equal(here[0], there[0])


def test_importing_the_rest_does_not_import_aeon():
    program = "import sys, sooner; from sooner.estimator.adapters import Trigger; print('aeon' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_without_aeon_a_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "aeon"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "sooner.estimator.adapters.aeon")
    with pytest.raises(InvalidArgument) as refused:
        adapters.__getattr__("AeonEarlyClassifier")
    assert str(refused.value) == (
        "`AeonEarlyClassifier` must be imported beside aeon, got no package `aeon`. "
        'Install it: pip install "sooner[archives]".'
    )
    with pytest.raises(AttributeError, match="has no attribute 'Aeon'"):
        adapters.__getattr__("Aeon")


def made_up(series=80, time=6, classes=3, seed=0):
    """Probabilities that grow surer of the truth, and labels; classes are not equally frequent."""
    random = np.random.default_rng(seed)
    labels = np.minimum(random.integers(0, classes + 2, series), classes - 1)
    steps = random.normal(size=(series, time, classes)) + 0.7 * np.eye(classes)[labels][:, None]
    logits = steps.cumsum(axis=1)
    shares = np.exp(logits - logits.max(axis=2, keepdims=True))
    return shares / shares.sum(axis=2, keepdims=True), labels


def cost_of(trigger, probas, labels, costs):
    """What ml_edm's `score` counts: ask at each timestamp, name the most probable class, force the rest at the end."""
    paid = np.full(len(labels), np.nan)
    for t in range(probas.shape[1]):
        seen = probas[:, : t + 1] if trigger.require_past_probas else probas[:, t]
        stops = np.isnan(paid) & (trigger.predict(None, seen, costs) | (t == probas.shape[1] - 1))
        paid[stops] = costs[t][probas[stops, t].argmax(axis=1), labels[stops]]
    return paid.mean()


def linear_costs(time=6, classes=3, alpha=0.5):
    return np.array([alpha * (1 - np.eye(classes)) + (1 - alpha) * t / time for t in range(1, time + 1)])


@pytest.mark.parametrize("rule", ["msprt", "log_odds", "probability_threshold", "fixed_time"])
@pytest.mark.parametrize("priors", ["equal", "training"])
def test_no_other_threshold_costs_less(rule, priors):
    probas, labels = made_up()
    costs = (
        np.random.default_rng(1).uniform(size=(6, 3, 3)) * (1 - 0.9 * np.eye(3)) + 0.05 * np.arange(6)[:, None, None]
    )
    trigger = Trigger(rule=rule, priors=priors).fit(None, probas, labels, costs)
    least = cost_of(trigger, probas, labels, costs)
    family = type(trigger.rule_)
    others = range(1, 7) if rule == "fixed_time" else np.linspace(0.34, 1.0 if "prob" in rule else 8.0, 15)
    for other in others:
        rival = Trigger(rule=family.at(other), priors=priors).fit(None, probas, labels, costs)
        assert least <= cost_of(rival, probas, labels, costs) + 1e-9


def test_with_average_costs_the_threshold_is_that_of_the_exact_curve():
    probas, labels = made_up()
    trigger = Trigger(timestamps=[5, 10, 15, 20, 25, 30], priors="training").fit(None, probas, labels)
    curve = sat_curve(np.log(probas), labels)
    assert trigger.rule_ == MSPRT(threshold_of_least_average_cost(curve))
    decisions = trigger.rule_.decide(np.log(probas))
    expected = average_cost(decisions, labels, lengths=6)
    assert cost_of(trigger, probas, labels, linear_costs()) == pytest.approx(expected)


def test_ml_edms_cost_matrices_are_read():
    probas, labels = made_up()
    theirs = SimpleNamespace(values=linear_costs(alpha=0.9), timestamps=np.arange(1, 7))
    patient = Trigger().fit(None, probas, labels, theirs)
    hasty = Trigger().fit(None, probas, labels, linear_costs(alpha=0.1))
    assert patient.rule_.threshold > hasty.rule_.threshold
    assert patient.predict(None, probas[:, 0], theirs).dtype == bool
    with pytest.raises(InvalidArgument) as refused:
        patient.predict(None, probas[:, 0], linear_costs(alpha=0.1))
    assert (
        str(refused.value) == "`cost_matrices` must be those of `fit`, got others. Fit again: the threshold is theirs."
    )


def test_scores_are_log_posteriors_without_the_prior():
    probas = np.array([[[0.8, 0.2]], [[0.9, 0.1]], [[0.7, 0.3]], [[0.75, 0.25]]])
    trigger = Trigger(rule=MSPRT(np.log(4) - 1e-9)).fit(None, probas, [0, 0, 0, 1])
    # The prior is 3 to 1: 0.75 is no evidence at all, and 3/7 is evidence for the rare class, 4 to 1.
    asked = [[0.75, 0.25], [3 / 7, 4 / 7], [12 / 13, 1 / 13], [0.9, 0.1]]
    assert trigger.predict(None, asked).tolist() == [False, True, True, False]
    kept = Trigger(rule=MSPRT(np.log(4)), priors="training").fit(None, probas, [0, 0, 0, 1])
    assert kept.predict(None, asked).tolist() == [False, False, True, True]


def test_the_past_and_the_newest_timestamp_agree_where_nothing_is_remembered():
    probas, labels = made_up()
    trigger = Trigger().fit(None, probas, labels)
    assert not trigger.require_past_probas
    fired = [trigger.predict(None, probas[:, t]) for t in range(6)]
    assert 0 < fired[0].sum() < 80
    for t in range(6):
        np.testing.assert_array_equal(trigger.predict(None, probas[:, : t + 1]), np.any(fired[: t + 1], axis=0))


def test_series_of_unequal_lengths_come_as_a_list():
    probas, labels = made_up()
    trigger = Trigger(rule=Patience(2)).fit(None, probas, labels)
    assert trigger.rule_ == Patience(2)
    lengths = 1 + np.arange(80) % 6
    together = trigger.predict(None, [rows[:t] for rows, t in zip(probas, lengths, strict=True)])
    alone = [trigger.predict(None, rows[None, :t]).item() for rows, t in zip(probas, lengths, strict=True)]
    assert together.tolist() == alone
    assert not together[lengths == 1].any()


def test_rules_that_remember_need_the_past():
    probas, labels = made_up()
    trigger = Trigger(rule="fixed_time").fit(None, probas, labels, linear_costs(alpha=0.9))
    assert trigger.require_past_probas
    time = trigger.rule_.time
    assert trigger.predict(None, probas[:, :time]).all()
    assert time > 1
    assert not trigger.predict(None, probas[:, : time - 1]).any()
    with pytest.raises(InvalidArgument) as refused:
        trigger.predict(None, probas[:, 0])
    assert str(refused.value) == (
        "`X_probas` must be of shape (series, timestamps, classes), got shape (80, 3). "
        "FixedTime remembers: give the probabilities of all timestamps so far."
    )


def test_probabilities_of_zero_and_classes_without_a_series_are_no_trouble():
    probas = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    trigger = Trigger().fit(None, probas, [0, 1])
    assert np.isfinite(trigger.rule_.threshold)
    assert trigger.predict(None, [[0.0, 0.0, 1.0]]).tolist() == [True]


def test_ml_edms_base_class_can_take_it_in():
    """ml_edm's `EarlyClassifier` asks `isinstance(trigger, BaseTriggerModel)`, and reads three attributes."""
    base = ABCMeta("BaseTriggerModel", (), {})
    base.register(Trigger)
    trigger = Trigger([1, 2])
    assert isinstance(trigger, base)
    assert (trigger.require_classifiers, trigger.alter_classifiers, trigger.require_past_probas) == (True, False, False)
    assert clone(trigger).get_params() == {"timestamps": [1, 2], "rule": "msprt", "priors": "equal"}
    assert not issubclass(Trigger, BaseAeonEstimator)


def test_what_cannot_be_used_is_refused():
    probas, labels = made_up()
    bad = probas.copy()
    bad[2, 3] = [0.5, 0.5, 0.5]
    with pytest.raises(InvalidArgument, match=r"add up to 1, got \[0.5, 0.5, 0.5\] in row 2 at timestamp 3. Give what"):
        Trigger().fit(None, bad, labels)
    bad[2, 3, 0] = np.nan
    with pytest.raises(InvalidArgument, match=r"add up to 1, got \[nan, 0.5, 0.5\] in row 2 at timestamp 3"):
        Trigger().fit(None, bad, labels)
    for empty in ([], probas[:, :0], probas[:, :, :1], [probas[0], probas[1][:3, :2]], [probas[0], probas[1][:0]]):
        with pytest.raises(InvalidArgument, match=r"`X_probas` must be of shape \(series, timestamps, classes\), got"):
            Trigger().fit(None, empty, labels[: len(empty)])
    with pytest.raises(InvalidArgument, match=r"`cost_matrices` must be of shape \(6, 3, 3\), got shape \(5, 3, 3\)"):
        Trigger().fit(None, probas, labels, linear_costs()[:5])
    with pytest.raises(
        InvalidArgument, match=r"`timestamps` must be 6 numbers, ascending from above 0, got \[3.0, 2.0\]"
    ):
        Trigger([3, 2]).fit(None, probas, labels)
    with pytest.raises(InvalidArgument, match="give a rule that is ready, for example Patience"):
        Trigger(rule="patience").fit(None, probas, labels)
    with pytest.raises(UnknownName, match="priors"):
        Trigger(priors="uniform").fit(None, probas, labels)
    with pytest.raises(InvalidArgument, match="`X_probas` must be of 3 classes, got 2 classes"):
        Trigger(rule=ProbabilityThreshold(0.9)).fit(None, probas, labels).predict(None, [[0.5, 0.5]])
