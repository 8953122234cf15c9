"""Evaluation times: the times at which a classifier reads the observations so far; scores are constant between them."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_whole
from sooner.types import StepScores


def as_evaluation_times(value: int | Sequence[int]) -> int | tuple[int, ...]:
    """The number of evaluation times, or the times in ascending order."""
    remedy = "Times count observations from 1; a single number is the number of evaluation times."
    if not isinstance(value, Sequence | np.ndarray):
        return as_whole(value, name="evaluation_times", low=1, remedy=remedy)
    times = {as_whole(time, name="evaluation_times", low=1, remedy=remedy) for time in value}
    if not times:
        raise InvalidArgument("evaluation_times", "at least 1 time", "none", remedy)
    return tuple(sorted(times))


def spaced_times(evaluation_times: int | tuple[int, ...], *, longest: int) -> Sequence[int]:
    """The evaluation times; if only their number is given, evenly spaced up to the longest training series.

    >>> spaced_times(4, longest=10)
    [3, 5, 8, 10]
    """
    if isinstance(evaluation_times, int):
        return sorted({-(-longest * j // evaluation_times) for j in range(1, evaluation_times + 1)})
    if evaluation_times[-1] > longest:
        remedy = f"The longest training series has {longest} observation(s)."
        raise InvalidArgument("evaluation_times", f"in 1..{longest}", evaluation_times[-1], remedy)
    return evaluation_times


def updated_present(
    scores: StepScores, fresh: Float[Tensor, "batch present"], present: Int[np.ndarray, " present"]
) -> Tensor:
    """`updated` for fresh scores of the present classes only, given by their indices."""
    wide = scores.new_full(scores.shape, -torch.inf)
    wide[:, present] = fresh
    mask = torch.zeros(scores.shape[1], dtype=torch.bool, device=scores.device)
    mask[present] = True
    return updated(scores, wide, mask)


def updated(scores: StepScores, fresh: StepScores, present: Bool[Tensor, "*batch classes"]) -> StepScores:
    """The new scores of series at an evaluation time, given their previous ones; `fresh` is -inf for absent classes.

    Present classes get their fresh scores. An absent class keeps its log-odds against the present classes together (each
    with the same weight), because the classifier has no evidence for or against it.
    """
    before = scores.masked_fill(~present, -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.where(present, fresh, scores - before + fresh.logsumexp(dim=1, keepdim=True))
