"""The matrix sequential probability ratio test and its relatives: stop when the leader is far enough ahead."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_nonnegative, as_number, as_real, as_tensor
from sooner.rules.base import Rule, Step, ThresholdRule, leader
from sooner.scores import leader_log_odds, leader_margin, widened
from sooner.types import ArrayLike, FloatArray, RuleState, StepFlags, StepLabels, StepScores

_BELOW_ZERO = "Below zero a class could win while another one leads."


@dataclass(frozen=True, eq=False)
class MSPRT(ThresholdRule):
    """Stop at the first t where, for some class k, s_k - s_l >= a_lk for all l != k, and name that k.

    Args:
        threshold: one number a >= 0 for all pairs (the leader must be ahead of the next by a), or a K x K matrix whose
            entry [l, k] is what lambda_kl = s_k - s_l must reach; its diagonal is ignored. Infinity means never.

    Of several classes that fire at once (they share the top score, and their thresholds are 0) the lowest index wins.

    >>> scores = torch.tensor([[[0.0, 0.5], [0.0, 2.0], [0.0, 1.0]]])
    >>> MSPRT(1.5).decide(scores)
    Decisions(labels=array([1]), times=array([2]), crossed=array([ True]))
    """

    threshold: float | FloatArray

    def __init__(self, threshold: ArrayLike) -> None:
        object.__setattr__(self, "threshold", _as_threshold(threshold))

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The margin of the leader over the next class."""
        return leader_margin(scores)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """One threshold, none at all, and matrices of thresholds, zeros among them."""
        yield cls(1.5)
        yield cls(0.0)
        yield cls(np.add.outer(np.arange(4.0), 0.25 * np.arange(4.0)))
        yield cls(np.where(np.tri(4, k=-1) > 0, 2.0, 0.0))

    def relabel(self, order: list[int]) -> Rule:
        """Reorder the rows and columns of a matrix of thresholds."""
        return self if isinstance(self.threshold, float) else MSPRT(self.threshold[np.ix_(order, order)])

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Compare the newest scores with the threshold."""
        if isinstance(self.threshold, float):
            # As the rule of every threshold does, without an axis of time: this is the cost of a live observation.
            return Step(state, leader_margin(scores).double() >= self.threshold, leader(scores))
        if len(self.threshold) != scores.shape[-1]:
            expected = f"of {len(self.threshold)} classes, as the threshold matrix is"
            remedy = "Give a matrix with one row and one column for each class."
            raise InvalidArgument("scores", expected, f"{scores.shape[-1]} classes", remedy)
        return Step(state, *_matrix_test(scores, torch.tensor(self.threshold, device=scores.device)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MSPRT) and np.array_equal(self.threshold, other.threshold)

    def __hash__(self) -> int:
        return hash((MSPRT, np.asarray(self.threshold).tobytes()))


@dataclass(frozen=True)
class LogOdds(ThresholdRule):
    """Stop when the leader's log-odds against all others together reach the threshold: s_1st - LSE(rest) >= threshold.

    The scores must include the log prior. With exact scores `LogOdds.for_error(alpha)` bounds the average error of
    crossed decisions by alpha, without the factor K-1 of the class-wise bound, and so stops earlier.

    Args:
        threshold: any number; below log(1/(K-1)) every leader passes at once.
    """

    threshold: float

    def __post_init__(self) -> None:
        remedy = "Use LogOdds.for_error(alpha) to set it from an error target."
        threshold = as_number(self.threshold, name="threshold", low=-math.inf, remedy=remedy)
        object.__setattr__(self, "threshold", threshold)

    @classmethod
    def for_error(cls, alpha: float) -> Self:
        """The threshold log((1-alpha)/alpha) that bounds the average error by alpha.

        >>> LogOdds.for_error(0.5)
        LogOdds(threshold=0.0)
        """
        alpha = as_between(alpha, name="alpha", low=0.0, high=1.0, remedy="It is a probability of error.")
        return cls(math.log1p(-alpha) - math.log(alpha))

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The log-odds of the leader."""
        return leader_log_odds(scores)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """A lenient and a strict one."""
        yield cls(0.0)
        yield cls.for_error(0.05)


@dataclass(frozen=True)
class ProbabilityThreshold(ThresholdRule):
    """Stop when the leader's posterior reaches a probability: the usual rule of the field, `LogOdds` in other units.

    Args:
        probability: in 0..1, or infinity for never. The scores must include the log prior.
    """

    probability: float

    def __post_init__(self) -> None:
        if not (isinstance(self.probability, float) and self.probability == math.inf):
            remedy = "The leader's posterior is compared with it."
            probability = as_number(self.probability, name="probability", low=0.0, high=1.0, remedy=remedy)
            object.__setattr__(self, "probability", probability)

    @staticmethod
    def statistic(scores: Tensor) -> Tensor:
        """The leader's posterior."""
        return leader_log_odds(scores).sigmoid()

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """A lenient and a strict one."""
        yield cls(0.5)
        yield cls(0.95)


def _as_threshold(threshold: ArrayLike) -> float | FloatArray:
    tensor = as_tensor(threshold, name="threshold")
    if tensor.ndim == 0:
        return as_number(as_real(tensor, name="threshold"), name="threshold", low=0.0, remedy=_BELOW_ZERO) + 0.0
    if tensor.ndim != 2 or len(tensor) != tensor.shape[1] or len(tensor) < 2:
        expected, remedy = "a number or a K x K matrix", "K is the number of classes."
        raise InvalidArgument("threshold", expected, f"shape {tuple(tensor.shape)}", remedy)
    matrix = as_real(tensor, name="threshold")
    np.fill_diagonal(matrix, 0.0)
    matrix = as_nonnegative(matrix, matrix.shape, name="threshold", remedy=_BELOW_ZERO) + 0.0  # no minus zero
    matrix.flags.writeable = False
    return matrix


def _matrix_test(scores: StepScores, threshold: Tensor) -> tuple[StepFlags, StepLabels]:
    """Whether each series fires, and for which class, in O(batch x classes) but for ties."""
    # Thresholds are at least 0, so only a class that shares the top score can fire. Candidates are tried in the order of
    # their index; a second round happens only where scores tie.
    scores = widened(scores)
    ahead = (scores.amax(dim=1, keepdim=True) - scores).double()
    tied = ahead == 0
    fired = torch.zeros_like(tied[:, 0])
    labels = candidate = leader(scores)
    while True:
        rival = torch.ones_like(tied).scatter(1, candidate[:, None], False)
        wins = ((ahead >= threshold.T[candidate]) | ~rival).all(dim=1)
        labels = torch.where(wins & ~fired, candidate, labels)
        fired = fired | wins
        tied = tied.scatter(1, candidate[:, None], False)
        if not bool((tied.any(dim=1) & ~fired).any()):
            return fired, labels
        candidate = torch.where(tied.any(dim=1), tied.to(torch.uint8).argmax(dim=1), candidate)
