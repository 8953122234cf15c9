"""Decisions out: as JSON after a given ID, and as server-sent events that resume where a client left off.

A decision is published once the observations it rests on are durable. The newest stay in memory as bytes; a client that is
further behind reads older ones from the journal, so that a slow client costs no memory.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from sooner.serve.answers import json_bytes
from sooner.stream.events import Event

Format: TypeAlias = Literal["plain", "cloudevents"]
Older: TypeAlias = Callable[[int, int], Awaitable[list[Event]]]
KEPT = 30_000
"""Decisions that stay in memory, about 400 bytes each; at times twice as many."""
_AT_ONCE = 500
_KEEP_ALIVE = 15.0


class Published:
    """The published decisions.

    Args:
        newest: decisions of an earlier process, ascending by ID.
        older: function of (after, limit) that reads decisions which are no longer in memory.
    """

    def __init__(self, newest: Sequence[Event], older: Older) -> None:
        self._events: list[Event] = []
        self._by_run: dict[tuple[Any, int], Event] = {}
        self._newest: dict[Any, Event] = {}
        self._older = older
        self._changed = asyncio.Event()
        self.stopped = False
        self.add(newest)

    @property
    def last_id(self) -> int:
        """The newest ID; 0 before the first decision."""
        return self._events[-1].id if self._events else 0

    def add(self, events: Sequence[Event]) -> None:
        """Publish decisions."""
        if not events:
            return
        self._events += events
        for event in events:
            self._by_run[event.series, event.run] = self._newest[event.series] = event
        if len(self._events) > 2 * KEPT:
            self._forget(self._events[:-KEPT])
            del self._events[:-KEPT]
        self._wake()

    def find(self, series: Any, run: int | None = None) -> Event | None:
        """A decision that is in memory: the newest of a series, or that of a run."""
        return self._newest.get(series) if run is None else self._by_run.get((series, run))

    @property
    def first_id(self) -> int:
        """The ID of the oldest decision in memory."""
        return self._events[0].id if self._events else 1

    def stop(self) -> None:
        """End all event streams once they have sent what is published."""
        self.stopped = True
        self._wake()

    async def after(self, last: int, limit: int) -> list[Event]:
        """At most `limit` decisions with an ID above `last`, ascending."""
        if self._events and last + 1 < self._events[0].id:
            older = [event for event in await self._older(last, limit) if event.id <= self.last_id]
            if older:
                return older
        start = bisect_right(self._events, last, key=lambda event: event.id)
        return self._events[start : start + limit]

    async def wait(self, last: int, seconds: float) -> None:
        """Wait for a decision with an ID above `last`, at most so many seconds."""
        if self.last_id > last or self.stopped:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _forget(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._newest.get(event.series) is event:
                del self._newest[event.series]
            if self._by_run.get((event.series, event.run)) is event:  # an ID that was forgotten begins at run 1 again
                del self._by_run[event.series, event.run]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def event_stream(published: Published, last: int, source: str, shape: Format) -> AsyncIterator[bytes]:
    """Server-sent events after the ID `last`; a comment every 15 seconds keeps the connection alive."""
    yield b": sooner\n\n"
    while True:
        events = await published.after(last, _AT_ONCE)
        if events:
            if last and events[0].id > last + 1:
                yield _lost(last + 1, events[0].id - 1)
            last = events[-1].id
            yield b"".join(server_sent(event, source, shape) for event in events)
        elif published.stopped:
            return
        else:
            before = published.last_id
            await published.wait(last, _KEEP_ALIVE)
            if published.last_id == before and not published.stopped:
                yield b": still here\n\n"


def server_sent(event: Event, source: str, shape: Format) -> bytes:
    """One decision as a server-sent event."""
    # JSON contains no line break, so the data is one line.
    return b"event: decision\nid: %d\ndata: %b\n\n" % (event.id, json_bytes(shaped(event, source, shape)))


def shaped(event: Event, source: str, shape: Format) -> dict[str, Any]:
    """The record of a decision, plain or in the envelope of CloudEvents 1.0."""
    record = event.record()
    if shape == "plain":
        return record
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": source,
        "type": "sooner.decision",
        "subject": "" if event.series is None else str(event.series),
        "time": datetime.fromtimestamp(event.arrived, UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": record,
    }


def _lost(first: int, last: int) -> bytes:
    """Says that decisions are no longer kept, which only happens without a journal."""
    return b"event: lost\ndata: %b\n\n" % json_bytes({"first": first, "last": last})
