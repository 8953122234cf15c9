"""The theory of the losses, shown on numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner import losses
from sooner.data import Gaussian
from sooner.scores import ratio_matrix


def _fit_linear_scores(process, series, loss, *, prior=None, seed=0):
    """Scores s_k(1) = w_k . x + b_k by full-batch L-BFGS: the exact scores of the Gaussian process are of this form."""
    x, labels = process.sample(series, 1, seed=seed, prior=prior)
    inputs = torch.cat([x, torch.ones_like(x[..., :1])], dim=2)
    weights = torch.zeros(inputs.shape[2], process.classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure():
        optimizer.zero_grad()
        value = loss(inputs @ weights, labels)
        value.backward()
        return value

    optimizer.step(closure)
    return weights.detach()


def _ratio_error(process, weights):
    x, _ = process.sample(4000, 1, seed=10**6)
    inputs = torch.cat([x, torch.ones_like(x[..., :1])], dim=2)
    learned, exact = ratio_matrix(inputs @ weights), ratio_matrix(process.scores(x))
    return float((learned - exact).square().mean().sqrt())


@pytest.mark.parametrize("name", ["lsel", "modified_lsel", "logistic"])
@pytest.mark.parametrize("prior", [None, [8, 2, 1]])
def test_learned_ratios_approach_the_exact_ones_as_the_training_set_grows(name, prior):
    """Consistency: for balanced and imbalanced classes alike, the error falls about as one over the root of M."""
    process = Gaussian.equidistant(classes=3, distance=1.0)
    loss = losses.LOSSES[name]
    errors = []
    for series in (300, 1200, 4800):
        fits = [_fit_linear_scores(process, series, loss, prior=prior, seed=seed) for seed in range(10)]
        errors.append(sum(_ratio_error(process, fit) for fit in fits) / 10)
    assert errors[0] > 1.6 * errors[1] > 1.6**2 * errors[2]
    assert errors[2] < 0.15


def test_plain_cross_entropy_keeps_the_prior_in_its_scores():
    """The contrast: what LSEL's balance removes."""
    process = Gaussian.equidistant(classes=3, distance=1.0)
    weights = _fit_linear_scores(process, 25_600, losses.cost_sensitive_lsel, prior=[8, 2, 1])
    assert _ratio_error(process, weights) > 1.0


@pytest.mark.parametrize("name", ["lsif_halved", "barr"])
def test_true_ratio_is_stationary_for_classical_lsif_and_for_barr(name):
    """At the exact scores the gradient along a scaling of the ratios vanishes, up to sampling error."""
    process = Gaussian.equidistant(classes=2, distance=0.5)
    x, labels = process.sample(200_000, 1, seed=0)
    exact = process.scores(x)
    scale = torch.tensor(1.0, dtype=torch.float64)
    values = [float(losses.LOSSES[name](exact * (scale + step), labels)) for step in (-0.3, 0.0, 0.3)]
    assert values[1] < min(values[0], values[2])


def test_paper_lsif_without_its_half_shrinks_the_ratios():
    process = Gaussian.equidistant(classes=2, distance=0.5)
    x, labels = process.sample(100_000, 1, seed=0)
    exact = process.scores(x)
    flat = torch.zeros_like(exact)
    assert losses.lsif(flat, labels) < losses.lsif(exact, labels)
    assert losses.lsif_halved(exact, labels) < losses.lsif_halved(flat, labels)


def test_dskl_and_lsif_are_unbounded_below_on_separable_series():
    labels = torch.tensor([0, 1])
    direction = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    for name in ("dskl", "lsif", "barr"):
        values = [float(losses.LOSSES[name](size * direction, labels)) for size in (1.0, 3.0, 9.0)]
        assert values[0] > values[1] > values[2]


@given(st.lists(st.floats(-6, 6), min_size=3, max_size=6))
def test_lsel_weighs_the_hardest_class_at_least_as_much_as_the_logistic_loss_does(values):
    """Gradient of the hardest rival over that of the easiest: LSEL's is never below the logistic loss's."""

    def ratio(loss):
        scores = torch.tensor(values, dtype=torch.float64)[None, None].requires_grad_()
        (gradient,) = torch.autograd.grad(loss(scores, torch.tensor([0])), scores)
        rivals = gradient[0, 0, 1:]
        order = scores[0, 0, 1:].argsort()
        return float(rivals[order[-1]] / rivals[order[0]])

    assert ratio(losses.lsel) >= ratio(losses.logistic) * (1 - 1e-9)


GUESS_AVERSE = ["cost_sensitive_lsel", "lscel", "c_logistic", "logistic_c"]


@pytest.mark.parametrize("name", GUESS_AVERSE)
@given(
    st.lists(st.floats(-20, 20), min_size=4, max_size=4, unique=True),
    st.lists(st.floats(0.01, 20), min_size=16, max_size=16),
    st.integers(0, 3),
)
def test_guess_averse_losses_never_prefer_a_guess_to_a_right_decision(name, values, costs, guess_at):
    """If the true class leads, the loss is below that of every guess (all scores alike), whatever the costs."""
    scores = torch.tensor(values, dtype=torch.float64)[None, None]
    label = scores[0, 0].argmax()[None]
    options = {"costs": costs[:4] if name == "cost_sensitive_lsel" else torch.tensor(costs).reshape(4, 4)}
    loss = losses.LOSSES[name]
    guess = torch.full_like(scores, values[guess_at])
    assert loss(scores, label, **options) < loss(guess, label, **options)


def test_nga_lsel_prefers_a_guess_to_a_right_decision():
    right = torch.tensor([[[3.0, 2.0, -100.0]]])
    guess = torch.zeros(1, 1, 3)
    label = torch.tensor([0])
    assert losses.nga_lsel(right, label) > losses.nga_lsel(guess, label)


def test_cost_sensitive_lsel_is_lsel_at_inverse_frequency():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 3, 3, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0] * 12 + [1] * 6 + [2] * 2)
    counts = torch.bincount(labels)
    costs = losses.costs.inverse_frequency(counts)
    torch.testing.assert_close(losses.cost_sensitive_lsel(scores, labels, costs=costs), losses.lsel(scores, labels))
    ratios = counts[None] / counts[:, None]
    torch.testing.assert_close(losses.lscel(scores, labels, costs=ratios), losses.modified_lsel(scores, labels))


def test_costs_average_to_one_over_training_series_and_meet_their_ends():
    counts = torch.tensor([100, 10, 1])
    for costs in (
        losses.costs.uniform(counts),
        *(losses.costs.effective_number(counts, beta=b) for b in (0, 0.9, 0.9999, 1)),
    ):
        torch.testing.assert_close((counts * costs).sum(), torch.tensor(111.0).double())
    torch.testing.assert_close(losses.costs.effective_number(counts, beta=0.0), losses.costs.uniform(counts).double())
    torch.testing.assert_close(
        losses.costs.inverse_frequency(counts), torch.tensor([111 / 300, 111 / 30, 111 / 3]).double()
    )
    near = losses.costs.effective_number(counts, beta=1 - 1e-9)
    torch.testing.assert_close(near, losses.costs.inverse_frequency(counts), rtol=1e-6, atol=0)


def test_effective_number_follows_its_formula():
    counts = torch.tensor([40.0, 5.0, 1.0]).double()
    raw = (1 - 0.9) / (1 - 0.9**counts)
    costs = losses.costs.effective_number(counts, beta=0.9)
    torch.testing.assert_close(costs / costs.sum(), raw / raw.sum())
