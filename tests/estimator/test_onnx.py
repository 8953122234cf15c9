"""Exported graphs decide as the classifier does, wherever they run."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import sooner
from sooner import EarlyClassifier
from sooner.data import Series
from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument, LawBroken
from sooner.estimator.learning import Learned
from sooner.estimator.onnx import export
from sooner.estimator.onnx.export import export_step, rule_outputs
from sooner.estimator.onnx.stream import OnnxStep, OnnxStream
from sooner.evaluate import PosteriorCalibration
from sooner.models import Earliest, Recurrent
from sooner.rules import MSPRT, FixedTime, GiveUp, Halting, LogOdds, Patience, ProbabilityThreshold, SingleLabel
from sooner.scores import Scored
from sooner.stream import Decision
from waves import unequal, waves

TIME = 20


def adopted(model, rule, *, classes=("a", "b", "c", "d"), priors="equal"):
    """A classifier around a network, without a training."""
    clf = EarlyClassifier(priors=priors)
    held_out = Scored(np.zeros((0, 1, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    standardizer = Standardizer(np.array([1.0, 20.0, -3.0]), np.array([0.5, 4.0, 0.1]))
    learned = Learned("recurrent", model.eval(), None, standardizer, held_out, {}, PosteriorCalibration())
    clf.adopt(learned, np.array(classes), np.array([1, 2, 3, 4]))
    clf.threshold = rule
    return clf


def observed(series, dtype=np.float64):
    """(series, channels, time) in the units of those classifiers, each series with a drift of its own."""
    random = np.random.default_rng(3)
    x = random.normal(size=(series, 3, TIME)) + random.normal(size=(series, 3, 1))
    return (x * np.array([0.5, 4.0, 0.1])[:, None] + np.array([1.0, 20.0, -3.0])[:, None]).astype(dtype)


def drawn(make):
    """A network as it was drawn, but for its last layer: with larger weights there, it decides at different times."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        model = make()
        for name, part in model.named_modules():
            if isinstance(part, torch.nn.BatchNorm1d):
                part.running_mean.normal_(0.0, 0.02)
                part.running_var.uniform_(0.02, 0.1)
            elif name in ("readout.linear", "classifier"):
                part.weight.mul_(4.0)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def rocket(folder):
    """Missing values, priors, names of channels, and a class that late checkpoints have no series of."""
    x, y = waves(60)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    cases = [case[:, :14] if name == "slow" else case for case, name in zip(unequal(x), y, strict=True)]
    series = Series.from_aeon(cases, y, missing="mask")
    clf = EarlyClassifier(missing="mask", priors={"calm": 2, "fast": 1, "slow": 1})
    clf.fit(replace(series, channels=("left", "right")))
    assert not clf.model_.present.all()
    export_step(clf, folder / "rocket.onnx")
    return clf, folder / "rocket.onnx"


@pytest.fixture(scope="module")
def gappy():
    x, _ = waves(200, seed=5)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    return x


@pytest.fixture(scope="module")
def peephole(folder):
    prior = [-1.0, -2.0, -1.5, -1.2]
    model = drawn(lambda: Recurrent((3,), 4, hidden=8, order=3, log_prior=prior))
    clf = adopted(model, LogOdds(1.3), priors="training")
    export_step(clf, folder / "peephole.onnx")
    return clf, folder / "peephole.onnx"


@pytest.fixture(scope="module")
def matrix(folder):
    """Order 0 keeps no windows, and b2bsqrt needs a sign."""
    model = drawn(
        lambda: Recurrent((3,), 4, hidden=8, order=0, cell="lstm", activation="b2bsqrt", formula="m_tandem_oblivion")
    )
    clf = adopted(model, MSPRT(0.4 + np.add.outer(np.arange(4.0), 0.5 * np.arange(4.0)) / 6))
    export_step(clf, folder / "matrix.onnx")
    return clf, folder / "matrix.onnx"


@pytest.fixture(scope="module")
def gru(folder):
    model = drawn(lambda: Recurrent((3,), 4, hidden=8, cell="gru"))
    clf = adopted(model, ProbabilityThreshold(0.7), classes=(3, 5, 7, 9))
    export_step(clf, folder / "gru.onnx", observations="float32")
    return clf, folder / "gru.onnx"


def decided(live, case):
    for x in case.T:
        decision = live.update(x)
        if decision is not None:
            return decision
    return live.finish()


def fleet(clf, cases):
    """What the classifier decides of all live series, stepped together."""
    live = clf.stream(keyed=True)
    for t in range(cases.shape[2]):
        live.update({key: case[:, t] for key, case in enumerate(cases) if key not in live.decided})
    live.finish_all()
    return [live.decided[key] for key in range(len(cases))]


def assert_decided_alike(clf, stream, cases):
    """The same label at the same time for every series, and not always the same one."""
    here, there = fleet(clf, cases), []
    for case in cases:
        stream.restart()
        there.append(decided(stream, case))
    assert there == here
    assert len({decision.label for decision in here}) > 1
    assert len({decision.time for decision in here}) > 3
    return here


def assert_scored_alike(clf, path, cases):
    """All series at once, at every time; what is remembered in the end comes back."""
    graph, offset = OnnxStep(path), torch.as_tensor(clf._offset())
    live, state = clf.model_.init(len(cases)), graph.init(len(cases))
    for t in range(cases.shape[2]):
        live, scores, _ = clf.model_.step(live, clf._prepared()(torch.as_tensor(cases[:, :, t])))
        moment = graph.step(state, cases[:, :, t])
        state = moment.state
        # Float32 has seven digits: scores may be 20 in size.
        np.testing.assert_allclose(moment.scores, (scores + offset).detach(), rtol=1e-6, atol=1e-5)
        np.testing.assert_array_equal(moment.state[0], t + 1)
    return live, state


class TestEqualDecisions:
    def test_of_rocket_with_missing_values_and_priors(self, rocket, gappy):
        clf, path = rocket
        assert_scored_alike(clf, path, gappy)
        assert_decided_alike(clf, OnnxStream(path), gappy)

    def test_of_peephole_windows_with_log_odds(self, peephole):
        clf, path = peephole
        assert_scored_alike(clf, path, observed(200))
        found = assert_decided_alike(clf, OnnxStream(path), observed(200))
        assert {decision.crossed for decision in found} == {True, False}

    def test_of_single_observations_with_a_matrix_of_thresholds(self, matrix):
        clf, path = matrix
        assert_scored_alike(clf, path, observed(200))
        assert_decided_alike(clf, OnnxStream(path), observed(200))

    def test_of_a_gru_that_reads_single_precision(self, gru):
        clf, path = gru
        cases = observed(200, np.float32)
        assert_scored_alike(clf, path, cases)
        assert_decided_alike(clf, OnnxStream(path), cases)

    def test_of_earliest_at_a_fixed_time_and_nothing_is_said_on_the_way(self, tmp_path, capfd):
        model = drawn(lambda: Earliest((3,), 4, hidden=5, log_prior=[-1.0, -2.0, -1.5, -1.2]))
        clf, path = adopted(model, FixedTime(6)), tmp_path / "earliest.onnx"
        export_step(clf, path)
        assert capfd.readouterr() == ("", "")
        assert_scored_alike(clf, path, observed(200))
        stream = OnnxStream(path)
        for case, expected in zip(observed(200), fleet(clf, observed(200)), strict=True):
            stream.restart()
            assert decided(stream, case) == expected
        assert stream.decision.time == 6
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("patient", [False, True])
    def test_of_earliest_by_its_own_halting_probability(self, tmp_path, patient):
        model = drawn(lambda: Earliest((3,), 4, hidden=5))
        with torch.no_grad():
            model.controller.weight.mul_(3.0)
            model.controller.weight[:, -1] = 0.0  # which reads the time, the same for all series
        rule = Patience(2, Halting(0.55)) if patient else Halting(0.55)
        clf, path = adopted(model, rule), tmp_path / "earliest.onnx"
        export_step(clf, path)
        expected, stream = fleet(clf, observed(200)), OnnxStream(path)
        assert len({decision.time for decision in expected}) > 3
        for case, each in zip(observed(200), expected, strict=True):
            stream.restart()
            assert decided(stream, case) == each
        if not patient:
            stream.threshold = 0.0
            stream.restart()
            assert decided(stream, observed(1)[0]).time == 1

    def test_of_a_rule_that_waits_for_a_single_label(self, peephole, tmp_path):
        clf, path = adopted(peephole[0].model_, SingleLabel(1.3, 4)), tmp_path / "single.onnx"
        export_step(clf, path)
        assert_decided_alike(clf, OnnxStream(path), observed(60))
        export_step(adopted(clf.model_, SingleLabel(-9.0, 4)), path)
        stream = OnnxStream(path)
        assert decided(stream, observed(1)[0]) == Decision(None, 1, True)

    def test_of_a_rule_that_gives_up(self, peephole, tmp_path):
        clf, path = adopted(peephole[0].model_, GiveUp(MSPRT(2.9), 4, 0.7)), tmp_path / "giving_up.onnx"
        export_step(clf, path)
        assert any(decision.label is None for decision in fleet(clf, observed(60)))
        assert_decided_alike(clf, OnnxStream(path), observed(60))

    @pytest.mark.slow
    @pytest.mark.parametrize("place", range(12))
    def test_of_every_recurrent_example_by_patience(self, place, tmp_path):
        model = drawn(lambda: list(Recurrent.examples())[place])
        clf, path = adopted(model, Patience(4, MSPRT(0.3))), tmp_path / "example.onnx"
        export_step(clf, path)
        assert_scored_alike(clf, path, observed(200))
        assert_decided_alike(clf, OnnxStream(path), observed(200))


class TestTheDial:
    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # a threshold of 0 is
    @pytest.mark.parametrize("threshold", [0.0, 0.7, 2.9, np.inf])
    def test_turns_after_export(self, rocket, gappy, threshold):
        clf, path = rocket
        before, clf.threshold = clf.threshold, threshold
        expected, clf.threshold = fleet(clf, gappy), before
        stream = OnnxStream(path, threshold)
        for case, decision in zip(gappy, expected, strict=True):
            stream.restart()
            assert decided(stream, case) == decision

    def test_counts_from_the_next_observation_on(self, peephole):
        clf, path = peephole
        live, stream = clf.stream(), OnnxStream(path, np.inf)
        live.rule = LogOdds(np.inf)
        for t, x in enumerate(observed(1)[0].T):
            if t == 7:
                live.rule, stream.threshold = LogOdds(-5.0), -5.0
            said = live.update(x), stream.update(x)
            assert said[0] == said[1]
            if t == 7:
                break
        assert stream.decision.time == 8
        assert stream.rule == LogOdds(-5.0)

    def test_of_a_matrix_takes_a_number_for_all_pairs(self, matrix):
        clf, path = matrix
        assert_decided_alike(adopted(clf.model_, 0.8), OnnxStream(path, 0.8), observed(200))

    def test_of_a_number_takes_no_matrix(self, rocket):
        with pytest.raises(InvalidArgument, match=r"`threshold` must be one for the exported MSPRT\(threshold=\d"):
            OnnxStream(rocket[1], np.ones((3, 3)))

    def test_takes_no_other_rule(self, gru):
        with pytest.raises(InvalidArgument, match=r"exported ProbabilityThreshold\(probability=0.7\), got MSPRT"):
            OnnxStream(gru[1], MSPRT(1.0))

    def test_refuses_what_the_rule_refuses(self, rocket):
        with pytest.raises(InvalidArgument, match=r"`threshold` must be at least 0, got -1.0"):
            OnnxStream(rocket[1], -1.0)

    def test_at_a_deadline_the_leader_is_named_or_no_class(self, peephole):
        clf, path = peephole
        case = observed(1)[0]
        for at_end in ("force", "abstain"):
            live, stream = (
                clf.stream(deadline=4, at_end=at_end),
                OnnxStream(path, np.inf, deadline=4, at_end=at_end),
            )
            live.rule, said = LogOdds(np.inf), decided(stream, case)
            assert said == decided(live, case)
            assert (said.time, said.crossed, said.label is None) == (4, False, at_end == "abstain")


RULES = [
    *(rule for kind in (MSPRT, LogOdds, ProbabilityThreshold) for rule in kind.examples()),
    MSPRT(np.where(np.eye(4) > 0, 0.0, np.inf)),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_comparison_with_a_tensor_is_the_step_of_the_rule(rule):
    scores = torch.randint(-3, 4, (500, 4), generator=torch.Generator().manual_seed(0)) / 2  # many ties
    threshold = torch.tensor(next(iter(vars(rule).values())), dtype=torch.float64)
    statistic, fired, label = rule_outputs(rule, scores, torch.ones(500, dtype=torch.int64), threshold)
    _, expected, named = rule.step(rule.init(500), scores)
    torch.testing.assert_close(fired, expected)
    torch.testing.assert_close(label, named)
    torch.testing.assert_close(statistic, rule.statistic(scores).double())


@pytest.mark.parametrize("streams", [1, 7])
def test_streams_are_independent_of_each_other(rocket, gappy, streams):
    graph = OnnxStep(rocket[1])
    state, alone = graph.init(streams), [graph.init(1) for _ in range(streams)]
    for t in range(gappy.shape[2]):
        together = graph.step(state, gappy[:streams, :, t])
        state = together.state
        for row in range(streams):
            moment = graph.step(alone[row], gappy[row : row + 1, :, t])
            alone[row] = moment.state
            np.testing.assert_allclose(moment.scores[0], together.scores[row], atol=1e-5)
            # Counts are whole numbers: not one of them may differ.
            for one, many in zip(moment.state[:-1], together.state[:-1], strict=True):
                np.testing.assert_array_equal(one[0], many[row])
    assert [part.shape[0] for part in state] == [streams] * len(state)


def test_a_graph_reads_on_behind_the_last_checkpoint(rocket, gappy):
    clf, path = rocket
    long = np.concatenate([gappy[:3], gappy[3:6], gappy[6:9]], axis=2)
    assert long.shape[2] > clf.model_.evaluation_times[-1] + 10 * clf.model_.gap
    assert_scored_alike(clf, path, long)


def test_counts_are_those_of_the_classifier_exactly(rocket, gappy):
    live, state = assert_scored_alike(*rocket, gappy)
    for one, other in zip(live[:-1], state[1:-1], strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


class TestMetadata:
    def test_say_all_that_a_device_has_to_know(self, rocket):
        clf, path = rocket
        about = OnnxStep(path).about
        states = about.pop("state")
        assert about == {
            "format": 1,
            "version": version("sooner"),
            "model": "rocket",
            "classes": ["calm", "fast", "slow"],
            "channels": ["left", "right"],
            "observation": {"shape": [2], "type": "float64", "missing": "mask"},
            "rule": {"MSPRT": {"threshold": clf.threshold}},
            "threshold": clf.threshold,
        }
        assert states[0] == {"input": "time", "output": "next_time", "shape": [], "type": "int64", "initial": 0}
        assert [state["initial"] for state in states[1:]] == [0.0, 0, 0.0, "-inf", "inf", 0, 0.0]
        for state, part in zip(states[1:], clf.model_.init(1), strict=True):
            assert (state["shape"], state["type"]) == (list(part.shape[1:]), str(part.dtype).removeprefix("torch."))

    def test_names_of_classes_keep_their_type(self, gru):
        assert OnnxStream(gru[1]).classes == [3, 5, 7, 9]

    def test_matrices_come_back(self, matrix):
        assert OnnxStream(matrix[1]).rule == matrix[0].rule_

    def test_nothing_tells_of_the_machine_or_the_code(self, rocket, peephole):
        for _, path in (rocket, peephole):
            data = path.read_bytes()
            assert b".py" not in data
            assert str(Path(sooner.__file__).parent).encode() not in data

    def test_are_enough_without_sooner_and_without_torch(self, peephole, tmp_path):
        clf, path = peephole
        np.save(tmp_path / "x.npy", observed(5))
        code = (
            "import json, sys, numpy as np, onnxruntime; path, data = sys.argv[1:]; x = np.load(data)\n"
            "graph = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])\n"
            "about = json.loads(graph.get_modelmeta().custom_metadata_map['sooner'])\n"
            "read = {part['input']: np.full((len(x), *part['shape']), part['initial'], part['type'])"
            " for part in about['state']}\n"
            "read['threshold'] = np.array(about['threshold'])\n"
            "names, decided = [output.name for output in graph.get_outputs()], {}\n"
            "for t in range(x.shape[2]):\n"
            "    said = dict(zip(names, graph.run(None, read | {'observation': x[:, :, t]})))\n"
            "    read |= {part['input']: said[part['output']] for part in about['state']}\n"
            "    for row in np.flatnonzero(said['fired']):\n"
            "        decided.setdefault(int(row), [about['classes'][said['label'][row]], int(said['next_time'][row])])\n"
            "assert not {'torch', 'sooner'} & set(sys.modules)\n"
            "print(json.dumps(decided))"
        )
        arguments = [sys.executable, "-c", code, str(path), str(tmp_path / "x.npy")]
        said = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
        live = [decided(clf.stream(), case) for case in observed(5)]
        assert said == {str(row): [one.label, one.time] for row, one in enumerate(live) if one.crossed}
        assert said


class TestOneStream:
    def test_refuses_an_observation_of_another_shape(self, peephole):
        message = r"`observation` must be of shape \(3,\), got shape \(2,\). That is what the model reads."
        with pytest.raises(InvalidArgument, match=message):
            OnnxStream(peephole[1]).update([1.0, 2.0])

    def test_refuses_what_is_not_finite(self, peephole, rocket):
        message = (
            r"`observation` must be finite, got nan at 1 \(counted from 0\). Leave it out, or use a model that was "
            "fitted with missing values."
        )
        stream = OnnxStream(peephole[1])
        with pytest.raises(InvalidArgument, match=message):
            stream.update([1.0, np.nan, 0.0])
        assert stream.scores is None
        with pytest.raises(InvalidArgument, match=r"`observation` must be finite, got inf at 0"):
            OnnxStream(rocket[1]).update([np.inf, np.nan])

    def test_is_over_once_it_is_decided(self, peephole):
        stream = OnnxStream(peephole[1], -50.0)
        decision = stream.update(observed(1)[0, :, 0])
        message = r"`observation` must be of a series that is still open, got one after Decision\(.*time=1.*restart"
        with pytest.raises(InvalidArgument, match=message):
            stream.update(observed(1)[0, :, 0])
        assert stream.finish() == decision == Decision(decision.label, 1, True)

    def test_without_an_observation_has_nothing_to_finish(self, peephole):
        with pytest.raises(InvalidArgument, match="`stream` must be one with observations to be finished, got none"):
            OnnxStream(peephole[1]).finish()

    def test_knows_its_endings(self, peephole):
        with pytest.raises(InvalidArgument, match="`at_end` must be one of 'abstain', 'force', got 'guess'"):
            OnnxStream(peephole[1], at_end="guess")
        with pytest.raises(InvalidArgument, match="`deadline` must be at least 1, got 0"):
            OnnxStream(peephole[1], deadline=0)


class TestRefused:
    def test_a_classifier_that_is_not_fitted(self, tmp_path):
        with pytest.raises(NotFittedError):
            export_step(EarlyClassifier(), tmp_path / "none.onnx")

    def test_a_classifier_from_elsewhere(self, tmp_path):
        x, y = waves(30, time=6)
        clf = EarlyClassifier(model="prefix").fit(x, y)
        message = "`model` must be one that is made of tensors to be exported, got PrefixScorer. Other classifiers"
        with pytest.raises(InvalidArgument, match=message):
            export_step(clf, tmp_path / "none.onnx")
        assert list(tmp_path.iterdir()) == []

    def test_a_rule_from_elsewhere(self, gru, tmp_path):
        class Odd(MSPRT):
            pass

        clf = adopted(gru[0].model_, Odd(1.0))
        with pytest.raises(InvalidArgument, match=r"`rule` must be one of MSPRT, .*, got .*Odd"):
            export_step(clf, tmp_path / "none.onnx")

    def test_patience_with_a_matrix(self, gru, tmp_path):
        clf = adopted(gru[0].model_, Patience(2, Patience(2, MSPRT(np.ones((4, 4))))))
        with pytest.raises(
            InvalidArgument, match="`rule` must be patience without a matrix of thresholds, got Patience"
        ):
            export_step(clf, tmp_path / "none.onnx")

    def test_names_that_json_cannot_hold(self, gru, tmp_path):
        days = np.array(["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"], dtype="datetime64[D]")
        clf = adopted(gru[0].model_, MSPRT(1.0), classes=days)
        with pytest.raises(InvalidArgument, match="`classes` must be texts or numbers to be exported, got a date"):
            export_step(clf, tmp_path / "none.onnx")

    def test_another_precision(self, gru, tmp_path):
        with pytest.raises(InvalidArgument, match="`observations` must be one of 'float32', 'float64', got 'float16'"):
            export_step(gru[0], tmp_path / "none.onnx", observations="float16")

    @pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
    def test_a_machine_without_the_packages(self, package, rocket, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: pytest.fail("that takes long"))
        message = (
            f"`export` must be made and run with {package}, got no package `{package}`. "
            r'Install it: pip install "sooner\[onnx\]".'
        )
        with pytest.raises(InvalidArgument, match=message):
            OnnxStep(rocket[1]) if package == "onnxruntime" else export_step(rocket[0], tmp_path / "none.onnx")

    def test_a_graph_that_says_something_else(self, peephole, tmp_path, monkeypatch):
        model = drawn(lambda: Recurrent((3,), 4, hidden=5))
        data = peephole[1].read_bytes()
        monkeypatch.setattr(export, "_serialized", lambda *_: data)
        with pytest.raises(
            LawBroken, match=r"'an exported graph equals its classifier': the scores are .* apart at time 1"
        ):
            export_step(adopted(model, MSPRT(1.0)), tmp_path / "none.onnx")
        assert list(tmp_path.iterdir()) == []

    def test_a_model_that_counts_its_streams_while_it_is_exported(self, tmp_path):
        class Counting(Recurrent):
            def step(self, state, observation):
                stepped = super().step(state, observation)
                return stepped._replace(scores=stepped.scores + torch.zeros(len(observation), 1))

        model = drawn(lambda: Counting((3,), 4, hidden=5, cell="gru"))
        with pytest.raises(LawBroken, match=r"'an exported graph takes any number of streams': .* takes 3"):
            export_step(adopted(model, MSPRT(1.0)), tmp_path / "none.onnx")

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(InvalidArgument, match=r"`path` must be an .onnx file, got .*none.onnx, which is not there"):
            OnnxStream(tmp_path / "none.onnx")

    def test_a_file_of_another_kind_or_of_another_maker(self, rocket, tmp_path):
        import onnx

        foreign = onnx.load(rocket[1])
        foreign.ClearField("metadata_props")
        for data in (b"", b"something else", rocket[1].read_bytes()[:5000], foreign.SerializeToString()):
            (tmp_path / "foreign.onnx").write_bytes(data)
            message = r"`path` must be an .onnx file of sooner, got .*foreign.onnx, which is none. `export_step` writes"
            with pytest.raises(InvalidArgument, match=message):
                OnnxStep(tmp_path / "foreign.onnx")

    def test_a_newer_file(self, gru, monkeypatch):
        monkeypatch.setattr("sooner.estimator.onnx.stream.FORMAT", 0)
        message = "`path` must be an .onnx file of version 0 of its format, got version 1. Update sooner to read it."
        with pytest.raises(InvalidArgument, match=message):
            OnnxStep(gru[1])
