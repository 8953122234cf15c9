"""Rows of a long table, a batch at a time: checked, and cut into runs.

A run is neighbouring rows of one series. What belongs to a series (its id, label and group) is looked at once a run, not
once a row, so a table whose series are contiguous costs little more than its numbers.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
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
"""What times are: numbers of the user's own, or whole nanoseconds."""

_BLANK = pa.array(["", "nan", "NaN", "null"])  # text that names nothing
_PARSED = (pa.int64(), pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", tz="UTC"))


class Origin(NamedTuple):
    """Where consecutive rows of one file come from; `first` rows of the file precede them."""

    file: str
    first: int

    def at(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there, counted from 1."""
        return self.file, self.first + row + 1

    def cut(self, rows: slice) -> "Origin":
        """Where these rows come from."""
        return Origin(self.file, self.first + (rows.start or 0))


class Origins(NamedTuple):
    """The same of rows that have been sorted: the index of each row's file, and its number there."""

    files: tuple[str, ...]
    file_of: IntArray
    number: IntArray

    def at(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there, counted from 1."""
        return self.files[self.file_of[row]], int(self.number[row])

    def cut(self, rows: slice) -> "Origins":
        """Where these rows come from."""
        return Origins(self.files, self.file_of[rows], self.number[rows])


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Some rows, and where they come from.

    `starts` are the rows where runs begin; `ids`, `labels` and `groups` hold one entry for each run. `ordered` says that time
    ascends within every run.
    """

    origin: Origin | Origins
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
        """What lies before this run, and the rest."""
        row = int(self.starts[run])
        return self._part(0, slice(0, run), slice(0, row)), self._part(row, slice(run, None), slice(row, None))

    @property
    def file(self) -> str:
        """The file of the first row."""
        return self.origin.at(0)[0]

    def _part(self, first: int, runs: slice, rows: slice) -> "RowBatch":
        return replace(
            self,
            origin=self.origin.cut(rows),
            starts=self.starts[runs] - first,
            ids=self.ids[runs],
            labels=None if self.labels is None else self.labels[runs],
            groups=None if self.groups is None else self.groups[runs],
            times=self.times[rows],
            values=tuple(column[rows] for column in self.values),
        )

    def moment(self, row: int) -> str:
        """The time of a row, as a person writes it."""
        time = self.times[row]
        if self.unit == "timestamp":
            return str(np.datetime_as_string(np.datetime64(int(time), "ns"), unit="auto"))
        return f"{time}" if self.unit == "number" else f"{time / 1e9:g} s"

    def write(self, room: npt.NDArray[Any], channels: tuple[str, ...], missing: Missing) -> None:
        """Put the numbers into the first channels of `room`, (rows, channels), and refuse what is not finite.

        With "mask", zeros stand for what is missing, and the second half of the room says 1 where observed and 0 else.
        """
        numbers = room[:, : len(self.values)]
        with np.errstate(over="ignore", invalid="ignore"):
            for place, column in enumerate(self.values):
                numbers[:, place] = _numbers(column)
            # The sum is finite only if all of them are, and much cheaper than looking at every entry.
            if missing == "refuse" and np.isfinite(numbers.sum()):
                return
        bad = ~np.isfinite(numbers) if missing == "refuse" else np.isinf(numbers)
        if bad.any():
            row, place = (int(at[0]) for at in np.nonzero(bad))
            raise self._not_finite(row, channels[place], self.values[place][row].as_py())
        if missing == "mask":
            half = room.shape[1] // 2
            absent = np.isnan(numbers)
            room[:, half : half + len(self.values)] = ~absent
            numbers[absent] = 0.0

    def _not_finite(self, row: int, channel: str, value: Any) -> InvalidArgument:
        if value is None or value != value:
            remedy = 'Fill missing values in, or pass missing="mask".'
        else:
            remedy = (
                'float32 ends at 3.4e38: pass dtype="float64".'
                if np.isfinite(float(value))
                else "An infinite value is not a missing value: check it."
            )
        run = int(np.searchsorted(self.starts, row, side="right")) - 1
        file, number = self.origin.at(row)
        where = f"row {number} (series {self.ids[run].as_py()!r}, time {self.moment(row)})"
        got = f"{'nothing' if value is None else value} at {where}"
        return InvalidArgument(file, f"a table of finite numbers in column {channel!r}", got, remedy)


class _Cells(NamedTuple):
    """A record batch, and where it comes from."""

    columns: Any
    origin: Origin | Origins

    def fault(self, column: str, expected: str, got: str, row: int, remedy: str) -> InvalidArgument:
        file, number = self.origin.at(row)
        return InvalidArgument(file, f"a table with {expected} column {column!r}", f"{got} at row {number}", remedy)


def series_ids(columns: Any, choice: ColumnChoice, origin: Origin | Origins) -> Any:
    """The IDs of a record batch, checked: whole numbers as they are, anything else as indices into a dictionary."""
    return _names(_Cells(columns, origin), choice.series, "Give every row the id of its series.")


def row_batch(columns: Any, choice: ColumnChoice, origin: Origin | Origins) -> RowBatch:
    """The rows of a record batch, checked but for their numbers."""
    batch = _Cells(columns, origin)
    ids = series_ids(columns, choice, origin)
    keys = run_keys(ids)
    changes = keys[1:] != keys[:-1]
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    times, unit = _ticks(batch, choice.time)
    return RowBatch(
        origin=origin,
        starts=starts,
        ids=ids.take(pa.array(starts)),
        labels=_one_a_run(batch, choice.label, ids, starts, changes),
        groups=_one_a_run(batch, choice.group, ids, starts, changes),
        times=times,
        unit=unit,
        ordered=bool((changes | (times[1:] > times[:-1])).all()),
        values=tuple(columns.column(name) for name in choice.channels),
    )


def kind_of(field: Any) -> str:
    """What a column of this type holds: "number", or a word for anything else."""
    known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if any(is_kind(field) for is_kind in known):
        return "number"
    return "text" if _is_text(field) else str(field)


def encoded(parts: list[Any]) -> tuple[Codes, Any]:
    """Places among the different entries of the parts, and these entries in the order in which they first appear."""
    whole = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    is_coded = types.is_dictionary(whole.type)
    again = (whole.indices if is_coded else whole).dictionary_encode()
    names = whole.dictionary.take(again.dictionary) if is_coded else again.dictionary
    return again.indices.to_numpy(), names


def _is_text(field: Any) -> bool:
    value = field.value_type if types.is_dictionary(field) else field
    return bool(types.is_string(value) or types.is_large_string(value) or types.is_string_view(value))


def _names(batch: _Cells, name: str, remedy: str) -> Any:
    """A column of names without gaps: whole numbers as they are, anything else as places in a dictionary."""
    given = batch.columns.column(name)
    column = _coded(given)
    if column is None:
        expected = f"a table with text or whole numbers in column {name!r}"
        raise InvalidArgument(batch.origin.at(0)[0], expected, str(given.type), "Turn it into text.")
    row = _first_blank(column)
    if row is not None:
        value = column[row].as_py()
        raise batch.fault(name, "a name in every row of", repr(value) if value else "nothing", row, remedy)
    return column


def _coded(column: Any) -> Any:
    """int64 (or uint64, which hashes need), or a dictionary array; None for a type that names nothing."""
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
    """The first row of a column of names that has none."""
    blank = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(len(column), np.bool_)
    if types.is_dictionary(column.type):
        names = column.dictionary
        nameless = names.is_null(nan_is_null=types.is_floating(names.type))
        if types.is_string(names.type):
            # NumPy's texts end at their last NUL: different names would become the same.
            nameless = pc.or_(nameless, pc.or_(pc.is_in(names, value_set=_BLANK), pc.ends_with(names, "\0")))
        if pc.any(nameless).as_py():
            blank = blank | np.isin(column.indices.to_numpy(zero_copy_only=False), np.flatnonzero(nameless))
    return int(blank.argmax()) if blank.any() else None


def run_keys(column: Any) -> IntArray:
    """Numbers that differ where the names of a column without gaps do."""
    keys: IntArray = (column.indices if types.is_dictionary(column.type) else column).to_numpy()
    return keys


def _one_a_run(batch: _Cells, name: str | None, ids: Any, starts: IntArray, changes: BoolArray) -> Any:
    """The names of the runs, which must be the same in all rows of each."""
    if name is None:
        return None
    column = _names(batch, name, "Name it in every row, or drop the series.")
    keys = run_keys(column)
    torn = (keys[1:] != keys[:-1]) & ~changes
    if torn.any():
        row = int(torn.argmax()) + 1
        got = f"{column[row].as_py()!r} after {column[row - 1].as_py()!r} in series {ids[row].as_py()!r}"
        raise batch.fault(
            name, "one name for each series in", got, row, "Check that row; all rows of a series must agree."
        )
    return column.take(pa.array(starts))


def _numbers(column: Any) -> npt.NDArray[Any]:
    """A column of numbers, NaN for null."""
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast(pa.float64())
    numbers: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _ticks(batch: _Cells, name: str) -> tuple[npt.NDArray[Any], Unit]:
    """Times as numbers that can be compared, and what they are."""
    column = batch.columns.column(name)
    if column.null_count:
        raise batch.fault(name, "a time in every row of", "nothing", int(np.argmax(column.is_null())), "Drop the row.")
    column = _parsed(batch, name, column) if _is_text(column.type) else column
    try:
        found = _counted(column)
    except pa.ArrowInvalid:
        remedy = "Times are counted in nanoseconds from 1970; count them in another unit, as whole numbers."
        file, number = batch.origin.at(0)
        got = f"others from row {number} on"
        raise InvalidArgument(file, f"a table of the years 1678..2261 in column {name!r}", got, remedy) from None
    if found is None:
        expected = f"a table with numbers or timestamps in column {name!r}"
        raise InvalidArgument(batch.origin.at(0)[0], expected, str(column.type), "Turn it into one of them.")
    counts, unit = found
    times = counts.to_numpy()
    finite = np.isfinite(times)
    if not finite.all():
        row = int((~finite).argmax())
        raise batch.fault(name, "a time in every row of", f"{times[row]}", row, "Drop the row.")
    return times, unit


def _counted(times: Any) -> tuple[Any, Unit] | None:
    """Times, one or a column of them, as numbers, and what they are; None for a type that holds no times."""
    kind = times.type
    if types.is_timestamp(kind) or types.is_date(kind):
        return times.cast(pa.timestamp("ns", tz=getattr(kind, "tz", None))).cast(pa.int64()), "timestamp"
    if types.is_duration(kind):
        return times.cast(pa.duration("ns")).cast(pa.int64()), "duration"
    if types.is_integer(kind) and kind != pa.uint64():
        return times.cast(pa.int64()), "number"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return times.cast(pa.float64(), safe=False), "number"
    return None


def tick(value: object) -> tuple[int | float, str] | None:
    """One time, as a column of it would be read, and its unit; None if it is no time.

    >>> tick("1970-01-01 00:00:01"), tick("1970-01-01T00:00:01Z"), tick(2.5)
    ((1000000000, 'timestamp'), (1000000000, 'timestamp with a time zone'), (2.5, 'number'))
    """
    try:
        time = pa.array([value.strip() if isinstance(value, str) else value])[0]
        if isinstance(value, str):
            read = (read_as(time, kind) for kind in _PARSED)
            time = next((found for found in read if found is not None), time)
        found = _counted(time) if time.is_valid else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if found is None:
        return None
    zoned = " with a time zone" if getattr(time.type, "tz", None) else ""
    return found[0].as_py(), f"{found[1]}{zoned}"


def _parsed(batch: _Cells, name: str, column: Any) -> Any:
    """Times written as text: all numbers, or all timestamps."""
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    for kind in _PARSED:
        times = read_as(column, kind)
        if times is not None:
            return times
    # What the first row is, the others have to be.
    kind = next((kind for kind in _PARSED[1:] if read_as(column[0], kind) is not None), _PARSED[1])
    row = next(row for row in range(len(column)) if read_as(column[row], kind) is None)
    text = column[row].as_py()
    remedy = "Write numbers, or timestamps like 2026-11-15 23:59:59, all with a time zone or all without."
    raise batch.fault(name, "numbers or timestamps in", repr(text) if text else "nothing", row, remedy)


def read_as(text: Any, kind: Any) -> Any:
    """Text, one or a column of it, as this type; None if it cannot be."""
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return None
