"""EARLIEST: laws, counts, its loss against a literal transcription, and that it learns to stop."""

import math

import numpy as np
import pytest
import torch

from sooner.checks import MODEL_LAWS, check_model_law
from sooner.errors import InvalidArgument
from sooner.evaluate import balanced_error, hitting_times, stopping_curve
from sooner.models.earliest import Earliest, annealed, draw_halts, log_policy

# The baseline serves the loss alone, so neither logits nor halting probabilities can carry a gradient to it: the two tests
# that follow the laws take the place of this one.
REACHED = "gradient reaches every parameter"


@pytest.mark.parametrize("law", [law for law in MODEL_LAWS if law != REACHED])
@pytest.mark.parametrize("model", list(Earliest.examples()), ids=lambda model: f"{model.classes} classes")
def test_every_law_holds(model, law):
    check_model_law(model, law)


def _unreached(model):
    return {name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()}


def test_logits_and_halting_reach_every_parameter_but_those_of_the_baseline():
    model = next(Earliest.examples())
    windows = model(torch.randn(6, 9, 3))
    (windows.logits.square().sum() + windows.halting.square().sum()).backward()
    assert _unreached(model) == set(model.unreached_parameters()) == {"baseline.weight", "baseline.bias"}


def test_the_loss_reaches_every_parameter():
    model = next(Earliest.examples())
    model.loss(torch.randn(20, 9, 3), torch.arange(20) % 4, penalty=0.1, generator=seeded()).backward()
    assert _unreached(model) == set()


@pytest.mark.parametrize(
    ("channels", "hidden", "classes", "parameters"),
    [(128, 128, 10, 133_646), (2048, 256, 101, 2_387_817), (2048, 256, 51, 2_374_967)],
)
def test_parameters_are_as_many_as_published(channels, hidden, classes, parameters):
    model = Earliest((channels,), classes, hidden=hidden)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_live_halting_probabilities_are_those_of_the_batch():
    model = next(Earliest.examples())
    observations = torch.randn(5, 7, 3, generator=seeded())
    batch, state = model(observations).halting, model.init(5)
    for t in range(7):
        state, _, halting = model.step(state, observations[:, t])
        assert torch.allclose(halting, batch[:, t], atol=1e-6)
    assert model.bytes_per_stream() == (5 + 5 + 1) * 4


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_the_policy_is_what_the_paper_says_and_finite_far_out(epsilon):
    controls = torch.tensor([[-2.0, 0.0, 3.0, -1e4, 1e4]], requires_grad=True)
    halt, wait = log_policy(controls, epsilon=epsilon)
    probability = (1 - epsilon) * controls.sigmoid() + 0.05 * epsilon
    assert torch.allclose(halt.exp(), probability, atol=1e-6)
    assert torch.allclose(wait.exp(), 1 - probability, atol=1e-6)
    (halt + wait).sum().backward()
    assert torch.isfinite(halt).all()
    assert torch.isfinite(wait).all()
    assert torch.isfinite(controls.grad).all()


def test_exploration_falls_exponentially_from_one_to_zero():
    assert (annealed(0.0), annealed(1.0)) == (1.0, 0.0)
    for share in (0.1, 0.25, 0.7):
        assert annealed(share) == pytest.approx((math.exp(-4 * share) - math.exp(-4)) / (1 - math.exp(-4)), rel=1e-12)
    found = [annealed(step / 100) for step in range(101)]
    falls = np.diff(found)
    assert (falls < 0).all()
    np.testing.assert_allclose(falls[1:] / falls[:-1], math.exp(-4 / 100))  # what makes it an exponential


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_halting_in_training_is_explored_as_far_as_the_training_is(share):
    model = next(Earliest.examples()).train()
    model.set_progress(share)
    observations, labels = torch.randn(12, 8, 3, generator=seeded()), torch.arange(12) % 4
    epsilon = (math.exp(-4 * share) - math.exp(-4)) / (1 - math.exp(-4))
    p_halt = (1 - epsilon) * model(observations).halting + 0.05 * epsilon
    controls = model(observations).halting.logit()
    torch.testing.assert_close(log_policy(controls, epsilon=model.exploration)[0].exp(), p_halt)
    drawn = torch.bernoulli(p_halt, generator=seeded(7)).bool()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        loss = model.own_loss(observations, labels, None)
    literal = _literal_loss(model, observations, labels, [8] * 12, drawn, penalty=model.penalty, epsilon=epsilon)
    assert loss.item() == pytest.approx(literal.item(), rel=1e-5)
    loss.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_a_number_keeps_exploration_and_outside_of_training_there_is_none():
    model = Earliest((3,), 4, hidden=5, epsilon=0.2).train()
    for share in (0.0, 0.5, 1.0):
        model.set_progress(share)
        assert model.exploration == 0.2
    assert model.eval().exploration == 0.0
    assert next(Earliest.examples()).eval().exploration == 0.0
    assert next(Earliest.examples()).train().exploration == 1.0


def test_a_series_halts_at_the_first_draw_or_else_at_its_end():
    certain = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    drawn, times = draw_halts(certain, torch.tensor([4, 4, 3]), seeded())
    assert times.tolist() == [2, 4, 3]
    assert drawn[torch.arange(3), times - 1].tolist() == [True, False, False]


def _literal_loss(model, observations, labels, lengths, drawn, *, penalty, epsilon):
    """The loss in loops, one series after the other, on draws made elsewhere."""
    reinforce, entropy, wait, squares = [], [], [], []
    for x, y, length, actions in zip(observations, labels, lengths, drawn, strict=True):
        tau = next((t for t in range(length) if actions[t]), length - 1)
        states = model.lstm(x[None, : tau + 1])[0][0]
        logits = model.classifier(states[tau])
        reward = 1.0 if int(logits.argmax()) == int(y) else -1.0
        entropy.append(-logits.log_softmax(dim=0)[y])
        gains, waits = [], []
        for t in range(tau + 1):
            inputs = torch.cat([states[t].detach(), torch.tensor([t + 1.0])])
            p = (1 - epsilon) * model.controller(inputs).sigmoid() + 0.05 * epsilon
            b = model.baseline(inputs)
            gains.append(-(p if actions[t] else 1 - p).log() * (reward - b.detach()))
            waits.append(-p.log())
            squares.append((reward - b).square())
        reinforce.append(sum(gains))
        wait.append(sum(waits))
    mean = [torch.stack(terms).mean() for terms in (reinforce, squares, entropy, wait)]
    return mean[0] + mean[1] + mean[2] + penalty * mean[3]


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_the_loss_is_its_definition_in_value_and_gradient(epsilon):
    model = next(Earliest.examples())
    observations, labels = torch.randn(12, 8, 3, generator=seeded()), torch.arange(12) % 4
    lengths = torch.arange(12) % 8 + 1
    loss = model.loss(observations, labels, lengths, penalty=0.3, epsilon=epsilon, generator=seeded(7))
    found = torch.autograd.grad(loss, tuple(model.parameters()))
    halting = (1 - epsilon) * model(observations).halting + 0.05 * epsilon
    drawn = torch.bernoulli(halting, generator=seeded(7)).bool()
    literal = _literal_loss(model, observations, labels, lengths, drawn, penalty=0.3, epsilon=epsilon)
    expected = torch.autograd.grad(literal, tuple(model.parameters()))
    assert loss.item() == pytest.approx(literal.item(), rel=1e-5)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_padding_reaches_neither_the_loss_nor_its_gradient():
    model = next(Earliest.examples())
    observations, labels, lengths = torch.randn(6, 8, 3, generator=seeded()), torch.arange(6) % 4, torch.arange(6) + 1
    padded = torch.where((torch.arange(8) >= lengths[:, None])[..., None], torch.nan, observations)
    losses = [model.loss(x, labels, lengths, penalty=0.1, generator=seeded()) for x in (observations, padded)]
    assert losses[0] == losses[1]
    losses[1].backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def easy(series, seed):
    """Two classes, the sign of a mean in noise: the first observation says something, twelve say nearly all."""
    generator = seeded(seed)
    labels = torch.arange(series) % 2
    return torch.randn(series, 12, 1, generator=generator) + 1.2 * (labels[:, None, None] - 0.5), labels


def trained(penalty, *, steps=150):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Earliest((1,), 2, hidden=12)
    observations, labels = easy(256, seed=1)
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=0.02), seeded()
    for step in range(steps):
        optimizer.zero_grad()
        epsilon = max(0.0, 1 - 2 * step / steps)
        model.loss(observations, labels, penalty=penalty, epsilon=epsilon, generator=generator).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def patient():
    return trained(0.0)


@pytest.fixture(scope="module")
def hasty():
    return trained(1.0)


def test_training_raises_accuracy(patient):
    observations, labels = easy(1000, seed=2)
    before = trained(0.0, steps=0).sample_decisions(observations, generator=seeded())
    after = patient.sample_decisions(observations, generator=seeded())
    assert balanced_error(before, labels) > 0.4
    assert balanced_error(after, labels) < 0.15


def test_a_larger_penalty_halts_earlier(patient, hasty):
    observations, _ = easy(1000, seed=2)
    slow, fast = (hitting_times(m.sample_decisions(observations, generator=seeded())).mean for m in (patient, hasty))
    assert fast < 0.5 * slow


def test_a_threshold_on_the_probability_gives_a_whole_curve(patient):
    observations, labels = easy(1000, seed=2)
    with torch.no_grad():
        windows = patient(observations)
    predictions = windows.logits[:, 0].argmax(dim=2)
    curve = stopping_curve(windows.halting, predictions, labels, classes=2)
    assert curve.mean_times[0] == 1
    assert curve.mean_times[-1] == 12
    assert curve.errors[-1] < 0.1 < 0.2 < curve.errors[0]
    middle = float(curve.thresholds[len(curve) // 2])
    stops = np.where((windows.halting >= middle).any(1), (windows.halting >= middle).int().argmax(1), 11)
    assert curve.mean_times[len(curve) // 2] == pytest.approx(stops.mean() + 1)


def test_sampled_decisions_repeat_with_the_generator_and_keep_to_lengths(patient):
    observations, _ = easy(50, seed=3)
    lengths = torch.arange(50) % 12 + 1
    one, two = (patient.sample_decisions(observations, lengths, generator=seeded(4)) for _ in range(2))
    assert (one.times == two.times).all()
    assert (one.times <= lengths.numpy()).all()
    assert (one.times[~one.crossed] == lengths.numpy()[~one.crossed]).all()


def test_an_empty_batch_gives_empty_decisions_and_is_refused_by_the_loss():
    model = next(Earliest.examples())
    assert len(model.sample_decisions(torch.zeros(0, 4, 3))) == 0
    with pytest.raises(InvalidArgument, match="`observations` must be a batch of at least 1 series"):
        model.loss(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.int64), penalty=0.1)


X = torch.zeros(2, 4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.loss(X, [0, 1], penalty=-1.0), r"`penalty` must be at least 0, got -1\.0"),
        (lambda m: m.loss(X, [0, 1], penalty=1.0, epsilon=2.0), r"`epsilon` must be in 0\.\.1, got 2\.0"),
        (lambda m: m.loss(X, [0, 4], penalty=1.0), r"`labels` must be in 0\.\.3, got 4"),
        (lambda m: m(X[..., :2]), r"`observations` must be of shape \(batch, time, 3\)"),
        (lambda m: m.step(m.init(2), X[:, 0, :2]), r"`observations` must be of shape \(streams, 3\)"),
        (lambda m: m(X / 0), r"`observations` must be finite"),
        (lambda _: Earliest((3, 2), 4), r"`features` must be \(channels,\), got \(3, 2\)"),
        (lambda _: Earliest((3,), 4, hidden=0), r"`hidden` must be at least 1"),
        (lambda _: Earliest((3,), 4, epsilon="anealed"), r"`epsilon` must be a number, got 'anealed'.*\"annealed\""),
        (lambda _: Earliest((3,), 4, epsilon=1.5), r"`epsilon` must be in 0\.\.1, got 1\.5"),
        (lambda _: annealed(1.5), r"`share` must be in 0\.\.1, got 1\.5"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call(next(Earliest.examples()))
