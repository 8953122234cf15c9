"""Costs of decisions: orientation, time, and the exact threshold of least cost."""

import numpy as np
import pytest

from sooner.errors import InvalidArgument, UnknownName
from sooner.evaluate import choose_rule
from sooner.evaluate.choose import cheapest_rule
from sooner.rules import MSPRT, DecisionCost, FixedTime, LogOdds
from sooner.scores import Scored

MATRIX = np.array([[0.0, 2.0, 1.0], [5.0, 0.0, 3.0], [4.0, 0.5, 0.0]])


def made_up(seed=0, series=50, time=6):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, series)
    scores = (random.normal(size=(series, time, 3)) + 0.6 * np.eye(3)[labels][:, None]).cumsum(axis=1)
    lengths = np.append(time, random.integers(1, time + 1, series - 1))
    return Scored.of(scores, labels, lengths=lengths)


@pytest.mark.parametrize("family", [MSPRT, LogOdds, FixedTime])
@pytest.mark.parametrize("waiting", [0.1, [0.0, 0.1, 0.4, 0.9, 1.6, 2.5], lambda t: 0.07 * t**1.5])
def test_no_threshold_costs_less_with_a_matrix_and_any_cost_of_time(family, waiting):
    scored = made_up()
    rule = choose_rule(
        family,
        scored.scores,
        scored.truths,
        lengths=scored.lengths,
        cost_of_waiting=waiting,
        cost_matrix=MATRIX,
    )

    def mean_cost(other):
        decisions = other.decide(scored.scores, scored.lengths)
        total = 0.0
        for true, named, time in zip(scored.truths, decisions.labels, decisions.times, strict=True):
            wait = (
                waiting(float(time))
                if callable(waiting)
                else np.multiply(waiting, time)
                if np.ndim(waiting) == 0
                else waiting[time - 1]
            )
            total += MATRIX[true, named] + wait
        return total / len(scored)

    others = range(1, 7) if family is FixedTime else np.linspace(0.0, 12.0, 200)
    assert mean_cost(rule) <= min(mean_cost(family.at(other)) for other in others) + 1e-9


def test_a_number_of_cost_is_a_matrix_of_equal_costs():
    scored = made_up()
    one = cheapest_rule(MSPRT, scored, DecisionCost.of(0.05, 2.0))
    assert one == cheapest_rule(MSPRT, scored, DecisionCost.of(0.05, matrix=2.0 * (1 - np.eye(3))))
    assert one == cheapest_rule(MSPRT, scored, DecisionCost.of([0.05 * t for t in range(1, 7)], 2.0))
    assert one == cheapest_rule(MSPRT, scored, DecisionCost.of(lambda t: 0.05 * t, 2.0))


def test_rows_are_true_classes():
    dear_misses = Scored.of([[[0.0, 1.0]]], [0])
    assert DecisionCost([[0.0, 7.0], [1.0, 0.0]], 0.0).paid(dear_misses).tolist() == [[7.0]]


def test_the_average_cost_is_that_of_the_field():
    scored = Scored.of([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], [1], lengths=[2])
    assert DecisionCost.average(0.9).paid(scored)[0, :2] == pytest.approx([0.9 + 0.1 / 2, 0.9 + 0.1])


def test_costs_beyond_the_end_of_a_series_are_those_of_its_end():
    paid = DecisionCost(1.0, 0.25).paid(Scored.of([[[1.0, 0.0], [0.0, 1.0], [9.0, 0.0]]], [0], lengths=[2]))
    assert paid.tolist() == [[0.25, 1.5, 1.5]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1.0, 1.0, None), "`cost_of_waiting` must be at least 0, got -1.0. Costs are at least 0."),
        ((0.1, -1.0, None), "`cost_of_error` must be at least 0, got -1.0. Costs are at least 0."),
        (
            (0.1, 2.0, MATRIX),
            "`cost_of_error` must be left out with a cost matrix, got 2.0. The matrix has all errors.",
        ),
        (
            (0.1, 1.0, [[0.0, 1.0]]),
            "`cost_matrix` must be a number or a K x K matrix, got shape (1, 2). "
            "Entry [k, l] is the cost of deciding class l where class k is true; costs are finite.",
        ),
        (
            (0.1, 1.0, [[0.0, -1.0], [1.0, 0.0]]),
            "`cost_matrix` must be at least 0 everywhere, got an entry of -1.0. "
            "Entry [k, l] is the cost of deciding class l where class k is true; costs are finite.",
        ),
    ],
)
def test_costs_that_cannot_be_are_refused(arguments, sentence):
    with pytest.raises(InvalidArgument) as refused:
        DecisionCost.of(*arguments)
    assert str(refused.value) == sentence


def test_costs_that_do_not_fit_the_scores_are_refused():
    scored = made_up()
    with pytest.raises(InvalidArgument, match="`cost_matrix` must be of 3 classes, as the scores are, got 2 classes"):
        DecisionCost.of(0.1, matrix=[[0.0, 1.0], [1.0, 0.0]]).paid(scored)
    with pytest.raises(
        InvalidArgument, match="`cost_of_waiting` must be as long as the longest series, 6, got 2 costs"
    ):
        DecisionCost.of([0.1, 0.2]).paid(scored)
    with pytest.raises(InvalidArgument, match="`cost_of_waiting` must be at least 0 everywhere"):
        DecisionCost.of(lambda t: 3.0 - t).paid(scored)
    with pytest.raises(InvalidArgument, match=r"`cost_of_waiting` must be of shape \(6,\)"):
        DecisionCost.of(lambda _: 1.0).paid(scored)
    with pytest.raises(UnknownName, match="`clock` must be one of"):
        DecisionCost(1.0, 0.1, "seconds")
    with pytest.raises(InvalidArgument, match="`cost_matrix` must be given with cost_of_waiting, got alone"):
        choose_rule(MSPRT, scored.scores, scored.truths, cost_matrix=MATRIX, max_error=0.5)
