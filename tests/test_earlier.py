"""Files of an earlier version (tests/earlier, written at commit a6b0780): they load, and mean what they meant.

That version scaled the weight decay of AdamW by the learning rate and had one batch norm, with eps 1e-5 and momentum 0.1.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sooner
from sooner import EarlyClassifier
from sooner.errors import InvalidArgument
from sooner.estimator.learning import FitOptions
from sooner.lab.tuning import Grid, SearchSpace
from sooner.lab.tuning.study import _comparable, _identity
from sooner.models import build_model
from sooner.series import Series
from sooner.stream import Fleet
from sooner.train import train
from sooner.train.settings import changed, settings_from_dict, to_dict
from sooner.train.upgrade import recorded_settings

HOME = Path(__file__).with_name("earlier")
EXPECTED = json.loads((HOME / "expected.json").read_text())
KEPT = np.load(HOME / "series.npz")
SERIES, LABELS = torch.from_numpy(KEPT["series"]), torch.from_numpy(KEPT["labels"])
RUN = {
    "model": {"hidden": 3, "order": 1},
    "optimizer": {"lr": 0.02, "weight_decay": 0.01, "schedule": "cosine"},
    "training": {"iterations": 40, "validate_every": 20, "batch_size": 30, "device": "cpu"},
}


@pytest.fixture(scope="module")
def loaded():
    return sooner.load(HOME / "recurrent.sooner")


def test_a_model_file_gives_the_scores_and_the_decisions_it_gave(loaded):
    series = SERIES[:5].transpose(1, 2).numpy()
    np.testing.assert_allclose(loaded.scores(series).scores, KEPT["scores"], rtol=0, atol=1e-5)
    made = loaded.decide(series)
    assert made.labels.tolist() == EXPECTED["labels"]
    assert made.times.tolist() == EXPECTED["times"]
    assert made.crossed.tolist() == EXPECTED["crossed"]


def test_live_series_of_a_snapshot_go_on_to_the_same_decisions(loaded):
    fleet = loaded.stream(keyed=True)
    assert isinstance(fleet, Fleet)
    fleet.restore((HOME / "fleet.snapshot").read_bytes())
    found = {}
    for time in range(2, 8):
        found |= fleet.update({f"s{i}": SERIES[i, time].numpy() for i in range(5) if f"s{i}" not in found})
    assert {key: [made.label, made.time, made.crossed] for key, made in found.items()} == EXPECTED["live"]


def resumed(folder, settings):
    shutil.copyfile(HOME / "last.ckpt", folder / "last.ckpt")
    torch.manual_seed(0)
    model = build_model(settings.model, (3,), 3)
    training, validation = (
        Series.from_arrays(SERIES[:100], LABELS[:100]),
        Series.from_arrays(SERIES[100:], LABELS[100:]),
    )
    return train(model, training, validation, settings, folder=folder, resume=True)


def test_a_run_that_was_cut_goes_on_as_it_began_if_its_decay_is_written_as_today(tmp_path):
    record = resumed(tmp_path, changed(settings_from_dict(RUN), {"optimizer.weight_decay": 0.01 * 0.02}))
    known = [validation[:3] for validation in record.history]  # that version did not measure the last error
    np.testing.assert_allclose(np.array(known, dtype=float), EXPECTED["history"], rtol=1e-4)


def test_a_run_is_not_resumed_with_the_number_that_now_means_another_decay(tmp_path):
    with pytest.raises(InvalidArgument) as caught:
        resumed(tmp_path, settings_from_dict(RUN))
    assert str(caught.value) == (
        "`optimizer.weight_decay` must be what the run in the folder has, got 0.01. "
        "The run began with 0.0002; resume it so, or name another folder."
    )


def test_settings_in_a_model_file_keep_their_meaning(loaded):
    assert loaded.settings_.optimizer.weight_decay == loaded.settings.optimizer.weight_decay == 2e-5  # 1e-3 at lr 0.02
    assert loaded.settings_.model.batch_norm == "torch"
    assert {norm.eps for norm in loaded.model_.modules() if isinstance(norm, nn.BatchNorm1d)} == {1e-5}


def test_settings_of_today_are_left_as_they_are_and_rmsprop_means_what_it_meant():
    today = to_dict(settings_from_dict(RUN))
    assert recorded_settings(today) == settings_from_dict(RUN)
    before = {**today, "model": {key: value for key, value in today["model"].items() if key != "batch_norm"}}
    before["optimizer"] = {**today["optimizer"], "name": "rmsprop"}
    assert recorded_settings(before).optimizer.weight_decay == 0.01


def identity(settings, key, *, earlier):
    """What a study notes; the version of these files had no batch_norm, and its decay was times the learning rate."""
    found = _identity(settings, SearchSpace({key: Grid((1, 2))}))
    if earlier:
        del found["settings"]["model"]["batch_norm"]
        found["settings"]["model"].pop("epsilon", None)
        found["settings"]["optimizer"]["weight_decay"] /= settings.optimizer.lr
    return found


def test_a_study_goes_on_where_its_trials_can_be_compared_with_those_of_today():
    settings = settings_from_dict(RUN)
    today = identity(settings, "model.order", earlier=False)
    assert _comparable(identity(settings, "model.order", earlier=True)) == today == _comparable(today)
    assert _comparable(identity(settings, "optimizer.lr", earlier=True)) is None
    rmsprop = changed(settings, {"optimizer.name": "rmsprop"})
    assert _comparable(identity(rmsprop, "model.order", earlier=True)) is None


def test_the_classifier_s_own_decay_is_what_it_was():
    given = FitOptions.of(EarlyClassifier(model="recurrent", learning_rate=3e-3), 100).settings.optimizer
    assert given.weight_decay == 3e-7  # 1e-4 times the learning rate
