"""Sorting by series, in a temporary folder, of a table whose series are not contiguous (imported late: it needs pyarrow).

One pass over the table writes runs: some hundred thousand rows each, sorted by series, in an Arrow file. The series are numbered
in the order in which they first appear, so the rows of a shard, which is a range of these numbers, are one slice of every run.
Memory holds a run or a shard, and the IDs of all series.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import ipc, types

from sooner.data.tables.plan import MOST, TablePlan
from sooner.errors import InvalidArgument, UnreadableFile, short_reason
from sooner.series.rows import Origin, RowBatch, encoded, row_batch, series_ids
from sooner.types import IntArray

_RUN = 2**18  # minimum number of rows in a run
_RUNS = 256  # maximum number of runs of a Parquet table


@dataclass(frozen=True)
class SortedRows:
    """The runs of a table in a folder, and the file of each range."""

    folder: str
    runs: int
    files: tuple[str, ...]

    def rows(self, plan: TablePlan, shard: int) -> Iterator[RowBatch]:
        """The rows of a shard, sorted by series."""
        wanted, slices = plan.shards[shard], []
        for run in range(self.runs):
            table = _mapped(self.folder, f"{run}")
            low, high = np.searchsorted(table.column(0).to_numpy(), [wanted.start, wanted.stop])
            slices += [table.slice(low, high - low)] if low < high else []
        try:
            table = pa.concat_tables(slices, promote_options="permissive")
        except pa.ArrowException as error:
            expected = "a table whose files have columns of the same types"
            raise InvalidArgument(plan.layout.source, expected, short_reason(error), "Write all files alike.") from None
        series, files, numbers, *others = _in_order(table).columns
        ids, chunk = _mapped(self.folder, "ids").column(0), series.chunk(0)
        known = ids.slice(wanted.start, len(wanted)).combine_chunks()
        codes = pa.array(chunk.to_numpy() - wanted.start, pa.int32())
        named = known.take(codes) if types.is_integer(known.type) else pa.DictionaryArray.from_arrays(codes, known)
        choice = plan.layout.choice
        batch = pa.RecordBatch.from_arrays([named, *(other.chunk(0) for other in others)], choice.names())
        yield row_batch(batch, choice, Origin(self.files, files.chunk(0).to_numpy(), numbers.chunk(0).to_numpy()))


@contextmanager
def sorted_by_series(plan: TablePlan, shard_rows: int, parent: Path | None = None) -> Iterator[TablePlan]:
    """The plan of the same table sorted by series, with the shards that a sorted table would have.

    Args:
        plan: of a table of readable files: an unreadable one may contain rows of any series.
        shard_rows: the minimum number of rows in a shard.
        parent: the folder of the temporary folder; by default the system's.
    """
    for index, reason in plan.broken.items():
        expected = "readable, since the rows of a series are not contiguous in this table"
        raise UnreadableFile(plan.ranges[index].file, expected, reason)
    with tempfile.TemporaryDirectory(prefix=".sooner-", dir=parent, ignore_cleanup_errors=True) as folder:
        writer = _RunWriter(plan, folder)
        for index in range(len(plan.ranges)):
            writer.add(index)
        counts = writer.finish()
        starts = np.cumsum(counts) - counts
        shard_rows = max(shard_rows, -(-int(counts.sum()) // MOST))
        edges = [*np.flatnonzero(np.diff(starts // shard_rows, prepend=-1)).tolist(), len(counts)]
        shards = tuple(range(low, high) for low, high in pairwise(edges))
        files = tuple(rows.file for rows in plan.ranges)
        yield replace(plan, shards=shards, in_order=SortedRows(folder, writer.runs, files))


class _RunWriter:
    """Writes sorted runs, with the columns: number of the series, index of the range, row, and all others."""

    def __init__(self, plan: TablePlan, folder: str) -> None:
        self.plan, self.folder, self.runs = plan, folder, 0
        self._size = max(_RUN, (plan.rows or 0) // _RUNS)
        self._batches: list[Any] = []
        self._rows = 0
        self._numbers: dict[Any, int] = {}
        self._counts: IntArray = np.zeros(0, np.int64)
        self._id_type: Any = None

    def add(self, index: int) -> None:
        """Add all rows of a range."""
        choice = self.plan.layout.choice
        for origin, batch in self.plan.records(index, choice.names()):
            ids = series_ids(batch, choice, origin)
            self._refuse_other_ids(ids, self.plan.ranges[index].file)
            first = origin.at(0)[1]
            numbers = np.arange(first, first + len(batch))
            columns = [pa.array(self._numbered(ids)), pa.array(np.full(len(batch), index, np.int32)), pa.array(numbers)]
            columns += [_in_utc(batch.column(name)) for name in choice.names()[1:]]
            added = pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])
            if self._batches and (added.schema != self._batches[0].schema or self._rows >= self._size):
                self._flush()
            self._batches.append(added)
            self._rows += len(added)

    def finish(self) -> IntArray:
        """Write the last run, and the IDs; return the number of rows of each series."""
        self._flush()
        _write(pa.table({"ids": pa.array(list(self._numbers), self._id_type)}), self.folder, "ids")
        return self._counts

    def _numbered(self, ids: Any) -> IntArray:
        """(rows,): the number of each row's series."""
        codes, names = encoded([ids])
        known = [self._numbers.setdefault(name, len(self._numbers)) for name in names.to_pylist()]
        series: IntArray = np.asarray(known, dtype=np.int64)[codes]
        counts = np.bincount(series, minlength=len(self._numbers))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        return series

    def _refuse_other_ids(self, ids: Any, file: str) -> None:
        id_type = ids.type.value_type if types.is_dictionary(ids.type) else ids.type
        self._id_type = self._id_type or id_type
        if id_type != self._id_type:
            expected, got = ("text" if types.is_string(name) else str(name) for name in (self._id_type, id_type))
            column, first = self.plan.layout.choice.series, self.plan.ranges[0].file
            expected = f"a table with {expected} in column {column!r} as in {first}"
            raise InvalidArgument(file, expected, got, "Write all files alike.")

    def _flush(self) -> None:
        if self._batches:
            _write(_in_order(pa.Table.from_batches(self._batches)), self.folder, f"{self.runs}")
            self.runs, self._batches, self._rows = self.runs + 1, [], 0


def _in_utc(column: Any) -> Any:
    """The column, with timestamps in UTC, so that files of several time zones fit into one table."""
    zoned = types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, tz="UTC")) if zoned else column


def _in_order(table: Any) -> Any:
    """The table, stably sorted by its first column, in one chunk."""
    table = table.unify_dictionaries().combine_chunks()
    order = torch.from_numpy(table.column(0).to_numpy().copy()).sort(stable=True).indices
    return table.take(pa.array(order.numpy())).combine_chunks()


def _write(table: Any, folder: str, name: str) -> None:
    with pa.OSFile(str(Path(folder, f"{name}.arrow")), "wb") as file, ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _mapped(folder: str, name: str) -> Any:
    with pa.memory_map(str(Path(folder, f"{name}.arrow"))) as file:
        return ipc.open_file(file).read_all()
