"""The rule of models that have a halting probability of their own."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_number
from sooner.rules.base import Step, ThresholdRule, leader
from sooner.types import RuleState, StepScores, StepStatistic


@dataclass(frozen=True)
class Halting(ThresholdRule):
    """Stop when the model's own halting probability reaches the threshold, and name the leader.

    The model must have such a statistic beside its scores (`Model.halts`), for example `Earliest`.

    Args:
        threshold: in 0..1, or infinity for never.

    >>> Halting(0.5).decide([[[0.0, 1.0], [2.0, 0.0]]], halting=[[0.1, 0.7]])
    Decisions(labels=array([0]), times=array([2]), crossed=array([ True]))
    """

    threshold: float

    def __post_init__(self) -> None:
        if not (isinstance(self.threshold, float) and self.threshold == math.inf):
            remedy = "The model's halting probability is compared with it."
            threshold = as_number(self.threshold, name="threshold", low=0.0, high=1.0, remedy=remedy)
            object.__setattr__(self, "threshold", threshold)

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The model's own halting probability.

        Scores do not contain it, so this is refused: see `statistic_with`.
        """  # reports show the first line
        return Halting.statistic_with(scores, None)

    @classmethod
    def statistic_with(cls, scores: Tensor, halting: Tensor | None) -> Tensor:
        """The halting probability itself."""
        del scores
        if halting is None:
            remedy = "Only a model that says when to stop, such as EARLIEST, has one."
            raise InvalidArgument("halting", "the model's own halting statistic", "None", remedy)
        return halting

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """A lenient and a strict one."""
        yield cls(0.25)
        yield cls(0.9)

    def step_with(self, state: RuleState, scores: StepScores, halting: StepStatistic | None) -> Step:
        """Compare the newest halting probability with the threshold."""
        return Step(state, self.statistic_with(scores, halting).double() >= self.threshold, leader(scores))
