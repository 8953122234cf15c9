"""A threshold that tapers: a(t) for the margin of the leader, never rising in time, found backwards from the horizon.

At each decision time, the last one first, the threshold is the one with the least cost of all running series, if those below it
go on under the thresholds of the later times: a sort and running sums try all of them. Then an isotonic regression of
log(1 + a(t)), weighted by the number of running series, makes it fall and takes the noise out. O(series x times x log series).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_number
from sooner.rules.base import Rule
from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import FittedRule, RuleFitter, decision_times, tensor_of
from sooner.rules.fitted.risk import RISK_TERMS, StoppingRisk
from sooner.scores import Scored, leader_margin
from sooner.types import FloatArray, IntArray, StepFlags, StepScores

_TIE = 1e-9
"""Sums of the same costs in another order differ in their last bits, so almost equal mean costs are ties."""


@dataclass(frozen=True)
class TaperingThreshold(RuleFitter):
    """Fits a `Taper`.

    Args:
        trust: as for `BackwardInduction`.
    """

    trust: float = 30.0

    def __post_init__(self) -> None:
        trust = as_number(
            self.trust, name="trust", low=1e-6, remedy="It is a number of series; infinity ignores labels."
        )
        object.__setattr__(self, "trust", trust)

    @classmethod
    def examples(cls) -> Iterator["TaperingThreshold"]:
        """The usual one."""
        yield cls()

    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """Search the threshold of each decision time, the last one first, then make them taper."""
        times, waits = decision_times(scored), cost.waits(scored)
        risk = StoppingRisk(scored, cost, self.trust)
        margins = leader_margin(torch.from_numpy(scored.scores)).double().numpy()
        thresholds, running = np.zeros(len(times)), np.ones(len(times))
        value = risk.at_end() + waits[:, -1]
        for index, time in reversed(list(enumerate(times.tolist()))):
            going, margin = scored.lengths > time, margins[:, time - 1]
            terms, stopping = risk.at(time)
            stop = terms[:, :RISK_TERMS] @ stopping + waits[:, time - 1]
            thresholds[index] = least_threshold(margin[going], (stop - value)[going])
            running[index] = going.sum()
            value = np.where(going & (margin >= thresholds[index]), stop, value)
        return Taper(times, tapered(thresholds, running), int(scored.lengths.max()))


@dataclass(frozen=True, eq=False, repr=False)
class Taper(FittedRule):
    """Stop when the largest minus the second largest score reaches a threshold that depends on time, and never rises.

    Args:
        times: (decision times,), observations counted from 1.
        thresholds: (decision times,), at least 0.
        horizon: the longest series of the fit.

    >>> scores = [[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]]
    >>> Taper([1, 2], [3.0, 1.0], horizon=3).decide(scores)
    Decisions(labels=array([1]), times=array([2]), crossed=array([ True]))
    """

    times: IntArray
    thresholds: FloatArray
    horizon: int

    def __post_init__(self) -> None:
        self._check({"thresholds": ()})
        if (np.diff(self.thresholds) > 0).any() or (self.thresholds < 0).any():
            remedy = "A margin is never negative, and a taper does not rise."
            raise InvalidArgument("thresholds", "at least 0 and never rising", self.thresholds.tolist()[:8], remedy)

    @classmethod
    def examples(cls) -> Iterator["Taper"]:
        """One that tapers fast, and a constant one."""
        yield cls(np.array([1, 2, 4]), np.array([3.0, 1.25, 0.5]), 6)
        yield cls(np.arange(1, 8), np.full(7, 1.5), 8)

    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Compare the margin with the threshold of the time."""
        return leader_margin(scores).double() >= tensor_of(self.thresholds, scores)[at], memory


def least_threshold(margins: FloatArray, excess: FloatArray) -> float:
    """The threshold a with the least sum of `excess` over margins of at least a; the least such one, between margins.

    >>> least_threshold(np.array([1.0, 3.0, 2.0]), np.array([5.0, -1.0, -1.0]))
    1.5
    """
    order = np.argsort(-margins, kind="stable")
    falling = margins[order]
    last = np.append(falling[1:] != falling[:-1], True)
    sums = np.append(0.0, np.cumsum(excess[order])[last])
    ends = np.append(falling[last], 0.0)
    thresholds = np.append(ends[0] + 1, (ends[:-1] + ends[1:]) / 2)  # the first stops no series
    return float(thresholds[np.flatnonzero(sums <= sums.min() + _TIE * len(margins))[-1]])


def tapered(thresholds: FloatArray, weights: FloatArray) -> FloatArray:
    """The isotonic regression of log(1 + a), never rising.

    >>> tapered(np.array([1.0, 3.0, 0.0]), np.ones(3)).round(3)
    array([1.828, 1.828, 0.   ])
    """
    from sklearn.isotonic import isotonic_regression

    logs = isotonic_regression(np.log1p(thresholds), sample_weight=weights, increasing=False)
    falling: FloatArray = np.minimum.accumulate(np.expm1(logs).clip(0))
    return falling
