"""Rules chosen from data meet their target, and nothing just below them does."""

import numpy as np
import pytest
import torch

from sooner.data import Gaussian
from sooner.errors import UnreachableTarget
from sooner.evaluate import (
    average_cost,
    balanced_error,
    choose_rule,
    least_threshold_for_error,
    mean_time,
    sat_curve,
    threshold_of_least_average_cost,
)
from sooner.evaluate.choose import threshold_of_least_cost
from sooner.rules import MSPRT, FixedTime, LogOdds, ProbabilityThreshold

FAMILIES = [MSPRT, LogOdds, ProbabilityThreshold, FixedTime]
# One series of 400 may differ where an exponential is rounded otherwise; MSPRT and FixedTime have none.
SLACK = {MSPRT: 1e-12, FixedTime: 1e-12, LogOdds: 0.01, ProbabilityThreshold: 0.01}


@pytest.fixture(scope="module")
def held_out():
    process = Gaussian.equidistant(classes=4, distance=0.8)
    observations, labels = process.sample(400, 30, seed=3)
    return process.scores(observations), labels


def _threshold(rule):
    return next(iter(vars(rule).values()))


@pytest.mark.parametrize("family", FAMILIES)
def test_least_threshold_for_a_maximal_error(held_out, family):
    scores, labels = held_out
    rule = choose_rule(family, scores, labels, max_error=0.1)
    assert isinstance(rule, family)
    assert balanced_error(rule.decide(scores), labels) <= 0.1 + SLACK[family]
    curve = sat_curve(scores, labels, rule=family)
    assert (curve.errors[curve.thresholds < _threshold(rule)] > 0.1).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_greatest_threshold_for_a_maximal_mean_time(held_out, family):
    scores, labels = held_out
    rule = choose_rule(family, scores, labels, max_mean_time=9.5)
    assert mean_time(rule.decide(scores)) <= 9.5 + 5 * SLACK[family]
    curve = sat_curve(scores, labels, rule=family)
    # Up to the next point of the curve nothing changes.
    above = curve.thresholds > curve.thresholds[np.searchsorted(curve.thresholds, _threshold(rule))]
    assert (curve.mean_times[above] > 9.5).all()


def test_a_chosen_threshold_is_no_statistic_of_a_series(held_out):
    """Otherwise a rounding could decide that series otherwise."""
    scores, labels = held_out
    rule = choose_rule(MSPRT, scores, labels, max_error=0.1)
    curve = sat_curve(scores, labels)
    assert rule.threshold not in curve.thresholds
    least = MSPRT(least_threshold_for_error(curve, 0.1))
    assert rule.decide(scores) == least.decide(scores)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cost", [0.0, 0.003, 0.03])
def test_least_cost_is_least_over_all_thresholds(held_out, family, cost):
    scores, labels = held_out
    decisions = choose_rule(family, scores, labels, cost_of_waiting=cost).decide(scores)
    curve = sat_curve(scores, labels, rule=family)
    ours = (decisions.labels != labels.numpy()).mean() + cost * mean_time(decisions)
    assert ours == pytest.approx((curve.error_rates + cost * curve.mean_times).min(), abs=SLACK[family])


def test_least_average_cost_is_that_of_the_field(held_out):
    scores, labels = held_out
    lengths = torch.arange(400) % 20 + 11
    curve = sat_curve(scores, labels, lengths=lengths)
    best = MSPRT(threshold_of_least_average_cost(curve, alpha=0.7)).decide(scores, lengths)
    cost = average_cost(best, labels, lengths=lengths, alpha=0.7)
    for threshold in np.linspace(0, 6, 25):
        other = MSPRT(threshold).decide(scores, lengths)
        assert cost <= average_cost(other, labels, lengths=lengths, alpha=0.7) + 1e-12


def test_dear_errors_buy_patience(held_out):
    curve = sat_curve(*held_out)
    thresholds = [threshold_of_least_cost(curve, cost_of_waiting=0.01, cost_of_error=c) for c in (0.1, 1, 10)]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[2]


def test_unreachable_targets_say_how_near_one_can_come():
    scores = torch.tensor([[[0.0, 1.0], [0.0, 2.0]]] * 2)
    with pytest.raises(
        UnreachableTarget, match=r"No threshold reaches `max_error` of 0.1 on these data: the nearest is 0.5"
    ):
        choose_rule(MSPRT, scores, [0, 1], max_error=0.1)
    with pytest.raises(UnreachableTarget, match=r"`max_mean_time` of 0.5 on these data: the nearest is 1"):
        choose_rule(MSPRT, scores, [0, 1], max_mean_time=0.5)


def test_waiting_for_the_end_can_be_the_answer():
    scores = torch.tensor([[[0.0, 3.0], [1.0, 0.0]], [[0.0, 3.0], [0.0, 1.0]]])
    rule = choose_rule(MSPRT, scores, [0, 1], max_error=0.0)
    assert rule == MSPRT(np.inf)
    assert balanced_error(rule.decide(scores), [0, 1]) == 0.0
