"""ECONOMY-gamma: the expected cost of each later time, by a Markov chain between intervals of confidence.

At each decision time the leader's log-odds are cut into k intervals with equally many series. For a series in one of them, the
expected cost of deciding at a later time is the mean cost there, averaged over the intervals that the chain reaches. Stop when no
later time is expected to cost less than now. k is the one with the least mean cost.

Reference: Achenchabe, Bondu, Cornuejols, Dachraoui, Early classification of time series (2021), with the largest posterior as the
confidence for several classes, as in Zafar et al. (2021).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sooner.inputs import as_whole
from sooner.rules.base import Rule
from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import FittedRule, RuleFitter, decision_times, tensor_of
from sooner.scores import Scored, leader_log_odds
from sooner.types import BoolArray, FloatArray, IntArray, StepFlags, StepScores


@dataclass(frozen=True)
class EconomyGamma(RuleFitter):
    """Fits an `IntervalTable`.

    Args:
        most: the largest number of intervals that is tried; never more than the square root of the number of series.
    """

    most: int = 10

    def __post_init__(self) -> None:
        most = as_whole(self.most, name="most", low=1, remedy="It is the largest number of intervals that is tried.")
        object.__setattr__(self, "most", most)

    @classmethod
    def examples(cls) -> Iterator["EconomyGamma"]:
        """The usual one."""
        yield cls()

    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """Try every number of intervals; the least one in a tie. A series that has ended keeps its last score."""
        times, horizon = decision_times(scored), int(scored.lengths.max())
        every = np.append(times, horizon)
        last = np.minimum(every, scored.lengths[:, None]) - 1
        odds = leader_log_odds(torch.from_numpy(scored.scores).double()).numpy()
        odds, paid = np.take_along_axis(odds, last, axis=1), cost.paid(scored)[:, every - 1]
        best, chosen = math.inf, None
        for count in range(1, min(self.most, max(1, math.isqrt(len(scored)))) + 1):
            edges = interval_edges(odds, count)
            groups = (odds[..., None] >= edges).sum(axis=2)
            stops = worth_stopping(groups, paid, count)
            fired = np.take_along_axis(stops, groups.T, axis=1).T  # (series, times)
            mean = paid[np.arange(len(paid)), fired.argmax(axis=1)].mean()
            if mean < best - 1e-12:
                best, chosen = mean, IntervalTable(times, edges[:-1], stops[:-1].astype(np.float64), horizon)
        assert chosen is not None
        return chosen


@dataclass(frozen=True, eq=False, repr=False)
class IntervalTable(FittedRule):
    """Stop when the leader's log-odds lie in an interval that is marked.

    Args:
        times: (decision times,), observations counted from 1.
        edges: (decision times, k - 1), ascending; log-odds equal to an edge belong to the interval above it.
        stop: (decision times, k), 1 where the rule stops, else 0.
        horizon: the longest series of the fit.
    """

    times: IntArray
    edges: FloatArray
    stop: FloatArray
    horizon: int

    def __post_init__(self) -> None:
        count = np.shape(self.stop)[-1] if np.ndim(self.stop) == 2 else 1
        self._check({"edges": (count - 1,), "stop": (count,)})

    @classmethod
    def examples(cls) -> Iterator["IntervalTable"]:
        """One with three intervals."""
        edges = np.array([[0.3, 2.1], [0.3, 1.7], [0.1, 0.7]])
        yield cls(np.array([1, 2, 4]), edges, np.array([[0.0, 0, 1], [0, 0, 1], [0, 1, 1]]), 6)

    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Look the interval up."""
        odds = leader_log_odds(scores.double())
        interval = (odds[:, None] >= tensor_of(self.edges, scores)[at]).sum(dim=1)
        return tensor_of(self.stop, scores)[at, interval] > 0, memory


def interval_edges(odds: FloatArray, count: int) -> FloatArray:
    """(times, count - 1): the edges between intervals of equally many series, halfway between neighbours."""
    ranks = np.sort(odds, axis=0)
    upper = np.linspace(0, len(odds), count + 1)[1:-1].astype(np.int64)
    edges: FloatArray = (ranks[upper - 1] / 2 + ranks[upper] / 2).T
    return edges


def worth_stopping(groups: IntArray, paid: FloatArray, count: int) -> BoolArray:
    """(times, count): whether no later time is expected to cost less than now, by the interval now; True at the last time."""
    times = groups.shape[1]
    stops = np.ones((times, count), dtype=np.bool_)
    later = np.empty((count, 0))  # expected cost of each later time, by the interval at the newest time that was done
    for index in reversed(range(times)):
        member = np.eye(count)[groups[:, index]]
        sizes = member.sum(axis=0)
        now = np.where(sizes > 0, member.T @ paid[:, index] / np.maximum(sizes, 1), paid[:, index].mean())
        if index < times - 1:
            moves = member.T @ np.eye(count)[groups[:, index + 1]]
            chain = np.where(sizes[:, None] > 0, moves / np.maximum(sizes, 1)[:, None], 1 / count)
            later = chain @ later
            stops[index] = now <= later.min(axis=1) + 1e-12
        later = np.hstack([now[:, None], later])
    return stops
