"""The fleet of a partition as it was at the last commit: the newest snapshot, and the observations since then once more."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from sooner.engines.kafka.client import WAIT, KafkaFailed, new_consumer, refuse_other_partitions, reported
from sooner.engines.kafka.partition import PartitionFleet
from sooner.engines.kafka.records import Observation, RecordReader, observation_of
from sooner.engines.kafka.settings import KafkaSettings
from sooner.engines.kafka.state import SavedPartition, saved_in
from sooner.errors import InvalidArgument, short_reason
from sooner.rules.described import rule_described
from sooner.stream.carried import CarriedSeries
from sooner.stream.journal.state import unpacked_state
from sooner.stream.lines import Fields
from sooner.stream.settings import LiveSettings
from sooner.stream.sources import Streamable

_SETTLED = 45.0
"""Seconds for a broker to end the transaction of a process that has died."""
_AT_ONCE = 10_000


@dataclass(frozen=True)
class Job:
    """What the fleets of all partitions have in common.

    Args:
        source: the classifier.
        live: when series end.
        fields: the names of the fields of an observation.
        kafka: topics and group.
        partitions: of the topic of the observations.
    """

    source: Streamable
    live: LiveSettings
    fields: Fields
    kafka: KafkaSettings
    partitions: int


class Restorer:
    """Restores the fleets of partitions.

    Args:
        job: what they have in common.
        again: whether what their last commit wrote must be written again.
    """

    def __init__(self, job: Job, *, again: bool) -> None:
        self._job, self._again = job, again
        self._reader = new_consumer(job.kafka, group=f"{job.kafka.group}.restore")

    def close(self) -> None:
        """End the connection."""
        self._reader.close()

    def fleet(self, partition: int, consumer: Consumer) -> PartitionFleet:
        """The fleet of a partition that was assigned to a consumer."""
        kafka = self._job.kafka
        if partition >= self._job.partitions:
            refuse_other_partitions(partition + 1, self._job.partitions)
        with reported(kafka):
            committed = consumer.committed([TopicPartition(kafka.topic, partition)], WAIT)[0].offset
            saved = self._saved(partition, committed)
            if saved is not None:
                return self._continued(saved, partition)
            if committed != OFFSET_INVALID:
                got = f"offset {committed} without a state"
                remedy = (
                    f"Its state was in the topic {kafka.state}. Reset the offsets of the group, or use another --group."
                )
                raise InvalidArgument(
                    "group", f"one whose offset in partition {partition} is that of its state", got, remedy
                )
            first, _ = self._reader.get_watermark_offsets(TopicPartition(kafka.topic, partition), WAIT)
        now = time.time()
        live = CarriedSeries(self._job.source, self._job.live, now=now)
        return PartitionFleet(kafka.topic, partition, live, RecordReader(self._job.fields), first, 1)

    def _saved(self, partition: int, committed: int) -> SavedPartition | None:
        """The state that the group has committed; the end of its last transaction may still be on its way."""
        kafka, end = self._job.kafka, time.monotonic() + _SETTLED
        while True:
            records: dict[bytes, bytes] = {}
            for record in self._records(TopicPartition(kafka.state, partition, OFFSET_BEGINNING), None):
                records[record.key() or b""] = record.value() or b""
            saved = saved_in(records, kafka.state)
            position = OFFSET_INVALID if saved is None else saved.position
            if saved is not None and (committed == OFFSET_INVALID or position == committed or self._again):
                refuse_other_partitions(self._job.partitions, saved.head.partitions)
                return saved
            if saved is None and (committed == OFFSET_INVALID or time.monotonic() > end):
                return None
            if time.monotonic() > end:
                remedy = "The offsets of the group were changed beside sooner. Put them back, or use another --group."
                raise InvalidArgument("group", f"at offset {position} of partition {partition}", f"{committed}", remedy)
            time.sleep(0.2)

    def _continued(self, saved: SavedPartition, partition: int) -> PartitionFleet:
        """The fleet at the position of a state."""
        job, before = self._job, self._repeated_fleet(saved, partition)
        now = time.time()
        live = self._carried(before.live.state(), job.live)
        live.silent_since(now)
        fleet = PartitionFleet(
            job.kafka.topic, partition, live, before.reader, before.position, saved.head.snapshot + 1
        )
        if self._again:
            fleet.decided, fleet.refused = before.decided, before.refused
        return fleet

    def _repeated_fleet(self, saved: SavedPartition, partition: int) -> PartitionFleet:
        """The fleet of a snapshot, after its steps were done again, with the rule and the settings that they had."""
        head, topic, state = saved.head, self._job.kafka.topic, unpacked_state(saved.snapshot)
        live = self._carried(saved.snapshot, state.settings)
        live.set_rule(rule_described(state.newest.rule), state.now)
        fleet = PartitionFleet(topic, partition, live, RecordReader(self._job.fields), head.offset, head.snapshot)
        if saved.position > head.offset:
            self._refuse_gone(partition, head.offset)
        records = self._observations(partition, head.offset, saved.position)
        ahead = next(records, None)
        for step in saved.steps:
            fleet.decided, fleet.refused = [], []
            for take in step.takes:
                taken = []
                while ahead is not None and ahead.offset < take.to:
                    taken.append(ahead)
                    ahead = next(records, None)
                fleet.advance(taken, take.to, take.now)
        return fleet

    def _carried(self, state: bytes, settings: LiveSettings) -> CarriedSeries:
        try:
            return CarriedSeries(self._job.source, settings, state)
        except InvalidArgument as error:
            got, remedy = (
                f"another one ({short_reason(error)})",
                "Use these again, or another --group, which begins anew.",
            )
            raise InvalidArgument("group", "one whose state is of this model and these options", got, remedy) from None

    def _refuse_gone(self, partition: int, offset: int) -> None:
        """Refuse a topic that does not hold the observations since the snapshot any more."""
        first, _ = self._reader.get_watermark_offsets(TopicPartition(self._job.kafka.topic, partition), WAIT)
        if first > offset:
            expected = f"with the observations of partition {partition} from offset {offset} on, which its state needs"
            remedy = "They were deleted. Use another --group, and a retention of some hours at least."
            raise InvalidArgument("topic", expected, f"those from {first} on", remedy)

    def _observations(self, partition: int, start: int, end: int) -> Iterator[Observation]:
        """The observations from one offset up to another."""
        if end > start:
            for record in self._records(TopicPartition(self._job.kafka.topic, partition, start), end):
                yield observation_of(record)

    def _records(self, start: TopicPartition, end: int | None) -> Iterator[Message]:
        """The records of a partition up to an offset, or up to its end."""
        self._reader.assign([start])
        until = time.monotonic() + 2 * WAIT
        try:
            while True:
                for record in self._reader.consume(_AT_ONCE, 0.5):
                    until, error = time.monotonic() + 2 * WAIT, record.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    if error is not None or (end is not None and (record.offset() or 0) >= end):
                        return
                    yield record
                if time.monotonic() > until:
                    raise KafkaFailed(self._job.kafka.brokers, f"{start.topic} cannot be read")
        finally:
            self._reader.unassign()
