"""The loop of one process of the group: read, decide, commit; give partitions away and take them over."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sooner.engines.kafka.client import failed, new_consumer, reported
from sooner.engines.kafka.delivery import Withdrawn, Writer
from sooner.engines.kafka.partition import PartitionFleet
from sooner.engines.kafka.records import Observation, observation_of
from sooner.engines.kafka.restore import Job, Restorer
from sooner.engines.kafka.state import Record, Snapshot
from sooner.errors import SoonerError

_AT_ONCE = 5_000
_SOON = 0.05
_SHARE = 4  # so that the cost of large snapshots is a part of that of the observations
_PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
)
"""Errors after which the client goes on by itself."""


class Worker:
    """One process of a group: a fleet for each partition that it was given.

    Args:
        job: what the fleets have in common.
        writer: writes decisions, the state and the offsets.

    Attributes:
        refused: how many records were refused, by kind.
        observations: how many records were read.
        decisions: how many decisions were committed.
    """

    def __init__(self, job: Job, writer: Writer) -> None:
        self._job, self._writer = job, writer
        self._kafka = job.kafka
        self._fleets: dict[int, PartitionFleet] = {}
        self._restorer = Restorer(job, again=writer.again)
        self._consumer = new_consumer(job.kafka)
        self._error: SoonerError | None = None
        self._withdrawn = False  # whether a commit in a callback was
        self._commit_at = 0.0
        self.refused: Counter[str] = Counter()
        self.observations = self.decisions = 0
        self._consumer.subscribe(
            [self._kafka.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._fleets.clear()  # what was not committed is not handed over
        self._consumer.close()  # revokes the partitions, which hands them over
        self._restorer.close()
        self._writer.close()
        if error is None:
            self._raise()

    def turn(self) -> None:
        """Process what has come, or what is due; commit if it is time."""
        records = self._consumer.consume(_AT_ONCE, self._patience())
        self._raise()
        try:
            if self._withdrawn:
                raise Withdrawn
            self._take(records)
            now = time.time()
            for fleet in self._fleets.values():
                fleet.tick(now)
            if time.monotonic() >= self._commit_at:
                self.commit()
        except Withdrawn:
            self._begin_again()

    def commit(self) -> None:
        """Commit what was done in all partitions."""
        self._commit_at = time.monotonic() + self._kafka.commit_seconds
        self._commit([fleet for fleet in self._fleets.values() if fleet.changed], ())

    def _take(self, records: Sequence[Message]) -> None:
        """Let each fleet process its records."""
        shares: dict[int, list[Observation]] = {}
        for record in records:
            if (error := record.error()) is not None:
                if error.code() not in _PASSING:
                    raise failed(self._kafka, KafkaException(error))
                continue
            shares.setdefault(record.partition() or 0, []).append(observation_of(record))
        now = time.time()
        for partition, share in shares.items():
            if (fleet := self._fleets.get(partition)) is not None:  # it was not given away in the meantime
                self.observations += fleet.take(share, now)

    def _patience(self) -> float:
        """Seconds to wait for many records: until a commit or the end of a series is due, but not long."""
        due = [tick for fleet in self._fleets.values() if (tick := fleet.live.next_tick()) is not None]
        wait = min([_SOON, self._commit_at - time.monotonic(), *(tick - time.time() for tick in due)])
        return max(wait, 0.0) if any(fleet.changed for fleet in self._fleets.values()) or due else _SOON

    def _commit(self, changed: Sequence[PartitionFleet], leaving: Sequence[PartitionFleet]) -> None:
        """Commit some fleets; those that leave write a snapshot for the process that goes on with them."""
        if not changed and not leaving:
            return
        now = time.monotonic()
        self._writer.begin()
        for fleet in changed:
            if fleet.start is not None:
                self._write_snapshot(fleet, fleet.start)
        self._writer.barrier()
        for fleet in changed:
            self._write_state(fleet, [fleet.step().record()])
        self._writer.barrier()
        for fleet in changed:
            self._write_results(fleet)
        self._writer.barrier()
        snapshots = {}
        for fleet in [*leaving, *(fleet for fleet in changed if fleet not in leaving and self._due(fleet, now))]:
            snapshots[fleet.partition] = fleet.next_snapshot()
            self._write_snapshot(fleet, snapshots[fleet.partition])
        together = {fleet.partition: fleet for fleet in [*changed, *leaving]}.values()
        offsets = [TopicPartition(self._kafka.topic, fleet.partition, fleet.position) for fleet in together]
        self._writer.commit(offsets, self._consumer)
        for fleet in together:
            self._count(fleet)
            fleet.committed(snapshots.get(fleet.partition), now)

    def _due(self, fleet: PartitionFleet, now: float) -> bool:
        """Whether it is time for a snapshot: there is much to read again, also beside the snapshot, or it is old."""
        much = max(self._kafka.snapshot_bytes, _SHARE * fleet.snapshot_size)
        return fleet.bytes_since >= much or now - fleet.snapshot_at >= self._kafka.snapshot_seconds

    def _write_snapshot(self, fleet: PartitionFleet, snapshot: Snapshot) -> None:
        self._write_state(fleet, snapshot.records(self._job.partitions, self._kafka.chunk_bytes))

    def _write_state(self, fleet: PartitionFleet, records: Iterable[Record]) -> None:
        for key, value in records:
            self._writer.write(self._kafka.state, key, value, partition=fleet.partition)

    def _write_results(self, fleet: PartitionFleet) -> None:
        """Write the decisions of a fleet, and the records that it refused."""
        for key, value in fleet.decided:
            self._writer.write(self._kafka.to, key, value)
        for record, reason, kind in fleet.refused:
            about = {"reason": reason, "kind": kind, "topic": self._kafka.topic}
            about |= {"partition": str(fleet.partition), "offset": str(record.offset)}
            headers: list[tuple[str, str | bytes | None]] = [(name, text.encode()) for name, text in about.items()]
            self._writer.write(self._kafka.dead_letters, record.key, record.value, headers=headers)

    def _count(self, fleet: PartitionFleet) -> None:
        self.decisions += len(fleet.decided)
        self.refused.update(refused.kind for refused in fleet.refused)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Restore the fleets of new partitions, and read on where they stopped."""
        with self._kept():
            for each in partitions:
                each.offset = self._restore(each.partition)
            consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit everything, and leave snapshots of the fleets that go elsewhere."""
        with self._kept():
            leaving = [self._fleets[each.partition] for each in partitions if each.partition in self._fleets]
            try:
                changed = [fleet for fleet in self._fleets.values() if fleet.changed]
                self._commit(changed, [fleet for fleet in leaving if fleet.behind])
            except Withdrawn:
                self._withdrawn = True
            self._drop(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop fleets that another process has already."""
        with self._kept():
            self._drop(consumer, partitions)

    def _drop(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._fleets.pop(each.partition, None)
        consumer.incremental_unassign(partitions)

    def _restore(self, partition: int) -> int:
        """Restore the fleet of a partition; returns the offset of its next observation."""
        fleet = self._restorer.fleet(partition, self._consumer)
        if fleet.decided or fleet.refused:
            self._write_results(fleet)
            self._writer.barrier()
            fleet.decided, fleet.refused = [], []
        fleet.snapshot_at = time.monotonic()
        self._fleets[partition] = fleet
        return fleet.position

    def _begin_again(self) -> None:
        """Go back to what is committed, in all partitions that are still ours."""
        self._withdrawn = False
        for partition in list(self._fleets):
            del self._fleets[partition]
            with reported(self._kafka):
                self._consumer.seek(TopicPartition(self._kafka.topic, partition, self._restore(partition)))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep an error of a callback for the loop, because the client would print it."""
        try:
            yield
        except (SoonerError, KafkaException) as error:
            self._error = error if isinstance(error, SoonerError) else failed(self._kafka, error)

    def _raise(self) -> None:
        """Raise the error of a callback."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
