"""The baselines, trained and judged through the same settings, training, rules and curves as everything else."""

import torch

from sooner.data import Gaussian
from sooner.evaluate import sat_curve, stopping_curve
from sooner.models import build_model
from sooner.rules import FixedTime
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import settings_from_dict

PROCESS = Gaussian.equidistant(3, 1.2)
TRAINING, VALIDATION = (
    Series.from_arrays(x.float(), y) for x, y in (PROCESS.sample(600, 8, seed=seed) for seed in (0, 1))
)
FRESH, LABELS = PROCESS.sample(2000, 8, seed=2)


def _trained(model, **tables):
    training = {"iterations": 150, "validate_every": 50, "batch_size": 100, "device": "cpu"}
    settings = settings_from_dict(
        {"model": {"hidden": 16, **model}, "optimizer": {"lr": 0.01}, "training": training, **tables}
    )
    torch.manual_seed(0)
    built = build_model(settings.model, (3,), 3)
    train(built, TRAINING, VALIDATION, settings)
    return built


def _fixed_time_errors(scores):
    return sat_curve(scores, LABELS, rule=FixedTime).errors


def test_lstm_s_and_lstm_m_are_a_plain_lstm_with_their_ranking_losses():
    exact = _fixed_time_errors(PROCESS.scores(FRESH))
    for ranking in ("ranking_score", "ranking_margin"):
        model = _trained({"cell": "lstm"}, loss={"weights": {"multiplet": 1.0, "lsel": 0.0, ranking: 0.1}})
        with torch.no_grad():
            errors = _fixed_time_errors(model.scores(FRESH.float()))
        assert (errors < exact + 0.06).all()


def test_earliest_is_trained_by_its_own_loss_and_has_a_whole_curve():
    model = _trained({"name": "earliest", "penalty": 0.01})
    with torch.no_grad():
        windows = model(FRESH.float())
    leaders = windows.logits[:, 0].argmax(dim=2)
    curve = stopping_curve(windows.halting, leaders, LABELS, classes=3)
    assert len(curve) > 1000
    assert curve.error_at(8) < 0.1
    assert curve.errors[0] > curve.error_at(8)


def test_pooling_is_trained_at_sampled_times_of_each_series():
    """Random pixels of two images shown one at a time: the union of what was seen tells them apart."""
    generator = torch.Generator().manual_seed(0)
    pictures = (torch.rand(2, 6, 6, generator=generator) < 0.5).float() * 2 - 1
    labels = torch.randint(2, (300,), generator=generator)
    shown = torch.rand(300, 10, 6, 6, generator=generator) < 0.1
    frames = torch.where(shown, pictures[labels][:, None] * 0.8, 1.0)
    settings = settings_from_dict(
        {
            "model": {"name": "pooling"},
            "optimizer": {"lr": 2e-3},
            "training": {"iterations": 40, "validate_every": 40, "batch_size": 50, "device": "cpu"},
        }
    )
    torch.manual_seed(0)
    model = build_model(settings.model, (6, 6), 2)
    seen = []
    model.logits_at, plain = (
        lambda x, times, lengths=None: (seen.append(times), plain(x, times, lengths))[1],
        model.logits_at,
    )
    record = train(
        model, Series.from_arrays(frames[:200], labels[:200]), Series.from_arrays(frames[200:], labels[200:]), settings
    )
    assert len(seen) >= 40
    assert all(times.shape == (50, 4) and times.min() >= 1 and times.max() <= 10 for times in seen)
    assert record.best.metric > 0.8
