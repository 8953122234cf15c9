"""Files of an earlier version (tests/earlier, written at commit a6b0780): they load, and mean what they meant.

That version scaled the weight decay of AdamW by the learning rate and had one batch norm, with eps 1e-5 and momentum 0.1.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import sooner
from sooner.models import build_model
from sooner.settings import settings_from_dict
from sooner.stream import Fleet
from sooner.train import Examples, train

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
    training, validation = Examples(SERIES[:100], LABELS[:100]), Examples(SERIES[100:], LABELS[100:])
    return train(model, training, validation, settings, folder=folder, resume=True)


def test_a_run_that_was_cut_goes_on_as_it_began(tmp_path):
    record = resumed(tmp_path, settings_from_dict(RUN))
    np.testing.assert_allclose(np.array(record.history), EXPECTED["history"], rtol=1e-4)
