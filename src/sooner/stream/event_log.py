"""The events of live series: numbered, the newest in memory, older ones in the files of the journal."""

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from sooner.stream.arrivals import UNNAMED
from sooner.stream.events import Event, RecentEvents
from sooner.stream.journal import Journal
from sooner.stream.runs import Verdict

RECENT = 10_000
"""How many events are kept in memory."""
SAVED_AT_ONCE = 256
"""How many events are written to their files at once."""


class EventLog:
    """The events, with the numbers 1, 2, and so on.

    Args:
        journal: in whose files older events are kept.

    Attributes:
        durable_id: the number of the newest event whose observations are on disk, where there is a journal.
    """

    def __init__(self, journal: Journal | None) -> None:
        self.durable_id = 0
        self._files = None if journal is None else journal.decisions
        self._recent = RecentEvents(RECENT)
        self._unsaved: deque[Event] = deque()

    @property
    def last_id(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return self._recent.last_id

    @property
    def first_id(self) -> int:
        """The number of the oldest event that is kept, or of the next one."""
        return self._recent.first_id if self._files is None else min(self._files.first_id, self._recent.first_id)

    @property
    def saves_soon(self) -> bool:
        """Whether it is time to `save`."""
        return len(self._unsaved) >= SAVED_AT_ONCE

    @property
    def is_full(self) -> bool:
        """Whether too many events are only in memory."""
        return len(self._unsaved) > RECENT

    def begin(self, last_id: int) -> None:
        """Go on with the number after this one."""
        self._recent.last_id = last_id

    def begin_after_files(self) -> None:
        """Go on after the newest event of the files, if that is later; all of them are on disk."""
        self.durable_id = self._recent.last_id = max(self.last_id, 0 if self._files is None else self._files.last_id)

    def publish(self, verdicts: Sequence[Verdict], now: float) -> list[Event]:
        """Number these decisions."""
        events = [
            Event(
                number,
                None if key == UNNAMED else key,
                run,
                decision.label,
                decision.time,
                decision.crossed,
                ended,
                margin,
                posterior,
                at,
                now,
            )
            for number, (key, run, decision, ended, margin, posterior, at) in enumerate(verdicts, self.last_id + 1)
        ]
        self._recent.extend(events)
        if self._files is not None:
            self._unsaved += events
        return events

    def after(self, number: int, limit: int) -> list[Event]:
        """The events with larger numbers, the oldest first."""
        if self._files is None or number + 1 >= self._recent.first_id:
            return self._recent.after(number, limit)
        found = list(self._files.after(number, limit))
        return found + self._recent.after(found[-1].id if found else number, limit - len(found))

    def save(self) -> None:
        """Write the events whose observations are on disk to the files."""
        if self._files is None:
            return
        durable = list(takewhile(lambda event: event.id <= self.durable_id, self._unsaved))
        self._files.add(durable)
        for _ in durable:
            self._unsaved.popleft()

    def sync(self) -> None:
        """Put the files on disk."""
        if self._files is not None:
            self._files.sync()
