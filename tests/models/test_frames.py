"""Encoders on single observations, and the way on from there."""

import pytest
import torch

from sooner import checks
from sooner.data import Gaussian
from sooner.models import Dense, FrameClassifier, Recurrent, encode_to_file, features_from_file
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import Settings, changed

SETTINGS = changed(Settings(), {"optimizer.lr": 0.01, "training.iterations": 60, "training.validate_every": 30})


@pytest.mark.parametrize("law", checks.MODEL_LAWS)
@pytest.mark.parametrize("index", range(3))
def test_every_example_obeys(law, index):
    checks.check_model_law(list(FrameClassifier.examples())[index], law)


def test_an_encoder_is_trained_on_frames_then_its_features_carry_an_integrator(tmp_path):
    """The paper's way: frames first, features to a file, the integrator on the file."""
    torch.manual_seed(0)
    process = Gaussian.equidistant(3, 1.0)
    sets = [process.sample(400, 8, seed=seed) for seed in (0, 1)]
    training, validation = (Series.from_arrays(x.float(), y) for x, y in sets)
    frames = FrameClassifier(Dense((3,), 6), 3)
    alone = train(frames, training, validation, SETTINGS).best.metric
    files = [tmp_path / f"{seed}.npy" for seed in (0, 1)]
    for (x, _), path in zip(sets, files, strict=True):
        encode_to_file(frames.encoder, x.float(), path)
    cached = [Series.from_arrays(features_from_file(path), y) for (_, y), path in zip(sets, files, strict=True)]
    model = Recurrent((6,), 3, hidden=8, order=0)
    exact = process.scores(sets[1][0])
    from sooner.evaluate import mean_accuracy

    best = mean_accuracy(exact, sets[1][1])
    assert alone > best - 0.05
    assert train(model, *cached, SETTINGS).best.metric > best - 0.05
