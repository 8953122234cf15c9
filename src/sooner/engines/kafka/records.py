"""Records of Kafka as arrivals: the key is the series ID, the value a line of `sooner stream`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import Message

from sooner.stream.arrivals import Arrival, RefusedLine, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.lines import Fields, JsonLines

_MOST_KEYS = 200_000


class Observation(NamedTuple):
    """A record of the topic of the observations."""

    offset: int
    key: bytes | None
    value: bytes | None


def observation_of(record: Message) -> Observation:
    """What a message of Kafka holds."""
    return Observation(record.offset() or 0, record.key(), record.value())


class Refused(NamedTuple):
    """A record that was refused, with the reason as a sentence and in one word, as in `Rejection`."""

    record: Observation
    reason: str
    kind: str

    @classmethod
    def of(cls, record: Observation, rejection: Rejection) -> "Refused":
        """From the rejection of its line."""
        reason = rejection.reason.replace(f"`line {rejection.line}`", f"`offset {record.offset}`", 1)
        return cls(record, reason, rejection.kind)


class RecordReader:
    """Reads the records of one partition.

    Args:
        fields: the names of the fields. If the channels have no names, an observation is a list, as `x`: the first record of a
            topic may be a bad one, and must not name them.

    >>> reader = RecordReader(Fields())
    >>> records = [Observation(7, b"p7", b'{"x": [0.5, 1.0]}'), Observation(8, b"p8", b'{"series": "p9", "x": [2.0, 0.5]}')]
    >>> [arrival.key if isinstance(arrival, Arrival) else arrival.kind for arrival in reader.read(records)]
    ['p7', 'id']
    """

    def __init__(self, fields: Fields) -> None:
        self.series = fields.series or "series"
        known = replace(fields, series=self.series, time=fields.time or "time", channels=fields.channels or ())
        self._lines = JsonLines(known)
        self._ids = _Ids(self.series)

    @property
    def lines(self) -> int:
        """How many records were read; the line number of the next one is larger by one."""
        return self._lines.lines

    def without_id(self, records: Sequence[Observation]) -> list[Refused]:
        """The records whose key is no series ID."""
        try:
            ids = [self._ids[record.key] if record.key else None for record in records]
        except UnicodeDecodeError:
            ids = [None]
        if None not in ids:
            return []
        return [refused for record in records if (refused := self._without_id(record)) is not None]

    def read(self, records: Sequence[Observation]) -> ArrivalBatch | list[Arrival | Rejection]:
        """The arrivals of records with an ID; each record counts as a line."""
        first, ids = self._lines.lines + 1, self._ids
        known = [ids[record.key or b""] for record in records]
        read = self._lines.read([_line(start, record.value) for (_, start), record in zip(known, records, strict=True)])
        names = [name for name, _ in known]
        if isinstance(read, ArrivalBatch):
            if read.keys == names:
                return read
            read = read.singly()
        return [self._checked(arrival, names, first) for arrival in read]

    def _without_id(self, record: Observation) -> Refused | None:
        if not record.key:
            remedy = "Give the series ID as the key: it keeps a series in one partition."
            return _refused(record, "one with a key", "none", remedy)
        try:
            self._ids[record.key]
        except UnicodeDecodeError:
            return _refused(record, "one whose key is text in UTF-8", repr(record.key[:40]), "It is the series ID.")
        return None

    def _checked(self, arrival: Arrival | Rejection, names: list[str], first: int) -> Arrival | Rejection:
        """An arrival under the ID that is its key, if its line does not say another one."""
        if isinstance(arrival, Rejection):
            return arrival
        name = names[arrival.number - first]
        if str(arrival.key) != name:
            remedy = f"Its key is {name!r}: leave {self.series!r} out, or repeat the key."
            expected = f"one whose {self.series!r} is its key"
            return RefusedLine(arrival.number, expected, None, remedy, "id", got=repr(arrival.key)).rejection
        return arrival._replace(key=name)


class _Ids(dict[bytes, tuple[str, bytes]]):
    """The series ID of each key, and the beginning of a JSON object with it."""

    def __init__(self, series: str) -> None:
        super().__init__()
        self._series = series

    def __missing__(self, key: bytes) -> tuple[str, bytes]:
        if len(self) >= _MOST_KEYS:
            self.clear()
        name = key.decode()
        self[key] = found = (name, f"{{{json.dumps(self._series)}:{json.dumps(name)},".encode())
        return found


def _line(start: bytes, value: bytes | None) -> bytes:
    """The value with the ID from the key in front, which an ID in the value comes after; what is no object stays."""
    if value is None or value[:1] != b"{":
        value = (value or b"").lstrip() or b"nothing"  # a blank line would be skipped
    return start + value[1:] if value[:1] == b"{" else value


def _refused(record: Observation, expected: str, got: str, remedy: str) -> Refused:
    rejection = RefusedLine(record.offset, expected, None, remedy, "id", got=got).rejection
    return Refused.of(record, rejection)
