"""Units of work: a long table cut into ranges of rows, and read so that no series is cut.

Where the ranges lie is known from the footers of Parquet files alone. A unit owns the series that begin in it: whoever reads
it leaves out the rows in front that go on with an earlier series, and reads on behind its end until its last series ends.
So strangers can read the units of one table at the same time, and each series is read whole, by one of them. A series may go
on from one file to the next; otherwise its rows must lie together.

What cannot be read is passed over. A series that reaches the edge of it inside a file, or stands on both sides of it, is torn:
it is left out. Beyond the end of a file, series are taken to be whole, as files mostly hold whole series.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from pyarrow import types

from sooner.data import rows, sources
from sooner.data.assembly import Assembly
from sooner.data.columns import Columns, choose
from sooner.data.rows import Stretch
from sooner.data.series import Missing
from sooner.data.tables import Gaps, Reading
from sooner.errors import InvalidArgument, UnreadableFile
from sooner.types import Lengths, Observations

ROWS = 2**17
"""The least number of rows in a unit, but for the last one."""
MOST = 10_000
"""The largest number of units: those of a longer table are longer."""
ROOM = 2**13
"""How many observations, padding included, are in memory at a time; a longer series is alone there."""

Broken: TypeAlias = Mapping[int, str]
"""Pieces that cannot be read, by their place, and why."""


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `stop` of a file. They lie in the row groups `groups`, from first to last; `before` rows precede these."""

    file: str
    start: int
    stop: int
    groups: range | None = None
    before: int = 0


class Part(NamedTuple):
    """Some series, whole: their ids as pyarrow holds them, (series, time, channels) with zeros behind each, and lengths."""

    ids: Any
    observations: Observations
    lengths: Lengths


class PieceUnreadable(Exception):
    """A piece turned out to be damaged while it was read."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason


@dataclass(frozen=True)
class Plan:
    """A table, and how it is cut.

    Args:
        reading: its files and columns.
        ids: what the column of ids holds, as pyarrow says it.
        pieces: all rows of all files, in their order.
        units: neighbouring pieces, from first to last.
        broken: the pieces of files whose footer cannot be read.
        rows: how many there are; None if that is not known.
    """

    reading: Reading
    ids: Any
    pieces: tuple[Piece, ...]
    units: tuple[range, ...]
    broken: Broken
    rows: int | None

    @classmethod
    def of(
        cls, path: str | Path, columns: Columns, *, missing: Missing = "refuse", gaps: Gaps = "none", least: int = ROWS
    ) -> "Plan":
        """Look at the footers of all files; other columns in one of them are refused now, not in the middle of the work.

        Args:
            path: as in `read_table`. CSV files have no footers: all of them are one unit.
            columns: as the user names them.
            missing: as in `read_table`.
            gaps: as in `read_table`.
            least: rows in a unit.
        """
        files = sources.table_files(path)
        looks, faults = _looked_at(files)
        if not looks:
            raise next(iter(faults.values()))
        first, look = next(iter(looks.items()))
        chosen = choose(columns, look.kinds, str(first), "unlabelled")
        reading = Reading(str(path), tuple(looks), columns, chosen, "unlabelled", missing, gaps, "float64")
        for file, other in looks.items():
            reading.refuse_other_columns(file, other.kinds)
        if sources.is_parquet(first):
            ids, groups = _type_of_ids(looks, chosen.series), {file: looks[file].groups for file in looks}
            total: int | None = sum(map(sum, groups.values()))
            if not total:
                raise sources.no_rows(str(path))
            pieces, units = _cut({file: groups.get(file, []) for file in files}, max(least, math.ceil(total / MOST)))
        else:
            ids, total = pa.string(), None
            pieces, units = [Piece(str(file), 0, sys.maxsize) for file in files], (range(len(files)),)
        broken = {
            place: faults[Path(piece.file)].reason for place, piece in enumerate(pieces) if Path(piece.file) in faults
        }
        return cls(reading, ids, tuple(pieces), units, broken, total)


def _looked_at(files: Sequence[Path]) -> tuple[dict[Path, sources.Look], dict[Path, UnreadableFile]]:
    """What each file says of itself, and what is wrong with those that say nothing."""
    looks, faults = {}, {}
    for file in files:
        try:
            looks[file] = sources.look(file)
        except UnreadableFile as error:
            faults[file] = error
    return looks, faults


def _type_of_ids(looks: Mapping[Path, sources.Look], column: str) -> Any:
    """That of all files, or where they differ, text or whole numbers of any size."""
    found = {file: look.types[column] for file, look in looks.items()}
    plain = {file: kind.value_type if types.is_dictionary(kind) else kind for file, kind in found.items()}
    first, kind = next(iter(plain.items()))
    other = next((file for file, here in plain.items() if here != kind), None)
    if other is None:
        return kind
    if {look.kinds[column] for look in looks.values()} == {"text"}:
        return pa.string()
    if all(types.is_integer(here) and not types.is_uint64(here) for here in plain.values()):
        return pa.int64()
    expected = f"a table with {kind} in column {column!r} as in {first}"
    raise InvalidArgument(str(other), expected, f"{plain[other]}", "Write all files alike.")


def _cut(groups: Mapping[Path, list[int]], least: int) -> tuple[list[Piece], tuple[range, ...]]:
    """Pieces of all files, and units of `least` rows; a file without rows is an empty piece."""
    pieces: list[Piece] = []
    units, first, wanted = [], 0, least
    for file, sizes in groups.items():
        ends = np.cumsum([0, *sizes])
        start, rest = 0, int(ends[-1])
        if not rest:
            pieces.append(Piece(str(file), 0, 0))
        while rest:
            taken = min(rest, wanted)
            low, high = (int(np.searchsorted(ends, row, side="right")) for row in (start, start + taken - 1))
            pieces.append(Piece(str(file), start, start + taken, range(low - 1, high), int(ends[low - 1])))
            start, rest, wanted = start + taken, rest - taken, wanted - taken
            if not wanted:
                units.append(range(first, len(pieces)))
                first, wanted = len(pieces), least
    if first < len(pieces):
        units.append(range(first, len(pieces)))
    return pieces, tuple(units)


class _Edge(NamedTuple):
    """Where the reading stands: the series of the last row, and its file."""

    name: Any
    file: str


class Walk:
    """The series that begin in a unit, a part at a time.

    Args:
        plan: of the table.
        unit: counted from 0.
        broken: pieces to pass over. `parts` raises `PieceUnreadable` where it finds another one: what came before is then to be
            thrown away, and a new walk passes over that one too.

    Once `parts` has come to its end, `torn` holds the ids of series to leave out, and `rows` says how many rows were read.
    """

    def __init__(self, plan: Plan, unit: int, broken: Broken) -> None:
        self.plan, self.unit, self.broken = plan, plan.units[unit], broken
        self.torn: set[Any] = set()
        self.rows = 0
        self._holes: set[str] = set()

    def parts(self, room: int | None = None) -> Iterator[Part]:
        """Whole series, at most `room` observations with their padding; by default `ROOM`."""
        reading = self.plan.reading
        seen: set[Any] = set()
        for stretches in _by_room(self._stretches(), room or ROOM):
            assembly = Assembly.of(stretches, reading.chosen)
            assembly.refuse_returning(seen)
            values, before = reading.room(assembly.rows), 0
            for stretch in stretches:
                reading.fill(stretch, values[before : before + len(stretch)])
                before += len(stretch)
            self.rows += before
            observations = assembly.observations(values, reading.gap)
            yield Part(assembly.ids.cast(self.plan.ids), observations, torch.from_numpy(assembly.lengths))

    def _stretches(self) -> Iterator[Stretch]:
        """The rows of the series that begin in the unit."""
        edge, ours = self._behind(), False
        for place in range(self.unit.start, len(self.plan.pieces)):
            beyond = place not in self.unit
            if beyond and not ours:
                return  # all of the unit goes on with an earlier series
            if self._passed_over(place):
                continue
            for stretch in self._read(place):
                first, only = stretch.ids[0].as_py(), len(stretch.starts) == 1
                goes_on = edge is not None and first == edge.name
                self._note_torn(edge, _Edge(first, stretch.file))
                if beyond and not goes_on:
                    return
                edge = _Edge(stretch.ids[-1].as_py(), stretch.file)
                if goes_on and not ours:
                    if only:
                        continue
                    stretch = stretch.cut(1)[1]
                ours = True
                if beyond and not only:
                    yield stretch.cut(1)[0]
                    return
                yield stretch
        self._note_torn(edge, None)

    def _behind(self) -> _Edge | None:
        """The last row in front of the unit that can be read."""
        for place in range(self.unit.start - 1, -1, -1):
            if not self._passed_over(place):
                piece = self.plan.pieces[place]
                return _Edge(self._last(place), piece.file)
        return None

    def _passed_over(self, place: int) -> bool:
        piece = self.plan.pieces[place]
        if place in self.broken:
            self._holes.add(piece.file)
        return place in self.broken or piece.stop == 0

    def _note_torn(self, edge: _Edge | None, now: _Edge | None) -> None:
        """Between these two something may have been passed over."""
        if self._holes:
            sides = [side for side in (edge, now) if side is not None and side.file in self._holes]
            if edge is not None and now is not None and edge.name == now.name:
                sides.append(now)
            self.torn.update(side.name for side in sides)
            self._holes = set()

    def _read(self, place: int) -> Iterator[Stretch]:
        chosen = self.plan.reading.chosen
        for first, batch in self._batches(place, channels=chosen.channels):
            yield rows.stretch(batch, chosen, self.plan.pieces[place].file, first)

    def _last(self, place: int) -> Any:
        """The id in the last row of a piece."""
        name = None
        for _, batch in self._batches(place, channels=()):
            name = batch.column(self.plan.reading.chosen.series)[-1].as_py()
        return name

    def _batches(self, place: int, channels: tuple[str, ...]) -> Iterator[tuple[int, Any]]:
        """The rows of a piece, a record batch at a time, and how many rows of the file lie before."""
        piece = self.plan.pieces[place]
        row, chosen = piece.before, replace(self.plan.reading.chosen, channels=channels)
        try:
            for batch in sources.batches(Path(piece.file), chosen, piece.groups):
                low, high = max(piece.start - row, 0), min(piece.stop - row, len(batch))
                if low < high:
                    yield row + low, batch.slice(low, high - low)
                row += len(batch)
                if row >= piece.stop:
                    return
        except UnreadableFile as error:
            raise PieceUnreadable(place, error.reason) from None


def _by_room(stretches: Iterator[Stretch], room: int) -> Iterator[list[Stretch]]:
    """Lists of stretches that end where a series does, and that fit into so much room if all are padded to the longest."""
    held: list[Stretch] = []
    sizes = np.zeros(0, dtype=np.int64)  # of the series that are held
    for stretch in stretches:
        rest = stretch
        goes_on = bool(held) and held[-1].ids[-1].as_py() == rest.ids[0].as_py()
        while True:
            here = np.diff(rest.starts, append=len(rest))
            if goes_on:
                here[0] += sizes[-1]
                sizes = sizes[:-1]
            both = np.concatenate([sizes, here])
            # The first run that no longer fits begins another part; one that goes on cannot be parted from what is held.
            crowded = np.flatnonzero(np.maximum.accumulate(both) * np.arange(1, len(both) + 1) > room)
            crowded = crowded[crowded >= len(sizes) + goes_on] - len(sizes)
            crowded = crowded if held else crowded[crowded > 0]
            if not len(crowded):
                held.append(rest)
                sizes = both
                break
            before, rest = rest.cut(int(crowded[0]))
            yield [*held, before] if len(before) else held
            held, sizes, goes_on = [], sizes[:0], False
    if held:
        yield held
