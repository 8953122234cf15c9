"""Checkpoints: the times at which a classifier looks at the observations so far, and what is carried between them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
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
    """The scores of series that have come to a checkpoint, given the ones they held.

    Present classes get their fresh scores. An absent class keeps the log-odds it had against the present ones together (each
    with the same weight): the classifier says nothing about it, neither for nor against.
    """
    before = held[:, present].logsumexp(dim=1, keepdim=True)
    scores = held - before + fresh.logsumexp(dim=1, keepdim=True)
    scores[:, present] = fresh
    return scores
