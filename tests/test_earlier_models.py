"""Models, snapshots and a study database written at commit b8dbb8e, before the rooms were put in order, still mean the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import sooner
from sooner.lab.tuning import Grid, SearchSpace, tune
from sooner.models import build_model
from sooner.series import Series
from sooner.stream import Fleet
from sooner.train.settings import settings_from_dict

HOME = Path(__file__).parent / "earlier" / "b8dbb8e"
EXPECTED = json.loads((HOME / "expected.json").read_text())
KEPT = np.load(HOME / "series.npz")
MODELS = ("rocket", "earliest", "gru")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_gives_the_decisions_it_gave(name):
    clf = sooner.load(HOME / f"{name}.sooner")
    made = clf.decide(KEPT["new"].transpose(0, 2, 1))
    found = {"labels": made.labels.tolist(), "times": made.times.tolist(), "crossed": made.crossed.tolist()}
    assert found == {key: EXPECTED[name][key] for key in found}
    assert clf.achieved_.error == pytest.approx(EXPECTED[name]["error"], abs=1e-12)


def test_a_model_file_keeps_its_columns_groups_and_priors():
    clf = sooner.load(HOME / "rocket.sooner")
    assert (clf.columns_.series, clf.columns_.time, clf.columns_.label) == ("pump", "minute", "state")
    assert list(clf.columns_.channels) == ["hum", "flow"]
    assert clf.achieved_.groups == 30
    assert clf.priors == [2.0, 1.0, 1.0]


@pytest.mark.parametrize("name", MODELS)
def test_live_series_of_a_snapshot_go_on_to_the_same_decisions(name):
    fleet = sooner.load(HOME / f"{name}.sooner").stream(keyed=True)
    assert isinstance(fleet, Fleet)
    fleet.restore((HOME / f"{name}.snapshot").read_bytes())
    wanted, found = EXPECTED[name]["live"], {}
    assert wanted
    for time in range(3, 16):
        found |= fleet.update({key: KEPT["new"][int(key[1:]), time] for key in wanted if key not in found})
    found |= {key: fleet.finish(key) for key in wanted if key not in found}
    assert {key: [made.label, made.time, made.crossed] for key, made in found.items()} == wanted


def test_a_study_goes_on_with_the_trials_it_has(tmp_path):
    shutil.copyfile(HOME / "study.db", tmp_path / "study.db")
    settings = settings_from_dict(
        {
            "model": {"hidden": 3},
            "optimizer": {"lr": 0.02},
            "training": {"iterations": 10, "validate_every": 5, "batch_size": 30, "device": "cpu"},
        }
    )

    def make(settings):
        torch.manual_seed(0)
        return build_model(settings.model, (2,), 3)

    training, validation = (
        Series.from_arrays(KEPT["x"][rows], KEPT["y"][rows]) for rows in (slice(60), slice(60, None))
    )
    found = tune(
        make,
        training,
        validation,
        settings,
        SearchSpace({"model.order": Grid((0, 1, 2))}),
        trials=3,
        study="sooner",
        storage=f"sqlite:///{tmp_path / 'study.db'}",
        seed=0,
        folder=None,
    )
    assert [{"values": dict(trial.values), "metric": trial.metric} for trial in found.trials[:2]] == EXPECTED["study"]
    assert len(found.trials) == 3
