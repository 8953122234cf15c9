"""What is read from Kafka, what is written to it, and by which group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from sooner.errors import InvalidArgument, UnreadableFile, refuse_unknown
from sooner.inputs import as_whole
from sooner.stream.settings import seconds_of

Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]

_OURS = (
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "partition.assignment.strategy",
    "transactional.id",
)
_CONSUMER = (
    "auto.offset.",
    "check.crcs",
    "client.rack",
    "fetch.",
    "group.",
    "heartbeat.",
    "max.poll.",
    "queued.",
    "session.",
)
_PRODUCER = ("acks", "batch.", "compression.", "delivery.", "linger.", "queue.buffering.", "retries", "transaction.")


@dataclass(frozen=True)
class KafkaSettings:
    """The topics, the group, and how decisions are delivered.

    Args:
        brokers: addresses, host:port, separated by commas.
        topic: of the observations; the key of a record is the series ID.
        to: topic of the decisions.
        group: consumer group; its processes share the partitions of the topic.
        dead_letters: topic of the records that were refused; by default the topic with `.refused` after it.
        state: compacted topic of the state; by default the group and the topic with `.state` after it.
        delivery: "exactly-once" takes a broker with transactions; without them it becomes "at-least-once".
        commit_seconds: after so long, decisions are committed, and then visible to readers of committed records.
        snapshot_bytes: bytes of observations after which a snapshot is due; a restart reads at most about so many again.
        snapshot_seconds: a snapshot is also due after so long. It must be less than the retention of the topic.
        chunk_bytes: a snapshot is divided into records of this size.
        properties: further properties of librdkafka, for example for TLS.

    >>> KafkaSettings("localhost:9092", "observations", "decisions", "pumps").state
    'pumps.observations.state'
    """

    brokers: str
    topic: str
    to: str
    group: str
    dead_letters: str = ""
    state: str = ""
    delivery: Delivery = "exactly-once"
    commit_seconds: float = 0.2
    snapshot_bytes: int = 16 << 20
    snapshot_seconds: float = 600.0
    chunk_bytes: int = 500_000
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("brokers", "topic", "to", "group"):
            if not getattr(self, name).strip():
                raise InvalidArgument(name, "a name", repr(getattr(self, name)), "It must not be empty.")
        object.__setattr__(self, "dead_letters", self.dead_letters or f"{self.topic}.refused")
        object.__setattr__(self, "state", self.state or f"{self.group}.{self.topic}.state")
        refuse_unknown("delivery", self.delivery, ("exactly-once", "at-least-once"))
        for name in ("commit_seconds", "snapshot_seconds"):
            object.__setattr__(self, name, seconds_of(getattr(self, name), name=name))
        for name in ("snapshot_bytes", "chunk_bytes"):
            as_whole(getattr(self, name), name=name, low=1, remedy="It is a number of bytes.")
        self._refuse_same_topics()
        for name in self.properties:
            if name in _OURS:
                remedy = "Delivery rests on it, so that sooner sets it."
                raise InvalidArgument("kafka_config", "of other properties", name, remedy)

    def of_consumer(self) -> dict[str, str]:
        """The further properties that a consumer has."""
        return {name: value for name, value in self.properties.items() if not name.startswith(_PRODUCER)}

    def of_producer(self) -> dict[str, str]:
        """The further properties that a producer has."""
        return {name: value for name, value in self.properties.items() if not name.startswith(_CONSUMER)}

    def of_admin(self) -> dict[str, str]:
        """The further properties that both have."""
        return {name: value for name, value in self.of_producer().items() if not name.startswith(_PRODUCER)}

    def _refuse_same_topics(self) -> None:
        topics = {"topic": self.topic, "to": self.to, "dead_letters": self.dead_letters, "state": self.state}
        for name, topic in topics.items():
            others = [other for other in topics if other != name and topics[other] == topic]
            if others:
                remedy = f"`{others[0]}` has the same name: sooner would read what it writes."
                raise InvalidArgument(name, "a topic of its own", repr(topic), remedy)


def read_properties(path: Path) -> dict[str, str]:
    """The properties in a file: one `name=value` in each line, as kcat reads them."""
    properties = {}
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(str(path), "a file of properties", str(error)) from None
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("=")
        if line.strip() and not line.lstrip().startswith("#"):
            if not equals or not name.strip():
                # The value may be a secret: it is not shown.
                raise UnreadableFile(str(path), "a file of lines `name=value`", f"another one in line {number}")
            properties[name.strip()] = value.strip()
    return properties
