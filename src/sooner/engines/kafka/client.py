"""Clients of Kafka with what delivery rests on, and its errors as sentences."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sooner.engines.kafka.settings import KafkaSettings
from sooner.errors import InvalidArgument, SoonerError, short_reason

WAIT = 15.0
"""Seconds that a broker has for an answer."""
_LOG = logging.getLogger("sooner.kafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False
C = TypeVar("C")
_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "600000"}


class KafkaFailed(SoonerError, ConnectionError):
    """Kafka does not answer, or refuses what was asked.

    >>> print(KafkaFailed("localhost:9092", "Connection refused"))
    Kafka at localhost:9092 failed: Connection refused. Check the address, the firewall and the rights of this client.
    """

    def __init__(self, brokers: str, reason: str) -> None:
        remedy = "Check the address, the firewall and the rights of this client."
        super().__init__(f"Kafka at {brokers} failed: {reason.rstrip('.')}. {remedy}")


def new_consumer(settings: KafkaSettings, *, group: str | None = None) -> Consumer:
    """A consumer of committed records, of the group or (for reading the state) of none that commits."""
    properties = {
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "10000",
        **settings.of_consumer(),
        "bootstrap.servers": settings.brokers,
        "group.id": group or settings.group,
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "enable.partition.eof": "false" if group is None else "true",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    return _made(Consumer, properties)


def new_producer(settings: KafkaSettings, transactional_id: str | None) -> Producer:
    """A producer; with an ID, of transactions, which a broker ends if their process is dead for the session timeout."""
    # An open transaction hides what follows it from readers, so that it must not outlive the session of its consumer by much.
    transactions = {"transactional.id": transactional_id, "transaction.timeout.ms": "10000"}
    properties = {
        "linger.ms": "5",
        "acks": "all",
        **({} if transactional_id is None else transactions),
        **settings.of_producer(),
        "bootstrap.servers": settings.brokers,
    }
    return _made(Producer, properties)


def checked_topics(settings: KafkaSettings) -> int:
    """The number of partitions of the observations, with all topics there; the topics that sooner alone uses are created."""
    admin = _made(AdminClient, {**settings.of_admin(), "bootstrap.servers": settings.brokers})
    topics = _topics(admin, settings)
    for name, topic in (("topic", settings.topic), ("to", settings.to)):
        if topic not in topics:
            remedy = "Create it first, or check the name."
            raise InvalidArgument(name, "a topic of these brokers", repr(topic), remedy)
    partitions = len(topics[settings.topic].partitions)
    replicas = max(len(each.replicas) for each in topics[settings.topic].partitions.values())
    missing = [
        NewTopic(settings.state, partitions, replicas, config=_COMPACTED),
        NewTopic(settings.dead_letters, 1, replicas),
    ]
    missing = [new for new in missing if new.topic not in topics]
    if missing:
        _create(admin, missing, settings.state)
        topics = _topics(admin, settings)
    state = topics.get(settings.state)
    refuse_other_partitions(partitions, len(state.partitions) if state else partitions)
    return partitions


def refuse_other_partitions(now: int, before: int) -> None:
    """Refuse a topic whose number of partitions has changed, because series IDs are in other partitions then."""
    if now != before:
        remedy = (
            "Series IDs are in other partitions now, apart from their open series. Use a new topic, or, if no series is open, "
            "another --group."
        )
        raise InvalidArgument("topic", f"of {before} partitions, as the state of this group", f"{now}", remedy)


@contextmanager
def reported(settings: KafkaSettings) -> Iterator[None]:
    """Turn errors of the client into sentences."""
    try:
        yield
    except KafkaException as error:
        raise failed(settings, error) from None


def failed(settings: KafkaSettings, error: KafkaException) -> KafkaFailed:
    """The sentence of an error of the client."""
    return KafkaFailed(settings.brokers, short_reason(Exception(reason_of(error).str())))


def reason_of(error: KafkaException) -> KafkaError:
    """The error of Kafka in an exception."""
    reason: KafkaError = error.args[0]
    return reason


def _made(client: Callable[..., C], properties: Mapping[str, Any]) -> C:
    try:
        # Its errors come as exceptions where they matter; its log would be beside them on standard error.
        return client({**properties, "error_cb": _ignored, "log_level": "3"}, logger=_LOG)
    except KafkaException as error:
        remedy = "See the configuration properties of librdkafka."
        raise InvalidArgument("kafka_config", "of known properties", reason_of(error).str(), remedy) from None


def _ignored(error: KafkaError) -> None:
    """Leave an error to the call that it fails."""
    _LOG.info("%s", error)


def _topics(admin: AdminClient, settings: KafkaSettings) -> dict[str, Any]:
    with reported(settings):
        topics: dict[str, Any] = admin.list_topics(timeout=WAIT).topics
    return topics


def _create(admin: AdminClient, topics: list[NewTopic], state: str) -> None:
    for topic, done in admin.create_topics(topics, operation_timeout=WAIT).items():
        try:
            done.result(timeout=WAIT)
        except KafkaException as error:
            if reason_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another process of the group was faster
                name = "state" if topic == state else "dead_letters"
                reason, remedy = short_reason(Exception(reason_of(error).str())), "Create it, the state compacted."
                raise InvalidArgument(
                    name, "a topic that exists or may be created", f"{topic} ({reason})", remedy
                ) from None
