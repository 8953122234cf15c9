"""The state of open series: tensors with contiguous rows, so that a step over all of them copies nothing."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sooner.types import LiveState


class Rows:
    """Tensors with one row per series: rows 0..count-1 are in use, the others are spare.

    The last row moves into the gap of a dropped row. The cost of adding and dropping is proportional to the number of rows
    touched, on average over the calls. `tensors` have no rows; they give the shapes and types.
    """

    def __init__(self, tensors: LiveState) -> None:
        self.count = 0
        self._tensors = tensors
        self._own = False

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self._tensors[-1].device

    @property
    def bytes_per_row(self) -> int:
        """The memory of one row."""
        return sum(tensor.element_size() * math.prod(tensor.shape[1:]) for tensor in self._tensors)

    def all(self) -> LiveState:
        """All rows in use, without a copy; read-only."""
        whole = self._tensors[-1].shape[0] == self.count
        return self._tensors if whole else tuple(tensor[: self.count] for tensor in self._tensors)

    def take(self, rows: Tensor) -> LiveState:
        """A copy of some rows."""
        return tuple(tensor.index_select(0, rows) for tensor in self._tensors)

    def replace(self, tensors: LiveState) -> None:
        """Replace all rows, without a copy: the caller may still share their memory."""
        self._tensors, self.count, self._own = tensors, tensors[-1].shape[0], False

    def put(self, rows: Tensor, tensors: LiveState) -> None:
        """Overwrite some rows."""
        self._reserve(self.count)
        for tensor, new in zip(self._tensors, tensors, strict=True):
            tensor.index_copy_(0, rows, new)

    def append(self, tensors: LiveState) -> None:
        """Add rows behind the others."""
        if self.count == 0:
            self.replace(tensors)
            return
        end = self.count + len(tensors[-1])
        self._reserve(end)
        for tensor, new in zip(self._tensors, tensors, strict=True):
            tensor[self.count : end] = new
        self.count = end

    def drop(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Drop rows; the last rows move into the gaps. Returns the moves as pairs (new row, old row)."""
        left, dropped = self.count - len(rows), set(rows)
        if not dropped:
            return []
        if left == 0:
            self.replace(tuple(tensor[:0].clone() for tensor in self._tensors))
            return []
        gaps = [row for row in rows if row < left]
        moved = [row for row in range(left, self.count) if row not in dropped]
        self._reserve(self.count)
        if moved:
            for tensor in self._tensors:
                tensor[gaps] = tensor[moved]
        self.count = left
        return list(zip(gaps, moved, strict=True))

    def _reserve(self, rows: int) -> None:
        """Make sure that the memory is our own and has room for `rows`; new memory has room for twice as many."""
        if self._own and rows <= len(self._tensors[-1]) <= 8 * rows:
            return
        tensors = tuple(tensor.new_empty(2 * rows, *tensor.shape[1:]) for tensor in self._tensors)
        for old, new in zip(self._tensors, tensors, strict=True):
            new[: self.count] = old[: self.count]
        self._tensors, self._own = tensors, True
