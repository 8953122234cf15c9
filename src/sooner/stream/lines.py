"""Lines of text, JSON or CSV, as arrivals: the reader of `sooner stream` and of the service."""

import csv
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sooner.errors import refuse_unknown
from sooner.series.columns import GAP, Gaps, spelled
from sooner.stream.arrivals import UNNAMED, Arrival, RefusedLine, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.types import FloatArray

_fast_loads: Callable[[str | bytes], Any] = json.loads
with suppress(ImportError):  # of the extra `sooner[serve]`
    from orjson import loads as _fast_loads

Layout: TypeAlias = Literal["jsonl", "csv"]

_LONGEST_TIME = 64
_CHUNK = 1024
WHOLE = "x"
"""The field that holds a whole observation."""
_READS = "They are the channels that were asked for."
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True)
class Fields:
    """The names of the fields of a line; None stands for the usual names of tables.

    With `gaps` the time is read, or without a time the field `GAP`.
    """

    series: str | None = None
    time: str | None = None
    end: str = "end"
    channels: tuple[str, ...] | None = None
    gaps: Gaps = "none"

    def __post_init__(self) -> None:
        refuse_unknown("gaps", self.gaps, ("none", "channel"))

    def resolved(self, first: Mapping[str, Any]) -> "KnownFields":
        """The names in the first line."""
        others = [name for name in first if name not in (self.channels or ())]
        series = self.series or spelled("series", others) or "series"
        time = self.time or spelled("time", others) or "time"
        channels, gaps = self.channels, self.gaps
        if gaps == "channel" and channels is not None:
            whole = first.get(WHOLE)
            if (isinstance(whole, list) and len(whole) == 1 + len(channels)) or (time not in first and GAP in first):
                channels, gaps = (*channels, GAP), "none"  # the lines contain the gaps
        return KnownFields(series, time, self.end, channels, gaps == "channel")


class KnownFields(NamedTuple):
    """The names of the fields that the lines have."""

    series: str
    time: str
    end: str
    channels: tuple[str, ...] | None
    timed: bool

    def read_time(self, value: Any, number: int, line: str) -> Any:
        """The time of an observation, if it is needed."""
        if self.timed and value in (None, ""):
            remedy = f"The model reads the time since the previous observation: give the time, or that as {GAP!r}."
            raise RefusedLine(number, f"one with a time as {self.time!r}", line, remedy)
        return value if self.timed else None


def reader_of(fields: Fields, layout: Layout = "jsonl", *, encoding: str = "utf-8") -> "LineReader":
    """A reader of lines of that layout.

    >>> reader = reader_of(Fields())
    >>> reader.read(['{"series": "a", "x": [0.5, 1.0]}', "{broken"])[0].observation
    array([0.5, 1. ])
    """
    refuse_unknown("layout", layout, ("csv", "jsonl"))
    return (JsonLines if layout == "jsonl" else CsvLines)(fields, encoding)


class LineReader(ABC):
    """Reads lines in their order; the first good one (in CSV the header) says which fields there are.

    Args:
        fields: their names.
        encoding: of lines that are bytes, and of those whose bytes `surrogateescape` has kept.
    """

    def __init__(self, fields: Fields, encoding: str = "utf-8") -> None:
        self._fields = fields
        self._encoding = encoding
        self._known: KnownFields | None = None
        self._number = 0

    @property
    def series(self) -> str:
        """The field with the series ID."""
        return self._known.series if self._known else self._fields.series or "series"

    @property
    def lines(self) -> int:
        """How many lines were read."""
        return self._number

    def read(self, lines: Sequence[str | bytes]) -> ArrivalBatch | list[Arrival | Rejection]:
        """The next lines, for `LiveSeries.take`; blank ones are skipped."""
        return self._one_by_one(lines)

    def finish(self) -> None:  # noqa: B027
        """Refuse lines that have ended too early."""

    @abstractmethod
    def _arrival(self, number: int, line: str) -> Arrival | None:
        """What a line holds; None if it holds nothing."""

    def _one_by_one(self, lines: Sequence[str | bytes]) -> list[Arrival | Rejection]:
        read: list[Arrival | Rejection] = []
        for line in lines:
            self._number += 1
            try:
                arrival = self._arrival(self._number, self._text(line))
            except RefusedLine as error:
                read.append(error.rejection)
            else:
                read += [] if arrival is None else [arrival]
        return read

    def _text(self, line: str | bytes) -> str:
        text = line.decode(self._encoding, "surrogateescape") if isinstance(line, bytes) else line
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                expected, remedy = f"text in {self._encoding}", "Use this encoding in the sender."
                raise RefusedLine(self._number, expected, None, remedy, "text", got="other bytes") from None
        return text


class _Columns(NamedTuple):
    """Some lines as columns; `ends` are the indices of those that end their series."""

    keys: list[Any]
    values: FloatArray
    ats: list[Any]
    ends: list[int]


class JsonLines(LineReader):
    """One JSON object in each line."""

    _named: bool = False
    _channels: tuple[str, ...] | None = None

    def read(self, lines: Sequence[str | bytes]) -> ArrivalBatch | list[Arrival | Rejection]:
        """The next lines, for `LiveSeries.take`; blank ones are skipped."""
        end = len(lines)
        while end and not lines[end - 1].strip():  # as after the last newline
            end -= 1
        blank, lines = len(lines) - end, lines[:end]
        read: ArrivalBatch | list[Arrival | Rejection] | None = None
        if len(lines) > 1 and self._known is not None:
            read = self._at_once(lines)
        if read is None:
            read = self._one_by_one(lines)
        else:
            self._number += len(lines)
        self._number += blank
        return read

    def _at_once(self, lines: Sequence[str | bytes]) -> ArrivalBatch | None:
        """The lines as columns, if all of them are good and alike: a tenth of the time. None for others."""
        fields = self._known
        assert fields is not None
        chunks: list[_Columns] = []
        for first in range(0, len(lines), _CHUNK):  # so few that their records stay in the CPU's cache
            try:
                chunk = self._columns(lines[first : first + _CHUNK], first, fields)
            except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
                return None
            if chunk is None or chunk.values.shape[1:] != (chunks or [chunk])[0].values.shape[1:]:
                return None
            chunks.append(chunk)
        values = chunks[0].values if len(chunks) == 1 else np.concatenate([chunk.values for chunk in chunks])
        if fields.timed:
            values = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        ats = list(chain.from_iterable(chunk.ats for chunk in chunks))
        return ArrivalBatch(
            list(chain.from_iterable(chunk.keys for chunk in chunks)),
            values,
            times=ats if fields.timed else None,
            ats=None if ats.count(None) == len(ats) else ats,
            ends=list(chain.from_iterable(chunk.ends for chunk in chunks)),
            numbers=range(self._number + 1, self._number + len(lines) + 1),
            texts=lines,
        )

    def _columns(self, lines: Sequence[str | bytes], first: int, fields: KnownFields) -> "_Columns | None":
        """Some of the lines as columns; `first` of them came before."""
        records = list(map(_fast_loads, lines))
        keys = [record[fields.series] for record in records] if self._named else [UNNAMED] * len(records)
        values = _columns_of(records, self._channels, strict=self._fields.channels is None)
        if values is None or not set(map(type, keys)) <= {str, int} or (self._named and "" in keys):
            return None
        if not self._named and any(record.get(fields.series) is not None for record in records):
            return None
        ends = [index for index, record in enumerate(records) if fields.end in record]
        if not all(isinstance(records[index][fields.end], bool) for index in ends):
            return None
        ats = [record.get(fields.time) for record in records]
        missing = ats.count(None)
        if missing < len(ats) and [_written(at) for at in ats] != ats:
            return None
        if fields.timed and (missing or "" in ats):
            return None
        return _Columns(keys, values, ats, [first + index for index in ends if records[index][fields.end]])

    def _arrival(self, number: int, line: str) -> Arrival | None:
        if not line.strip():
            return None
        record = _object(number, line)
        fields = self._known or self._fields.resolved(record)
        named = self._named if self._known else record.get(fields.series) is not None
        channels = self._channels if self._known else fields.channels
        key, ended, at = record.pop(fields.series, None), record.pop(fields.end, False), record.pop(fields.time, None)
        if (key is not None) != named or isinstance(key, bool) or not isinstance(key, str | int | None) or key == "":
            expected = f"one with a name (a string or a whole number) as {fields.series!r}"
            raise RefusedLine(number, expected, line, "Name the series in all lines, or in none.", "id")
        if not isinstance(ended, bool):
            raise RefusedLine(number, f"one with true or false as {fields.end!r}", line, "Leave it out for false.")
        value: Any = None
        whole = isinstance(record.get(WHOLE), list) or (fields.channels is None and list(record) == [WHOLE])
        if whole:
            value = record[WHOLE]
        elif record or not ended:
            channels = tuple(record) if channels is None else channels
            value = _channels(number, line, record, channels, strict=fields.channels is None)
        time = None if value is None else fields.read_time(at, number, line)
        observation = None if value is None else _numbers(number, line, value)
        self._known, self._named, self._channels = fields, named, channels
        return Arrival(number, line, key, observation, time, ended, _written(at))


def _written(at: Any) -> str | float | None:
    """A time as it was written, for the record of a decision; what is no time is left out."""
    if isinstance(at, str):
        return at if len(at) <= _LONGEST_TIME else None
    if type(at) is int:
        return at if abs(at) < 2**63 else None
    return at if type(at) is float and math.isfinite(at) else None


def _columns_of(records: list[dict[str, Any]], channels: tuple[str, ...] | None, *, strict: bool) -> FloatArray | None:
    """(records, channels), if all records have an observation in the same form; errors of any kind for others."""
    whole = [record.get(WHOLE) for record in records]
    kinds = set(map(type, whole))
    rows: Any
    if kinds == {list}:
        rows = whole
    elif strict or channels is None or list in kinds:
        return None
    else:
        rows = list(map(itemgetter(*channels), records)) if len(channels) > 1 else [[r[channels[0]]] for r in records]
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        return None
    # Half of the time of `np.array(rows)`.
    return np.fromiter(chain.from_iterable(rows), dtype=np.float64, count=width * len(rows)).reshape(len(rows), width)


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RefusedLine(number, "a JSON object", line, f"It cannot be read: {error}.", "json") from None
    if not isinstance(record, dict):
        raise RefusedLine(number, "a JSON object", line, 'For example {"series": "a", "x": [0.5]}.', "json")
    return record


def _channels(number: int, line: str, record: dict[str, Any], channels: tuple[str, ...], *, strict: bool) -> list[Any]:
    missing = [name for name in channels if name not in record]
    extra = [name for name in record if strict and name not in channels]
    expected = f"one with the channels {', '.join(map(repr, channels))}" if channels else "one with an observation"
    if missing or not channels:
        named = ", ".join(map(repr, missing))
        remedy = f"Give {named} too; a missing value is null." if missing else f"Give it as {WHOLE!r}."
        raise RefusedLine(number, expected, line, remedy, "channels")
    if extra:
        raise RefusedLine(number, expected, line, f"Name the channels, and {extra[0]!r} will not be read.", "channels")
    return [record[name] for name in channels]


class CsvLines(LineReader):
    """A header, then one observation in each line. An error in the header is raised."""

    _header: list[str] | None = None
    _wanted: tuple[str, ...] = ()

    def read(self, lines: Sequence[str | bytes]) -> ArrivalBatch | list[Arrival | Rejection]:
        """The next lines, for `LiveSeries.take`; blank ones are skipped."""
        if self._header is None and lines:
            self._number += 1
            self._begin(self._text(lines[0]))
            lines = lines[1:]
        return self._one_by_one(lines)

    def finish(self) -> None:
        """Refuse lines that ended before their header."""
        if self._header is None:
            self._begin("")

    def _begin(self, line: str) -> None:
        header = [name.strip().removeprefix("\ufeff") for name in _cells(1, line)]
        self._known = self._fields.resolved(dict.fromkeys(header))
        self._wanted = tuple(_columns(header, self._known))
        self._header = header

    def _arrival(self, number: int, line: str) -> Arrival | None:
        header, fields = self._header, self._known
        assert header is not None
        assert fields is not None
        cells = _cells(number, line)
        if not any(cell.strip() for cell in cells):
            return None
        if len(cells) != len(header):
            raise RefusedLine(
                number, f"one of {len(header)} cells", line, f"The header has {', '.join(header)}.", "csv"
            )
        row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        if row.get(fields.series) == "":
            expected = f"one with a name in {fields.series!r}"
            raise RefusedLine(number, expected, line, "Name the series in every line.", "id")
        ended = row.get(fields.end, "").lower()
        if ended not in (*_YES, *_NO):
            raise RefusedLine(number, f"one with true or false in {fields.end!r}", line, "An empty cell is false.")
        over, key, at = ended in _YES, row.get(fields.series), row.get(fields.time) or None
        seen = [row[name] for name in self._wanted]
        if over and not any(seen):
            return Arrival(number, line, key, None, None, over, at)
        observation = _numbers(number, line, [cell or None for cell in seen])
        return Arrival(number, line, key, observation, fields.read_time(at, number, line), over, at)


def _cells(number: int, line: str) -> list[str]:
    reader = csv.reader([line, ""])
    try:
        cells = next(reader, [])
    except csv.Error as error:
        raise RefusedLine(number, "CSV", None, f"It says: {error}.", "csv") from None
    if reader.line_num > 1:  # the cell would go on in the next line
        raise RefusedLine(number, "one whose quoted cells end in it", line, "Close the quote.", "csv")
    return cells


def _columns(header: list[str], fields: KnownFields) -> list[str]:
    text = ",".join(header)
    if len(set(header)) != len(header):
        raise RefusedLine(1, "a header of different names", text, "Name each column once.")
    channels = [name for name in header if name not in (fields.series, fields.time, fields.end)]
    wanted = [*(fields.channels or ()), *([fields.time] if fields.timed else [])]
    missing = [name for name in wanted if name not in header]
    if missing:
        remedy = f"The model reads the time since the previous observation as {GAP!r}." if fields.timed else _READS
        raise RefusedLine(1, f"a header with {', '.join(map(repr, missing))} too", text, remedy)
    if not channels:
        raise RefusedLine(1, "a header with a channel", text, "The first line names the columns.")
    return channels if fields.channels is None else list(fields.channels)


def _numbers(number: int, line: str, value: Any) -> FloatArray:
    try:
        return np.array(value, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError, OverflowError):
        remedy = "A missing value is null, or an empty cell."
        raise RefusedLine(number, "one with numbers", line, remedy, "number") from None
