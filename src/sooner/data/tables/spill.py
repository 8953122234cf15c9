"""A table whose series are not contiguous, for example one that is sorted by time, sorted by series in a temporary folder.

One pass over the table writes runs: some hundred thousand rows each, sorted by series, in an Arrow file. The series are numbered
as they first appear, so the rows of a shard, which are those of neighbouring numbers, are one slice of every run. The memory
holds a run or a shard, and the IDs of all series.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
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
from sooner.errors import InvalidArgument, UnreadableFile
from sooner.series.rows import Origins, RowBatch, encoded, row_batch, series_ids
from sooner.types import IntArray

_RUN = 2**18  # rows
_RUNS = 256  # of a table whose rows are counted; those of a longer one are longer


@dataclass(frozen=True)
class SortedRows:
    """The runs of a table in a folder, and its files."""

    folder: str
    runs: int
    files: tuple[str, ...]

    def rows(self, plan: TablePlan, shard: int) -> Iterator[RowBatch]:
        """The rows of a shard, sorted by series."""
        wanted = plan.shards[shard]
        slices = []
        for run in range(self.runs):
            table = _mapped(self.folder, f"{run}")
            low, high = np.searchsorted(table.column(0).to_numpy(), [wanted.start, wanted.stop])
            if low < high:
                slices.append(table.slice(low, high - low))
        try:
            table = pa.concat_tables(slices, promote_options="permissive")
        except pa.ArrowException as error:
            got = " ".join(str(error).split())
            expected = "a table whose files have columns of the same types"
            raise InvalidArgument(plan.layout.source, expected, got, "Write all files alike.") from None
        series, files, numbers, *others = _in_order(table).columns
        ids, chunk = _mapped(self.folder, "ids").column(0), series.chunk(0)
        known = ids.slice(wanted.start, len(wanted)).combine_chunks()
        codes = pa.array(chunk.to_numpy() - wanted.start, pa.int32())
        named = known.take(codes) if types.is_integer(known.type) else pa.DictionaryArray.from_arrays(codes, known)
        choice = plan.layout.choice
        batch = pa.RecordBatch.from_arrays([named, *(other.chunk(0) for other in others)], choice.names())
        origins = Origins(self.files, files.chunk(0).to_numpy(), numbers.chunk(0).to_numpy())
        yield row_batch(batch, choice, origins)


@contextmanager
def sorted_by_series(plan: TablePlan, shard_rows: int, parent: Path | None = None) -> Iterator[TablePlan]:
    """The plan of the same table sorted by series; its shards are those that a table sorted in this way would have.

    Args:
        plan: of a table whose files can all be read: where rows are lost, any series may have lost some.
        shard_rows: the least number of rows in a shard.
        parent: where the temporary folder is made, and removed; by default where the system keeps such.
    """
    for index, reason in plan.broken.items():
        raise _unreadable(plan.ranges[index].file, reason)
    with tempfile.TemporaryDirectory(prefix=".sooner-", dir=parent, ignore_cleanup_errors=True) as folder:
        writer = _RunWriter(plan, folder)
        for index in range(len(plan.ranges)):
            writer.add(index)
        counts = writer.finish()
        starts = np.cumsum(counts) - counts
        shard_rows = max(shard_rows, -(-int(counts.sum()) // MOST))
        edges = [*np.flatnonzero(np.diff(starts // shard_rows, prepend=-1)).tolist(), len(counts)]
        shards = tuple(range(low, high) for low, high in pairwise(edges))
        files = tuple(part.file for part in plan.ranges)
        yield replace(plan, shards=shards, in_order=SortedRows(folder, writer.runs, files))


class _RunWriter:
    """Writes sorted runs; their columns are the number of the series, the index of the range, the row, and all others."""

    def __init__(self, plan: TablePlan, folder: str) -> None:
        self.plan, self.folder, self.runs = plan, folder, 0
        self._size = max(_RUN, (plan.rows or 0) // _RUNS)
        self._held: list[Any] = []
        self._rows = 0
        self._numbers: dict[Any, int] = {}
        self._counts: IntArray = np.zeros(0, np.int64)
        self._id_type: Any = None

    def add(self, index: int) -> None:
        """All rows of a range."""
        choice = self.plan.layout.choice
        for origin, batch in self.plan.records(index, choice.names()):
            ids = series_ids(batch, choice, origin)
            self._refuse_other_ids(ids, origin.file)
            series = self._numbered(ids)
            rows = np.arange(origin.first + 1, origin.first + 1 + len(batch))
            columns = [series, np.full(len(batch), index, np.int32), rows]
            columns += [_in_utc(batch.column(name)) for name in choice.names()[1:]]
            made = pa.RecordBatch.from_arrays([*map(_as_array, columns)], [str(n) for n in range(len(columns))])
            if self._held and (made.schema != self._held[0].schema or self._rows >= self._size):
                self._flush()
            self._held.append(made)
            self._rows += len(made)

    def finish(self) -> IntArray:
        """Write what is left, and the IDs; how many rows each series has."""
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
        kind = ids.type.value_type if types.is_dictionary(ids.type) else ids.type
        self._id_type = self._id_type or kind
        if kind != self._id_type:
            words = ["text" if types.is_string(one) else str(one) for one in (self._id_type, kind)]
            column, first = self.plan.layout.choice.series, self.plan.ranges[0].file
            expected = f"a table with {words[0]} in column {column!r} as in {first}"
            raise InvalidArgument(file, expected, words[1], "Write all files alike.")

    def _flush(self) -> None:
        if self._held:
            _write(_in_order(pa.Table.from_batches(self._held)), self.folder, f"{self.runs}")
            self.runs, self._held, self._rows = self.runs + 1, [], 0


def _in_utc(column: Any) -> Any:
    """The column; timestamps of any time zone as those of UTC, so that files of several zones go into one table."""
    zoned = types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, tz="UTC")) if zoned else column


def _as_array(column: Any) -> Any:
    return pa.array(column) if isinstance(column, np.ndarray) else column


def _in_order(table: Any) -> Any:
    """The table by its first column, in one chunk; rows of the same series stay in their order."""
    table = table.unify_dictionaries().combine_chunks()
    order = torch.from_numpy(table.column(0).to_numpy().copy()).sort(stable=True).indices
    return table.take(pa.array(order.numpy())).combine_chunks()


def _write(table: Any, folder: str, name: str) -> None:
    with pa.OSFile(str(Path(folder, f"{name}.arrow")), "wb") as file, ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _mapped(folder: str, name: str) -> Any:
    with pa.memory_map(str(Path(folder, f"{name}.arrow"))) as file:
        return ipc.open_file(file).read_all()


def _unreadable(file: str, reason: str) -> UnreadableFile:
    return UnreadableFile(file, "readable, since the rows of a series are not contiguous in this table", reason)
