"""A stopping rule turns scores into one decision for each series, live or in batch with the same methods.

A rule is a frozen value. It does not depend on the model that made the scores, and reads them in the order of time. Some models
have a statistic of their own beside the scores, the halting probability: a rule that reads it overrides `step_with`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from sooner.inputs import as_halting, with_lengths
from sooner.types import ArrayLike, Decisions, RuleState, StepFlags, StepLabels, StepScores, StepStatistic

NO_CLASS = -1
"""The label that says "none of the known classes"."""


class Step(NamedTuple):
    """The result of one observation: the new state, whether each series stops now, and the class it would get.

    A rule that stops because no class is left, or because it gives up, names `NO_CLASS`.
    """

    state: RuleState
    fired: StepFlags
    labels: StepLabels


class Rule(ABC):
    """A stopping rule: `init`, then `step` for each observation; `decide` folds them over stored scores.

    To add one, derive a frozen dataclass, write `init`, `step` and `examples`, and run `sooner.checks.check_rule` on it.
    """

    def init(self, streams: int) -> RuleState:
        """The state of new series, one row each; no columns for a rule without state."""
        return torch.empty(streams, 0, dtype=torch.int64)

    @abstractmethod
    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Read the newest scores of each series. Rows are independent of each other."""

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """`step` with the model's halting probability, or None; most rules read only the scores."""
        del halting
        return self.step(state, scores)

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
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
            lengths: (batch,); padding beyond a series' own length has no effect.
            halting: (batch, time), the model's own halting probability, for rules that read it.
        """
        tensor, ends = with_lengths(scores, lengths)
        halts = as_halting(halting, tensor, ends)
        batch, time, _ = tensor.shape
        state = self.init(batch).to(tensor.device)
        labels, times = torch.zeros_like(ends), torch.zeros_like(ends)
        crossed = torch.zeros_like(ends, dtype=torch.bool)
        for t in range(time):
            state, fired, named = self.step_with(state, tensor[:, t], None if halts is None else halts[:, t])
            stops = (times == 0) & (fired | (ends == t + 1))
            # A series that is forced gets its leader, whatever class the rule names.
            labels = torch.where(stops, torch.where(fired, named, leader(tensor[:, t])), labels)
            times, crossed = torch.where(stops, t + 1, times), crossed | (stops & fired)
            if bool((times > 0).all()):
                break
        return Decisions(labels.cpu().numpy(), times.cpu().numpy(), crossed.cpu().numpy())


class ThresholdRule(Rule):
    """A rule that stops when one number reaches a threshold, its first field: the larger the threshold, the later it stops.

    The exact speed-accuracy curve exists for each of these (`sooner.evaluate.sat_curve`).
    """

    @staticmethod
    @abstractmethod
    def statistic(scores: Tensor) -> Tensor:
        """The number that is compared with the threshold, (batch, time), from scores of shape (batch, time, classes)."""

    @classmethod
    def statistic_with(cls, scores: Tensor, halting: Tensor | None) -> Tensor:
        """`statistic` with the model's halting probability (batch, time), or None, as in `step_with`."""
        del halting
        return cls.statistic(scores)

    @classmethod
    def at(cls, threshold: float) -> Self:
        """The rule with that threshold: a point of its curve."""
        return cls(threshold)  # type: ignore[call-arg]

    @property
    def cutoff(self) -> Any:
        """The threshold, under whatever name the class has it."""
        return next(iter(vars(self).values()))

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Compare the newest statistic with the threshold; the state stays as it is."""
        return Step(state, self.statistic(scores[:, None])[:, 0].double() >= self.cutoff, leader(scores))


def leader(scores: Tensor) -> Tensor:
    """The class with the largest score, the lower index in a tie, for scores of shape (..., classes)."""
    return scores.argmax(dim=-1)
