"""The stopping rule of Mori et al.: stop when g1 p1 + g2 (p1 - p2) + g3 t / T > 0.

Reference: Mori, Mendiburu, Dasgupta, Lozano, Early classification of time series by simultaneously optimizing the accuracy and
earliness (2018). They search (g1, g2, g3) on a grid or by a genetic algorithm. Here (g1, g2) runs through the directions of a
circle, and for each of them one sweep over all records of (g1 p1 + g2 (p1 - p2)) T / t finds the best g3 exactly.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_real, as_whole
from sooner.rules.base import Rule
from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import FittedRule, RuleFitter, decision_times, tensor_of, two_largest
from sooner.rules.records import Sweep
from sooner.scores import Scored
from sooner.types import FloatArray, IntArray, StepFlags, StepScores


@dataclass(frozen=True)
class MoriStoppingRule(RuleFitter):
    """Fits a `LinearRule` by its mean cost.

    Args:
        directions: number of directions of (g1, g2).
    """

    directions: int = 64

    def __post_init__(self) -> None:
        number = as_whole(self.directions, name="directions", low=1, remedy="So many directions are tried.")
        object.__setattr__(self, "directions", number)

    @classmethod
    def examples(cls) -> Iterator["MoriStoppingRule"]:
        """A small search."""
        yield cls(16)

    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """Sweep over g3 for each direction; of equal costs the first direction and the least threshold are taken."""
        times, horizon = decision_times(scored), int(scored.lengths.max())
        first, second = (part.numpy() for part in two_largest(torch.from_numpy(scored.scores[:, times - 1])))
        paid = cost.paid(scored)[:, np.append(times, horizon) - 1]  # beyond its end a series pays for its end
        columns = 1 + (times < scored.lengths[:, None]).sum(axis=1)  # the last one is the end
        best, weights = math.inf, (0.0, 0.0, -1.0)
        for angle in 2 * np.pi * np.arange(self.directions) / self.directions:
            g = np.cos(angle), np.sin(angle)
            trust = (g[0] * first + g[1] * (first - second)) * horizon / times
            sweep = Sweep.of(np.append(trust, np.full((len(scored), 1), -np.inf), axis=1), columns)
            costs = sweep.sums(paid[:, 0].sum(), paid[sweep.series, sweep.later] - paid[sweep.series, sweep.time])
            if costs.min() < best - 1e-9 * len(scored):
                best, index = costs.min(), int(np.flatnonzero(costs <= costs.min() + 1e-9 * len(scored))[0])
                weights = (float(g[0]), float(g[1]), -between(sweep.thresholds, index))
        return LinearRule(times, np.array(weights) / max(map(abs, weights)), horizon)


@dataclass(frozen=True, eq=False, repr=False)
class LinearRule(FittedRule):
    """Stop when g1 p1 + g2 (p1 - p2) + g3 t / T > 0, T being the horizon.

    Args:
        times: (decision times,), observations counted from 1.
        weights: (g1, g2, g3).
        horizon: the longest series of the fit.
    """

    times: IntArray
    weights: FloatArray
    horizon: int

    def __post_init__(self) -> None:
        self._check({})
        weights = as_real(self.weights, name="weights")
        if weights.shape != (3,) or not np.isfinite(weights).all():
            raise InvalidArgument("weights", "three finite numbers", weights.tolist(), "They are g1, g2 and g3.")
        self._freeze("weights", weights)

    @classmethod
    def examples(cls) -> Iterator["LinearRule"]:
        """One that trusts more with time, and one that never stops before the end."""
        yield cls(np.arange(1, 7), np.array([-0.2, 0.5, 0.1]), 7)
        yield cls(np.array([2, 4]), np.array([-1.0, 0.3, 0.0]), 5)

    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Compare the weighted sum with 0."""
        first, second = two_largest(scores)
        g = tensor_of(self.weights, scores)
        share = tensor_of(self.times, scores)[at] / self.horizon
        return g[0] * first + g[1] * (first - second) + g[2] * share > 0, memory


def between(thresholds: FloatArray, index: int) -> float:
    """A number strictly between this threshold of a sweep and the one before it, which gives the same decisions."""
    if index == 0:
        return float(thresholds[0]) - 1.0
    if np.isinf(thresholds[index]):
        return float(thresholds[index - 1]) + 1.0
    return float(thresholds[index - 1] + thresholds[index]) / 2
