"""Long tables: one row for one observation of one series, in CSV (also packed as .gz), TSV or Parquet files.

A table is a file, a folder of them, or a pattern like `runs/*.parquet`. Rows may come in any order: series are in the order
in which they first appear, and their observations in the order of time. What a person would have to look at (a time that
comes twice, a label that changes, a missing value) is refused by file, row and column; rows count from 1, without the line
of names.

`read_table` holds a whole table, `table_parts` reads one that is larger than the memory; `read_observations` and
`observation_parts` do the same for data without labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
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

_ROWS = "It is the least number of rows in a part."


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
    """Read a table of labelled series.

    Args:
        path: a file, a folder, or a pattern; files of a folder are read in the order of their names.
        series: the column of ids, text or whole numbers; this and the next five as in `Columns`.
        time: a column of numbers, timestamps or dates.
        label: a column that names the class, the same in all rows of a series.
        channels: columns of numbers.
        group: a column with a group ID (for example the patient), the same in all rows of a series.
        ignore: columns that are not read.
        classes: the names of the classes, for data that may lack some of them; by default those in the table, sorted.
        missing: "mask" puts 0 for an empty cell or NaN, and adds a channel of 1 (observed) and 0 (missing) for each channel.
        gaps: "channel" adds the channel `GAP`, the time since the observation before (0 at the first), in seconds for
            timestamps and in the unit of the column for numbers.
        dtype: what the numbers become; "float64" for large offsets that float32 would round away.

    Ids and labels of a CSV are whole numbers if all of them are, else text.
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
    """Read a table of series without labels, as `read_table`; a column of labels, if there is one, is left out."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    return read_columns(path, columns, "unlabelled", missing, gaps, dtype)


def read_columns(
    path: str | Path,
    columns: Columns,
    labelling: Labelling,
    missing: Missing,
    gaps: Gaps,
    dtype: Dtype,
    classes: Any = None,
) -> Series:
    """`read_table` and `read_observations` with the columns as one value."""
    return _whole(_plan(path, columns, labelling, missing, gaps, dtype), classes)


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
    plan = _plan(path, columns, "labelled", missing, gaps, dtype)
    return _parts(plan, as_whole(rows, name="rows", low=1, remedy=_ROWS), classes)


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
    """Read a table of series without labels in parts, as `table_parts`."""
    columns = Columns(series, time, label, channels, ignore=ignore)
    plan = _plan(path, columns, "unlabelled", missing, gaps, dtype)
    return _parts(plan, as_whole(rows, name="rows", low=1, remedy=_ROWS))


def _plan(
    path: str | Path, columns: Columns, labelling: Labelling, missing: Missing, gaps: Gaps, dtype: Dtype
) -> "TablePlan":
    from sooner.data.tables.plan import TablePlan

    return TablePlan.of(path, columns, labelling, missing=missing, gaps=gaps, dtype=dtype)


def _whole(plan: "TablePlan", classes: Any = None) -> Series:
    """All rows of all files; each batch is written where it stays as soon as it comes."""
    from sooner.data.tables.files import no_rows
    from sooner.series.assembly import Assembly

    layout, before = plan.layout, 0
    room = None if plan.rows is None else layout.room(plan.rows)
    rooms, batches = [], []
    for batch in plan.batches():
        rooms.append(layout.room(len(batch)) if room is None else room[before : before + len(batch)])
        layout.fill(batch, rooms[-1])
        batches.append(replace(batch, values=()))
        before += len(batch)
    if not batches:
        raise no_rows(layout.source)
    assembly = Assembly.of(batches, layout.choice)
    return layout.series(assembly, classes, np.concatenate(rooms) if room is None else room)


def _parts(plan: "TablePlan", rows: int, classes: Any = None) -> Iterator[Series]:
    """Parts of whole series; a table of more than one part whose series are not contiguous is sorted first."""
    from sooner.data.tables.files import no_rows
    from sooner.data.tables.plan import ROWS
    from sooner.data.tables.spill import sorted_by_series

    groups = _by_rows(plan.batches(), rows)
    first = list(islice(groups, 2))
    if not first:
        raise no_rows(plan.layout.source)
    if len(first) == 1 or plan.contiguous():
        while first:
            yield _part(plan, first.pop(0), classes)
        for batches in groups:
            yield _part(plan, batches, classes)
        return
    del groups, first
    with sorted_by_series(plan, min(rows, ROWS)) as in_order:
        for batches in _by_rows(in_order.batches(), rows):
            yield _part(in_order, batches, classes)


def _part(plan: "TablePlan", batches: "list[RowBatch]", classes: Any) -> Series:
    from sooner.series.assembly import Assembly

    return plan.layout.series(Assembly.of(batches, plan.layout.choice), classes)


def _by_rows(batches: "Iterator[RowBatch]", rows: int) -> "Iterator[list[RowBatch]]":
    """Lists of batches of at least `rows` rows that end where a series does."""
    held: list[RowBatch] = []
    wanted = rows
    for batch in batches:
        rest = batch
        while (run := _end(held, rest, wanted)) is not None:
            before, rest = rest.cut(run)
            yield [*held, before] if len(before) else held
            held, wanted = [], rows
        held.append(rest)
        wanted -= len(rest)
    if held:
        yield held


def _end(held: "list[RowBatch]", batch: "RowBatch", wanted: int) -> int | None:
    """The first run that may begin another part, if `wanted` rows are still to come."""
    runs = np.flatnonzero(batch.starts >= wanted)
    if len(runs) and runs[0] == 0 and held[-1].ids[-1].as_py() == batch.ids[0].as_py():
        runs = runs[1:]  # the series of the first run began before
    return int(runs[0]) if len(runs) else None
