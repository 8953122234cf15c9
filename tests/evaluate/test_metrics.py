"""Errors, times and costs, against hand-made numbers and independent formulas."""

import numpy as np
import pytest
import torch
from scipy import stats

from sooner import evaluate
from sooner.evaluate.metrics import last_error_of
from sooner.scores import Scored
from sooner.types import Decisions

DECISIONS = Decisions(np.array([0, 0, 1, 1, 2]), np.array([1, 2, 3, 4, 5]), np.array([True, True, True, False, True]))
LABELS = np.array([0, 0, 0, 1, 1])


def test_balanced_error_weighs_classes_alike():
    assert evaluate.balanced_error(DECISIONS, LABELS) == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert evaluate.balanced_error(["a", "b"], np.array(["a", "c"])) == 0.5
    assert evaluate.balanced_error(torch.tensor([1, 1]), torch.tensor([1, 0])) == 0.5


def test_hitting_times_have_mean_variance_and_forced_share():
    times = evaluate.hitting_times(DECISIONS)
    assert times == evaluate.HittingTimes(mean=3.0, variance=2.0, forced=pytest.approx(0.2))
    assert evaluate.mean_time([1, 2]) == evaluate.mean_time(torch.tensor([1, 2])) == 1.5


def test_class_errors_have_exact_intervals_and_name_absent_classes():
    errors = evaluate.class_errors(DECISIONS, LABELS, classes=[0, 1, 2])
    np.testing.assert_allclose(errors.errors, [1 / 3, 1 / 2])
    assert errors.absent == (2,)
    for wrong, count, low, high in zip([1, 1], errors.counts, errors.low, errors.high, strict=True):
        exact = stats.binomtest(wrong, count).proportion_ci(0.95, method="exact")
        np.testing.assert_allclose([low, high], [exact.low, exact.high])


def test_intervals_reach_zero_and_one_where_nothing_or_everything_is_wrong():
    errors = evaluate.class_errors([0, 0, 0, 0], [0, 0, 1, 1])
    assert (errors.low[0], errors.high[1]) == (0.0, 1.0)
    assert errors.high[0] == pytest.approx(1 - 0.025 ** (1 / 2))


def test_field_costs_follow_their_formulas():
    lengths = np.array([10, 10, 5, 4, 10])
    earliness = np.mean([0.1, 0.2, 0.6, 1.0, 0.5])
    accuracy = 3 / 5
    assert evaluate.earliness(DECISIONS, lengths) == pytest.approx(earliness)
    cost = evaluate.average_cost(DECISIONS, LABELS, lengths=lengths, alpha=0.8)
    assert cost == pytest.approx(0.8 * (1 - accuracy) + 0.2 * earliness)
    harmonic = evaluate.harmonic_mean(DECISIONS, LABELS, lengths=lengths)
    assert harmonic == pytest.approx(stats.hmean([accuracy, 1 - earliness]))
    assert evaluate.harmonic_mean(DECISIONS, 9 + LABELS, lengths=DECISIONS.times) == 0.0


def test_selection_metric_is_the_mean_over_time_of_balanced_accuracy():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 6, 3, generator=generator)
    labels = torch.randint(3, (40,), generator=generator)
    lengths = torch.randint(1, 7, (40,), generator=generator)
    accuracies = []
    for t in range(6):
        rows = lengths > t
        accuracies.append(1 - evaluate.balanced_error(scores[rows, t].argmax(dim=1), labels[rows]))
    assert evaluate.mean_accuracy(scores, labels, lengths=lengths) == pytest.approx(np.mean(accuracies))


def test_the_last_error_is_the_balanced_error_at_the_end_of_each_series():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(50, 6, 3, generator=generator)
    labels, lengths = torch.arange(50) % 2, 1 + torch.arange(50) % 6  # class 2 has no series
    found = last_error_of(Scored(scores.numpy(), lengths.numpy(), labels.numpy()))
    guesses = scores[torch.arange(50), lengths - 1].argmax(dim=1)
    assert found == pytest.approx(evaluate.balanced_error(guesses, labels), abs=1e-12)


def test_sem_over_seeds_is_the_textbook_one():
    rows = np.random.default_rng(0).normal(size=(5, 3))
    result = evaluate.over_seeds(rows)
    np.testing.assert_allclose(result.sem, stats.sem(rows))
    np.testing.assert_allclose(result.mean, rows.mean(axis=0))
    assert np.isnan(evaluate.over_seeds([[1.0]]).sem).all()
