"""Decisions from lines of text as soon as they are made: the way of `sooner stream`, also for Python."""

import time as clock
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from sooner.errors import refuse_unknown
from sooner.series.columns import Gaps
from sooner.stream.arrivals import Arrival, RefusedLine, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.events import Event
from sooner.stream.fleet import Fleet
from sooner.stream.lines import Fields, Layout, LineReader, reader_of
from sooner.stream.live import LiveSeries
from sooner.stream.settings import Late, LiveSettings

BadLines: TypeAlias = Literal["skip", "stop"]


def decisions_of(
    lines: Iterable[str],
    fleet: Fleet | LiveSeries,
    *,
    layout: Layout = "jsonl",
    series: str | None = "series",
    time: str | None = "time",
    end: str = "end",
    channels: Sequence[str] | None = None,
    gaps: Gaps = "none",
    late: Late = "ignore",
    bad_lines: BadLines = "stop",
) -> Iterator[dict[str, Any]]:
    """Read lines as they arrive, and yield each decision as soon as it is made; at the end, those of all open series.

    JSON: one object per line, {"series": "a", "x": [0.5, 1.0]}, or a field for each channel, {"series": "a", "hum": 0.5}. CSV:
    a header, then one observation per line. The lines of a series are in the order of time. Without a series field there is one
    series. A missing value is null or an empty cell. If `end` is true the series ends, with or without an observation in that
    line, and the next line with its ID starts another one.

    A decision has the fields `series` (also under the name of the series field), `label`, `time`, `crossed`, `margin`,
    `posterior`, `at` (the time of its last observation), `run`, `ended` and `event` (its number), as in `Event`.

    Args:
        lines: for example `sys.stdin`; each line is processed before the next one is read.
        fleet: the live series; open series continue.
        layout: "jsonl" or "csv".
        series: field with the series ID; None for the usual names (`Columns`).
        time: field with the time, which is read for gaps, and repeated as `at` in the decision; None as for `series`.
        end: field that is true in the last line of a series.
        channels: fields of an observation, in the order of the model; others are ignored. By default all fields of the first
            line, in its order.
        gaps: "channel" for a model that reads gaps: the time since the previous observation becomes the last channel, as in
            `read_table`. Lines without a time contain it as the field `gap`.
        late: "ignore" skips observations after a decision, "refuse" raises an error. For `LiveSeries`, its settings say it.
        bad_lines: "stop" raises an error at a line that cannot be used, "skip" leaves it out.

    >>> import torch
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
    now = clock.time()
    live = fleet if isinstance(fleet, LiveSeries) else LiveSeries(fleet, LiveSettings(late=late), now=now)
    follower = Follower(live, reader, bad_lines)
    return _decisions(lines, follower)


def _decisions(lines: Iterable[str], follower: "Follower") -> Iterator[dict[str, Any]]:
    for line in lines:
        yield from follower.take([line], clock.time())
    yield from follower.finish(clock.time())


class Follower:
    """Reads lines into live series, and gives the records of their decisions.

    Args:
        live: the series.
        reader: of the lines.
        bad_lines: "stop" raises an error at the first line that cannot be used, after the decisions of those before; "skip"
            counts it.

    Attributes:
        skipped: how many lines were skipped, by kind.
        first: why the first of them was.
    """

    def __init__(self, live: LiveSeries, reader: LineReader, bad_lines: BadLines = "stop") -> None:
        refuse_unknown("bad_lines", bad_lines, ("skip", "stop"))
        self.live, self.reader = live, reader
        self.skipped: Counter[str] = Counter()
        self.first: str | None = None
        self._stops = bad_lines == "stop"

    def take(self, lines: Sequence[str | bytes], now: float) -> Iterator[dict[str, Any]]:
        """The decisions that some lines lead to."""
        # The first line says which fields there are.
        for some in [lines] if self.reader.lines else [lines[:1], lines[1:]]:
            yield from self._take(self.reader.read(some), now)

    def finish(self, now: float) -> Iterator[dict[str, Any]]:
        """The decisions of all open series, when the lines have ended."""
        self.reader.finish()
        yield from self.records(self.live.finish_all(now))

    def records(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        """The lines that are written for some events."""
        return [line_of(event, self.reader.series) for event in events]

    def _take(self, arrivals: ArrivalBatch | list[Arrival | Rejection], now: float) -> Iterator[dict[str, Any]]:
        pieces: Sequence[ArrivalBatch | list[Arrival | Rejection]] = [arrivals]
        if (
            self._stops and len(arrivals) > 1 and not self.live.accepts(arrivals)
        ):  # what comes after a bad line must not be processed
            pieces = [[arrival] for arrival in (arrivals.singly() if isinstance(arrivals, ArrivalBatch) else arrivals)]
        for piece in pieces:
            outcome = self.live.take(piece, now)
            yield from self.records(outcome.events)
            if outcome.rejected and self._stops:
                raise RefusedLine.of(outcome.rejected[0])
            self.skipped.update(rejection.kind for rejection in outcome.rejected)
            if self.first is None and outcome.rejected:
                self.first = outcome.rejected[0].reason


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
