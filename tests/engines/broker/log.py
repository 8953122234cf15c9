"""The log of a partition: batches of records, markers of transactions, and how far readers of committed records may see."""

import struct
import time
from bisect import bisect_right
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Batch(NamedTuple):
    """Some records, with the offsets of the first and the last one."""

    first: int
    last: int
    data: bytes


class Log:
    """The log of one partition."""

    def __init__(self):
        self.batches, self._firsts = [], []
        self.end = self.start = 0
        self.open = {}  # first offset of the open transaction of each producer
        self.aborted = []  # producer, first offset, offset of the marker
        self._sequences = {}

    @property
    def stable(self):
        """The offset up to which all transactions have ended."""
        return min(self.open.values(), default=self.end)

    def producer_of(self, data):
        """The producer of a batch, its epoch, and whether it is part of a transaction."""
        fields = _HEADER.unpack_from(data)
        return fields[9], fields[10], bool(fields[5] & _TRANSACTIONAL)

    def append(self, data):
        """Add a batch; returns the offset of its first record. A batch that was sent again is not added again."""
        fields = _HEADER.unpack_from(data)
        deltas, producer, epoch, sequence = fields[6], fields[9], fields[10], fields[11]
        if sequence >= 0 and (known := self._sequences.get((producer, epoch, sequence))) is not None:
            return known
        first = self.end
        self._add(first, first + deltas, struct.pack(">q", first) + data[8:])
        if sequence >= 0:
            self._sequences[producer, epoch, sequence] = first
        if fields[5] & _TRANSACTIONAL:
            self.open.setdefault(producer, first)
        return first

    def mark(self, producer, epoch, *, committed):
        """End the transaction of a producer by a marker."""
        body = struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 0)
        record = b"\0\0\0" + b"".join(bytes([2 * len(each)]) + each for each in body) + b"\0"
        record = bytes([2 * len(record)]) + record
        now, attributes = int(time.time() * 1000), _TRANSACTIONAL | _CONTROL
        length = _HEADER.size - 12 + len(record)
        header = _HEADER.pack(self.end, length, 0, 2, 0, attributes, 0, now, now, producer, epoch, -1, 1)
        first = self.open.pop(producer, None)
        if first is not None and not committed:
            self.aborted.append((producer, first, self.end))
        self._add(self.end, self.end, header + record)

    def read(self, offset, limit, most):
        """The batches from an offset up to a limit, some bytes at most, but one at least."""
        place = max(bisect_right(self._firsts, offset) - 1, 0)
        pieces, size = [], 0
        for batch in self.batches[place:]:
            if batch.first >= limit or (pieces and size + len(batch.data) > most):
                break
            if batch.last >= offset:
                pieces.append(batch.data)
                size += len(batch.data)
        return b"".join(pieces)

    def delete_before(self, offset):
        """Delete old records, as retention does."""
        kept = [batch for batch in self.batches if batch.last >= offset]
        self.batches, self._firsts, self.start = kept, [batch.first for batch in kept], offset

    def _add(self, first, last, data):
        self.batches.append(Batch(first, last, bytes(data)))
        self._firsts.append(first)
        self.end = last + 1
