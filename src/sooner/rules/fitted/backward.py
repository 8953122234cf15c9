"""Backward induction: stop when stopping costs no more than the regression of the cost of going on says.

From the last decision time to the first, the cost of going on is regressed upon what the posterior says now. Two targets:

- "path", the cost of the path: each series pays for its own decision under the rule of the later times (Longstaff and Schwartz
  2001; CALIMERA, Bilski and Jastrzebska 2023).
- "value", the value function: min(cost of stopping, cost of going on) at the next time (Tsitsiklis and Van Roy 2001; FIRMBOUND,
  Ebihara et al. 2025). It is concave in the posterior, and so is the regression, which has less noise.

The cost of stopping is the corrected risk of `sooner.rules.fitted.risk`, where the symbols h_k, r and e are explained.

======== ====================================================================================
symbol   meaning
======== ====================================================================================
g_t      w_t + sum_k u_tk h_k(r) + v_tk h_k(e), the cost of going on; u, v >= 0 make it concave
======== ====================================================================================
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from torch import Tensor

from sooner.errors import refuse_unknown
from sooner.inputs import as_nonnegative, as_number
from sooner.rules.base import Rule
from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import FittedRule, RuleFitter, decision_times, tensor_of
from sooner.rules.fitted.risk import RISK_TERMS, TERMS, StoppingRisk, ramps
from sooner.scores import Scored
from sooner.types import FloatArray, IntArray, StepFlags, StepScores

Target: TypeAlias = Literal["path", "value"]

_RIDGE = {"path": 1.0, "value": 1e-3}
"""The ridge of the regression; signs of weights hold the concave one steady already."""


@dataclass(frozen=True)
class BackwardInduction(RuleFitter):
    """Fits a `ContinuationRule` by backward induction.

    Args:
        target: of the regression, "path" or "value".
        trust: the posterior counts as much as so many labelled series at each time; infinity trusts it alone.
    """

    target: Target = "path"
    trust: float = 30.0

    def __post_init__(self) -> None:
        refuse_unknown("target", self.target, ("path", "value"))
        trust = as_number(
            self.trust, name="trust", low=1e-6, remedy="It is a number of series; infinity ignores labels."
        )
        object.__setattr__(self, "trust", trust)

    @classmethod
    def examples(cls) -> Iterator["BackwardInduction"]:
        """One for each target."""
        yield cls("path")
        yield cls("value", math.inf)

    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """Regress the cost of going on at each decision time, the last one first."""
        times, waits = decision_times(scored), cost.waits(scored)
        risk = StoppingRisk(scored, cost, self.trust)
        weights = np.zeros((len(times), TERMS))
        value = risk.at_end() + waits[:, -1]
        for index, time in reversed(list(enumerate(times.tolist()))):
            going, waited = scored.lengths > time, waits[:, time - 1]
            terms, stopping = risk.at(time)
            stop = terms[:, :RISK_TERMS] @ stopping
            weights[index] = least_squares(terms[going], (value - waited)[going], self.target)
            further = terms @ weights[index]
            next_value = (
                np.minimum(further, stop) if self.target == "value" else np.where(further >= stop, stop, value - waited)
            )
            value[going] = (next_value + waited)[going]
            weights[index, :RISK_TERMS] -= stopping
        return ContinuationRule(times, weights, risk.matrix, int(scored.lengths.max()))


@dataclass(frozen=True, eq=False, repr=False)
class ContinuationRule(FittedRule):
    """Stop when going on is expected to cost at least as much as stopping: the weighted sum of 1, h_k(r), h_k(e) is not negative.

    Args:
        times: (decision times,), observations counted from 1.
        weights: (decision times, 23), of the terms in the cost of going on minus that of stopping.
        errors: C, (classes, classes), indexed [true, decided].
        horizon: the longest series of the fit.
    """

    times: IntArray
    weights: FloatArray
    errors: FloatArray
    horizon: int

    def __post_init__(self) -> None:
        self._check({"weights": (TERMS,)})
        size = len(np.atleast_1d(self.errors))
        errors = as_nonnegative(self.errors, (size, size), name="errors", remedy="It is C[true, decided].")
        self._freeze("errors", errors)

    @classmethod
    def examples(cls) -> Iterator["ContinuationRule"]:
        """Stops at a risk of 0.25, later of 0.5; the same for unequal costs."""
        weights = np.zeros((3, TERMS))
        weights[:, 0], weights[:, 1] = (0.25, 0.3, 0.5), -1.0
        yield cls(np.array([1, 2, 5]), weights, 1 - np.eye(4), 7)
        yield cls(np.array([1, 3, 4]), weights, np.add.outer(np.arange(4.0), np.arange(4.0)) * (1 - np.eye(4)), 9)

    @property
    def classes(self) -> int:
        """The number of classes of the costs."""
        return len(self.errors)

    def relabel(self, order: list[int]) -> Rule:
        """Reorder the rows and columns of the costs."""
        return ContinuationRule(self.times, self.weights, self.errors[np.ix_(order, order)], self.horizon)

    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Compare the cost of going on with that of stopping."""
        terms = ramps(scores, tensor_of(self.errors, scores))
        return (terms * tensor_of(self.weights, scores)[at]).sum(dim=1) >= 0, memory


def least_squares(terms: FloatArray, target: FloatArray, kind: Target) -> FloatArray:
    """The weights of a regression with a ridge on all terms but the first, the constant; of "value" they are at least 0."""
    from scipy.optimize import nnls

    mean, level = terms[:, 1:].mean(axis=0), target.mean()
    centred, size = terms[:, 1:] - mean, terms.shape[1] - 1
    if kind == "value":
        rows = np.vstack([centred, math.sqrt(_RIDGE[kind]) * np.eye(size)])
        slopes = nnls(rows, np.append(target - level, np.zeros(size)))[0]
    else:
        normal = centred.T @ centred + _RIDGE[kind] * np.eye(size)
        slopes = np.linalg.solve(normal, centred.T @ (target - level))
    return np.append(level - mean @ slopes, slopes)
