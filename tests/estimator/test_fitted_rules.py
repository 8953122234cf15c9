"""Fitted rules by name in `EarlyClassifier`: batch, live, snapshots, files, costs, and triggers of ml_edm as rules."""

import numpy as np
import pytest

import sooner
from sooner.data import Gaussian
from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.adapters import Trigger, TriggerFitter
from sooner.rules import FITTERS, MSPRT, DecisionCost, FittedRule, Taper
from sooner.rules.described import description

TIME = 12


@pytest.fixture(scope="module")
def data():
    x, y = Gaussian.equidistant(3, 1.0).sample(120, TIME, seed=0)
    return x.numpy().transpose(0, 2, 1), np.array(["a", "b", "c"])[y.numpy()]


@pytest.fixture(scope="module")
def fitted(data):
    series, y = data
    return sooner.EarlyClassifier(rule="taper").fit(series[:60], y[:60])


def fresh(fitted, tmp_path):
    fitted.save(tmp_path / "model.sooner")
    return sooner.load(tmp_path / "model.sooner")


def test_fit_fits_the_rule_of_that_name_for_the_average_cost(fitted):
    assert isinstance(fitted.rule_, Taper)
    assert fitted.rule_ == FITTERS["taper"].fit(fitted.judged(), DecisionCost.average(0.8))
    assert fitted.threshold == fitted.rule_


@pytest.mark.parametrize("name", FITTERS)
def test_live_series_files_and_snapshots_keep_the_rule(fitted, data, name, tmp_path):
    series, _ = data
    clf = fresh(fitted, tmp_path)
    clf.threshold = FITTERS[name].fit(clf.judged(), DecisionCost.average(0.9))
    expected = clf.decide(series[60:80])
    again = fresh(clf, tmp_path)
    assert again.rule_ == clf.rule_
    assert again.decide(series[60:80]) == expected
    live, decisions = clf.stream(keyed=True), {}
    for t in range(TIME):
        decisions |= live.update({i: series[60 + i, :, t] for i in range(20) if i not in decisions})
        if t == 3:
            snapshot = live.snapshot()
            live = again.stream(keyed=True)
            live.restore(snapshot)
    decisions |= {i: live.finish(i) for i in range(20) if i not in decisions}
    assert [decisions[i].label for i in range(20)] == expected.labels.tolist()
    assert [decisions[i].time for i in range(20)] == expected.times.tolist()
    assert [decisions[i].crossed for i in range(20)] == expected.crossed.tolist()


def test_choosing_by_cost_fits_the_rule_again(fitted, tmp_path):
    clf = fresh(fitted, tmp_path)
    hasty = clf.choose_threshold(cost_of_waiting=0.2)
    assert isinstance(clf.rule_, Taper)
    patient = clf.choose_threshold(cost_of_waiting=lambda t: 0.0001 * t, cost_matrix=10 * (1 - np.eye(3)))
    assert patient.mean_time > hasty.mean_time
    assert clf.rule_ == FITTERS["taper"].fit(
        clf.judged(), DecisionCost(10 * (1 - np.eye(3)), 0.0001 * np.arange(1.0, TIME + 1))
    )
    with pytest.raises(InvalidArgument) as refused:
        clf.choose_threshold(max_error=0.1)
    assert str(refused.value) == (
        "`max_error` must be left out for a fitted rule, got 0.1. "
        "It is fitted for costs: give cost_of_waiting, or set clf.threshold = MSPRT(2.0) first."
    )
    clf.threshold = MSPRT(1.0)
    clf.choose_threshold(cost_of_waiting=0.01)
    assert isinstance(clf.rule_, MSPRT)  # the dial is turned, and stays a dial


def test_a_matrix_of_costs_moves_the_threshold_of_the_dial(fitted, tmp_path):
    clf = fresh(fitted, tmp_path)
    clf.threshold = MSPRT(1.0)
    matrix = np.array([[0.0, 1.0, 1.0], [50.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # "b" named "a" is dear
    clf.choose_threshold(cost_of_waiting=0.05)
    cheap = clf.threshold
    clf.choose_threshold(cost_of_waiting=0.05, cost_matrix=matrix)
    assert clf.threshold >= cheap
    with pytest.raises(InvalidArgument, match="`cost_matrix` must be of 3 classes, as the scores are, got 2 classes"):
        clf.choose_threshold(cost_of_waiting=0.05, cost_matrix=matrix[:2, :2])
    with pytest.raises(InvalidArgument, match="`cost_of_error` must be given with cost_of_waiting, got alone"):
        clf.choose_threshold(max_error=0.3, cost_of_error=2.0)


def test_unknown_names_list_the_fitted_rules():
    with pytest.raises(UnknownName, match="'taper'"):
        sooner.EarlyClassifier(rule="tapr").fit([[[0.0, 1.0]], [[1.0, 0.0]]], [0, 1])


def test_fitted_rules_are_triggers_of_ml_edm(fitted):
    scored = fitted.judged()
    probabilities = np.exp(scored.scores - scored.scores.max(axis=2, keepdims=True))
    probabilities /= probabilities.sum(axis=2, keepdims=True)
    time = np.arange(1, TIME + 1)
    costs = np.array([0.8 * (1 - np.eye(3)) + 0.2 * t / TIME for t in time])
    trigger = Trigger(timestamps=time, rule="taper").fit(None, probabilities, scored.truths, costs)
    assert trigger.require_past_probas
    ours = FITTERS["taper"].fit(scored, DecisionCost.average(0.8))
    assert trigger.rule_.thresholds == pytest.approx(ours.thresholds, rel=1e-4)
    stops = trigger.predict(None, probabilities)
    assert stops.tolist() == trigger.rule_.decide(np.log(probabilities)).crossed.tolist()
    with pytest.raises(InvalidArgument, match="`cost_matrices` must be sums of an error and a delay"):
        Trigger(rule="taper").fit(None, probabilities, scored.truths, costs * time[:, None, None])


class Confident:
    """A trigger with the methods of ml_edm's: it fires where the largest probability reaches the mean of the fit."""

    require_classifiers = True

    def __init__(self, past):
        self.require_past_probas, self.timestamps = past, None

    def fit(self, X, X_probas, y, cost_matrices=None):  # noqa: N803
        assert X.shape == (len(y), self.timestamps[-1])
        assert X_probas.shape == (len(y), len(self.timestamps), 3)
        assert cost_matrices[0][0][1] == pytest.approx(
            cost_matrices.missclf_cost[0][0][1] + cost_matrices.delay_cost[0][0][1]
        )
        assert cost_matrices.missclf_cost[0][0][1] == 0.7  # naming 0 where 1 is true: [predicted][true]
        self.level = X_probas.max(axis=2).mean()
        return self

    def predict(self, X, X_probas, cost_matrices=None):  # noqa: ARG002, N803
        now = X_probas[:, -1] if self.require_past_probas else X_probas
        if self.require_past_probas:
            assert X_probas.shape[1] == self.timestamps.tolist().index(X.shape[1]) + 1
        return now.max(axis=1) >= self.level


@pytest.mark.parametrize("past", [False, True])
def test_a_trigger_of_ml_edm_is_a_rule(fitted, data, past, tmp_path):
    series, _ = data
    clf, matrix = fresh(fitted, tmp_path), np.array([[0.0, 1.0, 1.0], [0.7, 0.0, 1.0], [1.0, 1.0, 0.0]])
    rule = TriggerFitter(Confident(past)).fit(clf.judged(), DecisionCost(matrix, 0.01))
    clf.threshold = rule
    decisions = clf.decide(series[60:80])
    assert 1 < decisions.times.mean() < TIME
    times = []
    for one in series[60:80]:
        live = clf.stream()
        times.append(next((t + 1 for t in range(TIME) if live.update(one[:, t]) is not None), TIME))
    assert times == decisions.times.tolist()
    with pytest.raises(InvalidArgument, match="A rule from elsewhere cannot be made from its name"):
        clf.save(tmp_path / "other.sooner")
    longer = clf.scores(np.repeat(series[60:62], 2, axis=2)).scores * 0.0
    assert rule.decide(longer).times.max() <= TIME + 1


def test_a_real_trigger_of_ml_edm_is_a_rule(fitted, data, tmp_path):
    trigger = pytest.importorskip("ml_edm.trigger", reason="ml_edm is not on the package index of this machine")
    series, _ = data
    clf = fresh(fitted, tmp_path)
    for name in ("ProbabilityThreshold", "EconomyGamma", "TEASER", "CALIMERA"):
        clf.threshold = TriggerFitter(getattr(trigger, name)(None)).fit(clf.judged(), DecisionCost.average(0.8))
        assert clf.decide(series[60:80]).times.mean() <= TIME


def test_what_cannot_be_a_rule_is_refused(fitted, tmp_path):
    clf = fresh(fitted, tmp_path)
    with pytest.raises(InvalidArgument, match="`trigger` must be one that reads probabilities, got object"):
        TriggerFitter(object())
    judged = clf.judged()
    short = type(judged)(judged.scores, np.where(np.arange(len(judged)) == 0, 3, judged.lengths), judged.labels)
    with pytest.raises(InvalidArgument, match="`scored` must be of series of equal length, got lengths from 3 to 12"):
        TriggerFitter(Confident(past=False)).fit(short, DecisionCost(1.0, 0.1))


def test_a_description_is_plain_json(fitted):
    import json

    assert isinstance(fitted.rule_, FittedRule)
    assert json.loads(json.dumps(description(fitted.rule_))) == description(fitted.rule_)


@pytest.mark.parametrize("name", ["calimera", "teaser"])
def test_an_exported_graph_has_the_same_decisions(fitted, data, name, tmp_path):
    pytest.importorskip("onnxscript")
    from sooner.estimator.onnx.stream import OnnxStep

    clf, series = fresh(fitted, tmp_path), data[0][60:80]
    clf.threshold = FITTERS[name].fit(clf.judged(), DecisionCost.average(0.9))
    clf.export(tmp_path / "step.onnx")
    step = OnnxStep((tmp_path / "step.onnx").read_bytes())
    state, times = step.init(20), np.full(20, TIME)
    fired = np.zeros(20, dtype=bool)
    for t in range(TIME):
        result = step.step(state, series[:, :, t])
        times[result.fired & ~fired] = t + 1
        state, fired = result.state, fired | result.fired
    assert times.tolist() == clf.decide(series).times.tolist()
