"""`.sooner` files: what goes in comes out, and nothing else gets in."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import sooner
from sooner import EarlyClassifier
from sooner.data import Columns
from sooner.errors import InvalidArgument
from sooner.rules import MSPRT, FixedTime, GiveUp, Patience, SingleLabel
from waves import waves


@pytest.fixture(scope="module")
def fitted():
    x, y = waves(60)
    return EarlyClassifier(priors={"calm": 2, "fast": 1, "slow": 1}).fit(x, y)


@pytest.fixture(scope="module")
def x():
    return waves(60, seed=5)[0]


def _saved(clf, tmp_path):
    path = tmp_path / "model.sooner"
    clf.save(path)
    return path


def test_a_loaded_classifier_decides_alike(fitted, x, tmp_path):
    loaded = sooner.load(_saved(fitted, tmp_path))
    assert loaded.decide(x) == fitted.decide(x)
    np.testing.assert_array_equal(loaded.scores(x).scores, fitted.scores(x).scores)
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert loaded.achieved_ == fitted.achieved_
    assert loaded.training_ == fitted.training_
    assert loaded.get_params()["model"] == "auto"


@pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
@pytest.mark.parametrize("model", ["recurrent", "earliest"])
def test_models_that_were_trained_are_saved_too(model, x, tmp_path):
    series, labels = waves(60)
    clf = EarlyClassifier(model=model, order=3 if model == "recurrent" else "auto", max_epochs=1, hidden=6)
    clf.fit(series, np.searchsorted(["calm", "fast", "slow"], labels))
    loaded = sooner.load(_saved(clf, tmp_path))
    assert loaded.decide(x) == clf.decide(x)
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert loaded.order_ == clf.order_


def test_the_dial_turns_after_loading(fitted, x, tmp_path):
    loaded = sooner.load(_saved(fitted, tmp_path))
    found = loaded.choose_threshold(max_mean_time=4.0)
    assert found.mean_time <= 4.0
    assert loaded.decide(x).times.mean() < 8.0


@pytest.mark.parametrize(
    "rule",
    [
        MSPRT(2.5),
        MSPRT(np.arange(9.0).reshape(3, 3)),
        MSPRT(np.inf),
        FixedTime(4),
        Patience(2, MSPRT(1.0)),
        SingleLabel(1.5, 3),
        GiveUp(Patience(2, MSPRT(1.0)), 30, np.inf),
    ],
)
def test_every_rule_comes_back(rule, fitted, tmp_path):
    fitted.threshold = rule
    assert sooner.load(_saved(fitted, tmp_path)).rule_ == rule


def test_masks_and_names_of_channels_come_back(tmp_path):
    x, y = waves(60)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    series = sooner.data.Series.from_aeon(x, y, missing="mask")
    clf = EarlyClassifier(missing="mask").fit(series)
    clf.columns_ = Columns(time="at", channels=["a", "b"])
    loaded = sooner.load(_saved(clf, tmp_path))
    assert loaded.columns_ == Columns(time="at", channels=["a", "b"])
    assert loaded.decide(x) == clf.decide(x)


def test_a_stream_goes_on_in_another_process(fitted, x, tmp_path):
    fitted.threshold = 1.0
    path = _saved(fitted, tmp_path)
    live = fitted.stream(keyed=True)
    decided = {}
    for t in range(4):
        decided |= live.update({key: x[key, :, t] for key in range(20) if key not in decided})
    (tmp_path / "live.bin").write_bytes(live.snapshot())
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, json, numpy as np, sooner; path, state, data = sys.argv[1:];"
        "live = sooner.load(path).stream(keyed=True); live.restore(open(state, 'rb').read()); x = np.load(data);"
        "out = {};\n"
        "for t in range(4, 30): out.update(live.update({key: x[key, :, t] for key in list(live.keys())}))\n"
        "print(json.dumps({key: [d.label, d.time] for key, d in {**out, **live.finish_all()}.items()}))"
    )
    arguments = [sys.executable, "-c", code, str(path), str(tmp_path / "live.bin"), str(tmp_path / "x.npy")]
    said = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
    batch = fitted.decide(x[:20])
    expected = {str(key): [batch.labels[key], int(batch.times[key])] for key in range(20) if key not in decided}
    assert said == expected
    assert 0 < len(said) < 20


class TestBadFiles:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(
            InvalidArgument, match=r"`path` must be a .sooner file, got .*none.sooner, which is not there"
        ):
            sooner.load(tmp_path / "none.sooner")

    @pytest.mark.parametrize("keep", [0, 5, 100, 5000, -1])
    def test_a_truncated_file(self, fitted, tmp_path, keep):
        path = _saved(fitted, tmp_path)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(InvalidArgument, match=r"`model.sooner` must be a model of sooner"):
            sooner.load(path)

    @pytest.mark.parametrize("place", [0.001, 0.3, 0.9])
    def test_a_damaged_file(self, fitted, tmp_path, place):
        path = _saved(fitted, tmp_path)
        data = bytearray(path.read_bytes())
        data[int(place * len(data))] ^= 1
        path.write_bytes(bytes(data))
        with pytest.raises(InvalidArgument, match=r"`model.sooner` must be a model of sooner"):
            sooner.load(path)

    def test_a_foreign_file(self, tmp_path):
        import pickle

        from safetensors.torch import save_file

        path = tmp_path / "model.sooner"
        path.write_bytes(pickle.dumps({"a": 1}))
        with pytest.raises(InvalidArgument, match="something else"):
            sooner.load(path)
        save_file({"a": torch.zeros(2)}, path)
        with pytest.raises(InvalidArgument, match="something else"):
            sooner.load(path)

    def test_a_newer_file(self, fitted, tmp_path, monkeypatch):
        monkeypatch.setattr("sooner.estimator.file.VERSION", 9)
        path = _saved(fitted, tmp_path)
        monkeypatch.undo()
        message = "must be a model of sooner of version 1 of its format, got version 9. Update sooner to read it."
        with pytest.raises(InvalidArgument, match=message):
            sooner.load(path)

    def test_what_could_only_be_pickled_is_not_saved(self, tmp_path):
        x, y = waves(30, time=6)
        clf = EarlyClassifier(model="prefix").fit(x, y)
        with pytest.raises(
            InvalidArgument, match="`model` must be one that is made of tensors to be saved, got Prefix"
        ):
            clf.save(tmp_path / "model.sooner")
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_save_leaves_the_old_file(self, fitted, tmp_path):
        path = _saved(fitted, tmp_path)
        before = path.read_bytes()

        class Odd(MSPRT):
            pass

        fitted.threshold = Odd(1.0)
        with pytest.raises(InvalidArgument, match=r"`rule` must be one of MSPRT, .*, got .*Odd"):
            fitted.save(path)
        fitted.threshold = 1.0
        assert path.read_bytes() == before

    @pytest.mark.parametrize("version", ["\u00b2", "9" * 5000, ""])
    def test_a_version_that_is_no_number(self, tmp_path, version):
        header = json.dumps({"__metadata__": {"format": "sooner.model", "version": version}}).encode()
        path = tmp_path / "model.sooner"
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(InvalidArgument, match=r"`model.sooner` must be a model of sooner, got"):
            sooner.load(path)
