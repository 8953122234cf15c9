"""Where open series live: rows of tensors without gaps, so that a step over all of them copies nothing."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sooner.types import LiveState


class Rows:
    """Tensors with one row a series. Rows 0..count-1 are in use; what lies behind them is room for more.

    A series that leaves is replaced by the last one, so there are never gaps, and no row is ever looked at that is not in use.
    Adding and dropping cost what the rows touched cost, on average over the calls.

    Args:
        parts: tensors without rows, for their shapes and types.
    """

    def __init__(self, parts: LiveState) -> None:
        self.count = 0
        self._parts = parts
        self._own = False

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self._parts[-1].device

    @property
    def bytes_per_row(self) -> int:
        """The memory of one row."""
        return sum(part.element_size() * math.prod(part.shape[1:]) for part in self._parts)

    def all(self) -> LiveState:
        """Every row, without a copy: not to be written to."""
        whole = len(self._parts[-1]) == self.count
        return self._parts if whole else tuple(part[: self.count] for part in self._parts)

    def take(self, rows: Tensor) -> LiveState:
        """A copy of these rows."""
        return tuple(part.index_select(0, rows) for part in self._parts)

    def replace(self, parts: LiveState) -> None:
        """These rows instead of all others. They are kept as they are, so what made them may still share their memory."""
        self._parts, self.count, self._own = parts, len(parts[-1]), False

    def put(self, rows: Tensor, parts: LiveState) -> None:
        """New values for some rows."""
        self._reserve(self.count)
        for part, new in zip(self._parts, parts, strict=True):
            part.index_copy_(0, rows, new)

    def append(self, parts: LiveState) -> None:
        """More rows, behind the others."""
        if self.count == 0:
            self.replace(parts)
            return
        end = self.count + len(parts[-1])
        self._reserve(end)
        for part, new in zip(self._parts, parts, strict=True):
            part[self.count : end] = new
        self.count = end

    def drop(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Let rows go. The last ones move into their places: pairs of (new place, old place)."""
        left, gone = self.count - len(rows), set(rows)
        moves = list(
            zip(
                (row for row in rows if row < left),
                (row for row in range(left, self.count) if row not in gone),
                strict=True,
            )
        )
        if left == 0:
            self.replace(tuple(part[:0].clone() for part in self._parts))
            return moves
        self._reserve(self.count)
        if moves:
            indices, origins = (list(rows) for rows in zip(*moves, strict=True))
            for part in self._parts:
                part[indices] = part[origins]
        self.count = left
        return moves

    def _reserve(self, rows: int) -> None:
        """Memory of our own with room for `rows`: twice of that if there has to be new memory, which also lets go of too much."""
        if self._own and rows <= len(self._parts[-1]) <= 8 * rows:
            return
        fresh = tuple(part.new_empty(2 * rows, *part.shape[1:]) for part in self._parts)
        for part, new in zip(self._parts, fresh, strict=True):
            new[: self.count] = part[: self.count]
        self._parts, self._own = fresh, True
