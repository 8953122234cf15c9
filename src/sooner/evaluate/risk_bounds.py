"""For each risk that can be promised: what counts as a loss, which series count, and how much of it a p-value lets pass.

A bound sees labels and groups, never a score: which of several bounds is taken may depend on counts alone, or the p-value would
not be valid.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sooner.errors import InvalidArgument
from sooner.evaluate.pvalues import (
    binomial_limit,
    hoeffding_bentkus_limit,
    pooled_limit,
    weighted_limit,
)
from sooner.scores import Scored
from sooner.types import BoolArray, FloatArray, IntArray

_SEED = 0  # of everything that is drawn here: the same series give the same promise


@dataclass(frozen=True, eq=False)
class RiskBound:
    """A risk is at most the level, with confidence, where the observed share of losses in every stratum is within its limit.

    Args:
        name: of the bound.
        strata: (series,), the stratum of each series: its class, or 0 for all.
        mass: (series,), what a loss of the series adds to its stratum; 0 where the series does not count.
        units: (strata,), the most that a stratum can add up to: its series, or its groups.
        limits: (strata,), the greatest share of `units` that passes, if there were so many times the units.
        groups: number of groups, where they are the exchangeable units.
    """

    name: str
    strata: IntArray
    mass: FloatArray
    units: FloatArray
    limits: Callable[[float], FloatArray]
    groups: int | None = None

    @property
    def series(self) -> int:
        """Number of series that count."""
        return int(np.count_nonzero(self.mass))

    def shares(self, losses: BoolArray) -> FloatArray:
        """(strata,): the observed shares of losses."""
        return np.bincount(self.strata, self.mass * losses, minlength=len(self.units)) / self.units


def losses_of(risk: str, wrong: BoolArray, lengths: IntArray) -> BoolArray:
    """(series, time): True where a decision then would be a loss, from where it would be wrong."""
    if risk != "gap":
        return wrong
    losses: BoolArray = wrong & ~wrong[np.arange(len(wrong)), lengths - 1][:, None]
    return losses


def bound_for(risk: str, scored: Scored, level: float, delta: float) -> RiskBound:
    """The bound of a risk for these labels and groups."""
    groups = scored.groups
    if groups is not None and np.bincount(groups).max() == 1:
        groups = None  # groups of one series are series
    if risk in ("early_error", "answered_error"):
        return _second_half(scored, groups, level, delta)
    if risk in ("error", "gap"):
        return _each(np.zeros(len(scored), np.int64), groups, level, delta)
    classes = scored.scores.shape[2]
    absent = np.flatnonzero(np.bincount(scored.truths, minlength=classes) == 0)
    if len(absent):
        remedy = 'A promise about every class needs some of each; risk="error" does without.'
        raise InvalidArgument("labels", "of series of every class", f"none of class {absent[0]}", remedy)
    if risk == "class_error":
        return _each(scored.truths, groups, level, delta)
    return _balanced(scored.truths, groups, level, delta)


def halves(scored: Scored) -> tuple[IntArray, IntArray]:
    """The rows of two random halves, drawn by a fixed seed; one random series of each group, where groups are known."""
    order = np.random.default_rng(_SEED).permutation(len(scored))
    if scored.groups is not None:
        order = order[np.sort(np.unique(scored.groups[order], return_index=True)[1])]
    return order[: len(order) // 2], order[len(order) // 2 :]


def _second_half(scored: Scored, groups: IntArray | None, level: float, delta: float) -> RiskBound:
    # A share of those decided by a time, or of those answered, is no mean over groups, so one series of each group is drawn.
    mass = np.zeros(len(scored))
    mass[halves(scored)[1]] = 1.0
    units = mass.sum(keepdims=True)
    name = "two stages, exact binomial tail" + ("" if groups is None else ", one series of each group")
    strata = np.zeros(len(scored), np.int64)
    return RiskBound(name, strata, mass, units, _binomial(units, level, delta), _number(groups))


def _each(strata: IntArray, groups: IntArray | None, level: float, delta: float) -> RiskBound:
    """Every stratum within the level: the largest p-value of all strata is valid, as one of them has a risk above the level."""
    each = " of each class" if len(strata) and strata.max() else ""
    if groups is None:
        units = np.bincount(strata).astype(np.float64)
        name, mass = f"exact binomial tail{each}", np.ones(len(strata))
        return RiskBound(name, strata, mass, units, _binomial(units, level, delta))
    mass, units = _group_means(strata, groups)

    def limits(growth: float) -> FloatArray:
        return np.atleast_1d(hoeffding_bentkus_limit(np.ceil(growth * units), level, delta))

    return RiskBound(f"Hoeffding-Bentkus bound{each} by group", strata, mass, units, limits, _number(groups))


def _balanced(truths: IntArray, groups: IntArray | None, level: float, delta: float) -> RiskBound:
    counts = np.bincount(truths)
    if groups is None:
        least = int(counts.min())
        exact = _pooled(truths, least, level, delta)
        if (counts == least).all():
            return exact
        weighted = _weighted(truths, np.ones(len(truths)), counts.astype(np.float64), level, delta)
        return exact if exact.limits(1.0)[0] > weighted.limits(1.0)[0] else weighted
    mass, units = _group_means(truths, groups)
    if len(np.unique(groups * len(counts) + truths)) == _number(groups):  # every group is of one class
        return _weighted(truths, mass, units, level, delta, groups)
    # Class errors depend on each other through the groups, so no product bounds their mean: but it is below their maximum.
    return _each(truths, groups, level, delta)


def _pooled(truths: IntArray, least: int, level: float, delta: float) -> RiskBound:
    """`least` series of each class, drawn by a fixed seed, whose pooled count has the mean K least x balanced error."""
    order = np.random.default_rng(_SEED).permutation(len(truths))
    mass = np.zeros(len(truths))
    for label in range(int(truths.max()) + 1):
        mass[order[truths[order] == label][:least]] = 1.0
    units = mass.sum(keepdims=True)

    def limits(growth: float) -> FloatArray:
        count = int(np.ceil(growth * units[0]))
        return np.array([pooled_limit(count, level, delta) / count])

    name = "exact binomial tail of the pooled count (Hoeffding 1956)"
    name += "" if mass.all() else ", as many series of each class as of the rarest"
    return RiskBound(name, np.zeros(len(truths), np.int64), mass, units, limits)


def _weighted(
    truths: IntArray, mass: FloatArray, units: FloatArray, level: float, delta: float, groups: IntArray | None = None
) -> RiskBound:
    def limits(growth: float) -> FloatArray:
        return np.array([weighted_limit(np.ceil(growth * units), level, delta)])

    alike = mass / (len(units) * units)[truths]
    name = "Chernoff bound for weights" + ("" if groups is None else " by group")
    return RiskBound(name, np.zeros(len(truths), np.int64), alike, np.ones(1), limits, _number(groups))


def _binomial(units: FloatArray, level: float, delta: float) -> Callable[[float], FloatArray]:
    def limits(growth: float) -> FloatArray:
        counts = np.ceil(growth * units)
        shares: FloatArray = np.atleast_1d(binomial_limit(counts, level, delta)) / counts
        return shares

    return limits


def _group_means(strata: IntArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
    """One over the number of series of the same group and stratum, and how many groups each stratum has."""
    _, cell, sizes = np.unique(groups * (strata.max() + 1) + strata, return_inverse=True, return_counts=True)
    mass = 1.0 / sizes[cell]
    return mass, np.round(np.bincount(strata, mass))


def _number(groups: IntArray | None) -> int | None:
    return None if groups is None else len(np.unique(groups))
