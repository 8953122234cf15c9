"""Long tables: one row for one observation of one series, in CSV (also packed as .gz), TSV or Parquet files.

A table is a file, a folder of them, or a pattern like `runs/*.parquet`. Rows may come in any order: series are in the order
in which they first appear, and their observations in the order of time. What a person would have to look at (a time that
comes twice, a label that changes, a missing value) is refused by file, row and column; rows count from 1, without the line
of names.

Two ways: `read_table` holds a whole table, `table_parts` walks through one that is larger than the memory. Both have a
twin for data without labels.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from sooner.data.columns import Chosen, Columns, Labelling, choose
from sooner.data.series import Missing, Names, Series
from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole
from sooner.types import IntArray, Lengths, Observations

if TYPE_CHECKING:
    from sooner.data.assembly import Assembly
    from sooner.data.rows import Stretch

Gaps: TypeAlias = Literal["none", "channel"]
Dtype: TypeAlias = Literal["float32", "float64"]

GAP = "gap"
"""The name of the channel that `gaps="channel"` adds behind the others: the time since the observation before."""

_ROWS = "It is the least number of rows in a part."
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")  # as it is written without zeros in front


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled series, the ids they have in their file, and the names of their channels (mask channels have none)."""

    ids: Names
    channels: tuple[str, ...]
    series: Series


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """What a `Table` holds, for series whose classes are not known."""

    ids: Names
    channels: tuple[str, ...]
    observations: Observations
    lengths: Lengths
    mask_channels: int = 0


def read_table(
    path: str | Path,
    *,
    series: str | None = None,
    time: str | None = None,
    label: str | None = None,
    channels: Sequence[str] | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    classes: Any = None,
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    dtype: Dtype = "float32",
) -> Table:
    """Read a table of labelled series.

    Args:
        path: a file, a folder, or a pattern; files of a folder are read in the order of their names.
        series: the column of ids, text or whole numbers; this and the next five as in `Columns`.
        time: a column of numbers, timestamps or dates.
        label: a column that names the class, the same in all rows of a series.
        channels: columns of numbers.
        group: a column that names who or what a series comes from, the same in all rows of a series.
        ignore: columns that are not read.
        classes: the names of the classes, for data that may lack some of them; by default those in the table, sorted.
        missing: "mask" puts 0 for an empty cell or NaN, and adds a channel of 1 (observed) and 0 (missing) for each channel.
        gaps: "channel" adds the channel `GAP`, the time since the observation before (0 at the first), in seconds for
            timestamps and in the unit of the column for numbers.
        dtype: what the numbers become; "float64" for large offsets that float32 would round away.

    Ids and labels of a CSV are whole numbers if all of them are, else text.
    """
    columns = Columns(series, time, label, channels, group, ignore)
    return _table(_whole(Reading.of(path, columns, "labelled", missing, gaps, dtype)), classes)


def read_observations(
    path: str | Path,
    *,
    series: str | None = None,
    time: str | None = None,
    label: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    dtype: Dtype = "float32",
) -> Unlabelled:
    """Read a table of series without labels, as `read_table`; a column of labels, if there is one, is left out."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    return _unlabelled(_whole(Reading.of(path, columns, "unlabelled", missing, gaps, dtype)))


def table_parts(
    path: str | Path,
    *,
    classes: Any,
    rows: int = 1_000_000,
    series: str | None = None,
    time: str | None = None,
    label: str | None = None,
    channels: Sequence[str] | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    dtype: Dtype = "float32",
) -> Iterator[Table]:
    """Walk through a table in parts of whole series; the memory holds one part, and the ids that have been.

    The rows of a series must lie together. A part ends with the first series that brings it to `rows` rows. The other
    arguments are those of `read_table`; `classes` must be given, because a part may lack some of them. Ids of a CSV are
    whole numbers in the parts where all of them are.
    """
    columns = Columns(series, time, label, channels, group, ignore)
    reading = Reading.of(path, columns, "labelled", missing, gaps, dtype)
    rows = as_whole(rows, name="rows", low=1, remedy=_ROWS)
    return (_table(part, classes) for part in _parts(reading, rows))


def observation_parts(
    path: str | Path,
    *,
    rows: int = 1_000_000,
    series: str | None = None,
    time: str | None = None,
    label: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    dtype: Dtype = "float32",
) -> Iterator[Unlabelled]:
    """Walk through a table of series without labels, as `table_parts`."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    reading = Reading.of(path, columns, "unlabelled", missing, gaps, dtype)
    rows = as_whole(rows, name="rows", low=1, remedy=_ROWS)
    return (_unlabelled(part) for part in _parts(reading, rows))


@dataclass(frozen=True)
class Reading:
    """Which files are read, and how."""

    path: str
    files: tuple[Path, ...]
    columns: Columns
    chosen: Chosen
    labelling: Labelling
    missing: Missing
    gaps: Gaps
    dtype: Dtype

    @classmethod
    def of(
        cls, path: str | Path, columns: Columns, labelling: Labelling, missing: Missing, gaps: Gaps, dtype: Dtype
    ) -> "Reading":
        """Check the words, and find the files and their columns."""
        from sooner.data import sources

        for name, word, known in (
            ("missing", missing, ("refuse", "mask")),
            ("gaps", gaps, ("none", "channel")),
            ("dtype", dtype, ("float32", "float64")),
        ):
            if word not in known:
                raise UnknownName(name, word, known)
        files = tuple(sources.table_files(path))
        chosen = choose(columns, sources.kinds(files[0]), str(files[0]), labelling)
        if GAP in chosen.channels and (gaps == "channel" or labelling == "labelled"):
            # A model knows by this name that it reads gaps.
            remedy = 'It is the name of what gaps="channel" adds: rename the column, or leave it out by ignore=.'
            raise InvalidArgument("channels", f"without a {GAP!r}", f"one in {files[0]}", remedy)
        return cls(str(path), files, columns, chosen, labelling, missing, gaps, dtype)

    @property
    def channels(self) -> tuple[str, ...]:
        """Their names, that of the gaps included."""
        return (*self.chosen.channels, GAP) if self.gaps == "channel" else self.chosen.channels

    @property
    def mask_channels(self) -> int:
        """How many channels say what was observed."""
        return len(self.channels) if self.missing == "mask" else 0

    @property
    def gap(self) -> int | None:
        """The channel that holds gaps."""
        return len(self.chosen.channels) if self.gaps == "channel" else None

    def plain(self, names: Any) -> Names:
        """Names as an array; in a CSV, which has nothing but text, they are whole numbers if all of them are."""
        from sooner.data.sources import is_parquet

        if names.type != "string":
            numbers: Names = names.to_numpy(zero_copy_only=False)
            return numbers
        texts = names.to_pylist()
        if not is_parquet(self.files[0]) and all(map(_WHOLE.fullmatch, texts)):
            return np.array([int(text) for text in texts])
        return np.array(texts)

    def room(self, rows: int) -> npt.NDArray[Any]:
        """Where the numbers of so many rows go."""
        try:
            return np.empty((rows, len(self.channels) + self.mask_channels), dtype=self.dtype)
        except MemoryError:
            remedy = "Read it in parts: `table_parts`."
            raise InvalidArgument(self.path, "a table that fits into memory", f"{rows} rows", remedy) from None

    def stretches(self) -> "Iterator[Stretch]":
        """All rows of all files, in their order."""
        from sooner.data import rows, sources

        for file in self.files:
            if file != self.files[0]:
                self.refuse_other_columns(file, sources.kinds(file))
            first = 0
            for batch in sources.batches(file, self.chosen):
                if len(batch):
                    yield rows.stretch(batch, self.chosen, str(file), first)
                first += len(batch)

    def refuse_other_columns(self, file: Path, kinds: Mapping[str, str]) -> None:
        """All files of a table have the same columns."""
        here = choose(self.columns, kinds, str(file), self.labelling)
        if here != self.chosen:
            expected = f"a table of the same columns as {self.files[0]}, {self.chosen.names()}"
            remedy = "Name the columns that all files have."
            raise InvalidArgument(str(file), expected, f"{here.names()}", remedy)

    def fill(self, stretch: "Stretch", room: npt.NDArray[Any]) -> None:
        """Write the numbers of a stretch; gaps have to wait until the rows are in order."""
        stretch.write(room, self.chosen.channels, self.missing)
        if self.gaps == "channel" and self.missing == "mask":
            room[:, -1] = 1.0


class _Gathered(NamedTuple):
    """Series whose classes are not looked at yet."""

    reading: Reading
    assembly: "Assembly"
    observations: Observations


def _whole(reading: Reading) -> _Gathered:
    """All rows of all files; each stretch is written where it stays as soon as it comes."""
    from sooner.data.assembly import Assembly
    from sooner.data.sources import no_rows, row_count

    total, before = row_count(reading.files), 0
    room = None if total is None else reading.room(total)
    rooms, stretches = [], []
    for stretch in reading.stretches():
        rooms.append(reading.room(len(stretch)) if room is None else room[before : before + len(stretch)])
        reading.fill(stretch, rooms[-1])
        stretches.append(replace(stretch, values=()))
        before += len(stretch)
    if not stretches:
        raise no_rows(reading.path)
    assembly = Assembly.of(stretches, reading.chosen)
    values = np.concatenate(rooms) if room is None else room
    return _Gathered(reading, assembly, assembly.observations(values, reading.gap))


def _parts(reading: Reading, rows: int) -> Iterator[_Gathered]:
    """Parts of whole series, which come once each."""
    from sooner.data.assembly import Assembly
    from sooner.data.sources import no_rows

    seen: set[Any] = set()
    for stretches in _cut(reading.stretches(), rows):
        assembly = Assembly.of(stretches, reading.chosen)
        assembly.refuse_returning(seen)
        values, before = reading.room(assembly.rows), 0
        for stretch in stretches:
            reading.fill(stretch, values[before : before + len(stretch)])
            before += len(stretch)
        yield _Gathered(reading, assembly, assembly.observations(values, reading.gap))
    if not seen:
        raise no_rows(reading.path)


def _cut(stretches: "Iterator[Stretch]", rows: int) -> "Iterator[list[Stretch]]":
    """Lists of stretches of at least `rows` rows that end where a series does."""
    held: list[Stretch] = []
    wanted = rows
    for stretch in stretches:
        rest = stretch
        while (run := _end(held, rest, wanted)) is not None:
            before, rest = rest.cut(run)
            yield [*held, before] if len(before) else held
            held, wanted = [], rows
        held.append(rest)
        wanted -= len(rest)
    if held:
        yield held


def _end(held: "list[Stretch]", stretch: "Stretch", wanted: int) -> int | None:
    """The first run that may begin another part, if `wanted` rows are still to come."""
    runs = np.flatnonzero(stretch.starts >= wanted)
    if len(runs) and runs[0] == 0 and held[-1].ids[-1].as_py() == stretch.ids[0].as_py():
        runs = runs[1:]  # the series of the first run began before
    return int(runs[0]) if len(runs) else None


def _table(gathered: _Gathered, classes: Any) -> Table:
    reading, assembly, observations = gathered
    chosen, stretches = reading.chosen, assembly.stretches
    labels, known = _labels(gathered, classes)
    groups = None
    if chosen.group is not None:
        places, names = assembly.names([stretch.groups for stretch in stretches], chosen.group)
        groups = reading.plain(names)[places]
    lengths = torch.from_numpy(assembly.lengths)
    series = Series(observations, torch.from_numpy(labels), known, lengths, groups, reading.mask_channels)
    return Table(reading.plain(assembly.ids), reading.channels, series)


def _unlabelled(gathered: _Gathered) -> Unlabelled:
    reading, assembly, observations = gathered
    ids, lengths = reading.plain(assembly.ids), torch.from_numpy(assembly.lengths)
    return Unlabelled(ids, reading.channels, observations, lengths, reading.mask_channels)


def _labels(gathered: _Gathered, classes: Any) -> tuple[IntArray, Names]:
    """The labels of the series as places among the classes, and the classes."""
    reading, assembly, _ = gathered
    column = str(reading.chosen.label)
    places, found = assembly.names([stretch.labels for stretch in assembly.stretches], column)
    known = np.unique(reading.plain(found)) if classes is None else np.asarray(classes)
    if classes is None and len(known) < 2:
        expected, got = f"a table of at least 2 classes in column {column!r}", f"only {known.tolist()[0]!r}"
        raise InvalidArgument(reading.path, expected, got, "With one class there is nothing to decide.")
    # Where the file has text, classes that are numbers are compared as they are written.
    where = {str(name) if found.type == "string" else name: place for place, name in enumerate(known.tolist())}
    for place, name in enumerate(found.to_pylist()):
        if name not in where:
            row = int(assembly.starts[np.flatnonzero(places[assembly.codes] == place)[0]])
            expected = f"a table of the classes {known.tolist()} in column {column!r}"
            raise assembly.fault(row, expected, repr(name), "Drop the series, or add it to the classes.")
    return np.array([where[name] for name in found.to_pylist()])[places], known
