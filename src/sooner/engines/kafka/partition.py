"""The live series of one partition, and what came of them since the last commit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from sooner.engines.kafka.records import Observation, RecordReader, Refused
from sooner.engines.kafka.state import CommittedStep, Snapshot, Take
from sooner.stream.carried import CarriedSeries
from sooner.stream.decisions import line_of
from sooner.stream.events import Event


class Decided(NamedTuple):
    """A decision as a record of Kafka: the series ID, and the line with its ID."""

    key: bytes
    value: bytes


class PartitionFleet:
    """The live series of one partition of the observations.

    Args:
        topic: of the observations.
        partition: its number.
        live: its series.
        reader: reads its records.
        position: the offset of the next observation.
        snapshot: the number of the snapshot that it begins with, and that its steps follow.

    Attributes:
        start: this snapshot, until it is written.
        snapshot_size: bytes of the newest snapshot.
        snapshot_at: when it was made.
        bytes_since: bytes of the observations since then, which a restart reads again.
        decided: decisions since the last commit.
        refused: records that were refused since then.
    """

    def __init__(
        self, topic: str, partition: int, live: CarriedSeries, reader: RecordReader, position: int, snapshot: int
    ) -> None:
        self.partition, self.position = partition, position
        self.live, self.reader = live, reader
        self.start: Snapshot | None = Snapshot(snapshot, live.state(), position)
        self.snapshot_size, self.snapshot_at, self.bytes_since = len(self.start.content), 0.0, 0
        self.decided: list[Decided] = []
        self.refused: list[Refused] = []
        self._topic, self._snapshot = topic, snapshot
        self._takes: list[Take] = []
        self._steps = 0

    @property
    def changed(self) -> bool:
        """Whether anything was done since the last commit."""
        return bool(self._takes)

    @property
    def behind(self) -> bool:
        """Whether anything was done since the last snapshot."""
        return bool(self._steps or self._takes)

    def take(self, records: Sequence[Observation], now: float) -> int:
        """Process the next records; those before the position were processed already. Returns how many were new."""
        if records[0].offset < self.position:
            records = [record for record in records if record.offset >= self.position]
        if records:
            self.advance(records, records[-1].offset + 1, now)
        return len(records)

    def advance(self, records: Sequence[Observation], to: int, now: float) -> None:
        """Process the records before an offset; none, for the end of silent series."""
        self.bytes_since += sum([len(record.value) for record in records if record.value])
        without = self.reader.without_id(records)
        if without:
            self.refused += without
            offsets = {refused.record.offset for refused in without}
            records = [record for record in records if record.offset not in offsets]
        if not records:
            self._publish(self.live.tick(now))
        # Once the first line is read, many are read at once.
        for some in (records[:1], records[1:]) if self.reader.lines == 0 else (records,):
            if some:
                self._process(some, now)
        self.position = to
        self._takes.append(Take(to, now))

    def _process(self, records: Sequence[Observation], now: float) -> None:
        first = self.reader.lines + 1
        outcome = self.live.take(self.reader.read(records), now)
        self.refused += [Refused.of(records[each.line - first], each) for each in outcome.rejected]
        self._publish(outcome.events)

    def tick(self, now: float) -> None:
        """End the series whose silence or deadline in seconds is over."""
        due = self.live.next_tick()
        if due is not None and due <= now:
            self.advance([], self.position, now)

    def step(self) -> CommittedStep:
        """What was done since the last commit."""
        return CommittedStep(self._snapshot, self._steps, tuple(self._takes), self.live.last_id)

    def next_snapshot(self) -> Snapshot:
        """A snapshot of the state as it is now."""
        return Snapshot(self._snapshot + 1, self.live.state(), self.position)

    def committed(self, snapshot: Snapshot | None, now: float) -> None:
        """Begin the next step, after this one was committed, with a snapshot or without."""
        self.start = None
        self._steps += bool(self._takes)
        self._takes, self.decided, self.refused = [], [], []
        if snapshot is not None:
            self._snapshot, self._steps, self.bytes_since = snapshot.number, 0, 0
            self.snapshot_size, self.snapshot_at = len(snapshot.content), now

    def _publish(self, events: Sequence[Event]) -> None:
        for event in events:
            record = line_of(event, self.reader.series)
            record["id"] = f"{self._topic}-{self.partition}-{event.id}"
            self.decided.append(Decided(str(event.series).encode(), orjson.dumps(record, default=_plain)))


def _plain(value: Any) -> Any:
    """A class name of NumPy as a JSON type; others as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
