"""How what was written reaches its readers: in one transaction with the offsets, or in an order that loses nothing."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sooner.engines.kafka.client import WAIT, KafkaFailed, failed, new_producer, reason_of
from sooner.engines.kafka.settings import KafkaSettings

_NO_TRANSACTIONS = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION, KafkaError._NOT_IMPLEMENTED)
_PATIENCE = 60.0
WITHOUT = (
    "This broker has no transactions: decisions are delivered at least once. After a crash some come again, with the same `id`, "
    "so that readers can drop them."
)


class Withdrawn(Exception):
    """What was to be committed was not, and is undone: the partitions must begin again from what is committed."""


class Writer(ABC):
    """Writes records, and commits them with the offsets.

    Args:
        producer: for its kind of delivery.
        settings: for its errors.
    """

    again: bool
    """Whether what the last commit wrote may have to be written again after a crash."""

    def __init__(self, producer: Producer, settings: KafkaSettings) -> None:
        self._producer, self._settings = producer, settings
        self._refused: KafkaError | None = None

    @abstractmethod
    def begin(self) -> None:
        """Begin what the next `commit` ends."""

    @abstractmethod
    def barrier(self) -> None:
        """What follows is written only after what was written before."""

    @abstractmethod
    def commit(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        """End it, with the offsets of the next observations; raises `Withdrawn` if nothing of it is valid."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = -1,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """Write a record."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=self._report, headers=headers)
            except BufferError:  # the queue is full
                self._producer.poll(0.1)
            except KafkaException as error:
                self._give_up(error)
            else:
                return

    def close(self) -> None:
        """Let go of what was not committed."""
        self._producer.purge()

    def _report(self, error: KafkaError | None, record: Any) -> None:
        del record
        if error is not None and self._refused is None:
            self._refused = error

    def _flush(self) -> None:
        """Wait until everything is written."""
        end = time.monotonic() + _PATIENCE
        while self._producer.flush(1.0) and time.monotonic() < end and self._refused is None:
            pass
        refused, self._refused = self._refused, None
        if refused is not None:
            self._give_up(KafkaException(refused))
        if len(self._producer):
            raise KafkaFailed(self._settings.brokers, f"{len(self._producer):,} records could not be written")

    @abstractmethod
    def _give_up(self, error: KafkaException) -> None:
        """Raise the error of a record that cannot be written."""


class ExactlyOnce(Writer):
    """In one transaction. The broker refuses it from a process that the group has left behind."""

    again = False

    def begin(self) -> None:
        """Begin a transaction."""
        self._attempt(self._producer.begin_transaction)

    def barrier(self) -> None:
        """Nothing: all of it becomes valid at once."""

    def commit(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        """Commit the transaction."""
        self._attempt(
            lambda: self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT)
        )
        self._attempt(lambda: self._producer.commit_transaction(WAIT))
        self._refused = None

    def abort(self) -> None:
        """Undo what was written since `begin`."""
        self._refused = None
        try:
            with_patience(lambda: self._producer.abort_transaction(WAIT), self._settings)
        except KafkaException as error:
            raise failed(self._settings, error) from None

    def _attempt(self, call: Callable[[], Any]) -> None:
        try:
            with_patience(call, self._settings)
        except KafkaException as error:
            self._give_up(error)

    def _give_up(self, error: KafkaException) -> None:
        if reason_of(error).fatal():
            raise failed(self._settings, error) from None
        self.abort()
        raise Withdrawn from None


class AtLeastOnce(Writer):
    """In order: what was asked, the decisions, snapshots, offsets. A crash between them repeats some decisions."""

    again = True

    def begin(self) -> None:
        """Nothing."""

    def barrier(self) -> None:
        """Wait until everything is written."""
        self._flush()

    def commit(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        """Commit the offsets."""
        self._flush()
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if reason_of(error).code() in _LEFT_BEHIND:
                raise Withdrawn from None
            raise failed(self._settings, error) from None

    def _give_up(self, error: KafkaException) -> None:
        raise failed(self._settings, error) from None


_LEFT_BEHIND = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)


def new_writer(settings: KafkaSettings, tell: Callable[[str], None]) -> Writer:
    """A writer of the delivery that was asked for, if the broker can do it; otherwise it is said that it cannot."""
    if settings.delivery == "at-least-once":
        return AtLeastOnce(new_producer(settings, None), settings)
    producer = new_producer(settings, f"{settings.group}-{uuid.uuid4()}")
    try:
        with_patience(lambda: producer.init_transactions(WAIT), settings)
    except KafkaException as error:
        if reason_of(error).code() not in _NO_TRANSACTIONS:
            raise failed(settings, error) from None
        tell(WITHOUT)
        return AtLeastOnce(new_producer(settings, None), settings)
    return ExactlyOnce(producer, settings)


def with_patience(call: Callable[[], Any], settings: KafkaSettings) -> None:
    """Call again as long as the error says that this may help, but not for ever."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            call()
        except KafkaException as error:
            if not reason_of(error).retriable():
                raise
            if time.monotonic() > end:
                raise failed(settings, error) from None
        else:
            return
