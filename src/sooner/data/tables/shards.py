"""Shards of a table, read so that no series is cut.

A shard owns the series that begin in it: its reader leaves out the rows in front that go on with an earlier series, and reads on
behind its end until its last series ends. So the shards of one table can be read at the same time, by processes that know
nothing of each other, and each series is read whole by one of them. A series may go on from one file to the next.

What cannot be read is passed over. A series that reaches the edge of it inside a file, or stands on both sides of it, is torn:
it is left out. Beyond the end of a file, series are taken to be whole, as files mostly hold whole series.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
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
"""How many observations, padding included, are in memory at a time; a longer series is alone there."""


class RangeUnreadable(Exception):
    """A range of rows turned out to be damaged while it was read."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index, self.reason = index, reason


class SeriesReturns(SoonerError):
    """The rows of a series turned out not to be contiguous."""


class _Edge(NamedTuple):
    """Where the reading stands: the series of the last row, and its file."""

    name: Any
    file: str


class ShardReader:
    """The series that begin in a shard, some at a time.

    Args:
        plan: of the table.
        shard: counted from 0.
        broken: ranges to pass over. `series` raises `RangeUnreadable` where it finds another one: what came before is then to be
            thrown away, and a new reader passes over that one too.

    Once `series` has come to its end, `torn` holds the IDs of series to leave out, and `rows` says how many rows were read.
    """

    def __init__(self, plan: TablePlan, shard: int, broken: Broken) -> None:
        self.plan, self.shard, self.broken = plan, shard, broken
        self.torn: set[Any] = set()
        self.rows = 0
        self._ranges = plan.shards[shard]
        self._holes: set[str] = set()

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
        edge, ours = self._behind(), False
        for index in range(self._ranges.start, len(self.plan.ranges)):
            beyond = index not in self._ranges
            if beyond and not ours:
                return  # all of the shard goes on with an earlier series
            if self._passed_over(index):
                continue
            for batch in self._read(index):
                first, only = batch.ids[0].as_py(), len(batch.starts) == 1
                goes_on = edge is not None and first == edge.name
                self._note_torn(edge, _Edge(first, batch.file))
                if beyond and not goes_on:
                    return
                edge = _Edge(batch.ids[-1].as_py(), batch.file)
                if goes_on and not ours:
                    if only:
                        continue
                    batch = batch.cut(1)[1]
                ours = True
                if beyond and not only:
                    yield batch.cut(1)[0]
                    return
                yield batch
        self._note_torn(edge, None)

    def _behind(self) -> _Edge | None:
        """The last row before the shard that can be read."""
        for index in range(self._ranges.start - 1, -1, -1):
            if not self._passed_over(index):
                return _Edge(self._last(index), self.plan.ranges[index].file)
        return None

    def _passed_over(self, index: int) -> bool:
        rows = self.plan.ranges[index]
        if index in self.broken:
            self._holes.add(rows.file)
        return index in self.broken or rows.stop == 0

    def _note_torn(self, edge: _Edge | None, now: _Edge | None) -> None:
        """Between these two something may have been passed over."""
        if self._holes:
            sides = [side for side in (edge, now) if side is not None and side.file in self._holes]
            if edge is not None and now is not None and edge.name == now.name:
                sides.append(now)
            self.torn.update(side.name for side in sides)
            self._holes = set()

    def _read(self, index: int) -> Iterator[RowBatch]:
        try:
            yield from self.plan.range_batches(index)
        except UnreadableFile as error:
            raise RangeUnreadable(index, error.reason) from None

    def _last(self, index: int) -> Any:
        """The ID in the last row of a range."""
        name, column = None, self.plan.layout.choice.series
        try:
            for _, batch in self.plan.records(index, [column]):
                name = batch.column(column)[-1].as_py()
        except UnreadableFile as error:
            raise RangeUnreadable(index, error.reason) from None
        return name


def _by_room(batches: Iterator[RowBatch], room: int) -> Iterator[list[RowBatch]]:
    """Lists of batches of whole series that fit into so much room if all are padded to the longest.

    Where the reader cuts its batches does not matter, so that the same series are scored together whatever their rows lie among.
    """
    held: list[RowBatch] = []
    sizes = np.zeros(0, dtype=np.int64)  # of the series that are held
    for pieces in _whole_series(batches):
        while True:
            here = np.diff(pieces[0].starts, append=len(pieces[0])) if len(pieces) == 1 else [sum(map(len, pieces))]
            both = np.concatenate([sizes, here])
            crowded = np.flatnonzero(np.maximum.accumulate(both) * np.arange(1, len(both) + 1) > room)
            crowded = crowded[crowded >= max(len(sizes), 1)] - len(sizes)
            if not len(crowded):
                held, sizes = [*held, *pieces], both
                break
            if crowded[0]:
                before, rest = pieces[0].cut(int(crowded[0]))
                held, pieces = [*held, before], [rest]
            yield held
            held, sizes = [], sizes[:0]
    if held:
        yield held


def _whole_series(batches: Iterator[RowBatch]) -> Iterator[list[RowBatch]]:
    """One batch of whole series, or several pieces of one series, at a time."""
    last: list[RowBatch] = []  # the series that may go on
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
