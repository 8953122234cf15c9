"""The one reader of long tables: which files, columns and ranges of rows there are, and the rows themselves.

Whole reading, parts of a table and the shards of `sooner score` all get their rows here. Parquet files say in their footers how
many rows they have, so a table of them is cut into shards before any row is read; CSV files are one shard.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

from sooner.data.tables import files as sources
from sooner.errors import InvalidArgument, UnreadableFile
from sooner.series import Missing
from sooner.series.columns import Columns, Gaps, Labelling, choose
from sooner.series.layout import Dtype, Layout, Numerals
from sooner.series.rows import Origin, RowBatch, encoded, row_batch, run_keys, series_ids
from sooner.types import IntArray

if TYPE_CHECKING:
    from sooner.data.tables.spill import SortedRows

ROWS = 2**17
"""The least number of rows in a shard, but for the last one."""
MOST = 10_000
"""The largest number of shards: those of a longer table are longer."""

Broken: TypeAlias = Mapping[int, str]
"""Ranges of rows that cannot be read, by their index, and why."""


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of a file: they are in the row groups `groups`, whose first row is row `before` of the file."""

    file: str
    start: int
    stop: int
    groups: range | None = None
    before: int = 0


@dataclass(frozen=True)
class TablePlan:
    """A table, and how it is cut.

    Args:
        layout: its columns, and what they become.
        columns: as the user names them.
        labelling: whether series have labels.
        ranges: all rows of all files, in their order.
        shards: neighbouring ranges, from first to last; where `in_order` is set, the series of each shard.
        broken: the ranges of files whose schema cannot be read.
        rows: how many there are; None if that is not known.
        id_type: the type of the IDs, as pyarrow says it.
        in_order: the rows sorted by series, where those of the table are not contiguous.
    """

    layout: Layout
    columns: Columns
    labelling: Labelling
    ranges: tuple[RowRange, ...]
    shards: tuple[range, ...]
    broken: Broken
    rows: int | None
    id_type: Any = None
    in_order: "SortedRows | None" = None
    _opened: dict[str, sources.CsvFile] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        path: str | Path,
        columns: Columns,
        labelling: Labelling,
        *,
        missing: Missing = "refuse",
        gaps: Gaps = "none",
        dtype: Dtype = "float64",
    ) -> "TablePlan":
        """A table to be read as it is: in one shard, and with every file readable."""
        schemas = _schemas(path)
        for fault in schemas.faults.values():
            raise fault
        return _planned(path, schemas, columns, labelling, missing, gaps, dtype, "numbers", sys.maxsize)

    @classmethod
    def in_shards(
        cls, path: str | Path, columns: Columns, *, missing: Missing = "refuse", gaps: Gaps = "none", least: int = ROWS
    ) -> "TablePlan":
        """A table to be scored: in shards of at least `least` rows, without labels, with IDs of the type that they have.

        Files that cannot be read are passed over. Other columns in a Parquet file are refused now, not in the middle of the work.
        """
        return _planned(path, _schemas(path), columns, "unlabelled", missing, gaps, "float64", "text", least)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # open files do not travel to other processes

    def batches(self) -> Iterator[RowBatch]:
        """All rows, in the order of the files, or by series where they have been sorted."""
        for index in range(len(self.shards if self.in_order else self.ranges)):
            yield from self.in_order.rows(self, index) if self.in_order else self.range_batches(index)

    def range_batches(self, index: int) -> Iterator[RowBatch]:
        """The rows of a range."""
        choice = self.layout.choice
        for origin, batch in self.records(index, choice.names()):
            yield row_batch(batch, choice, origin)

    def records(self, index: int, names: Sequence[str]) -> Iterator[tuple[Origin, Any]]:
        """These columns of a range, a record batch at a time."""
        part = self.ranges[index]
        row = part.before
        for batch in self._file_batches(part, names):
            low, high = max(part.start - row, 0), min(part.stop - row, len(batch))
            if low < high:
                yield Origin(part.file, row + low), batch.slice(low, high - low)
            row += len(batch)
            if row >= part.stop:
                return

    def _file_batches(self, part: RowRange, names: Sequence[str]) -> Iterator[Any]:
        path, choice = Path(part.file), self.layout.choice
        if sources.is_parquet(path):
            return sources.parquet_batches(path, choice, names, part.groups) if part.stop else iter(())
        file = self._opened.pop(part.file, None)
        if file is None:
            file = sources.CsvFile(path)
            _refuse_other_columns(self, path, file.schema.kinds)
        return file.batches(choice, names)

    def contiguous(self) -> bool:
        """Whether the rows of every series are next to each other; only the IDs are read, and 8 bytes kept of each.

        Where two IDs have the same hash the answer is False, which costs time and changes nothing else.
        """
        last, seen = None, [np.zeros(0, np.int64)]
        for index in range(len(self.ranges)):
            try:
                for ids in self._ids(index) if index not in self.broken else ():
                    keys = run_keys(ids)
                    runs = ids.take(pa.array(np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))))
                    hashes = _hashes(runs)
                    hashes = hashes[1:] if hashes[0] == last else hashes
                    if len(np.unique(hashes)) < len(hashes):
                        return False
                    seen.append(hashes)
                    last = hashes[-1] if len(hashes) else last
            except UnreadableFile:  # found again, and named, when the rows are read
                continue
        every = np.sort(np.concatenate(seen))
        return not bool((every[1:] == every[:-1]).any())

    def _ids(self, index: int) -> Iterator[Any]:
        choice = self.layout.choice
        for origin, batch in self.records(index, [choice.series]):
            yield series_ids(batch, choice, origin)


def _hashes(ids: Any) -> IntArray:
    """A number for each ID, the same for the same."""
    if types.is_integer(ids.type):
        whole: IntArray = ids.to_numpy().astype(np.int64)
        return whole
    codes, names = encoded([ids])
    return np.fromiter(map(hash, names.to_pylist()), np.int64, len(names))[codes]


class _Schemas(NamedTuple):
    """The files of a table, and the schemas of those that have one; of CSV files, which have to be opened, of one."""

    files: list[Path]
    known: dict[Path, sources.FileSchema]
    faults: dict[Path, UnreadableFile]
    opened: dict[str, sources.CsvFile]


def _schemas(path: str | Path) -> _Schemas:
    found = _Schemas(sources.table_files(path), {}, {}, {})
    for file in found.files:
        try:
            if sources.is_parquet(file):
                found.known[file] = sources.parquet_schema(file)
                continue
            found.opened[str(file)] = sources.CsvFile(file)
            found.known[file] = found.opened[str(file)].schema
            break
        except UnreadableFile as error:
            found.faults[file] = error
    return found


def _planned(
    path: str | Path,
    schemas: _Schemas,
    columns: Columns,
    labelling: Labelling,
    missing: Missing,
    gaps: Gaps,
    dtype: Dtype,
    numerals: Numerals,
    least: int,
) -> TablePlan:
    files, known, faults, opened = schemas
    if not known:
        raise next(iter(faults.values()))
    first, schema = next(iter(known.items()))
    choice = choose(columns, schema.kinds, str(first), labelling)
    parquet, id_type = sources.is_parquet(first), pa.string()
    layout = Layout(str(path), choice, missing, gaps, dtype, "text" if parquet else numerals)
    total: int | None = None
    ranges = [RowRange(str(file), 0, sys.maxsize) for file in files]
    shards: tuple[range, ...] = (range(len(files)),)
    if parquet:
        total = sum(sum(schema.groups) for schema in known.values())
        least = max(least, math.ceil(total / MOST))
        ranges, shards = _cut({file: known[file].groups if file in known else [] for file in files}, least)
    broken = {index: faults[Path(part.file)].reason for index, part in enumerate(ranges) if Path(part.file) in faults}
    plan = TablePlan(layout, columns, labelling, tuple(ranges), shards, broken, total, id_type, None, opened)
    for file, other in known.items():
        _refuse_other_columns(plan, file, other.kinds)
    if total == 0:
        raise sources.no_rows(str(path))
    return replace(plan, id_type=_id_type(known, choice.series)) if parquet and least < sys.maxsize else plan


def _refuse_other_columns(plan: TablePlan, file: Path, kinds: Mapping[str, str]) -> None:
    """All files of a table have the same columns."""
    here, choice = choose(plan.columns, kinds, str(file), plan.labelling), plan.layout.choice
    if here != choice:
        first = next(part.file for index, part in enumerate(plan.ranges) if index not in plan.broken)
        expected = f"a table of the same columns as {first}, {choice.names()}"
        raise InvalidArgument(str(file), expected, f"{here.names()}", "Name the columns that all files have.")


def _id_type(schemas: Mapping[Path, sources.FileSchema], column: str) -> Any:
    """That of all files, or where they differ, text or whole numbers of any size."""
    found = {file: schema.types[column] for file, schema in schemas.items()}
    plain = {file: kind.value_type if types.is_dictionary(kind) else kind for file, kind in found.items()}
    first, kind = next(iter(plain.items()))
    other = next((file for file, here in plain.items() if here != kind), None)
    if other is None:
        return kind
    if {schema.kinds[column] for schema in schemas.values()} == {"text"}:
        return pa.string()
    if all(types.is_integer(here) and not types.is_uint64(here) for here in plain.values()):
        return pa.int64()
    expected = f"a table with {kind} in column {column!r} as in {first}"
    raise InvalidArgument(str(other), expected, f"{plain[other]}", "Write all files alike.")


def _cut(groups: Mapping[Path, list[int]], least: int) -> tuple[list[RowRange], tuple[range, ...]]:
    """Ranges of all files, and shards of `least` rows; a file without rows is an empty range."""
    ranges: list[RowRange] = []
    shards, first, wanted = [], 0, least
    for file, sizes in groups.items():
        ends = np.cumsum([0, *sizes])
        start, rest = 0, int(ends[-1])
        if not rest:
            ranges.append(RowRange(str(file), 0, 0))
        while rest:
            taken = min(rest, wanted)
            low, high = (int(np.searchsorted(ends, row, side="right")) for row in (start, start + taken - 1))
            ranges.append(RowRange(str(file), start, start + taken, range(low - 1, high), int(ends[low - 1])))
            start, rest, wanted = start + taken, rest - taken, wanted - taken
            if not wanted:
                shards.append(range(first, len(ranges)))
                first, wanted = len(ranges), least
    if first < len(ranges):
        shards.append(range(first, len(ranges)))
    return ranges, tuple(shards)
