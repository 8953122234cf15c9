"""Exact scores against the densities themselves, and rates against the growth of scores."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sooner.data import AR1, Gaussian, HiddenOnset
from sooner.scores import ratio_matrix

COVARIANCE = ((2.0, 0.6), (0.6, 0.5))
PROCESSES = [
    Gaussian(((0.0, 0.0), (0.5, 0.2), (-0.3, 0.4)), COVARIANCE),
    Gaussian.equidistant(3, 0.7),
    AR1((-0.5, 0.2, 0.8), sigma=1.7),
    HiddenOnset(((0.8, 0.0), (0.0, 1.0), (1.5, 1.5)), rate=0.2),
]


def _gaussian_log_density(process, x, k):
    return sum(
        stats.multivariate_normal.logpdf(row, process.means[k], process.covariance or np.eye(len(row))) for row in x
    )


def _ar1_log_density(process, x, k):
    phi, sigma = process.coefficients[k], process.sigma
    times = np.arange(len(x))
    covariance = sigma**2 / (1 - phi**2) * phi ** np.abs(np.subtract.outer(times, times))
    return stats.multivariate_normal.logpdf(x[:, 0], np.zeros(len(x)), covariance)


def _hidden_onset_log_density(process, x, k):
    """A sum over the time of onset, with what lies after the last observation as one term."""
    rho, mean = process.rate, np.array(process.means[k])
    before = stats.norm.logpdf(x).sum(axis=1)
    after = stats.norm.logpdf(x - mean).sum(axis=1)
    paths = [math.log(rho) + u * math.log1p(-rho) + before[:u].sum() + after[u:].sum() for u in range(len(x))]
    return np.logaddexp.reduce([*paths, len(x) * math.log1p(-rho) + before.sum()])


DENSITIES = {Gaussian: _gaussian_log_density, AR1: _ar1_log_density, HiddenOnset: _hidden_onset_log_density}


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_scores_are_log_densities_up_to_a_shared_term(process):
    x, _ = process.sample(4, 6, seed=0)
    ratios = ratio_matrix(process.scores(x)).numpy()
    for i in range(4):
        for t in range(1, 7):
            exact = np.array([DENSITIES[type(process)](process, x[i, :t].numpy(), k) for k in range(3)])
            np.testing.assert_allclose(ratios[i, t - 1], exact[:, None] - exact[None], atol=1e-9)


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_rates_are_the_growth_of_ratios(process):
    time, skip = 400, 200
    x, labels = process.sample(3000, time, seed=1)
    ratios = ratio_matrix(process.scores(x)[:, [skip - 1, time - 1]])
    growth = (ratios[:, 1] - ratios[:, 0]) / (time - skip)
    for k in range(process.classes):
        measured = growth[labels == k][:, k].mean(dim=0).numpy()
        np.testing.assert_allclose(measured, process.rates()[k], rtol=0.05, atol=1e-12)


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_exact_posteriors_are_calibrated(process):
    """Among series whose leader has posterior about p, a share of about p is named rightly: only exact scores do that."""
    x, labels = process.sample(20_000, 5, seed=2)
    posterior, guess = process.scores(x)[:, -1].softmax(dim=1).max(dim=1)
    right = (guess == labels).double()
    for low, high in ((1 / 3, 0.5), (0.5, 0.7), (0.7, 1.0)):
        rows = (posterior >= low) & (posterior < high)
        assert rows.sum() > 300
        error = 4 * right[rows].std() / rows.sum().sqrt()
        assert abs(right[rows].mean() - posterior[rows].mean()) < error


def test_same_seed_same_series():
    first, second, other = (PROCESSES[0].sample(5, 3, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(first.observations, second.observations)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.observations, other.observations)


def test_prior_sets_how_often_classes_come():
    labels = PROCESSES[0].sample(10_000, 1, seed=0, prior=[8, 1, 1]).labels
    np.testing.assert_allclose(torch.bincount(labels) / 10_000, [0.8, 0.1, 0.1], atol=0.02)


def test_order_one_holds_all_evidence_of_ar1_and_order_zero_does_not():
    """With exact posteriors of windows of two, M-TANDEM gives the exact ratios; with windows of one it cannot."""
    from sooner.evaluate import mean_accuracy
    from sooner.scores import m_tandem

    process = AR1((-0.6, 0.0, 0.6))
    x, labels = process.sample(2000, 12, seed=0)

    def windows(order):
        pieces = [process.scores(x[:, w : w + order + 1]) for w in range(12 - order)]
        return m_tandem(torch.stack(pieces, dim=1))

    exact = process.scores(x)
    for order in (1, 2, 5):
        torch.testing.assert_close(ratio_matrix(windows(order)), ratio_matrix(exact))
    assert mean_accuracy(windows(0), labels) < mean_accuracy(exact, labels) - 0.1


def test_every_finite_order_is_biased_for_a_hidden_onset():
    from sooner.scores import m_tandem

    process = PROCESSES[3]
    x, _ = process.sample(200, 10, seed=0)
    exact = ratio_matrix(process.scores(x))[:, -1]
    gaps = []
    for order in range(1, 10):
        pieces = torch.stack([process.scores(x[:, w : w + order + 1]) for w in range(10 - order)], dim=1)
        gaps.append(float((ratio_matrix(m_tandem(pieces))[:, -1] - exact).abs().mean()))
    assert gaps[-1] < 1e-9 < 1e-3 < min(gaps[:-1])
