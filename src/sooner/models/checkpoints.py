"""Checkpoints: the times at which a classifier looks at the observations so far, and what is carried between them."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_whole
from sooner.types import StepScores


def as_checkpoints(value: int | Sequence[int]) -> int | tuple[int, ...]:
    """How many checkpoints there are, or their times in ascending order."""
    remedy = "Times count observations from 1; a single number says how many checkpoints there are."
    if not isinstance(value, Sequence | np.ndarray):
        return as_whole(value, name="checkpoints", low=1, remedy=remedy)
    times = {as_whole(time, name="checkpoints", low=1, remedy=remedy) for time in value}
    if not times:
        raise InvalidArgument("checkpoints", "at least 1 time", "none", remedy)
    return tuple(sorted(times))


def checkpoint_times(checkpoints: int | tuple[int, ...], *, longest: int) -> Sequence[int]:
    """The times themselves: evenly spaced up to the longest training series where only their number was given.

    >>> checkpoint_times(4, longest=10)
    [3, 5, 8, 10]
    """
    if isinstance(checkpoints, int):
        return sorted({-(-longest * j // checkpoints) for j in range(1, checkpoints + 1)})
    if checkpoints[-1] > longest:
        remedy = f"The longest training series has {longest} observation(s)."
        raise InvalidArgument("checkpoints", f"in 1..{longest}", checkpoints[-1], remedy)
    return checkpoints


def carried_over(
    held: StepScores, fresh: Float[Tensor, "batch present"], present: Int[np.ndarray, " present"]
) -> Tensor:
    """`replaced` where the classifier names the present classes alone."""
    wide = held.new_full(held.shape, -torch.inf)
    wide[:, present] = fresh
    named = torch.zeros(held.shape[1], dtype=torch.bool, device=held.device)
    named[present] = True
    return replaced(held, wide, named)


def replaced(held: StepScores, fresh: StepScores, present: Bool[Tensor, "*batch classes"]) -> StepScores:
    """The scores of series that have come to a checkpoint, given the ones they held; `fresh` is -inf for absent classes.

    Present classes get their fresh scores. An absent class keeps the log-odds it had against the present ones together (each
    with the same weight): the classifier says nothing about it, neither for nor against.
    """
    before = held.masked_fill(~present, -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.where(present, fresh, held - before + fresh.logsumexp(dim=1, keepdim=True))
