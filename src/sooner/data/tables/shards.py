"""Shards of a table, read so that no series is divided (imported late: it needs pyarrow).

A shard contains the series that begin in it: its reader skips the first rows if they continue an earlier series, and reads on
beyond the end of the shard until its last series ends. So the shards of a table can be read by independent processes, and each
series is read whole by one of them. A series may continue in the next file.

Unreadable ranges are passed over. A series that reaches the edge of such a range inside a file, or is on both sides of it, is
torn, and left out. Beyond the end of a file, series are taken to be whole, as most files contain whole series.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sooner.data.tables.plan import Broken, TablePlan
from sooner.errors import SoonerError, UnreadableFile
from sooner.series import Series
from sooner.series.assembly import Assembly
from sooner.series.rows import RowBatch

ROOM = 2**13
"""The maximum number of observations in memory, padding included; a longer series is alone there."""


class RangeUnreadable(Exception):
    """A range of rows proved to be damaged while it was read."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index, self.reason = index, reason


class SeriesReturns(SoonerError):
    """The rows of a series proved not to be contiguous."""


class _Edge(NamedTuple):
    """The series of the last row that was read, and its file."""

    name: Any
    file: str


class ShardReader:
    """The series that begin in a shard.

    Args:
        plan: of the table.
        shard: counted from 0.
        broken: ranges to pass over. `series` raises `RangeUnreadable` for any other unreadable range; discard the series
            before it, and start again with a reader that passes over that range too.

    At the end of `series`, `torn` has the IDs of the series to leave out, and `rows` the number of rows read.
    """

    def __init__(self, plan: TablePlan, shard: int, broken: Broken) -> None:
        self.plan, self.shard, self.broken = plan, shard, broken
        self.torn: set[Any] = set()
        self.rows = 0
        self._ranges = plan.shards[shard]
        self._damaged: set[str] = set()

    def series(self, room: int | None = None) -> Iterator[Series]:
        """Whole series, at most `room` observations with their padding; by default `ROOM`."""
        layout, in_order = self.plan.layout, self.plan.in_order
        seen: set[Any] = set()
        rows = in_order.rows(self.plan, self.shard) if in_order else self._batches()
        for batches in _by_room(rows, room or ROOM):
            assembly = Assembly.of(batches, layout.choice)
            if assembly.returns(seen):
                raise SeriesReturns
            self.rows += assembly.rows
            yield layout.series(assembly)

    def _batches(self) -> Iterator[RowBatch]:
        """The rows of the series that begin in the shard."""
        edge, begun = self._edge_before(), False
        for index in range(self._ranges.start, len(self.plan.ranges)):
            beyond = index not in self._ranges
            if beyond and not begun:
                return  # all of the shard continues an earlier series
            if self._passed_over(index):
                continue
            for batch in self._read(index, self.plan.range_batches(index)):
                first, is_one_run = batch.ids[0].as_py(), len(batch.starts) == 1
                continues = edge is not None and first == edge.name
                self._note_torn(edge, _Edge(first, batch.file))
                if beyond and not continues:
                    return
                edge = _Edge(batch.ids[-1].as_py(), batch.file)
                if continues and not begun:
                    if is_one_run:
                        continue
                    batch = batch.cut(1)[1]
                begun = True
                if beyond and not is_one_run:
                    yield batch.cut(1)[0]
                    return
                yield batch
        self._note_torn(edge, None)

    def _edge_before(self) -> _Edge | None:
        """The last readable row before the shard."""
        for index in range(self._ranges.start - 1, -1, -1):
            if not self._passed_over(index):
                column = self.plan.layout.choice.series
                *_, (_, batch) = self._read(index, self.plan.records(index, [column]))
                return _Edge(batch.column(column)[-1].as_py(), self.plan.ranges[index].file)
        return None

    def _passed_over(self, index: int) -> bool:
        rows = self.plan.ranges[index]
        if index in self.broken:
            self._damaged.add(rows.file)
        return index in self.broken or rows.stop == 0

    def _note_torn(self, edge: _Edge | None, now: _Edge | None) -> None:
        """Note the series on the sides of ranges that have been passed over."""
        if self._damaged:
            sides = [side for side in (edge, now) if side is not None and side.file in self._damaged]
            if edge is not None and now is not None and edge.name == now.name:
                sides.append(now)
            self.torn.update(side.name for side in sides)
            self._damaged = set()

    def _read(self, index: int, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except UnreadableFile as error:
            raise RangeUnreadable(index, error.reason) from None


def _by_room(batches: Iterator[RowBatch], room: int) -> Iterator[list[RowBatch]]:
    """Lists of batches of whole series, of at most `room` observations with their padding.

    They do not depend on where the reader divides its batches, so that the same series are always scored together.
    """
    chunk: list[RowBatch] = []
    sizes = np.zeros(0, dtype=np.int64)  # of the series in the chunk
    for whole in _whole_series(batches):
        while True:
            added = np.diff(whole[0].starts, append=len(whole[0])) if len(whole) == 1 else [sum(map(len, whole))]
            both = np.concatenate([sizes, added])
            crowded = np.flatnonzero(np.maximum.accumulate(both) * np.arange(1, len(both) + 1) > room)
            crowded = crowded[crowded >= max(len(sizes), 1)] - len(sizes)
            if not len(crowded):
                chunk, sizes = [*chunk, *whole], both
                break
            if crowded[0]:
                before, rest = whole[0].cut(int(crowded[0]))
                chunk, whole = [*chunk, before], [rest]
            yield chunk
            chunk, sizes = [], sizes[:0]
    if chunk:
        yield chunk


def _whole_series(batches: Iterator[RowBatch]) -> Iterator[list[RowBatch]]:
    """Batches of whole series, each alone in a list; a series of several batches is a list of these."""
    last: list[RowBatch] = []  # the series that may continue
    for batch in batches:
        rest = batch
        if last and last[-1].ids[-1].as_py() == rest.ids[0].as_py():
            if len(rest.starts) == 1:
                last.append(rest)
                continue
            first, rest = rest.cut(1)
            last.append(first)
        before, rest = rest.cut(len(rest.starts) - 1)
        yield from filter(None, (last, [before] if len(before) else None))
        last = [rest]
    if last:
        yield last
