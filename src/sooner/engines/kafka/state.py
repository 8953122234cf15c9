"""The records of the state topic: snapshots in chunks, and the steps since then.

Partition p of the state topic is that of partition p of the observations. Its keys are few, so that compaction bounds it:

    head                  JSON: number of the newest snapshot, its chunks, its digest, the offset of the next observation
    chunk/S/I             bytes; S is 0 or 1 in turn, so that a snapshot stays whole until the head names the next one
    step/K                JSON: what was done in commit K after the newest snapshot

A step holds no observations: it says up to which offset they were taken, and when. They are read again in a restart.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sooner.container import digest
from sooner.errors import InvalidArgument

HEAD = b"head"
Record = tuple[bytes, bytes]
"""Key and value."""


class Take(NamedTuple):
    """The observations before this offset were taken at this time; none, if it is that of the take before."""

    to: int
    now: float


@dataclass(frozen=True)
class CommittedStep:
    """What was done in one commit.

    Args:
        snapshot: number of the snapshot that it follows.
        number: of the step after the snapshot, from 0.
        takes: in their order.
        last_event: number of the newest decision after them.
    """

    snapshot: int
    number: int
    takes: tuple[Take, ...]
    last_event: int

    def record(self) -> Record:
        """The record of the state topic."""
        return f"step/{self.number}".encode(), _json(asdict(self))

    @classmethod
    def of(cls, value: bytes) -> "CommittedStep":
        """From the value of a record."""
        fields = json.loads(value)
        return cls(**{**fields, "takes": tuple(Take(*take) for take in fields["takes"])})


@dataclass(frozen=True)
class Head:
    """The newest snapshot.

    Args:
        snapshot: its number, from 1.
        chunks: how many records hold it.
        digest: of its bytes.
        offset: of the first observation that is not in it.
        partitions: of the topic of the observations.
    """

    snapshot: int
    chunks: int
    digest: str
    offset: int
    partitions: int


@dataclass(frozen=True)
class SavedPartition:
    """The state of a partition: a snapshot, and the steps since then."""

    head: Head
    snapshot: bytes
    steps: tuple[CommittedStep, ...]

    @property
    def position(self) -> int:
        """The offset of the first observation that was not taken."""
        return self.steps[-1].takes[-1].to if self.steps else self.head.offset


class Snapshot(NamedTuple):
    """A snapshot: its number, its bytes, and the offset of the first observation that is not in it."""

    number: int
    content: bytes
    offset: int

    def records(self, partitions: int, chunk_bytes: int) -> Iterator[Record]:
        """The records of the state topic; the last one makes it the newest."""
        starts = range(0, len(self.content), chunk_bytes)
        for index, start in enumerate(starts):
            yield _chunk_key(self.number, index), self.content[start : start + chunk_bytes]
        yield HEAD, _json(asdict(Head(self.number, len(starts), digest([self.content]), self.offset, partitions)))


def saved_in(records: Mapping[bytes, bytes], topic: str) -> SavedPartition | None:
    """The state in the newest record of each key; None if there is none."""
    if HEAD not in records:
        return None
    try:
        head = Head(**json.loads(records[HEAD]))
        snapshot = b"".join(records[_chunk_key(head.snapshot, index)] for index in range(head.chunks))
        whole = digest([snapshot]) == head.digest
    except (ValueError, TypeError, KeyError):
        whole = False
    if not whole:
        remedy = "Its newest snapshot is not whole. Check that it is compacted, not deleted, or use another --group."
        raise InvalidArgument("state", "the topic of the state of this group", topic, remedy)
    steps: list[CommittedStep] = []
    while (value := records.get(f"step/{len(steps)}".encode())) is not None:
        step = CommittedStep.of(value)
        if step.snapshot != head.snapshot:
            break
        steps.append(step)
    return SavedPartition(head, snapshot, tuple(steps))


def _chunk_key(number: int, index: int) -> bytes:
    return f"chunk/{number % 2}/{index}".encode()


def _json(fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
