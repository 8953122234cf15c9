"""Decisions from lines of text, JSON or CSV, each the moment it is made: what stands behind `sooner stream`."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sooner.errors import InvalidArgument, UnknownName
from sooner.series.columns import GAP, Gaps, spelled
from sooner.stream.fleet import Fleet, Key, told
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
    """What the fields of a line are called; `channels` in the order in which the model reads them.

    Without a name, the series and the time are what a table would call them. With `gaps`, the time is read, and where there is
    none, the field `GAP`.
    """

    series: str | None
    time: str | None
    end: str
    channels: tuple[str, ...] | None
    gaps: Gaps

    def found(self, first: Mapping[str, Any]) -> "Known":
        """All names, by the first line."""
        others = [name for name in first if name not in (self.channels or ())]
        series = self.series or spelled("series", others) or "series"
        time = self.time or spelled("time", others) or "time"
        channels, gaps = self.channels, self.gaps
        if gaps == "channel" and channels is not None:
            whole = first.get(WHOLE)
            if (isinstance(whole, list) and len(whole) == 1 + len(channels)) or (time not in first and GAP in first):
                channels, gaps = (*channels, GAP), "none"  # the sender has counted the gaps itself
        return Known(series, time, self.end, channels, gaps == "channel")


class Known(NamedTuple):
    """`Fields` whose names are all known."""

    series: str
    time: str
    end: str
    channels: tuple[str, ...] | None
    timed: bool

    def when(self, value: Any, number: int, line: str) -> Any:
        """The time of an observation, where it is needed."""
        if self.timed and value in (None, ""):
            remedy = f"The model reads the time since the observation before: give the time, or that as {GAP!r}."
            raise _refused(number, f"one with a time as {self.time!r}", line, remedy)
        return value if self.timed else None


class Arrival(NamedTuple):
    """What a line says: whose it is (None where series have no names), what was observed, when, and whether that was all."""

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
    """Read lines as they arrive, and yield each decision the moment it is made; after the last line, those of all open series.

    JSON: one object a line, {"series": "a", "x": [0.5, 1.0]}, or a field for each channel, {"series": "a", "hum": 0.5}. CSV:
    a header, then one observation a line. Lines of a series come in the order of time. Without a series field there is one
    series. A missing value is null or an empty cell. Where `end` is true the series is over, with or without an observation
    in that line, and the next line with its name begins another one.

    Args:
        lines: for example `sys.stdin`; no line is waited for before the one at hand is done with.
        fleet: the live series. What it holds already goes on.
        layout: "jsonl" or "csv".
        series: the field that names the series; None for what a table would call it (`Columns`).
        time: the field of the time, which is only read for gaps; None as for `series`.
        end: the field that is true in the last line of a series.
        channels: the fields of an observation, in the model's order; others are not read. By default all that the first line
            has, in its order.
        gaps: "channel" for a model that reads gaps: the time since the observation before becomes the last channel, as in
            `read_table`. Lines without a time hold it themselves, as the field `gap`.
        late: observations after a decision are skipped by "ignore", since senders go on sending, and an error by "refuse".

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
        late_one = arrival.observation is not None and key in fleet.decided
        if late_one and late == "refuse":
            remedy = f"It was {told(fleet.decided[key])}; a name begins another series once a line has ended the first."
            raise _refused(arrival.number, "one of a series that is still open", arrival.text, remedy)
        if arrival.observation is not None and not late_one:
            try:
                times = None if arrival.time is None else {key: arrival.time}
                decisions = fleet.update({key: arrival.observation}, times)
            except InvalidArgument as error:
                expected = "an observation that can be taken in"
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
    fields = names.found(first[2])
    named, channels = first[2].get(fields.series) is not None, fields.channels
    for number, line, said in chain([first], objects):
        key, ended, when = said.pop(fields.series, None), said.pop(fields.end, False), said.pop(fields.time, None)
        if (key is not None) != named or isinstance(key, bool) or not isinstance(key, str | int | None) or key == "":
            expected = f"one with a name (a string or a whole number) as {fields.series!r}"
            raise _refused(number, expected, line, "Name the series in all lines, or in none.")
        if not isinstance(ended, bool):
            raise _refused(number, f"one with true or false as {fields.end!r}", line, "Leave it out for false.")
        value: Any = None
        whole = isinstance(said.get(WHOLE), list) or (fields.channels is None and list(said) == [WHOLE])
        if whole:
            value = said[WHOLE]
        elif said or not ended:
            channels = tuple(said) if channels is None else channels
            value = _channels(number, line, said, channels, strict=fields.channels is None)
        if value is None:
            yield Arrival(number, line, key, None, None, ended)
        else:
            time = fields.when(when, number, line)
            yield Arrival(number, line, key, _numbers(number, line, value), time, ended)


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refused(number, "a JSON object", line, f"It cannot be read: {error}.") from None
    if not isinstance(said, dict):
        raise _refused(number, "a JSON object", line, 'For example {"series": "a", "x": [0.5]}.')
    return said


def _channels(number: int, line: str, said: dict[str, Any], channels: tuple[str, ...], *, strict: bool) -> list[Any]:
    missing = [name for name in channels if name not in said]
    extra = [name for name in said if strict and name not in channels]
    expected = f"one with the channels {', '.join(map(repr, channels))}" if channels else "one with an observation"
    if missing or not channels:
        named = ", ".join(map(repr, missing))
        remedy = f"Give {named} too; a missing value is null." if missing else f"Give it as {WHOLE!r}."
        raise _refused(number, expected, line, remedy)
    if extra:
        raise _refused(number, expected, line, f"Name the channels, and {extra[0]!r} will not be read.")
    return [said[name] for name in channels]


def _from_csv(lines: Iterable[str], names: Fields) -> Iterator[Arrival]:
    reader = csv.reader(lines)
    try:
        header = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        fields = names.found(dict.fromkeys(header))
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
            time = fields.when(row.get(fields.time), number, text)
            yield Arrival(number, text, row.get(fields.series), observation, time, over)
    except csv.Error as error:
        raise InvalidArgument(f"line {reader.line_num}", "CSV", "something else", f"It says: {error}.") from None


def _columns(header: list[str], fields: Known) -> list[str]:
    if len(set(header)) != len(header):
        raise _refused(1, "a header of different names", ",".join(header), "Name each column once.")
    channels = [name for name in header if name not in (fields.series, fields.time, fields.end)]
    wanted = [*(fields.channels or ()), *([fields.time] if fields.timed else [])]
    missing = [name for name in wanted if name not in header]
    if missing:
        remedy = f"The model reads the time since the observation before as {GAP!r}." if fields.timed else _READS
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
