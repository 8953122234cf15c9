"""Readers of long tables: one row per observation, in CSV (also .gz), TSV or Parquet files.

A table is a file, a folder of them, or a pattern like `runs/*.parquet`. Rows may come in any order: series are in the order
in which they first appear, and their observations in the order of time. Errors name file, row and column; rows count from 1,
without the header.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.inputs import as_whole
from sooner.series import Missing, Series
from sooner.series.columns import Columns, Gaps, Labelling
from sooner.series.layout import Dtype

if TYPE_CHECKING:
    from sooner.data.tables.plan import TablePlan
    from sooner.series.rows import RowBatch


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
) -> Series:
    """Read a table of labelled series; integer IDs and labels of a CSV become numbers if all of them are integers.

    Args:
        path: a file, a folder, or a pattern; files of a folder are read in the order of their names.
        series: column with the series ID; this and the next five are the arguments of `Columns`.
        time: column with numbers, timestamps or dates.
        label: column with the class, the same in all rows of a series.
        channels: columns of numbers.
        group: column with a group ID (for example the patient), the same in all rows of a series.
        ignore: columns that are not read.
        classes: all class names, if some of them may be absent from the table; by default those of the table, sorted.
        missing: as in `Series.of`; an empty cell is a missing value.
        gaps: "channel" adds the channel `GAP`, the time since the observation before (0 at the first), in seconds for
            timestamps and in the unit of the column for numbers.
        dtype: type of the observations; "float64" for large offsets that float32 would round away.
    """
    columns = Columns(series, time, label, channels, group, ignore)
    return read_columns(path, columns, "labelled", missing, gaps, dtype, classes)


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
) -> Series:
    """Read a table of series without labels, as `read_table`; a column of labels is not read."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    return read_columns(path, columns, "unlabelled", missing, gaps, dtype)


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
) -> Iterator[Series]:
    """Read a table in chunks of whole series; memory holds one or two chunks, and the IDs of all series.

    A chunk ends with the first series that brings it to `rows` rows. Rows may come in any order: if the rows of a series are
    not contiguous (as in a table that is sorted by time), the table is first sorted in a temporary folder. The other arguments
    are those of `read_table`; `classes` must be given, because some may be absent from a chunk. IDs of a CSV are integers in
    the chunks where all of them are integers.
    """
    columns = Columns(series, time, label, channels, group, ignore)
    return _chunks(_plan(path, columns, "labelled", missing, gaps, dtype), _as_rows(rows), classes)


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
) -> Iterator[Series]:
    """Read a table of series without labels in chunks, as `table_parts`."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    return _chunks(_plan(path, columns, "unlabelled", missing, gaps, dtype), _as_rows(rows))


def _plan(
    path: str | Path, columns: Columns, labelling: Labelling, missing: Missing, gaps: Gaps, dtype: Dtype
) -> "TablePlan":
    from sooner.data.tables.plan import TablePlan

    return TablePlan.of(path, columns, labelling, missing=missing, gaps=gaps, dtype=dtype)


def _as_rows(rows: int) -> int:
    return as_whole(rows, name="rows", low=1, remedy="It is the minimum number of rows in a chunk.")


def read_columns(
    path: str | Path,
    columns: Columns,
    labelling: Labelling,
    missing: Missing,
    gaps: Gaps,
    dtype: Dtype,
    classes: Any = None,
) -> Series:
    """`read_table` and `read_observations`, with the columns as one value."""
    from sooner.data.tables.files import no_rows
    from sooner.series.assembly import Assembly

    plan = _plan(path, columns, labelling, missing, gaps, dtype)
    layout, before = plan.layout, 0
    whole = None if plan.rows is None else layout.empty(plan.rows)
    arrays, batches = [], []
    for batch in plan.batches():
        arrays.append(layout.empty(len(batch)) if whole is None else whole[before : before + len(batch)])
        layout.fill(batch, arrays[-1])
        batches.append(replace(batch, values=()))
        before += len(batch)
    if not batches:
        raise no_rows(layout.source)
    return layout.series(
        Assembly.of(batches, layout.choice), classes, np.concatenate(arrays) if whole is None else whole
    )


def _chunks(plan: "TablePlan", rows: int, classes: Any = None) -> Iterator[Series]:
    """Chunks of whole series; a table of several chunks whose series are not contiguous is sorted first."""
    from sooner.data.tables.files import no_rows
    from sooner.data.tables.plan import ROWS
    from sooner.data.tables.spill import sorted_by_series
    from sooner.series.assembly import Assembly

    chunks, layout = _by_rows(plan.batches(), rows), plan.layout
    first = list(islice(chunks, 2))
    if not first:
        raise no_rows(layout.source)
    with ExitStack() as stack:
        if len(first) == 1 or plan.contiguous():
            chunks = chain(first, chunks)
        else:
            chunks = _by_rows(stack.enter_context(sorted_by_series(plan, min(rows, ROWS))).batches(), rows)
        del first  # which keeps both chunks in memory
        for batches in chunks:
            yield layout.series(Assembly.of(batches, layout.choice), classes)


def _by_rows(batches: "Iterator[RowBatch]", rows: int) -> "Iterator[list[RowBatch]]":
    """Lists of batches of whole series, of at least `rows` rows."""
    chunk: list[RowBatch] = []
    wanted = rows
    for batch in batches:
        rest = batch
        while (run := _end(chunk, rest, wanted)) is not None:
            before, rest = rest.cut(run)
            yield [*chunk, before] if len(before) else chunk
            chunk, wanted = [], rows
        chunk.append(rest)
        wanted -= len(rest)
    if chunk:
        yield chunk


def _end(chunk: "list[RowBatch]", batch: "RowBatch", wanted: int) -> int | None:
    """The first run of the next chunk, if `wanted` rows are still missing from this one; None if it is not in this batch."""
    runs = np.flatnonzero(batch.starts >= wanted)
    if len(runs) and runs[0] == 0 and chunk[-1].ids[-1].as_py() == batch.ids[0].as_py():
        runs = runs[1:]  # the series of the first run began before
    return int(runs[0]) if len(runs) else None
