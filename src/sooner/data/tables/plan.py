"""The plan of reading a long table: its columns, and the ranges of rows of its files (imported late: it needs pyarrow).

All rows are read here, of whole tables, chunks and the shards of `sooner score`. Parquet files state their numbers of rows, so
they are divided into shards before any row is read; CSV files are one shard.
"""

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
"""The minimum number of rows in a shard, except for the last one."""
MOST = 10_000
"""The maximum number of shards; longer tables have longer shards."""

Broken: TypeAlias = Mapping[int, str]
"""The reason why a range of rows cannot be read, by the index of the range."""


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of a file, which are in the row groups `groups`; `before` rows of the file precede these groups."""

    file: str
    start: int
    stop: int
    groups: range | None = None
    before: int = 0


@dataclass(frozen=True)
class TablePlan:
    """The plan of a table."""

    layout: Layout
    columns: Columns  # the user's names
    labelling: Labelling
    ranges: tuple[RowRange, ...]  # all rows of all files, in their order
    shards: tuple[range, ...]  # indices into `ranges`; with `in_order`, the numbers of the series of each shard
    broken: Broken  # the ranges of files whose schema cannot be read
    rows: int | None  # None if the number is not known
    id_type: Any = None  # of pyarrow
    in_order: "SortedRows | None" = None  # the rows sorted by series, if those of the table are not contiguous
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
        shard_rows: int | None = None,
    ) -> "TablePlan":
        """Plan the reading of a table.

        With `shard_rows`, Parquet files are divided into shards of at least this many rows, unreadable files are passed over, and
        IDs keep their type. Without it, there is one shard, and every file must be readable.
        """
        schemas = _schemas(path)
        if schemas.faults and (shard_rows is None or not schemas.known):
            raise next(iter(schemas.faults.values()))
        first, schema = next(iter(schemas.known.items()))
        choice = choose(columns, schema.columns, str(first), labelling)
        is_parquet = sources.is_parquet(first)
        numerals: Numerals = "numbers" if shard_rows is None and not is_parquet else "text"
        layout = Layout(str(path), choice, missing, gaps, dtype, numerals)
        ranges = [RowRange(str(file), 0, sys.maxsize) for file in schemas.files]
        shards: tuple[range, ...] = (range(len(ranges)),)
        total = None
        if is_parquet:
            groups = {file: schemas.known[file].groups if file in schemas.known else [] for file in schemas.files}
            total = sum(map(sum, groups.values()))
            ranges, shards = _divided(groups, sys.maxsize if shard_rows is None else max(shard_rows, -(-total // MOST)))
        faults = {str(file): fault.reason for file, fault in schemas.faults.items()}
        broken = {index: faults[rows.file] for index, rows in enumerate(ranges) if rows.file in faults}
        plan = cls(layout, columns, labelling, tuple(ranges), shards, broken, total, pa.string(), None, schemas.opened)
        for file, other in schemas.known.items():
            plan._refuse_other_columns(file, other.columns)
        if total == 0:
            raise sources.no_rows(str(path))
        if is_parquet and shard_rows is not None:
            return replace(plan, id_type=_id_type(schemas.known, choice.series))
        return plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # open files cannot be sent to other processes

    def batches(self) -> Iterator[RowBatch]:
        """All rows, in the order of the files, or sorted by series."""
        for index in range(len(self.shards if self.in_order else self.ranges)):
            yield from self.in_order.rows(self, index) if self.in_order else self.range_batches(index)

    def range_batches(self, index: int) -> Iterator[RowBatch]:
        """The rows of a range."""
        choice = self.layout.choice
        for origin, batch in self.records(index, choice.names()):
            yield row_batch(batch, choice, origin)

    def records(self, index: int, names: Sequence[str]) -> Iterator[tuple[Origin, Any]]:
        """The record batches of these columns of a range."""
        rows = self.ranges[index]
        first = rows.before
        for batch in self._file_batches(rows, names):
            low, high = max(rows.start - first, 0), min(rows.stop - first, len(batch))
            if low < high:
                yield Origin.of(rows.file, first + low, high - low), batch.slice(low, high - low)
            first += len(batch)
            if first >= rows.stop:
                return

    def _file_batches(self, rows: RowRange, names: Sequence[str]) -> Iterator[Any]:
        path, choice = Path(rows.file), self.layout.choice
        if sources.is_parquet(path):
            return sources.parquet_batches(path, choice, names, rows.groups) if rows.stop else iter(())
        file = self._opened.pop(rows.file, None)
        if file is None:
            file = sources.CsvFile(path)
            self._refuse_other_columns(path, file.schema.columns)
        return file.batches(choice, names)

    def _refuse_other_columns(self, file: Path, types: Mapping[str, str]) -> None:
        other, choice = choose(self.columns, types, str(file), self.labelling), self.layout.choice
        if other != choice:
            first = next(rows.file for index, rows in enumerate(self.ranges) if index not in self.broken)
            expected = f"a table of the same columns as {first}, {choice.names()}"
            raise InvalidArgument(str(file), expected, f"{other.names()}", "Name the columns that all files have.")

    def contiguous(self) -> bool:
        """Whether the rows of every series are contiguous; reads only the IDs, and keeps 8 bytes of each.

        If two IDs have the same hash the answer is False, which costs time and changes nothing else.
        """
        choice, last, seen = self.layout.choice, None, [np.zeros(0, np.int64)]
        for index in range(len(self.ranges)):
            try:
                for origin, batch in self.records(index, [choice.series]) if index not in self.broken else ():
                    ids = series_ids(batch, choice, origin)
                    keys = run_keys(ids)
                    hashes = _hashes(ids.take(pa.array(np.flatnonzero(np.append(True, keys[1:] != keys[:-1])))))
                    hashes = hashes[1:] if hashes[0] == last else hashes
                    if len(np.unique(hashes)) < len(hashes):
                        return False
                    seen.append(hashes)
                    last = hashes[-1] if len(hashes) else last
            except UnreadableFile:  # reported when the rows are read
                continue
        hashes = np.sort(np.concatenate(seen))
        return not bool((hashes[1:] == hashes[:-1]).any())


def _hashes(ids: Any) -> IntArray:
    """An integer for each ID, the same for equal IDs."""
    if types.is_integer(ids.type):
        integers: IntArray = ids.to_numpy().astype(np.int64)
        return integers
    codes, names = encoded([ids])
    return np.fromiter(map(hash, names.to_pylist()), np.int64, len(names))[codes]


class _Schemas(NamedTuple):
    """The files of a table, and their schemas; for CSV files, only the schema of the first readable one, which stays open."""

    files: list[Path]
    known: dict[Path, sources.FileSchema]
    faults: dict[Path, UnreadableFile]
    opened: dict[str, sources.CsvFile]


def _schemas(path: str | Path) -> _Schemas:
    schemas = _Schemas(sources.table_files(path), {}, {}, {})
    for file in schemas.files:
        try:
            if sources.is_parquet(file):
                schemas.known[file] = sources.parquet_schema(file)
                continue
            schemas.opened[str(file)] = sources.CsvFile(file)
            schemas.known[file] = schemas.opened[str(file)].schema
            break
        except UnreadableFile as error:
            schemas.faults[file] = error
    return schemas


def _id_type(schemas: Mapping[Path, sources.FileSchema], column: str) -> Any:
    """The type of the IDs of all files; text or int64 if the files have different types of text or integers."""
    given = {file: schema.types[column] for file, schema in schemas.items()}
    plain = {file: id_type.value_type if types.is_dictionary(id_type) else id_type for file, id_type in given.items()}
    first, id_type = next(iter(plain.items()))
    other = next((file for file in plain if plain[file] != id_type), None)
    if other is None:
        return id_type
    if {schema.columns[column] for schema in schemas.values()} == {"text"}:
        return pa.string()
    if all(types.is_integer(given) and not types.is_uint64(given) for given in plain.values()):
        return pa.int64()
    expected = f"a table with {id_type} in column {column!r} as in {first}"
    raise InvalidArgument(str(other), expected, f"{plain[other]}", "Write all files alike.")


def _divided(groups: Mapping[Path, list[int]], shard_rows: int) -> tuple[list[RowRange], tuple[range, ...]]:
    """Ranges of all files, and shards of `shard_rows` rows; a file without rows is an empty range."""
    ranges: list[RowRange] = []
    shards, first, wanted = [], 0, shard_rows
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
                first, wanted = len(ranges), shard_rows
    if first < len(ranges):
        shards.append(range(first, len(ranges)))
    return ranges, tuple(shards)
