"""Batches of rows of a long table, checked and divided into runs (imported late: it needs pyarrow).

A run is contiguous rows of one series. ID, label and group are checked once per run, not once per row, so a table whose
series are contiguous costs little more than its numbers.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sooner.errors import InvalidArgument
from sooner.series.arrays import Missing
from sooner.series.columns import ColumnChoice
from sooner.types import BoolArray, IntArray

Codes: TypeAlias = npt.NDArray[np.int32]
Unit: TypeAlias = Literal["number", "timestamp", "duration"]
"""Unit of times: numbers of the user's own unit, or integer nanoseconds."""

_BLANK = pa.array(["", "nan", "NaN", "null"])  # text that means a missing name
_PARSED = (pa.int64(), pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", tz="UTC"))


class Origin(NamedTuple):
    """The file of each row of a batch, and the number of the row there, counted from 1."""

    files: tuple[str, ...]
    file_of: IntArray  # (rows,), indices into `files`
    numbers: Any  # (rows,)

    @classmethod
    def of(cls, file: str, first: int, rows: int) -> "Origin":
        """The origin of consecutive rows of one file, which come after its `first` rows."""
        return cls((file,), np.broadcast_to(0, rows), range(first + 1, first + 1 + rows))

    def at(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there."""
        return self.files[self.file_of[row]], int(self.numbers[row])

    def cut(self, rows: slice) -> "Origin":
        """The origin of these rows."""
        return Origin(self.files, self.file_of[rows], self.numbers[rows])

    def fault(self, row: int, expected: str, got: str, remedy: str) -> InvalidArgument:
        """The error for a row."""
        file, number = self.at(row)
        return InvalidArgument(file, f"a table {expected}", f"{got} at row {number}", remedy)


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Consecutive rows.

    `starts` are the first rows of runs; `ids`, `labels` and `groups` have one entry for each run. `ordered` means that time
    ascends within every run.
    """

    origin: Origin
    starts: IntArray
    ids: Any
    labels: Any
    groups: Any
    times: npt.NDArray[Any]
    unit: Unit
    ordered: bool
    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.times)

    def cut(self, run: int) -> tuple["RowBatch", "RowBatch"]:
        """The rows before this run, and the rest."""
        row = int(self.starts[run])
        return self._slice(slice(0, run), slice(0, row)), self._slice(slice(run, None), slice(row, None))

    @property
    def file(self) -> str:
        """The file of the first row."""
        return self.origin.at(0)[0]

    def _slice(self, runs: slice, rows: slice) -> "RowBatch":
        return replace(
            self,
            origin=self.origin.cut(rows),
            starts=self.starts[runs] - rows.start,
            ids=self.ids[runs],
            labels=None if self.labels is None else self.labels[runs],
            groups=None if self.groups is None else self.groups[runs],
            times=self.times[rows],
            values=tuple(column[rows] for column in self.values),
        )

    def time_text(self, row: int) -> str:
        """The time of a row as text."""
        time = self.times[row]
        if self.unit == "timestamp":
            return str(np.datetime_as_string(np.datetime64(int(time), "ns"), unit="auto"))
        return f"{time}" if self.unit == "number" else f"{time / 1e9:g} s"

    def write(self, values: npt.NDArray[Any], channels: tuple[str, ...], missing: Missing) -> None:
        """Write the numbers into the first channels of `values`, (rows, channels); refuse numbers that are not finite.

        With "mask", missing numbers become 0, and the second half of the channels is 1 for observed and 0 for missing.
        """
        numbers = values[:, : len(self.values)]
        with np.errstate(over="ignore", invalid="ignore"):
            for channel, column in enumerate(self.values):
                numbers[:, channel] = _numbers(column)
            # The sum is finite only if all numbers are, and much cheaper than a test of every number.
            if missing == "refuse" and np.isfinite(numbers.sum()):
                return
        bad = ~np.isfinite(numbers) if missing == "refuse" else np.isinf(numbers)
        if bad.any():
            row, channel = (int(indices[0]) for indices in np.nonzero(bad))
            raise self._not_finite(row, channels[channel], self.values[channel][row].as_py())
        if missing == "mask":
            half = values.shape[1] // 2
            absent = np.isnan(numbers)
            values[:, half : half + len(self.values)] = ~absent
            numbers[absent] = 0.0

    def _not_finite(self, row: int, channel: str, value: Any) -> InvalidArgument:
        remedy = "An infinite value is not a missing value: check it."
        if value is None or value != value:
            remedy = 'Fill missing values in, or pass missing="mask".'
        elif np.isfinite(float(value)):
            remedy = 'float32 ends at 3.4e38: pass dtype="float64".'
        run = int(np.searchsorted(self.starts, row, side="right")) - 1
        file, number = self.origin.at(row)
        where = f"row {number} (series {self.ids[run].as_py()!r}, time {self.time_text(row)})"
        got = f"{'nothing' if value is None else value} at {where}"
        return InvalidArgument(file, f"a table of finite numbers in column {channel!r}", got, remedy)


def series_ids(columns: Any, choice: ColumnChoice, origin: Origin) -> Any:
    """The checked IDs of a record batch: integers, or a dictionary array."""
    return _names(columns, origin, choice.series, "Give every row the ID of its series.")


def row_batch(columns: Any, choice: ColumnChoice, origin: Origin) -> RowBatch:
    """The rows of a record batch, all checked except for the numbers (see `RowBatch.write`)."""
    ids = series_ids(columns, choice, origin)
    keys = run_keys(ids)
    changes = keys[1:] != keys[:-1]
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    times, unit = _ticks(columns, origin, choice.time)
    return RowBatch(
        origin=origin,
        starts=starts,
        ids=ids.take(pa.array(starts)),
        labels=_run_names(columns, origin, choice.label, ids, starts, changes),
        groups=_run_names(columns, origin, choice.group, ids, starts, changes),
        times=times,
        unit=unit,
        ordered=bool((changes | (times[1:] > times[:-1])).all()),
        values=tuple(columns.column(name) for name in choice.channels),
    )


def type_name(arrow_type: Any) -> str:
    """The name of a column's type: "number", "text", or pyarrow's own."""
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if any(test(arrow_type) for test in tests):
        return "number"
    return "text" if _is_text(arrow_type) else str(arrow_type)


def encoded(columns: list[Any]) -> tuple[Codes, Any]:
    """Indices into the different entries of the columns, and these entries in the order in which they first appear."""
    column = pa.chunked_array(columns).unify_dictionaries().combine_chunks()
    is_dictionary = types.is_dictionary(column.type)
    codes = (column.indices if is_dictionary else column).dictionary_encode()
    names = column.dictionary.take(codes.dictionary) if is_dictionary else codes.dictionary
    return codes.indices.to_numpy(), names


def _is_text(arrow_type: Any) -> bool:
    value = arrow_type.value_type if types.is_dictionary(arrow_type) else arrow_type
    return bool(types.is_string(value) or types.is_large_string(value) or types.is_string_view(value))


def _names(columns: Any, origin: Origin, name: str, remedy: str) -> Any:
    """A column of names, none of them missing: integers, or a dictionary array."""
    column = _coded(columns.column(name))
    if column is None:
        expected, got = f"a table with text or whole numbers in column {name!r}", str(columns.column(name).type)
        raise InvalidArgument(origin.at(0)[0], expected, got, "Turn it into text.")
    row = _first_blank(column)
    if row is not None:
        value = column[row].as_py()
        expected = f"with a name in every row of column {name!r}"
        raise origin.fault(row, expected, repr(value) if value else "nothing", remedy)
    return column


def _coded(column: Any) -> Any:
    """int64 (or uint64, which hashes need), or a dictionary array; None for a type that cannot be a name."""
    if types.is_dictionary(column.type) and _is_text(column.type):
        names = column.dictionary.cast(pa.string())
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), names)
    column = column.dictionary_decode() if types.is_dictionary(column.type) else column
    if types.is_integer(column.type):
        return column if types.is_uint64(column.type) else column.cast(pa.int64())
    if _is_text(column.type) or types.is_null(column.type):
        return column.cast(pa.string()).dictionary_encode()
    return column.dictionary_encode() if types.is_boolean(column.type) or types.is_floating(column.type) else None


def _first_blank(column: Any) -> int | None:
    """The first row without a name, or None."""
    blank = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(len(column), np.bool_)
    if types.is_dictionary(column.type):
        names = column.dictionary
        absent = names.is_null(nan_is_null=types.is_floating(names.type))
        if types.is_string(names.type):
            # NumPy drops a NUL at the end of text, so that different names would become the same.
            absent = pc.or_(absent, pc.or_(pc.is_in(names, value_set=_BLANK), pc.ends_with(names, "\0")))
        if pc.any(absent).as_py():
            blank = blank | np.isin(column.indices.to_numpy(zero_copy_only=False), np.flatnonzero(absent))
    return int(blank.argmax()) if blank.any() else None


def run_keys(column: Any) -> IntArray:
    """(rows,): an integer for each name of a checked column, the same for the same name."""
    keys: IntArray = (column.indices if types.is_dictionary(column.type) else column).to_numpy()
    return keys


def _run_names(columns: Any, origin: Origin, name: str | None, ids: Any, starts: IntArray, changes: BoolArray) -> Any:
    """(runs,): the names of the runs; all rows of a run must agree."""
    if name is None:
        return None
    column = _names(columns, origin, name, "Name it in every row, or drop the series.")
    keys = run_keys(column)
    differing = (keys[1:] != keys[:-1]) & ~changes
    if differing.any():
        row = int(differing.argmax()) + 1
        got = f"{column[row].as_py()!r} after {column[row - 1].as_py()!r} in series {ids[row].as_py()!r}"
        remedy = "Check that row; all rows of a series must agree."
        raise origin.fault(row, f"with one name for each series in column {name!r}", got, remedy)
    return column.take(pa.array(starts))


def _numbers(column: Any) -> npt.NDArray[Any]:
    """A column of numbers, NaN for null."""
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast(pa.float64())
    numbers: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _ticks(columns: Any, origin: Origin, name: str) -> tuple[npt.NDArray[Any], Unit]:
    """The times of the rows as numbers, and their unit."""
    column, in_every_row = columns.column(name), f"with a time in every row of column {name!r}"
    if column.null_count:
        raise origin.fault(int(np.argmax(column.is_null())), in_every_row, "nothing", "Drop the row.")
    column = _parsed(column, origin, name) if _is_text(column.type) else column
    file, number = origin.at(0)
    try:
        counted = _counted(column)
    except pa.ArrowInvalid:
        remedy = "Times are counted in nanoseconds from 1970; count them in another unit, as whole numbers."
        expected, got = f"a table of the years 1678..2261 in column {name!r}", f"others from row {number} on"
        raise InvalidArgument(file, expected, got, remedy) from None
    if counted is None:
        expected = f"a table with numbers or timestamps in column {name!r}"
        raise InvalidArgument(file, expected, str(column.type), "Turn it into one of them.")
    times, unit = counted[0].to_numpy(), counted[1]
    finite = np.isfinite(times)
    if not finite.all():
        row = int((~finite).argmax())
        raise origin.fault(row, in_every_row, f"{times[row]}", "Drop the row.")
    return times, unit


def _counted(times: Any) -> tuple[Any, Unit] | None:
    """A time, or a column of them, as numbers, and their unit; None for a type that is no time."""
    given = times.type
    if types.is_timestamp(given) or types.is_date(given):
        return times.cast(pa.timestamp("ns", tz=getattr(given, "tz", None))).cast(pa.int64()), "timestamp"
    if types.is_duration(given):
        return times.cast(pa.duration("ns")).cast(pa.int64()), "duration"
    if types.is_integer(given) and given != pa.uint64():
        return times.cast(pa.int64()), "number"
    if types.is_integer(given) or types.is_floating(given) or types.is_decimal(given):
        return times.cast(pa.float64(), safe=False), "number"
    return None


def tick(value: object) -> tuple[int | float, str] | None:
    """One time, read as in a column of times, and its unit; None if it is no time.

    >>> tick("1970-01-01 00:00:01"), tick("1970-01-01T00:00:01Z"), tick(2.5)
    ((1000000000, 'timestamp'), (1000000000, 'timestamp with a time zone'), (2.5, 'number'))
    """
    try:
        time = pa.array([value.strip() if isinstance(value, str) else value])[0]
        if isinstance(value, str):
            parsed = (read_as(time, arrow_type) for arrow_type in _PARSED)
            time = next((result for result in parsed if result is not None), time)
        counted = _counted(time) if time.is_valid else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if counted is None:
        return None
    zone = " with a time zone" if getattr(time.type, "tz", None) else ""
    return counted[0].as_py(), f"{counted[1]}{zone}"


def _parsed(column: Any, origin: Origin, name: str) -> Any:
    """Times from text: all numbers, or all timestamps."""
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    for arrow_type in _PARSED:
        times = read_as(column, arrow_type)
        if times is not None:
            return times
    # The first row sets the type of the others.
    first = next((arrow_type for arrow_type in _PARSED[1:] if read_as(column[0], arrow_type) is not None), _PARSED[1])
    row = next(row for row in range(len(column)) if read_as(column[row], first) is None)
    text = column[row].as_py()
    remedy = "Write numbers, or timestamps like 2026-11-15 23:59:59, all with a time zone or all without."
    raise origin.fault(row, f"with numbers or timestamps in column {name!r}", repr(text) if text else "nothing", remedy)


def read_as(text: Any, arrow_type: Any) -> Any:
    """Text, or a column of it, as this type; None if it cannot be converted."""
    try:
        return text.cast(arrow_type)
    except pa.ArrowInvalid:
        return None
