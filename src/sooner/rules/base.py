"""What a stopping rule is: scores in, one decision a series out, live or in batch with the same three methods.

A rule is a frozen value. It never learns which model made its scores, and it sees them in the order in which they come. Some
models have a statistic of their own beside the scores, the halting probability: a rule that reads it overrides `step_with`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from sooner.inputs import as_halting, with_lengths
from sooner.types import ArrayLike, Decisions, RuleState, StepFlags, StepLabels, StepScores, StepStatistic

R = TypeVar("R", bound="Rule")
NO_CLASS = -1
"""The label that says "none of the known classes"."""


class Step(NamedTuple):
    """What one observation did: the new state, which series the rule stops now, and the class it would name for each.

    A rule that stops because no class is left names `NO_CLASS`.
    """

    state: RuleState
    fired: StepFlags
    labels: StepLabels


class Rule(ABC):
    """A stopping rule: `init`, then `step` for each observation; `decide` folds them over stored scores.

    To add one, derive a frozen dataclass, write `init`, `step` and `examples`, and run `sooner.checks.check_rule` on it.
    """

    def init(self, streams: int) -> RuleState:
        """The state of new series, one row each. A rule without memory keeps no columns."""
        return torch.empty(streams, 0, dtype=torch.int64)

    @abstractmethod
    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Take the newest scores of each series in. Rows do not know of each other."""

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """`step` with the model's halting probability beside the scores, or None; most rules read the scores alone."""
        del halting
        return self.step(state, scores)

    @classmethod
    @abstractmethod
    def examples(cls: type[R]) -> Iterator[R]:
        """A few instances, for four classes where the number matters, on which the laws of `sooner.checks` are tried."""

    def relabel(self, order: list[int]) -> "Rule":
        """The same rule after the classes were reordered: new class i is old class order[i]."""
        del order  # most rules treat all classes alike
        return self

    def decide(
        self, scores: ArrayLike, lengths: ArrayLike | None = None, *, halting: ArrayLike | None = None
    ) -> Decisions:
        """Decide every series: at the first observation at which the rule fires, or else at its last one, by force.

        Args:
            scores: (batch, time, classes).
            lengths: (batch,); what lies beyond a series' own length is never read.
            halting: (batch, time), the model's own halting probability, for rules that read it.
        """
        tensor, ends = with_lengths(scores, lengths)
        beside = as_halting(halting, tensor, ends)
        batch, time, _ = tensor.shape
        state = self.init(batch).to(tensor.device)
        labels, times = torch.zeros_like(ends), torch.zeros_like(ends)
        crossed = torch.zeros_like(ends, dtype=torch.bool)
        for t in range(time):
            state, fired, named = self.step_with(state, tensor[:, t], None if beside is None else beside[:, t])
            stops = (times == 0) & (fired | (ends == t + 1))
            # At the end of a series its leader is taken, whatever the rule would have named.
            labels = torch.where(stops, torch.where(fired, named, leader(tensor[:, t])), labels)
            times, crossed = torch.where(stops, t + 1, times), crossed | (stops & fired)
            if bool((times > 0).all()):
                break
        return Decisions(labels.cpu().numpy(), times.cpu().numpy(), crossed.cpu().numpy())


class ThresholdRule(Rule):
    """A rule that stops when one number reaches a threshold: the larger the threshold, the later it stops.

    The exact speed-accuracy curve exists for each of these (`sooner.evaluate.sat_curve`).
    """

    @staticmethod
    @abstractmethod
    def statistic(scores: Tensor) -> Tensor:
        """The number that is compared with the threshold, (batch, time), from scores of shape (batch, time, classes)."""

    @classmethod
    def statistic_with(cls, scores: Tensor, halting: Tensor | None) -> Tensor:
        """`statistic` with the model's halting probability (batch, time) beside the scores, or None, as in `step_with`."""
        del halting
        return cls.statistic(scores)

    @classmethod
    @abstractmethod
    def at(cls: type[R], threshold: float) -> R:
        """The rule at a point of its curve."""


def leader(scores: Tensor) -> Tensor:
    """The class with the largest score, the lower index in a tie, for scores of shape (..., classes)."""
    return scores.argmax(dim=-1)
