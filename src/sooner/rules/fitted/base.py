"""Rules that are fitted for a stated cost: a fitter with settings makes a frozen rule of held-out scores.

A frozen rule reads posteriors p = softmax(scores), so the scores must include the log prior. It may stop only at its decision
times, those at which scores changed in the fit. It stops every series that is longer than the horizon, the longest series of the
fit, at the first observation beyond: nothing was learned about going on from there.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_entries, as_real, as_whole
from sooner.rules.base import Rule, Step, leader
from sooner.rules.cost import DecisionCost
from sooner.scores import Scored, leader_log_odds, leader_margin
from sooner.types import ArrayLike, IntArray, RuleState, StepFlags, StepScores

MOST_TIMES = 128
"""A rule has at most so many decision times; between them it waits."""


class RuleFitter(ABC):
    """Settings with which a rule is fitted. To add one, derive a frozen dataclass; `sooner.checks.check_fitter` has its laws."""

    @abstractmethod
    def fit(self, scored: Scored, cost: DecisionCost) -> Rule:
        """The rule of small mean cost on these series, which neither training nor another choice should have seen."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
        """A few instances, on which the laws of `sooner.checks` are tried."""


class FittedRule(Rule):
    """A frozen rule with numbers for each decision time.

    Derive a frozen dataclass (`eq=False`, because it holds arrays) with the fields `times` and `horizon` and write `stops`.
    """

    times: IntArray
    horizon: int

    @abstractmethod
    def stops(self, at: Tensor, memory: Tensor, scores: StepScores) -> tuple[StepFlags, Tensor]:
        """Which series stop at the decision time with index `at` (of each row), and what the rule remembers of them."""

    @property
    def classes(self) -> int | None:
        """The number of classes that the rule was fitted for, or None if it reads any number."""
        return None

    def memory(self, streams: int) -> Tensor:
        """What the rule remembers of new series, whole numbers, one row each; most rules remember nothing."""
        return torch.empty(streams, 0, dtype=torch.int64)

    def init(self, streams: int) -> RuleState:
        """One column (observations read so far) before the memory."""
        return torch.cat([torch.zeros(streams, 1, dtype=torch.int64), self.memory(streams)], dim=1)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Count; at a decision time ask `stops`; beyond the horizon stop."""
        if self.classes not in (None, scores.shape[1]):
            expected, got = f"of {self.classes} classes, as the rule is", f"{scores.shape[1]} classes"
            raise InvalidArgument("scores", expected, got, "Fit a rule for the number of classes of the scores.")
        read = state[:, :1] + 1
        times = tensor_of(self.times, scores)
        passed, is_time = times <= read, (times == read).any(dim=1)
        fired, memory = self.stops((passed.sum(dim=1) - 1).clamp_min(0), state[:, 1:], scores)
        memory = torch.where(is_time[:, None], memory, state[:, 1:])
        return Step(torch.cat([read, memory], dim=1), (fired & is_time) | (read[:, 0] > self.horizon), leader(scores))

    def _check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Replace the fields by checked, unwritable arrays; `shapes` are those behind the axis of decision times."""
        horizon = as_whole(self.horizon, name="horizon", low=1, remedy="Times count observations from 1.")
        object.__setattr__(self, "horizon", horizon)
        times = as_entries(self.times, name="times").astype(np.int64)
        if times.ndim != 1 or not len(times) or times[0] < 1 or times[-1] > horizon or (np.diff(times) <= 0).any():
            got = f"{times.tolist()[:8]} and {horizon}"
            remedy = "The rule may stop at these observations."
            raise InvalidArgument("times", "one or more, ascending in 1..horizon", got, remedy)
        self._freeze("times", times)
        for name, shape in shapes.items():
            array = as_real(getattr(self, name), name=name)
            if array.shape != (len(times), *shape):
                expected, remedy = f"of shape {(len(times), *shape)}", "There is one entry for each decision time."
                raise InvalidArgument(name, expected, f"shape {array.shape}", remedy)
            self._freeze(name, array)

    def _freeze(self, name: str, array: npt.NDArray[Any]) -> None:
        """Set a field to an unwritable array."""
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        """Short, because the numbers fill pages."""
        return f"{type(self).__name__}({len(self.times)} decision times, horizon={self.horizon})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        )

    def __hash__(self) -> int:
        return hash((type(self), self.times.tobytes(), self.horizon))


def decision_times(scored: Scored) -> IntArray:
    """The observations, counted from 1, at which a rule may stop: those before the longest series ends at which a score changes.

    Scores that do not change are no news, and waiting costs. Of more than `MOST_TIMES` such times, evenly spaced ones are taken.
    """
    longest = int(scored.lengths.max())
    if longest < 2:
        remedy = "There is nothing to wait for: set clf.threshold = MSPRT(0.0)."
        raise InvalidArgument("scored", "of a series with at least 2 observations", "series of one", remedy)
    behind = scored.scores - scored.scores.max(axis=2, keepdims=True)  # a term shared by all classes is no news
    moves = (np.diff(behind[:, :longest], axis=1) != 0).any(axis=2) & scored.live[:, 1:longest]
    times = 1 + np.flatnonzero(np.append(True, moves.any(axis=0)))
    times = times[times < longest]
    rows = np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).round().astype(np.int64)
    chosen: IntArray = times[rows]
    return chosen


def posterior(scores: Tensor) -> Tensor:
    """softmax of scores (..., classes), in float64; a term shared by all classes cancels exactly."""
    wide = scores.double()
    return (wide - wide.amax(dim=-1, keepdim=True)).softmax(dim=-1)


def two_largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The two largest posteriors of scores (..., classes), in float64."""
    wide = scores.double()
    first = leader_log_odds(wide).sigmoid()
    return first, first * (-leader_margin(wide)).exp()


def tensor_of(array: ArrayLike, like: Tensor) -> Tensor:
    """A field of a rule as a tensor on the device of the scores."""
    return torch.tensor(array, device=like.device)
