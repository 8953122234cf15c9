"""Decisions from lines of text as soon as they are made: the way of `sooner stream`, also for Python."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from sooner.errors import refuse_unknown
from sooner.series.columns import Gaps
from sooner.stream.arrivals import RefusedLine
from sooner.stream.events import Event
from sooner.stream.fleet import Fleet
from sooner.stream.lines import CsvLines, Fields, Layout, LineReader, reader_of
from sooner.stream.live import LiveSeries
from sooner.stream.settings import Late, LiveSettings

BadLines: TypeAlias = Literal["skip", "stop"]


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
        time: field with the time; None as for `series`. It is only read for gaps, and repeated as `at` in the decision.
        end: field that is true in the last line of a series.
        channels: fields of an observation, in the order of the model; others are ignored. By default all fields of the first
            line, in its order.
        gaps: "channel" for a model that reads gaps: the time since the previous observation becomes the last channel, as in
            `read_table`. Lines without a time contain it as the field `gap`.
        late: "ignore" skips observations after a decision, "refuse" raises an error.

    >>> import json, torch
    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> _ = model.head.weight.data.copy_(torch.eye(2))
    >>> lines = ['{"series": "a", "x": [0, 2]}', '{"series": "b", "x": [1, 0]}', '{"series": "a", "x": [0, 2]}']
    >>> for record in decisions_of(lines, Fleet(model, MSPRT(3.0), classes=["calm", "storm"])):
    ...     print({name: record[name] for name in ("series", "label", "time", "crossed", "margin")})
    {'series': 'a', 'label': 'storm', 'time': 2, 'crossed': True, 'margin': 4.0}
    {'series': 'b', 'label': 'calm', 'time': 1, 'crossed': False, 'margin': 1.0}
    """
    fields = Fields(series, time, end, None if channels is None else tuple(channels), gaps)
    reader = reader_of(fields, layout)
    refuse_unknown("late", late, ("ignore", "refuse"))
    return _decide(lines, reader, fleet, late)


def _decide(lines: Iterable[str], reader: LineReader, fleet: Fleet, late: Late) -> Iterator[dict[str, Any]]:
    live = LiveSeries(fleet, LiveSettings(late=late))
    for line in lines:
        outcome = live.take(reader.read([line]), 0.0)
        if outcome.rejected:
            raise RefusedLine.of(outcome.rejected[0])
        yield from (line_of(event, reader.series) for event in outcome.events)
    if isinstance(reader, CsvLines):
        reader.finish()
    yield from (line_of(event, reader.series) for event in live.finish_all(0.0))


def line_of(event: Event, series: str) -> dict[str, Any]:
    """The record that is written as a line: the ID under the name of its field, and as `series` for readers of any model."""
    found = event.record()
    others = {
        **{name: found[name] for name in ("label", "time", "crossed")},
        "margin": round(event.margin, 6),
        "posterior": None if event.posterior is None else round(event.posterior, 6),
        **{name: found[name] for name in ("at", "series", "run", "ended")},
        "event": event.id,
    }
    # A field of another meaning keeps its own.
    return {series: event.series, **others} if series not in others else {"series": event.series, **others}
