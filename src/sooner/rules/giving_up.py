"""The rule that gives hopeless series up: without a label, before their end."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_number, as_whole
from sooner.rules.base import NO_CLASS, Rule, Step
from sooner.rules.msprt import MSPRT
from sooner.rules.timed import CountingRule, Patience
from sooner.scores import leader_margin
from sooner.types import StepFlags, StepLabels, StepScores


@dataclass(frozen=True)
class GiveUp(CountingRule):
    """Stop as another rule does, but give up at observation `at` where the margin is less than `below`.

    The margin is the largest minus the second largest score. A series that is given up is stopped and gets `NO_CLASS`, -1:
    `EarlyClassifier` and the streams give None as the label, with `crossed=True`. A series that the other rule stops at `at` or
    before, or that ends before `at`, is decided as by the other rule; so is one that goes on after `at`.

    Args:
        rule: the rule that stops the others.
        at: counted from 1.
        below: `clf.give_up(max_error=0.05)` sets it with a promise. 0 gives nothing up, infinity everything that is still open.

    >>> scores = [[[0.0, 0.2], [0.0, 0.3], [0.0, 9.0]], [[0.0, 0.2], [0.0, 1.0], [0.0, 9.0]]]
    >>> GiveUp(MSPRT(5.0), 2, 0.5).decide(scores)
    Decisions(labels=array([-1,  1]), times=array([2, 3]), crossed=array([ True,  True]))
    """

    rule: Rule
    at: int
    below: float

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise InvalidArgument("rule", "a rule, for example MSPRT(2.0)", repr(self.rule), "Make one of it first.")
        object.__setattr__(self, "at", as_whole(self.at, name="at", low=1, remedy="Times count observations from 1."))
        remedy = "A margin is never negative; 0 gives nothing up."
        object.__setattr__(self, "below", as_number(self.below, name="below", low=0.0, remedy=remedy))

    @classmethod
    def examples(cls) -> Iterator["GiveUp"]:
        """Of a rule without a memory, of one with it, and one that gives up everything that is still open."""
        yield cls(MSPRT(1.5), 3, 0.75)
        yield cls(Patience(3), 2, 0.5)
        yield cls(MSPRT(2.0), 4, torch.inf)

    def relabel(self, order: list[int]) -> Rule:
        """Relabel the inner rule."""
        return GiveUp(self.rule.relabel(order), self.at, self.below)

    def stops(self, read: Tensor, scores: StepScores, inner: Step) -> tuple[StepFlags, StepLabels]:
        """Let the inner rule stop; at `at`, stop the others whose margin is small."""
        hopeless = (read == self.at) & (leader_margin(scores).double() < self.below) & ~inner.fired
        return inner.fired | hopeless, torch.where(hopeless, NO_CLASS, inner.labels)
