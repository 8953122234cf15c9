"""TEASER: stop when a one-class machine has accepted the posterior, with the same leader, at v decision times in a row.

At each decision time a one-class support vector machine with a Gaussian kernel learns what the posteriors of correct decisions
look like. Kernel width and v have the least mean cost, where TEASER takes the best accuracy and the best harmonic mean.

Reference: Schaefer and Leser, TEASER: early and accurate time series classification (2020).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sooner.inputs import as_between, as_number, as_whole
from sooner.rules.base import Rule
from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import FittedRule, RuleFitter, decision_times, posterior, tensor_of, two_largest
from sooner.scores import Scored
from sooner.types import BoolArray, FloatArray, IntArray, StepFlags, StepScores

_WIDTHS = (1.0, 10.0, 100.0)
_LONGEST_RUN = 5
_MOST = 200
"""At most so many correct decisions are learned from at each time, so that the rule stays small."""


@dataclass(frozen=True)
class Teaser(RuleFitter):
    """Fits a `SupportRule`.

    Args:
        rejected: about this share of the correct decisions of each time is not accepted (nu), between 0 and 1.
    """

    rejected: float = 0.05

    def __post_init__(self) -> None:
        share = as_between(self.rejected, name="rejected", low=0.0, high=1.0, remedy="It is a share: 0.05 means 5%.")
        object.__setattr__(self, "rejected", share)

    @classmethod
    def examples(cls) -> Iterator["Teaser"]:
        """The usual one."""
        yield cls()

    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """Learn the machines of each width, and take the width and the run with the least mean cost; the first in a tie."""
        times, horizon = decision_times(scored), int(scored.lengths.max())
        scores = torch.from_numpy(scored.scores)
        paid, rows = cost.paid(scored), np.arange(len(scored))
        best, chosen = math.inf, None
        for width in _WIDTHS:
            machines = [self._machine(scored, scores[:, time - 1], int(time), width) for time in times]
            vectors, weights, offsets = stacked(machines, scores.shape[2] + 1)
            for run in range(1, _LONGEST_RUN + 1):
                rule = SupportRule(times, vectors, weights, offsets, width, run, horizon)
                mean = paid[rows, rule.decide(scores, scored.lengths).times - 1].mean()
                if mean < best - 1e-12:
                    best, chosen = mean, rule
        assert chosen is not None
        return chosen

    def _machine(self, scored: Scored, scores: Tensor, time: int, width: float) -> tuple[FloatArray, FloatArray, float]:
        """Support vectors, their weights, and the offset, of the running series whose leader is right."""
        from sklearn.svm import OneClassSVM

        right: BoolArray = (scored.lengths > time) & (scores.argmax(dim=1).numpy() == scored.truths)
        rows = np.flatnonzero(right)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST)).round().astype(np.int64)]
        if len(rows) < 2:
            return np.empty((0, scores.shape[1] + 1)), np.empty(0), -1.0  # nothing to learn from: never accepted
        machine = OneClassSVM(kernel="rbf", nu=self.rejected, gamma=width).fit(posterior_features(scores[rows]).numpy())
        return machine.support_vectors_, machine.dual_coef_[0], float(machine.intercept_[0])


@dataclass(frozen=True, eq=False, repr=False)
class SupportRule(FittedRule):
    """Stop when sum_i a_i exp(-g |x - x_i|^2) + b > 0 with the same leader at `run` decision times in a row, x = (p, p1 - p2).

    Args:
        times: (decision times,), observations counted from 1.
        vectors: (decision times, vectors, classes + 1), the support vectors x_i.
        weights: (decision times, vectors), a_i, 0 where a time has fewer vectors.
        offsets: (decision times,), b.
        width: g.
        run: number of decision times in a row.
        horizon: the longest series of the fit.
    """

    times: IntArray
    vectors: FloatArray
    weights: FloatArray
    offsets: FloatArray
    width: float
    run: int
    horizon: int

    def __post_init__(self) -> None:
        shape = np.shape(self.vectors)[1:] if np.ndim(self.vectors) == 3 else (0, 0)
        self._check({"vectors": shape, "weights": shape[:1], "offsets": ()})
        object.__setattr__(
            self, "width", as_number(self.width, name="width", low=0.0, remedy="It is that of a kernel.")
        )
        remedy = "It is a number of decision times in a row."
        object.__setattr__(self, "run", as_whole(self.run, name="run", low=1, remedy=remedy))

    @classmethod
    def examples(cls) -> Iterator["SupportRule"]:
        """One for four classes that accepts sure posteriors, at once or twice in a row."""
        sure = np.hstack([np.eye(4), np.ones((4, 1))])
        vectors, weights = np.stack([sure, sure, sure]), np.ones((3, 4))
        yield cls(np.array([1, 2, 4]), vectors, weights, np.array([-0.5, -0.4, -0.3]), 2.0, 1, 6)
        yield cls(np.array([1, 2, 4]), vectors, weights, np.array([-0.5, -0.4, -0.3]), 2.0, 2, 6)

    @property
    def classes(self) -> int:
        """The number of classes of the posteriors."""
        return int(self.vectors.shape[2]) - 1

    def memory(self, streams: int) -> Tensor:
        """The leader that was accepted last, and the length of its run."""
        return torch.tensor([-1, 0], dtype=torch.int64).repeat(streams, 1)

    def relabel(self, order: list[int]) -> Rule:
        """Reorder the posteriors of the support vectors."""
        vectors = self.vectors[..., [*order, len(order)]]
        return SupportRule(self.times, vectors, self.weights, self.offsets, self.width, self.run, self.horizon)

    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Lengthen the run if the posterior is accepted with the same leader; else begin anew."""
        apart = posterior_features(scores)[:, None] - tensor_of(self.vectors, scores)[at]
        kernel = (-self.width * apart.square().sum(dim=2)).exp()
        accepted = (kernel * tensor_of(self.weights, scores)[at]).sum(dim=1) + tensor_of(self.offsets, scores)[at] > 0
        named = scores.argmax(dim=1)
        run = torch.where(named == memory[:, 0], memory[:, 1], 0) + 1
        fresh = torch.tensor([-1, 0], device=scores.device)
        after = torch.where(accepted[:, None], torch.stack([named, run], dim=1), fresh)
        return after[:, 1] >= self.run, after


def posterior_features(scores: Tensor) -> Tensor:
    """(rows, classes + 1): the posterior, and p1 - p2."""
    first, second = two_largest(scores)
    return torch.cat([posterior(scores), (first - second)[:, None]], dim=1)


def stacked(
    machines: list[tuple[FloatArray, FloatArray, float]], features: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Vectors, weights and offsets of all times, with zeros where a time has fewer vectors."""
    most = max((len(weights) for _, weights, _ in machines))
    vectors, all_weights = np.zeros((len(machines), most, features)), np.zeros((len(machines), most))
    for index, (support, weights, _) in enumerate(machines):
        vectors[index, : len(weights)], all_weights[index, : len(weights)] = support, weights
    return vectors, all_weights, np.array([offset for _, _, offset in machines], dtype=np.float64)
