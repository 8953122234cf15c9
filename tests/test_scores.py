"""Scores from windows, against the formulas written as loops; and what the ratio view promises."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner.scores import log_odds, m_tandem, m_tandem_oblivion, margin, ratio_matrix


def _windows(time, order, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, time - order, order + 1, classes, generator=generator, dtype=torch.float64)


def _by_the_formula(z, log_prior, *, oblivion):
    """Windows and positions counted from 1, as in the formula; the empty window says `log_prior`."""
    batch, starts, positions, _ = z.shape
    order = positions - 1

    def said(w, j):
        return z[:, w - 1, j - 1] if j else log_prior.expand(batch, -1)

    scores = []
    for t in range(1, starts + order + 1):
        if t <= order + 1:
            scores.append(said(1, t) - log_prior)
        elif oblivion:
            scores.append(said(t - order, order + 1) - log_prior)
        else:
            scores.append(scores[-1] + said(t - order, order + 1) - said(t - order, order))
    return torch.stack(scores, dim=1)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("prior", [None, [0.5, 0.3, 0.2]])
@pytest.mark.parametrize(("formula", "oblivion"), [(m_tandem, False), (m_tandem_oblivion, True)])
def test_formulas_are_what_they_say_at_every_order(formula, oblivion, order, prior):
    z = _windows(6, order)
    log_prior = None if prior is None else torch.tensor(prior).double().log()
    expected = _by_the_formula(z, torch.zeros(3).double() if prior is None else log_prior, oblivion=oblivion)
    torch.testing.assert_close(formula(z, log_prior=log_prior), expected)


def test_both_formulas_coincide_at_full_order():
    z = _windows(7, 6)
    assert torch.equal(m_tandem(z), m_tandem_oblivion(z))


def test_prior_is_subtracted_once_for_positive_orders_and_at_every_step_for_order_zero():
    log_prior = torch.tensor([0.9, 0.1]).double().log()
    for order, times in ((0, [1, 2, 3, 4]), (1, [1, 1, 1, 1]), (3, [1, 1, 1, 1])):
        z = _windows(4, order, classes=2)
        difference = m_tandem(z) - m_tandem(z, log_prior=log_prior)
        expected = torch.tensor(times).double()[:, None] * log_prior
        torch.testing.assert_close(difference, expected.expand(2, -1, -1))
        once = m_tandem_oblivion(z) - m_tandem_oblivion(z, log_prior=log_prior)
        torch.testing.assert_close(once, log_prior.expand(2, 4, -1))


def test_uncorrected_order_zero_drifts_with_imbalanced_classes():
    """Posteriors of observations that say nothing are the prior: each adds log(M_k / M_l) to the ratio."""
    counts = torch.tensor([900.0, 100.0]).double()
    uninformative = (counts / counts.sum()).log().expand(1, 50, 1, 2)
    drift = ratio_matrix(m_tandem(uninformative))[0, :, 0, 1]
    torch.testing.assert_close(drift, torch.arange(1, 51).double() * (counts[0] / counts[1]).log())
    corrected = m_tandem(uninformative, log_prior=uninformative[0, 0, 0])
    torch.testing.assert_close(corrected, torch.zeros_like(corrected))


scores_strategy = st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=6)


@given(scores_strategy)
def test_ratios_are_antisymmetric_and_additive(values):
    ratios = ratio_matrix(torch.tensor(values, dtype=torch.float64))
    torch.testing.assert_close(ratios, -ratios.T)
    for middle in range(len(values)):
        torch.testing.assert_close(ratios[:, middle, None] + ratios[middle][None], ratios)


@given(scores_strategy)
def test_margin_is_the_least_ratio_of_the_leader(values):
    scores = torch.tensor(values, dtype=torch.float64)
    ratios = ratio_matrix(scores).fill_diagonal_(torch.inf)
    assert margin(scores) == ratios.amin(dim=1).max()


@given(scores_strategy)
def test_log_odds_are_those_of_the_posterior(values):
    scores = torch.tensor(values, dtype=torch.float64)
    posterior = scores.softmax(dim=0).max()
    torch.testing.assert_close(log_odds(scores).sigmoid(), posterior, rtol=1e-9, atol=1e-12)


def test_log_odds_go_on_growing_where_the_posterior_is_rounded_to_one():
    assert log_odds(torch.tensor([500.0, 0.0])) == 500.0
