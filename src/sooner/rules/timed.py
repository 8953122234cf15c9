"""Rules that count observations: a fixed time, patience, and a first time."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_whole
from sooner.rules.base import Rule, Step, ThresholdRule, leader
from sooner.rules.msprt import MSPRT, ProbabilityThreshold
from sooner.types import RuleState, StepFlags, StepLabels, StepScores, StepStatistic


@dataclass(frozen=True)
class FixedTime(ThresholdRule):
    """Decide at observation `time` (the Neyman-Pearson test). Shorter series are forced at their end.

    Args:
        time: counted from 1; infinity waits for the end of every series.
    """

    time: float

    def __post_init__(self) -> None:
        if not (isinstance(self.time, float) and self.time == math.inf):
            remedy = "Times count observations from 1."
            object.__setattr__(self, "time", as_whole(self.time, name="time", low=1, remedy=remedy))

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The number of observations read."""
        return torch.arange(1.0, scores.shape[1] + 1, device=scores.device).expand(scores.shape[:2])

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """An immediate and a later one."""
        yield cls(1)
        yield cls(4)

    def init(self, streams: int) -> RuleState:
        """One column: the number of observations so far."""
        return torch.zeros(streams, 1, dtype=torch.int64)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Count, and fire from `time` on."""
        count = state + 1
        return Step(count, count[:, 0] >= self.time, leader(scores))


@dataclass(frozen=True)
class Patience(Rule):
    """Stop when another rule has named the same class at `count` observations in a row.

    Args:
        count: number of observations in a row, at least 1.
        rule: the rule that names the class; by default it names the leader at once.

    >>> Patience(3, ProbabilityThreshold(0.9))
    Patience(count=3, rule=ProbabilityThreshold(probability=0.9))
    """

    count: int
    rule: Rule = field(default_factory=lambda: MSPRT(0.0))

    def __post_init__(self) -> None:
        remedy = "It is the number of agreeing observations in a row."
        object.__setattr__(self, "count", as_whole(self.count, name="count", low=1, remedy=remedy))
        if not isinstance(self.rule, Rule):
            raise InvalidArgument("rule", "a rule, for example MSPRT(2.0)", repr(self.rule), "Make one of it first.")

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """One with the leader, and ones with other rules."""
        yield cls(3)
        yield cls(2, ProbabilityThreshold(0.6))
        yield cls(2, FixedTime(3))

    def relabel(self, order: list[int]) -> Rule:
        """Relabel the inner rule."""
        return Patience(self.count, self.rule.relabel(order))

    def init(self, streams: int) -> RuleState:
        """Two columns (the class named last, the length of its run) before those of the inner rule."""
        own = torch.tensor([-1, 0], dtype=torch.int64).expand(streams, 2)
        return torch.cat([own, self.rule.init(streams)], dim=1)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """`step_with` without a halting probability."""
        return self.step_with(state, scores, None)

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """Lengthen the run if the inner rule names the same class again; end it if it names none."""
        inner, fired, labels = self.rule.step_with(state[:, 2:], scores, halting)
        run = torch.where(labels == state[:, 0], state[:, 1], 0) + 1
        own = torch.where(fired[:, None], torch.stack([labels, run.long()], dim=1), torch.tensor([-1, 0]).to(labels))
        return Step(torch.cat([own, inner], dim=1), own[:, 1] >= self.count, labels)


class CountingRule(Rule):
    """A rule around another one, whose stops depend on the number of observations read."""

    rule: Rule

    @abstractmethod
    def stops(self, read: Tensor, scores: StepScores, inner: Step) -> tuple[StepFlags, StepLabels]:
        """Which series stop, and the class of each, from the observations read and the step of the inner rule."""

    def init(self, streams: int) -> RuleState:
        """One column (observations read so far) before those of the inner rule."""
        return torch.cat([torch.zeros(streams, 1, dtype=torch.int64), self.rule.init(streams)], dim=1)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """`step_with` for scores alone."""
        return self.step_with(state, scores, None)

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """Take one observation more, and the step of the inner rule."""
        inner = self.rule.step_with(state[:, 1:], scores, halting)
        read = state[:, :1] + 1
        return Step(torch.cat([read, inner.state], dim=1), *self.stops(read[:, 0], scores, inner))


@dataclass(frozen=True)
class NotBefore(CountingRule):
    """Stop as another rule does, but never before observation `start`. Shorter series are forced at their end.

    Args:
        rule: the rule that stops; it reads the earlier observations too.
        start: counted from 1.

    >>> NotBefore(MSPRT(1.5), 2).decide([[[0.0, 5.0], [0.0, 4.0], [0.0, 9.0]]])
    Decisions(labels=array([1]), times=array([2]), crossed=array([ True]))
    """

    rule: Rule
    start: int

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise InvalidArgument("rule", "a rule, for example MSPRT(2.0)", repr(self.rule), "Make one of it first.")
        start = as_whole(self.start, name="start", low=1, remedy="Times count observations from 1.")
        object.__setattr__(self, "start", start)

    @classmethod
    def examples(cls) -> Iterator["NotBefore"]:
        """Of a rule without a memory, and of one with it."""
        yield cls(MSPRT(0.5), 3)
        yield cls(Patience(2), 4)

    def relabel(self, order: list[int]) -> Rule:
        """Relabel the inner rule."""
        return NotBefore(self.rule.relabel(order), self.start)

    def stops(self, read: Tensor, scores: StepScores, inner: Step) -> tuple[StepFlags, StepLabels]:
        """Let the inner rule stop from `start` on."""
        del scores
        return inner.fired & (read >= self.start), inner.labels
