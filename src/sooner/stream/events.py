"""Decisions of live series as events: numbered, with what they rest on."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from sooner.stream.arrivals import Rejection
from sooner.stream.fleet import Key

Ended: TypeAlias = Literal["rule", "deadline", "end", "idle", "close"]


class Event(NamedTuple):
    """A decision.

    Attributes:
        id: 1, 2, ...; the same after a replay of the journal, so that a consumer can drop duplicates.
        series: the series ID; None where lines have none.
        run: the number of the series under that ID, from 1.
        label: the name of the class; None, or a tuple of labels, as in `Decision`.
        time: how many observations were read.
        crossed: whether the rule fired.
        ended: what led to the decision: the rule, a deadline, the end of the series, its silence, or the end of all series.
        margin: the largest minus the second largest score, at the decision.
        posterior: the probability of the named class, or of the leading one where none is named.
        at: the time of the last observation, as it was written; None if it had none.
        arrived: when the decision was made, in seconds of the clock that `take` and `tick` were given.
    """

    id: int
    series: Key | None
    run: int
    label: Any
    time: int
    crossed: bool
    ended: Ended
    margin: float
    posterior: float | None
    at: Any
    arrived: float

    def record(self) -> dict[str, Any]:
        """The fields, as JSON types."""
        fields = self._asdict()
        if isinstance(self.label, tuple):
            fields["label"] = list(self.label)
        return fields

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Event":
        """From what `record` gave, also through JSON."""
        label = record["label"]
        return cls(**{**record, "label": tuple(label) if isinstance(label, list) else label})


class Outcome(NamedTuple):
    """The result of some arrivals.

    Attributes:
        accepted: how many observations and ends were processed.
        rejected: those that were refused.
        events: the decisions.
        position: the position in the journal; what was accepted is on disk once `journal.durable` has reached it. 0 without one.
        late: how many observations came after the decision of their series, and were ignored.
        late_lines: their line numbers, if they were read from lines.
    """

    accepted: int
    rejected: list[Rejection]
    events: list[Event]
    position: int = 0
    late: int = 0
    late_lines: Sequence[int] = ()


class RecentEvents:
    """The newest events, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self.last_id = 0

    @property
    def first_id(self) -> int:
        """The ID of the oldest event that is kept, or the next one."""
        return self.last_id - len(self._events) + 1

    def extend(self, events: list[Event]) -> None:
        """Add the next events."""
        if events:
            self._events.extend(events)
            self.last_id = events[-1].id

    def after(self, number: int, limit: int) -> list[Event]:
        """The events with larger IDs, the oldest first."""
        start = max(number - self.first_id + 1, 0)
        return list(islice(self._events, start, start + limit))
