"""What published settings mean, each against a few lines of plain arithmetic."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from sooner import EarlyClassifier, load, losses
from sooner.data import Gaussian
from sooner.losses import costs
from sooner.models import build_model
from sooner.stream.snapshot import fingerprint
from sooner.train.criterion import loss_options
from sooner.train.optimizers import optimizer_for, schedule_for
from sooner.train.settings import LossSettings, ModelSettings, OptimizerSettings, settings_from_dict

GRADIENTS = np.random.default_rng(0).normal(size=(6, 4))
START = np.random.default_rng(1).normal(size=4)


def taken(settings, gradients=GRADIENTS):
    """The weights after each step with these gradients."""
    weight = nn.Parameter(torch.tensor(START))
    optimizer = optimizer_for([weight], settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule_for(settings, len(gradients)))
    found = []
    for gradient in gradients:
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        schedule.step()
        found.append(weight.detach().numpy().copy())
    return np.array(found)


def factor(settings, step):
    return (1 + math.cos(math.pi * step / len(GRADIENTS))) / 2 if settings.schedule == "cosine" else 1.0


schedules = pytest.mark.parametrize("schedule", ["constant", "cosine"])


@schedules
def test_adamw_takes_its_decay_off_a_weight_whatever_the_learning_rate(schedule):
    settings = OptimizerSettings("adamw", lr=0.02, weight_decay=0.1, schedule=schedule)
    w, m, v, expected = START.copy(), np.zeros(4), np.zeros(4), []
    for step, g in enumerate(GRADIENTS):
        f = factor(settings, step)
        w = w - f * 0.1 * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - f * 0.02 * (m / (1 - 0.9 ** (step + 1))) / (np.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8)
        expected.append(w)
    np.testing.assert_allclose(taken(settings), expected, rtol=1e-12)


@schedules
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgdw_has_nesterov_momentum_and_keeps_the_decay_out_of_the_velocity(momentum, schedule):
    settings = OptimizerSettings("sgdw", lr=0.02, weight_decay=0.1, momentum=momentum, schedule=schedule)
    w, v, expected = START.copy(), np.zeros(4), []
    for step, g in enumerate(GRADIENTS):
        f = factor(settings, step)
        v = momentum * v + g
        w = w - f * 0.1 * w - f * 0.02 * (g + momentum * v)
        expected.append(w)
    np.testing.assert_allclose(taken(settings), expected, rtol=1e-12)


def test_with_a_constant_learning_rate_sgdw_is_tensorflow_s_form_of_nesterov():
    settings = OptimizerSettings("sgdw", lr=0.02, weight_decay=0.1, momentum=0.9)
    w, v, expected = START.copy(), np.zeros(4), []
    for g in GRADIENTS:
        v = 0.9 * v - 0.02 * g
        w = w - 0.1 * w + 0.9 * v - 0.02 * g
        expected.append(w)
    np.testing.assert_allclose(taken(settings), expected, rtol=1e-12)


@schedules
def test_rmsprop_has_its_decay_within_the_gradient_and_keras_s_constants(schedule):
    settings = OptimizerSettings("rmsprop", lr=0.02, weight_decay=0.1, schedule=schedule)
    w, square, expected = START.copy(), np.zeros(4), []
    for step, g in enumerate(GRADIENTS):
        g = g + 0.1 * w
        square = 0.9 * square + 0.1 * g * g
        w = w - factor(settings, step) * 0.02 * g / (np.sqrt(square) + 1e-7)
        expected.append(w)
    np.testing.assert_allclose(taken(settings), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["adamw", "sgdw"])
def test_a_weight_without_a_gradient_shrinks_by_the_decay_alone(name):
    still = np.zeros((3, 4))
    for lr in (1e-1, 1e-5):
        found = taken(OptimizerSettings(name, lr=lr, weight_decay=1e-2), still)
        np.testing.assert_allclose(found, [START * 0.99 ** (step + 1) for step in range(3)], rtol=1e-12)


@pytest.mark.parametrize(("name", "eps", "momentum"), [("torch", 1e-5, 0.1), ("keras", 1e-3, 0.01)])
def test_batch_norm_of_the_integrator_is_that_of_the_settings(name, eps, momentum):
    torch.manual_seed(0)
    model = build_model(ModelSettings(hidden=3, batch_norm=name), (2,), 2).double()
    readout, hidden = model.readout, 0.01 * torch.randn(7, 3, dtype=torch.float64)
    weight = readout.linear.weight.detach().numpy()
    rows = hidden.numpy()
    mean, var = rows.mean(axis=0), rows.var(axis=0)
    trained = readout.train()(hidden).detach().numpy()
    np.testing.assert_allclose(trained, np.tanh((rows - mean) / np.sqrt(var + eps)) @ weight.T, rtol=1e-9)
    mean, var = momentum * mean, (1 - momentum) + momentum * rows.var(axis=0, ddof=1)
    np.testing.assert_allclose(readout.norm.running_mean.numpy(), mean, rtol=1e-9)
    np.testing.assert_allclose(readout.norm.running_var.numpy(), var, rtol=1e-9)
    told = np.tanh((rows - mean) / np.sqrt(var + eps)) @ weight.T
    np.testing.assert_allclose(readout.eval()(hidden).detach().numpy(), told, rtol=1e-9)


@pytest.mark.parametrize("encoder", ["resnet_small", "convolution"])
def test_batch_norm_of_an_encoder_is_that_of_the_settings(encoder):
    for name, constants in (("torch", (1e-5, 0.1)), ("keras", (1e-3, 0.01))):
        settings = ModelSettings("frames", encoder=encoder, width=8, batch_norm=name)
        modules = build_model(settings, (6, 6), 3).modules()
        norms = [(each.eps, each.momentum) for each in modules if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d)]
        assert len(norms) > 3
        assert set(norms) == {constants}


@pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
def test_a_model_file_keeps_the_batch_norm_of_its_settings(tmp_path):
    x, y = Gaussian.equidistant(2, 1.0).sample(40, 5, seed=0)
    tables = {"model": {"hidden": 3, "batch_norm": "keras"}, "training": {"iterations": 5, "device": "cpu"}}
    series = x.transpose(1, 2).numpy()
    fitted = EarlyClassifier("recurrent", settings=settings_from_dict(tables)).fit(series, y.numpy())
    fitted.save(tmp_path / "model.sooner")
    loaded = load(tmp_path / "model.sooner")
    assert (loaded.model_.readout.norm.eps, loaded.model_.readout.norm.momentum) == (1e-3, 0.01)
    np.testing.assert_array_equal(loaded.scores(series).scores, fitted.scores(series).scores)


def test_live_series_do_not_go_on_under_another_batch_norm():
    torch.manual_seed(0)
    plain, other = (build_model(ModelSettings(hidden=3, batch_norm=name), (2,), 2) for name in ("torch", "keras"))
    other.load_state_dict(plain.state_dict())
    assert fingerprint(plain, ["a", "b"]) != fingerprint(other, ["a", "b"])


B, T, K = 50, 2, 5


def balanced():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(B, T, K, generator=generator, dtype=torch.float64)
    return scores, torch.arange(B) % K


@pytest.mark.parametrize("name", ["lsifwc", "barr"])
def test_a_gamma_for_sums_over_the_batch_is_the_batch_size_times_as_large_for_means(name):
    """The published runs: a mean over the batch for the ratios, and the constraint of each pair summed over the batch."""
    scores, labels = balanced()
    published = 1e-3
    main = constraint = 0.0
    for t in range(T):
        for k in range(K):
            for m in (each for each in range(K) if each != k):
                broken = 0.0
                for i in range(B):
                    ratio = float(scores[i, t, k] - scores[i, t, m])
                    if labels[i] == m:
                        main += math.exp(2 * ratio) / B if name == "lsifwc" else 0.0
                        broken += math.exp(ratio) - 1
                    elif labels[i] == k:
                        main -= math.exp(ratio) / B if name == "lsifwc" else ratio / B
                constraint += abs(broken)
    ours = losses.LOSSES[name](scores, labels, gamma=B * published)
    # Our means are over a class, K times as large as those over the batch: a factor of all, which Adam does not see.
    assert float(ours) == pytest.approx(K * (main + published * constraint), rel=1e-9)


def test_lsif_as_run_is_twice_the_halved_one_and_clipped():
    scores, labels = balanced()
    torch.testing.assert_close(losses.lsif_clipped(scores, labels), 2 * losses.lsif_halved(scores, labels))
    # One series of each class; the log-ratios of the first are -40 and 40, those of the second 1 and -1.
    wide = torch.tensor([[[0.0, 40.0]], [[0.0, 1.0]]], requires_grad=True)
    value = losses.lsif_clipped(wide, torch.tensor([0, 1]))
    expected = (math.exp(70) + math.exp(-2)) - 2 * (math.exp(-35) + math.exp(1))
    assert float(value.detach()) == pytest.approx(expected, rel=1e-5)
    (gradient,) = torch.autograd.grad(value, wide)
    assert not gradient[0].any()
    assert gradient[1].any()


COUNTS = [40, 25, 20, 10, 5]


def imbalanced():
    labels = torch.repeat_interleave(torch.arange(K), torch.tensor(COUNTS))
    generator = torch.Generator().manual_seed(1)
    return torch.randn(len(labels), T, K, generator=generator, dtype=torch.float64), labels


def bound(name, kind):
    options = loss_options(name, LossSettings({name: 1.0}, costs=kind, beta=0.9), torch.tensor(COUNTS).double())
    return partial(losses.LOSSES[name], **options)


@pytest.mark.parametrize(
    ("name", "kind", "reduced"),
    [
        ("c_logistic", "inverse_frequency", losses.logistic),
        ("logistic_c", "inverse_frequency", losses.modified_logistic),
        ("lscel", "inverse_frequency", losses.modified_lsel),
        ("cost_sensitive_lsel", "inverse_frequency", losses.lsel),
    ],
)
def test_at_inverse_frequencies_losses_with_costs_are_those_that_balance(name, kind, reduced):
    scores, labels = imbalanced()
    torch.testing.assert_close(bound(name, kind)(scores, labels), reduced(scores, labels))


@pytest.mark.parametrize("name", ["c_logistic", "logistic_c", "lscel", "nga_lsel"])
def test_at_uniform_costs_every_cost_is_1(name):
    scores, labels = imbalanced()
    torch.testing.assert_close(bound(name, "uniform")(scores, labels), losses.LOSSES[name](scores, labels))


def test_at_uniform_costs_and_equal_frequencies_c_logistic_is_logistic():
    scores, labels = balanced()
    torch.testing.assert_close(losses.c_logistic(scores, labels), losses.logistic(scores, labels))


@pytest.mark.parametrize("kind", ["inverse_frequency", "effective_number"])
def test_nga_lsel_and_c_logistic_take_the_cost_of_the_true_class(kind):
    scores, labels = imbalanced()
    given = costs.inverse_frequency(COUNTS) if kind == "inverse_frequency" else costs.effective_number(COUNTS, beta=0.9)
    nga = logistic = 0.0
    for s, y in zip(scores.numpy(), labels.tolist(), strict=True):
        for t in range(T):
            rivals = [k for k in range(K) if k != y]
            nga += float(given[y]) * sum(math.log(np.exp(s[t]).sum()) - s[t, k] for k in rivals)
            logistic += float(given[y]) * sum(math.log1p(math.exp(s[t, k] - s[t, y])) for k in rivals) / (K - 1)
    count = T * len(labels)
    assert float(bound("nga_lsel", kind)(scores, labels)) == pytest.approx(nga / count, rel=1e-9)
    assert float(bound("c_logistic", kind)(scores, labels)) == pytest.approx(logistic / count, rel=1e-9)
