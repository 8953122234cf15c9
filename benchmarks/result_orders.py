"""Whether the models of a record stand in the published order: every pair, at every mean time that both curves have.

A pair counts as ordered by the paper wherever its table has both models at the same mean time. A model that has a single
published point is compared there, the other curves read off between neighbouring mean times. No mean time is left out.

`comparisons` does leave out the mean times at which the published errors differ by at most two standard errors of their
difference, and counts them: there the paper itself does not tell the models apart.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sooner.lab.experiments.published import PublishedRow, published_p_values
from sooner.lab.experiments.significance import significance_of

Curve = Mapping[float, float]

# Ordered by the paper's figures and text, not by a table: at every mean time of ours.
DRAWN = {
    "sat_nmnist_h": (("MSPRT-TANDEM", "NP test"),),
    "sat_nmnist_100f": (("MSPRT-TANDEM", "NP test"),),
    "losses_nmnist_100f": (
        ("LSEL+Mult", "Logistic+Mult"),
        ("LSEL, M-TANDEMwO", "Logistic, M-TANDEMwO"),
        ("LSEL+Mult, M-TANDEMwO", "Logistic+Mult, M-TANDEMwO"),
    ),
    "tandem_nmnist": (("M-TANDEMwO+Mult", "M-TANDEM+Mult"), ("M-TANDEMwO", "M-TANDEM")),
    "tandem_nmnist_h": (("M-TANDEMwO+Mult", "M-TANDEM+Mult"), ("M-TANDEMwO", "M-TANDEM")),
    "tandem_nmnist_100f": (("M-TANDEM+Mult", "M-TANDEMwO+Mult"), ("M-TANDEM", "M-TANDEMwO")),
}
# Not of the paper: what the plan itself expects.
EXPECTED = {
    "imbalance_nmnist_h": (
        ("cost-sensitive LSEL", "cross-entropy"),
        ("cost-sensitive LSEL", "NGA-LSEL"),
        ("cross-entropy", "NGA-LSEL, uniform costs"),
    )
}
# Beside a published model of another name.
BEATEN = {"sat_nmnist_h": ("newest frame", "MSPRT-TANDEM"), "sat_nmnist_100f": ("pooling", "MSPRT-TANDEM")}
# The paper has tables of p-values for these.
WITH_P_VALUES = ("sat_nmnist_h", "sat_nmnist_100f", "lsel_vs_logistic_nmnist_100f", "ablation_nmnist_100f")


class Pair(NamedTuple):
    """Two models, the first one being below the other at most of the mean times that order them.

    Args:
        lower, upper: their names.
        source: "table", "figure" or "plan", where the order comes from.
        below: the mean times at which the paper (or the plan) has `lower` below.
        above: those at which it has it above.
        level: those at which it has them equal, so that there is no order to meet.
        same: where ours have the same order.
        other: where ours have the other one.
        equal: where ours are equal, though there is an order to meet.
    """

    lower: str
    upper: str
    source: str
    below: tuple[float, ...]
    above: tuple[float, ...]
    level: tuple[float, ...]
    same: tuple[float, ...]
    other: tuple[float, ...]
    equal: tuple[float, ...]

    @property
    def times(self) -> int:
        """How many mean times both have."""
        return len(self.below) + len(self.above) + len(self.level)

    @property
    def met(self) -> bool:
        """Whether ours have the same order wherever there is one."""
        return not (self.other or self.equal)


def pairs(record: Mapping[str, Any]) -> list[Pair]:
    """Every pair that the paper or the plan orders and that we have."""
    ours = {
        name: _curve({time: mean for time, (mean, _) in model["mean"].items()})
        for name, model in record["models"].items()
    }
    theirs = {name: _curve(points) for name, points in record["published"].items()}
    both = [name for name in ours if name in theirs]
    found = [_pair(one, other, theirs[one], theirs[other], ours, "table") for one, other in combinations(both, 2)]
    for source, given in (("figure", DRAWN), ("plan", EXPECTED)):
        for lower, upper in given.get(record["name"], ()):
            if lower in ours and upper in ours:
                times = sorted(ours[lower].keys() & ours[upper].keys())
                one, other = dict.fromkeys(times, 0.0), dict.fromkeys(times, 1.0)
                found.append(_pair(lower, upper, one, other, ours, source))
    return [pair for pair in found if pair.times]


def _pair(one: str, other: str, first: Curve, second: Curve, ours: Mapping[str, Curve], source: str) -> Pair:
    times = _common(first, second)
    sign = {time: np.sign(_at(first, time) - _at(second, time)) for time in times}
    if sum(sign.values()) > 0:
        one, other, sign = other, one, {time: -each for time, each in sign.items()}
    ordered = [time for time in times if sign[time] and _has(ours[one], time) and _has(ours[other], time)]
    here = {time: np.sign(_at(ours[one], time) - _at(ours[other], time)) for time in ordered}
    return Pair(
        one,
        other,
        source,
        tuple(time for time in times if sign[time] < 0),
        tuple(time for time in times if sign[time] > 0),
        tuple(time for time in times if not sign[time]),
        tuple(time for time in ordered if here[time] == sign[time]),
        tuple(time for time in ordered if here[time] == -sign[time]),
        tuple(time for time in ordered if not here[time]),
    )


def _common(first: Curve, second: Curve) -> list[float]:
    shared = sorted(first.keys() & second.keys())
    if shared or min(len(first), len(second)) > 1:
        return shared
    lone, curve = (first, second) if len(first) == 1 else (second, first)
    return [time for time in lone if len(curve) > 1 and min(curve) <= time <= max(curve)]


def _has(curve: Curve, time: float) -> bool:
    return min(curve) <= time <= max(curve)


def _at(curve: Curve, time: float) -> float:
    return curve[time] if time in curve else float(np.interp(time, list(curve), list(curve.values())))


def _curve(points: Mapping[str, float]) -> Curve:
    return {float(time): error for time, error in sorted(points.items(), key=lambda point: float(point[0]))}


class Miss(NamedTuple):
    """A mean time at which ours do not have the published order: errors of the published lower and upper model."""

    time: float
    lower: str
    upper: str
    ours: tuple[float, float]
    theirs: tuple[float, float]


class Comparisons(NamedTuple):
    """The order of a pair where the published errors differ by more than two standard errors.

    Args:
        pair: the two models.
        compared: the mean times.
        left_out: the mean times at which the published difference is too small.
        unreached: the mean times that a curve of ours does not reach.
        misses: the compared mean times at which ours have another order or are equal.
    """

    pair: tuple[str, str]
    compared: tuple[float, ...]
    left_out: tuple[float, ...]
    unreached: tuple[float, ...]
    misses: tuple[Miss, ...]


def comparisons(record: Mapping[str, Any], rows: Mapping[str, Sequence[PublishedRow]]) -> list[Comparisons]:
    """Every pair of models that both we and the paper have.

    Args:
        record: ours.
        rows: the published rows by the names of the record.
    """
    both = [name for name in record["models"] if name in rows]
    ours = {name: _curve({time: mean for time, (mean, _) in record["models"][name]["mean"].items()}) for name in both}
    errors = {name: {row.mean_time: row.error for row in rows[name]} for name in both}
    sems = {name: {row.mean_time: row.sem for row in rows[name]} for name in both}
    found = []
    for one, other in combinations(both, 2):
        compared, left_out, unreached, misses = [], [], [], []
        for time in _common(errors[one], errors[other]):
            theirs = {name: _at(errors[name], time) for name in (one, other)}
            lower, upper = sorted((one, other), key=lambda name, theirs=theirs: theirs[name])
            spread = float(np.hypot(_at(sems[one], time), _at(sems[other], time)))
            if theirs[upper] - theirs[lower] <= 2 * spread:
                left_out.append(time)
            elif not (_has(ours[one], time) and _has(ours[other], time)):
                unreached.append(time)
            else:
                compared.append(time)
                here = _at(ours[lower], time), _at(ours[upper], time)
                if here[0] >= here[1]:
                    misses.append(Miss(time, lower, upper, here, (theirs[lower], theirs[upper])))
        found.append(Comparisons((one, other), tuple(compared), tuple(left_out), tuple(unreached), tuple(misses)))
    return [each for each in found if each.compared or each.left_out or each.unreached]


def beaten(record: Mapping[str, Any]) -> tuple[str, str, list[float], list[float]] | None:
    """Our model, a published one of another name, the mean times that both have, and those at which ours is below."""
    if record["name"] not in BEATEN:
        return None
    ours, theirs = BEATEN[record["name"]]
    published = _curve(record["published"][theirs])
    means = {float(time): mean for time, (mean, _) in record["models"][ours]["mean"].items()}
    times = sorted(published.keys() & means.keys())
    return ours, theirs, times, [time for time in times if means[time] < published[time]]


class Level(NamedTuple):
    """Where a curve of ours lies beside the published one: the mean times, and the largest excess with its mean time."""

    met: tuple[float, ...]
    above: tuple[float, ...]
    excess: float
    worst: float


def level(record: Mapping[str, Any], name: str) -> Level | None:
    """At or below the published error, or above it, at every mean time that both curves have; None if they have none.

    >>> record = {"models": {"a": {"mean": {"1": [2.0, None], "2": [1.5, None]}}}, "published": {"a": {"1": 2.0, "2": 1.0}}}
    >>> level(record, "a")
    Level(met=(1.0,), above=(2.0,), excess=0.5, worst=2.0)
    """
    theirs = _curve(record["published"].get(name, {}))
    means = {float(time): mean for time, (mean, _) in record["models"][name]["mean"].items()}
    excess = {time: means[time] - theirs[time] for time in theirs if time in means}
    if not excess:
        return None
    worst = max(excess, key=lambda time: excess[time])
    met = tuple(time for time in excess if excess[time] <= 0)
    return Level(met, tuple(time for time in excess if excess[time] > 0), max(excess[worst], 0.0), worst)


def published_p(record: Mapping[str, Any], table: str) -> dict[tuple[frozenset[str], str], float]:
    """The published p of two models in the same phase; "at" where the paper has a single phase.

    "EARLIEST" is, in each phase, the model whose published point is nearest to it.
    """
    if table not in WITH_P_VALUES:
        return {}
    phases = phases_of(record)
    points = {name: float(next(iter(rows))) for name, rows in record["published"].items() if len(rows) == 1}

    def named(model: str, phase: str) -> str:
        if model != "EARLIEST" or phase not in phases:
            return model
        return min(points, key=lambda name: abs(points[name] - phases[phase]))

    found = {}
    for entry in published_p_values(table):
        if entry.row.phase == entry.column.phase:
            phase = entry.row.phase or "at"
            found[frozenset((named(entry.row.model, phase), named(entry.column.model, phase))), phase] = entry.p
    return found


class Tested(NamedTuple):
    """The analysis of variance and all pairs, computed anew from the errors of the seeds."""

    model: float | None
    pairs: Mapping[tuple[str, str, str], float]
    phases: Mapping[str, float]
    models: tuple[str, ...]


def tested(record: Mapping[str, Any]) -> Tested | None:
    """Of the models with at least 2 trials, those that are compared, at the mean times of the record's phases."""
    phases = phases_of(record)
    significance = significance_of(record["models"], tuple(phases.items())) if phases else None
    if significance is None:
        return None
    lone = next(iter(phases))
    rows = significance.pairs.rows
    found = {
        (row.first.model, row.second.model, row.first.phase or lone): row.p
        for row in rows
        if row.first.phase == row.second.phase and row.p is not None
    }
    models = {cell.model for row in rows for cell in (row.first, row.second)}
    return Tested(
        significance.anova["model"].p, found, phases, tuple(name for name in record["models"] if name in models)
    )


def phases_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The mean times at which the record was tested, by phase.

    >>> phases_of({"statistics": {"at": "Mean times: early 2, late 13."}})
    {'early': 2.0, 'late': 13.0}
    """
    text = record.get("statistics", {}).get("at", "")
    return {phase: float(time) for phase, time in re.findall(r"(\w+) ([\d.]*\d)", text)}


def p_of(found: Tested, one: str, other: str, phase: str) -> float | None:
    """The p-value of a pair in a phase, whichever comes first."""
    return found.pairs.get((one, other, phase), found.pairs.get((other, one, phase)))


def spans(times: Iterable[float]) -> str:
    """Mean times in words, neighbours together.

    >>> spans([1, 2, 3, 7, 13.41])
    '1 to 3, 7, 13.41'
    """
    runs: list[list[float]] = []
    for time in times:
        if runs and time == runs[-1][-1] + 1:
            runs[-1].append(time)
        else:
            runs.append([time])
    return ", ".join(f"{run[0]:g} to {run[-1]:g}" if len(run) > 1 else f"{run[0]:g}" for run in runs)
