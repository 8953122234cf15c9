"""Choosing a rule from data: the dial, turned by a target instead of by hand."""

from typing import TypeVar

import numpy as np

from sooner.errors import InvalidArgument, UnreachableTarget
from sooner.evaluate.curve import sat_curve
from sooner.inputs import as_number
from sooner.rules import FixedTime, ThresholdRule
from sooner.types import ArrayLike, SATCurve

R = TypeVar("R", bound=ThresholdRule)

ERROR_WEIGHT, WAY = 0.8, 0.75
"""Of `default_threshold`: what an error weighs against the share of a series read, and how far from chance it must lead."""


def choose_rule(
    rule: type[R],
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    lengths: ArrayLike | None = None,
    max_error: float | None = None,
    max_mean_time: float | None = None,
    cost_of_waiting: float | None = None,
    cost_of_error: float = 1.0,
    halting: ArrayLike | None = None,
) -> R:
    """The rule of that family that meets exactly one target on held-out scores.

    Args:
        rule: `MSPRT`, `LogOdds`, `FixedTime`, `ProbabilityThreshold` or `Halting`.
        scores: (batch, time, classes), of series that training never saw.
        labels: (batch,), in 0..K-1.
        lengths: (batch,); what lies beyond is padding.
        max_error: see `least_threshold_for_error`.
        max_mean_time: see `greatest_threshold_for_time`.
        cost_of_waiting: for one observation, see `threshold_of_least_cost`.
        cost_of_error: of one wrong decision, beside `cost_of_waiting`.
        halting: (batch, time), the model's own halting probability, for `Halting`.

    >>> from sooner.rules import MSPRT
    >>> choose_rule(MSPRT, [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1], max_error=0.1)
    MSPRT(threshold=1.5)

    Of all thresholds that decide these series alike, it is the one in the middle, so that rounding cannot matter.
    """
    return rule_for_target(
        rule,
        sat_curve(scores, labels, lengths=lengths, rule=rule, halting=halting),
        max_error=max_error,
        max_mean_time=max_mean_time,
        cost_of_waiting=cost_of_waiting,
        cost_of_error=cost_of_error,
    )


def rule_for_target(
    rule: type[R],
    curve: SATCurve,
    *,
    max_error: float | None = None,
    max_mean_time: float | None = None,
    cost_of_waiting: float | None = None,
    cost_of_error: float = 1.0,
) -> R:
    """`choose_rule` from the curve of that family of rules."""
    targets = {"max_error": max_error, "max_mean_time": max_mean_time, "cost_of_waiting": cost_of_waiting}
    given = [name for name, target in targets.items() if target is not None]
    if len(given) != 1:
        raise InvalidArgument(
            "max_error",
            "the one target, or else max_mean_time or cost_of_waiting",
            given or "none",
            "Give exactly one.",
        )
    if max_error is not None:
        return settled(rule, curve, least_threshold_for_error(curve, max_error))
    if max_mean_time is not None:
        return settled(rule, curve, greatest_threshold_for_time(curve, max_mean_time))
    waiting = cost_of_waiting or 0.0
    return settled(rule, curve, threshold_of_least_cost(curve, cost_of_waiting=waiting, cost_of_error=cost_of_error))


def settled(rule: type[R], curve: SATCurve, threshold: float) -> R:
    """The rule in the middle of the thresholds that decide the series of the curve as this one does.

    A threshold of the curve is the statistic of some series, to the last bit: live, where sums are rounded otherwise, that
    series could be decided otherwise. Times and infinity are exact, and stay.
    """
    index = int(np.searchsorted(curve.thresholds, threshold))
    if issubclass(rule, FixedTime) or index == 0 or not np.isfinite(threshold):
        return rule.at(threshold)
    return rule.at(float((curve.thresholds[index - 1] + threshold) / 2))


def least_threshold_for_error(curve: SATCurve, max_error: float) -> float:
    """The least threshold at which the balanced error is at most `max_error`."""
    limit = as_number(max_error, name="max_error", low=0.0, high=1.0, remedy="It is a fraction: 0.02 means 2%.")
    meets = np.flatnonzero(curve.errors <= limit)
    if len(meets) == 0:
        remedy = "Allow more error, or bring better scores or longer series."
        raise UnreachableTarget("max_error", limit, float(curve.errors.min()), remedy)
    return float(curve.thresholds[meets[0]])


def greatest_threshold_for_time(curve: SATCurve, max_mean_time: float) -> float:
    """The greatest threshold at which the mean time is at most `max_mean_time`: all the caution that time allows."""
    limit = as_number(max_mean_time, name="max_mean_time", low=0.0, remedy="Times count observations from 1.")
    meets = np.flatnonzero(curve.mean_times <= limit)
    if len(meets) == 0:
        remedy = "No rule of this family decides sooner."
        raise UnreachableTarget("max_mean_time", limit, float(curve.mean_times[0]), remedy)
    return float(curve.thresholds[meets[-1]])


def threshold_of_least_cost(curve: SATCurve, *, cost_of_waiting: float, cost_of_error: float = 1.0) -> float:
    """The threshold that minimises P(error) * cost_of_error + mean time * cost_of_waiting; the least one in a tie.

    P(error) is the plain share of wrong decisions (`curve.error_rates`), as costs are paid by the series, not by the class.
    """
    remedy = "Costs are at least 0."
    waiting = as_number(cost_of_waiting, name="cost_of_waiting", low=0.0, remedy=remedy)
    error = as_number(cost_of_error, name="cost_of_error", low=0.0, remedy=remedy)
    return float(curve.thresholds[np.argmin(error * curve.error_rates + waiting * curve.mean_times)])


def threshold_of_least_average_cost(curve: SATCurve, *, alpha: float = 0.5) -> float:
    """The threshold that minimises `average_cost`: alpha * P(error) + (1 - alpha) * earliness; the least one in a tie."""
    weight = as_number(alpha, name="alpha", low=0.0, high=1.0, remedy="It weighs errors against waiting.")
    return float(curve.thresholds[np.argmin(weight * curve.error_rates + (1 - weight) * curve.earliness)])


def default_threshold(curve: SATCurve, *, classes: int, alpha: float = ERROR_WEIGHT, way: float = WAY) -> float:
    """The threshold after `fit`: the least average cost among those that lead three quarters of the way away from chance.

    That is, alpha * P(error) + (1 - alpha) * earliness is made least where the balanced error has covered the share `way` of
    the way from chance, 1 - 1/K, to the least error on the curve. Costs alone can be least at once, by naming a class without
    evidence: where the evidence comes late, where it is weak, or where most series are of one class.

    Args:
        curve: of held-out series.
        classes: K.
        alpha: what an error weighs.
        way: from 0 (costs alone) to 1 (the least error that can be reached).

    >>> from sooner.evaluate import sat_curve
    >>> late = [[[0.1, 0.0], [0.0, 0.0], [4.0, 0.0]], [[0.1, 0.0], [0.0, 0.0], [0.0, 4.0]]]  # evidence comes at the end
    >>> curve = sat_curve(late, [0, 1])
    >>> threshold_of_least_average_cost(curve, alpha=0.5), default_threshold(curve, classes=2)
    (0.1, 4.0)
    """
    weight = as_number(alpha, name="alpha", low=0.0, high=1.0, remedy="It weighs errors against waiting.")
    share = as_number(way, name="way", low=0.0, high=1.0, remedy="It is a share of the way from chance to the best.")
    chance, best = 1 - 1 / classes, float(curve.errors.min())
    # The least error itself must pass, however the sum is rounded. Where nothing beats chance, costs alone decide.
    allowed = max(chance - share * (chance - best), best) if best < chance else 1.0
    costs = weight * curve.error_rates + (1 - weight) * curve.earliness
    return float(curve.thresholds[np.argmin(np.where(curve.errors <= allowed, costs, np.inf))])
