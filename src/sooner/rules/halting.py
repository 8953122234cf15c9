"""The rule of models that say themselves when to stop."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_number
from sooner.rules.base import Step, ThresholdRule, leader
from sooner.types import RuleState, StepScores, StepStatistic


@dataclass(frozen=True)
class Halting(ThresholdRule):
    """Stop when the model's own halting probability reaches the threshold, and name the leader.

    Only a model with such a statistic beside its scores can be stopped by it (`Model.halts`), for example `Earliest`.

    Args:
        threshold: in 0..1, or infinity for never.

    >>> Halting(0.5).decide([[[0.0, 1.0], [2.0, 0.0]]], halting=[[0.1, 0.7]])
    Decisions(labels=array([0]), times=array([2]), crossed=array([ True]))
    """

    threshold: float

    def __post_init__(self) -> None:
        threshold = self.threshold
        if not (isinstance(threshold, float) and threshold == math.inf):
            remedy = "The model's halting probability is compared with it."
            threshold = as_number(threshold, name="threshold", low=0.0, high=1.0, remedy=remedy)
        object.__setattr__(self, "threshold", threshold)

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The model's own halting probability.

        It is not in the scores, so this is refused: see `statistic_with`.
        """
        return Halting.statistic_with(scores, None)

    @classmethod
    def statistic_with(cls, scores: Tensor, halting: Tensor | None) -> Tensor:
        """The halting probability, as it came."""
        del scores
        if halting is None:
            remedy = "Only a model that says when to stop, such as EARLIEST, has one."
            raise InvalidArgument("halting", "the model's own halting statistic", "None", remedy)
        return halting

    @classmethod
    def at(cls, threshold: float) -> "Halting":
        """The rule with that threshold on the halting probability."""
        return cls(threshold)

    @classmethod
    def examples(cls) -> Iterator["Halting"]:
        """A lenient and a strict one."""
        yield cls(0.25)
        yield cls(0.9)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Refused, as `statistic` is: drivers call `step_with`."""
        return self.step_with(state, scores, None)

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """Compare the newest halting probability with the threshold; nothing needs to be remembered."""
        return Step(state, self.statistic_with(scores, halting).double() >= self.threshold, leader(scores))
