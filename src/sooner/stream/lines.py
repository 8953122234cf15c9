"""Decisions from lines of text, JSON or CSV, as soon as they are made: the function behind `sooner stream`."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sooner.errors import InvalidArgument, UnknownName
from sooner.series.columns import GAP, Gaps, spelled
from sooner.stream.fleet import Fleet, Key, closing
from sooner.stream.fold import Decision
from sooner.types import FloatArray

Layout: TypeAlias = Literal["jsonl", "csv"]
Late: TypeAlias = Literal["ignore", "refuse"]

WHOLE = "x"
"""The field that holds a whole observation."""
_UNNAMED = ""
_READS = "They are the channels that were asked for."
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True)
class Fields:
    """The names of the fields of a line; None stands for the usual names of tables.

    With `gaps` the time is read, or without a time the field `GAP`.
    """

    series: str | None
    time: str | None
    end: str
    channels: tuple[str, ...] | None
    gaps: Gaps

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
            raise _refused(number, f"one with a time as {self.time!r}", line, remedy)
        return value if self.timed else None


class Arrival(NamedTuple):
    """The content of a line: its number and text, the series ID (if any), the observation, its time, and the end flag."""

    number: int
    text: str
    key: Key | None
    observation: FloatArray | None
    time: Any
    ended: bool


def decisions_of(
    lines: Iterable[str],
    fleet: Fleet,
    *,
    layout: Layout = "jsonl",
    series: str | None = "series",
    time: str | None = "time",
    end: str = "end",
    channels: Sequence[str] | None = None,
    gaps: Gaps = "none",
    late: Late = "ignore",
) -> Iterator[dict[str, Any]]:
    """Read lines as they arrive, and yield each decision as soon as it is made; at the end, those of all open series.

    JSON: one object per line, {"series": "a", "x": [0.5, 1.0]}, or a field for each channel, {"series": "a", "hum": 0.5}. CSV:
    a header, then one observation per line. The lines of a series are in the order of time. Without a series field there is one
    series. A missing value is null or an empty cell. If `end` is true the series ends, with or without an observation in that
    line, and the next line with its ID starts another one.

    Args:
        lines: for example `sys.stdin`; each line is processed before the next one is read.
        fleet: the live series; open series continue.
        layout: "jsonl" or "csv".
        series: field with the series ID; None for the usual names (`Columns`).
        time: field with the time, which is only read for gaps; None as for `series`.
        end: field that is true in the last line of a series.
        channels: fields of an observation, in the order of the model; others are ignored. By default all fields of the first
            line, in its order.
        gaps: "channel" for a model that reads gaps: the time since the previous observation becomes the last channel, as in
            `read_table`. Lines without a time contain it as the field `gap`.
        late: "ignore" skips observations after a decision, "refuse" raises an error.

    >>> import torch
    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> _ = model.head.weight.data.copy_(torch.eye(2))
    >>> lines = ['{"series": "a", "x": [0, 2]}', '{"series": "b", "x": [1, 0]}', '{"series": "a", "x": [0, 2]}']
    >>> for record in decisions_of(lines, Fleet(model, MSPRT(3.0), classes=["calm", "storm"])):
    ...     print(json.dumps(record))
    {"series": "a", "label": "storm", "time": 2, "crossed": true}
    {"series": "b", "label": "calm", "time": 1, "crossed": false}
    """
    readers = {"jsonl": _from_json, "csv": _from_csv}
    if layout not in readers:
        raise UnknownName("layout", layout, readers)
    if gaps not in ("none", "channel"):
        raise UnknownName("gaps", gaps, ("none", "channel"))
    if late not in ("ignore", "refuse"):
        raise UnknownName("late", late, ("ignore", "refuse"))
    fields = Fields(series, time, end, None if channels is None else tuple(channels), gaps)
    return _decide(readers[layout](lines, fields), fleet, late)


def _decide(arrivals: Iterator[Arrival], fleet: Fleet, late: Late) -> Iterator[dict[str, Any]]:
    for arrival in arrivals:
        key = _UNNAMED if arrival.key is None else arrival.key
        is_late = arrival.observation is not None and key in fleet.decided
        if is_late and late == "refuse":
            remedy = (
                f"It was {closing(fleet.decided[key])}; a name begins another series once a line has ended the first."
            )
            raise _refused(arrival.number, "one of a series that is still open", arrival.text, remedy)
        if arrival.observation is not None and not is_late:
            try:
                times = None if arrival.time is None else {key: arrival.time}
                decisions = fleet.update({key: arrival.observation}, times)
            except InvalidArgument as error:
                expected = "an observation that can be processed"
                raise _refused(arrival.number, expected, arrival.text, str(error)) from None
            yield from (_record(key, decision) for key, decision in decisions.items())
        if arrival.ended:
            if key in fleet:
                yield _record(key, fleet.finish(key))
            if key in fleet.decided:
                fleet.forget(key)
    yield from (_record(key, decision) for key, decision in fleet.finish_all().items())


def _record(key: Key, decision: Decision) -> dict[str, Any]:
    name = None if key == _UNNAMED else key
    return {"series": name, "label": decision.label, "time": decision.time, "crossed": decision.crossed}


def _from_json(lines: Iterable[str], names: Fields) -> Iterator[Arrival]:
    objects = ((number, line, _object(number, line)) for number, line in enumerate(lines, start=1) if line.strip())
    first = next(objects, None)
    if first is None:
        return
    fields = names.resolved(first[2])
    named, channels = first[2].get(fields.series) is not None, fields.channels
    for number, line, record in chain([first], objects):
        key, ended, time = (
            record.pop(fields.series, None),
            record.pop(fields.end, False),
            record.pop(fields.time, None),
        )
        if (key is not None) != named or isinstance(key, bool) or not isinstance(key, str | int | None) or key == "":
            expected = f"one with a name (a string or a whole number) as {fields.series!r}"
            raise _refused(number, expected, line, "Name the series in all lines, or in none.")
        if not isinstance(ended, bool):
            raise _refused(number, f"one with true or false as {fields.end!r}", line, "Leave it out for false.")
        value: Any = None
        whole = isinstance(record.get(WHOLE), list) or (fields.channels is None and list(record) == [WHOLE])
        if whole:
            value = record[WHOLE]
        elif record or not ended:
            channels = tuple(record) if channels is None else channels
            value = _channels(number, line, record, channels, strict=fields.channels is None)
        if value is None:
            yield Arrival(number, line, key, None, None, ended)
        else:
            time = fields.read_time(time, number, line)
            yield Arrival(number, line, key, _numbers(number, line, value), time, ended)


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refused(number, "a JSON object", line, f"It cannot be read: {error}.") from None
    if not isinstance(record, dict):
        raise _refused(number, "a JSON object", line, 'For example {"series": "a", "x": [0.5]}.')
    return record


def _channels(number: int, line: str, record: dict[str, Any], channels: tuple[str, ...], *, strict: bool) -> list[Any]:
    missing = [name for name in channels if name not in record]
    extra = [name for name in record if strict and name not in channels]
    expected = f"one with the channels {', '.join(map(repr, channels))}" if channels else "one with an observation"
    if missing or not channels:
        named = ", ".join(map(repr, missing))
        remedy = f"Give {named} too; a missing value is null." if missing else f"Give it as {WHOLE!r}."
        raise _refused(number, expected, line, remedy)
    if extra:
        raise _refused(number, expected, line, f"Name the channels, and {extra[0]!r} will not be read.")
    return [record[name] for name in channels]


def _from_csv(lines: Iterable[str], names: Fields) -> Iterator[Arrival]:
    reader = csv.reader(lines)
    try:
        header = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        fields = names.resolved(dict.fromkeys(header))
        channels = _columns(header, fields)
        for cells in reader:
            number, text = reader.line_num, ",".join(cells)
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise _refused(number, f"one of {len(header)} cells", text, f"The header has {', '.join(header)}.")
            row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            if row.get(fields.series) == "":
                raise _refused(number, f"one with a name in {fields.series!r}", text, "Name the series in every line.")
            ended = row.get(fields.end, "").lower()
            if ended not in (*_YES, *_NO):
                raise _refused(number, f"one with true or false in {fields.end!r}", text, "An empty cell is false.")
            over = ended in _YES
            seen = [row[name] for name in channels]
            if over and not any(seen):
                yield Arrival(number, text, row.get(fields.series), None, None, over)
                continue
            observation = _numbers(number, text, [cell or None for cell in seen])
            time = fields.read_time(row.get(fields.time), number, text)
            yield Arrival(number, text, row.get(fields.series), observation, time, over)
    except csv.Error as error:
        raise InvalidArgument(f"line {reader.line_num}", "CSV", "something else", f"It says: {error}.") from None


def _columns(header: list[str], fields: KnownFields) -> list[str]:
    if len(set(header)) != len(header):
        raise _refused(1, "a header of different names", ",".join(header), "Name each column once.")
    channels = [name for name in header if name not in (fields.series, fields.time, fields.end)]
    wanted = [*(fields.channels or ()), *([fields.time] if fields.timed else [])]
    missing = [name for name in wanted if name not in header]
    if missing:
        remedy = f"The model reads the time since the previous observation as {GAP!r}." if fields.timed else _READS
        raise _refused(1, f"a header with {', '.join(map(repr, missing))} too", ",".join(header), remedy)
    if not channels:
        raise _refused(1, "a header with a channel", ",".join(header), "The first line names the columns.")
    return channels if fields.channels is None else list(fields.channels)


def _numbers(number: int, line: str, value: Any) -> FloatArray:
    try:
        return np.array(value, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError, OverflowError):
        raise _refused(number, "one with numbers", line, "A missing value is null, or an empty cell.") from None


def _refused(number: int, expected: str, line: str, remedy: str) -> InvalidArgument:
    text = line.strip()
    return InvalidArgument(f"line {number}", expected, repr(text if len(text) <= 80 else text[:77] + "..."), remedy)
