"""Choosing a threshold from data."""

from typing import TypeVar

import numpy as np
import torch

from sooner.errors import InvalidArgument, UnreachableTarget
from sooner.evaluate.curve import as_threshold_family, curve_of
from sooner.inputs import as_number
from sooner.rules import DecisionCost, FixedTime, ThresholdRule
from sooner.rules.cost import Waiting
from sooner.rules.records import Sweep
from sooner.scores import Scored
from sooner.types import ArrayLike, FloatArray, SATCurve

R = TypeVar("R", bound=ThresholdRule)

DEFAULT_ALPHA = 0.8
"""The cost of an error in the average cost for which `fit` sets a rule; the rest is for the share of a series that is read."""

_REMEDIES = {"alpha": "It weighs errors against waiting.", "way": "It is a share of the way from chance to the best."}


def choose_rule(
    rule: type[R],
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    max_error: float | None = None,
    max_mean_time: float | None = None,
    cost_of_waiting: Waiting | ArrayLike | None = None,
    cost_of_error: float = 1.0,
    cost_matrix: ArrayLike | None = None,
    halting: ArrayLike | None = None,
) -> R:
    """The rule of a family such as `MSPRT` that meets one target on scores of held-out series.

    Args:
        rule: a class of threshold rules.
        scores: and the other arrays, see `sooner.evaluate`.
        max_error: see `least_threshold_for_error`.
        max_mean_time: see `greatest_threshold_for_time`.
        cost_of_waiting: for one observation, or an array of the cost at each time, or a function of times; with `cost_of_error`
            for one wrong decision, or a `cost_matrix` (classes, classes), indexed [true, decided]: see `cheapest_rule`.

    >>> from sooner.rules import MSPRT
    >>> choose_rule(MSPRT, [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1], max_error=0.1)
    MSPRT(threshold=1.5)

    Among the thresholds with the same decisions on these series it takes the middle one, so that rounding cannot matter.
    """
    scored, family = Scored.of(scores, labels, lengths=lengths, halting=halting), as_threshold_family(rule)
    refuse_costs_without_waiting(cost_of_waiting, cost_of_error, cost_matrix)
    if cost_of_waiting is None or max_error is not None or max_mean_time is not None:
        alone = None if cost_of_waiting is None else 0.0  # refused, as two targets
        curve = curve_of(scored, family)
        return rule_for_target(rule, curve, max_error=max_error, max_mean_time=max_mean_time, cost_of_waiting=alone)
    return cheapest_rule(rule, scored, DecisionCost.of(cost_of_waiting, cost_of_error, cost_matrix))


def refuse_costs_without_waiting(waiting: object, error: object, matrix: object) -> None:
    """The costs of errors mean nothing without a cost of waiting."""
    if waiting is None and (error != 1.0 or matrix is not None):
        name = "cost_of_error" if matrix is None else "cost_matrix"
        raise InvalidArgument(
            name, "given with cost_of_waiting", "alone", "The two are weighed: 0.0 makes waiting free."
        )


def cheapest_rule(rule: type[R], scored: Scored, cost: DecisionCost) -> R:
    """The rule of a family with the least mean cost on labelled series, exactly: one sweep gives the cost of every threshold."""
    halting = None if scored.halting is None else torch.from_numpy(scored.halting)
    statistic = rule.statistic_with(torch.from_numpy(scored.scores), halting).double().numpy()
    sweep = Sweep.of(statistic, scored.lengths)
    return midpoint_rule_at(rule, sweep.thresholds, cheapest(sweep, cost.paid(scored)))


def cheapest(sweep: Sweep, paid: FloatArray) -> int:
    """The index of the threshold with the least mean cost; `paid` (series, time) is that of stopping. The least one in a tie."""
    costs = sweep.sums(paid[:, 0].sum(), paid[sweep.series, sweep.later] - paid[sweep.series, sweep.time])
    # Sums of the same costs in another order differ in their last bits, so almost equal sums are ties.
    return int(np.flatnonzero(costs <= costs.min() + 1e-9 * len(paid) * paid.max())[0])


def rule_for_target(
    rule: type[R],
    curve: SATCurve,
    *,
    max_error: float | None = None,
    max_mean_time: float | None = None,
    cost_of_waiting: float | None = None,
    cost_of_error: float = 1.0,
) -> R:
    """`choose_rule` from a curve."""
    targets = {"max_error": max_error, "max_mean_time": max_mean_time, "cost_of_waiting": cost_of_waiting}
    given = [name for name, target in targets.items() if target is not None]
    if len(given) != 1:
        expected = "the one target, or else max_mean_time or cost_of_waiting"
        raise InvalidArgument("max_error", expected, given or "none", "Give exactly one.")
    if max_error is not None:
        threshold = least_threshold_for_error(curve, max_error)
    elif max_mean_time is not None:
        threshold = greatest_threshold_for_time(curve, max_mean_time)
    else:
        waiting = cost_of_waiting or 0.0
        threshold = threshold_of_least_cost(curve, cost_of_waiting=waiting, cost_of_error=cost_of_error)
    return midpoint_rule(rule, curve, threshold)


def midpoint_rule(rule: type[R], curve: SATCurve, threshold: float) -> R:
    """The rule in the middle of the thresholds that give the same decisions as this threshold of the curve.

    A threshold of the curve equals the statistic of some series, which a live stream may round differently. Times and infinity
    are exact, and are kept.
    """
    return midpoint_rule_at(rule, curve.thresholds, int(np.searchsorted(curve.thresholds, threshold)))


def midpoint_rule_at(rule: type[R], thresholds: FloatArray, index: int) -> R:
    """`midpoint_rule` by the index of the threshold among those of a sweep."""
    threshold = float(thresholds[index])
    if issubclass(rule, FixedTime) or index == 0 or not np.isfinite(threshold):
        return rule.at(threshold)
    middle = float((thresholds[index - 1] + threshold) / 2)
    return rule.at(middle if middle > thresholds[index - 1] else threshold)  # no number lies between neighbours


def least_threshold_for_error(curve: SATCurve, max_error: float) -> float:
    """The least threshold at which the balanced error is at most `max_error`."""
    limit = as_number(max_error, name="max_error", low=0.0, high=1.0, remedy="It is a fraction: 0.02 means 2%.")
    meets = np.flatnonzero(curve.errors <= limit)
    if len(meets) == 0:
        remedy = "Allow more error, or bring better scores or longer series."
        raise UnreachableTarget("max_error", limit, float(curve.errors.min()), remedy)
    return float(curve.thresholds[meets[0]])


def greatest_threshold_for_time(curve: SATCurve, max_mean_time: float) -> float:
    """The greatest threshold at which the mean time is at most `max_mean_time`."""
    limit = as_number(max_mean_time, name="max_mean_time", low=0.0, remedy="Times count observations from 1.")
    meets = np.flatnonzero(curve.mean_times <= limit)
    if len(meets) == 0:
        remedy = "No rule of this family decides sooner."
        raise UnreachableTarget("max_mean_time", limit, float(curve.mean_times[0]), remedy)
    return float(curve.thresholds[meets[-1]])


def threshold_of_least_cost(curve: SATCurve, *, cost_of_waiting: float, cost_of_error: float = 1.0) -> float:
    """The threshold that minimises P(error) * cost_of_error + mean time * cost_of_waiting; the least one in a tie.

    P(error) is the share of wrong decisions (`curve.error_rates`), because costs are paid per series, not per class.
    """
    remedy = "Costs are at least 0."
    waiting = as_number(cost_of_waiting, name="cost_of_waiting", low=0.0, remedy=remedy)
    error = as_number(cost_of_error, name="cost_of_error", low=0.0, remedy=remedy)
    return float(curve.thresholds[np.argmin(error * curve.error_rates + waiting * curve.mean_times)])


def threshold_of_least_average_cost(curve: SATCurve, *, alpha: float = 0.5) -> float:
    """The threshold that minimises `average_cost`: alpha * P(error) + (1 - alpha) * earliness; the least one in a tie."""
    return float(curve.thresholds[np.argmin(_average_costs(curve, alpha))])


def default_threshold(curve: SATCurve, *, classes: int, alpha: float = DEFAULT_ALPHA, way: float = 0.75) -> float:
    """The threshold after `fit`: the least average cost among the thresholds whose error is far enough below chance.

    It minimises alpha * P(error) + (1 - alpha) * earliness where the balanced error has covered the share `way` of the distance
    from chance, 1 - 1/K, to the least error on the curve. Without this condition, deciding at once without evidence could cost
    least, if the evidence comes late or is weak, or if most series are of one class.

    Args:
        curve: of held-out series.
        classes: K.
        alpha: the cost of an error, from 0 to 1.
        way: from 0 (cost alone) to 1 (the least error on the curve).

    >>> from sooner.evaluate import sat_curve
    >>> late = [[[0.1, 0.0], [0.0, 0.0], [4.0, 0.0]], [[0.1, 0.0], [0.0, 0.0], [0.0, 4.0]]]  # evidence comes at the end
    >>> curve = sat_curve(late, [0, 1])
    >>> threshold_of_least_average_cost(curve, alpha=0.5), default_threshold(curve, classes=2)
    (0.1, 4.0)
    """
    costs, share = _average_costs(curve, alpha), _as_share(way, "way")
    chance, best = 1 - 1 / classes, float(curve.errors.min())
    # `max`: rounding must not exclude the least error. If no threshold beats chance, the cost alone counts.
    allowed = max(chance - share * (chance - best), best) if best < chance else 1.0
    return float(curve.thresholds[np.argmin(np.where(curve.errors <= allowed, costs, np.inf))])


def _average_costs(curve: SATCurve, alpha: float) -> FloatArray:
    weight = _as_share(alpha, "alpha")
    costs: FloatArray = weight * curve.error_rates + (1 - weight) * curve.earliness
    return costs


def _as_share(value: float, name: str) -> float:
    return as_number(value, name=name, low=0.0, high=1.0, remedy=_REMEDIES[name])
