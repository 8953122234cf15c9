"""The files of the published experiments can be read, searched and built."""

from pathlib import Path

import pytest

from sooner.models import build_model
from sooner.settings import read_settings
from sooner.tune import read_search

FILES = sorted((Path(__file__).parents[1] / "experiments").glob("*.toml"))
SHAPES = {"nmnist_h": (128, 10), "nmnist_100f": (128, 10), "ucf101": (2048, 101), "hmdb51": (2048, 51)}
COUNTS = {"nmnist_h": 133_504, "nmnist_100f": 133_504, "ucf101": 2_387_456, "hmdb51": 2_374_656}


def test_all_four_sets_of_the_paper_are_there():
    assert {path.stem for path in FILES} >= set(SHAPES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_experiment_gives_the_published_model_and_a_grid_that_holds_its_best_point(path):
    settings, space = read_settings(path), read_search(path)
    channels, classes = SHAPES[path.stem]
    model = build_model(settings.model, (channels,), classes)
    assert sum(parameter.numel() for parameter in model.parameters()) == COUNTS[path.stem]
    assert settings.model.order in space.axes["model.order"].values
    assert settings.optimizer.lr in space.axes["optimizer.lr"].values
