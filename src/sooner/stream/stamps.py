"""The times of open series, in the order of the fleet's rows, so that many are written at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sooner.types import FloatArray, IntArray


class Stamps:
    """When the open series began and were last seen.

    Attributes:
        opened: (rows,): when each began.
        seen: (rows,): when each was last seen.
        born: (rows,): the number of its first observation among all, which is the order in which they began.
        ats: (rows,): the time of its last observation, as it was written.
    """

    def __init__(self) -> None:
        self._count = 0
        self._opened, self._seen, self._born = np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
        self._ats = np.empty(0, dtype=object)

    def __len__(self) -> int:
        return self._count

    @property
    def opened(self) -> FloatArray:
        """When each began."""
        return self._opened[: self._count]

    @property
    def seen(self) -> FloatArray:
        """When each was last seen."""
        return self._seen[: self._count]

    @property
    def born(self) -> IntArray:
        """The number of its first observation."""
        return self._born[: self._count]

    @property
    def ats(self) -> Any:
        """The time of its last observation, as it was written."""
        return self._ats[: self._count]

    def begin(self, born: IntArray, now: float) -> None:
        """Add series that begin now, behind the others."""
        old, count = self._count, self._count + len(born)
        if count > len(self._born):
            self._resize(2 * count)
        self._count = count
        self._opened[old : self._count] = now
        self._seen[old : self._count] = now
        self._born[old : self._count] = born
        self._ats[old : self._count] = None

    def move(self, moves: Sequence[tuple[int, int]], count: int) -> None:
        """Follow the fleet, whose last rows have moved into gaps; `count` rows are left."""
        if moves:
            to, origin = np.array(moves, dtype=np.int64).T
            for column in (self._opened, self._seen, self._born, self._ats):
                column[to] = column[origin]
        self._ats[count : self._count] = None
        self._count = count
        if len(self._born) > 8 * max(count, 64):
            self._resize(2 * count)

    def to_json(self) -> dict[str, Any]:
        """All columns."""
        return {name: getattr(self, name).tolist() for name in ("opened", "seen", "born", "ats")}

    @classmethod
    def of_json(cls, state: dict[str, Any]) -> "Stamps":
        """From what `to_json` gave."""
        stamps = cls()
        stamps.begin(np.array(state["born"], dtype=np.int64), 0.0)
        stamps.opened[:], stamps.seen[:] = state["opened"], state["seen"]
        stamps.ats[:] = state["ats"]
        return stamps

    def _resize(self, size: int) -> None:
        for name in ("_opened", "_seen", "_born", "_ats"):
            old = getattr(self, name)
            new = np.empty(size, dtype=old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, name, new)
