"""Transactions: who may write, to which partitions, and what happens when they end."""

import time
from itertools import count

NONE, INVALID_EPOCH, INVALID_STATE, UNKNOWN_ID = 0, 47, 48, 49


class Transaction:
    """The transaction of one transactional ID; a new producer of that ID, or a timeout, leaves the old one out."""

    def __init__(self, producer, timeout):
        self.producer, self.epoch, self.timeout = producer, 0, timeout
        self.partitions, self.groups, self.begun = set(), set(), None

    def begin(self):
        """Note that something is in it."""
        self.begun = self.begun or time.monotonic()


class Transactions:
    """All transactions of a broker.

    Args:
        log_of: the log of a topic and a partition.
        groups: the groups by their names, whose offsets are part of transactions.
    """

    def __init__(self, log_of, groups):
        self._log_of, self._groups = log_of, groups
        self._by_id, self._numbers = {}, count(1000)

    def begin_producer(self, name, timeout):
        """The number and the epoch of a producer; what an older one has left is undone."""
        if name is None:
            return next(self._numbers), 0
        transaction = self._by_id.get(name)
        if transaction is None:
            transaction = self._by_id[name] = Transaction(next(self._numbers), timeout / 1000)
        else:
            self._end(transaction, committed=False)
            transaction.epoch += 1
        return transaction.producer, transaction.epoch

    def check(self, name, producer, epoch):
        """The error of a request of a producer."""
        transaction = self._by_id.get(name)
        if transaction is None or transaction.producer != producer:
            return UNKNOWN_ID
        return NONE if transaction.epoch == epoch else INVALID_EPOCH

    def refuses(self, producer, epoch, partition, *, transactional):
        """The error of a batch."""
        transaction = next((each for each in self._by_id.values() if each.producer == producer), None)
        if transaction is None:
            return NONE
        if transaction.epoch != epoch:
            return INVALID_EPOCH
        return NONE if not transactional or partition in transaction.partitions else INVALID_STATE

    def add(self, name, *, partitions=(), group=None):
        """Add partitions or the offsets of a group."""
        transaction = self._by_id[name]
        transaction.begin()
        transaction.partitions |= set(partitions)
        transaction.groups |= {group} - {None}

    def end(self, name, *, committed):
        """Commit or abort."""
        self._end(self._by_id[name], committed=committed)

    def tick(self):
        """Abort transactions that are open for too long, and leave their producers out."""
        for transaction in self._by_id.values():
            if transaction.begun is not None and time.monotonic() - transaction.begun > transaction.timeout:
                transaction.epoch += 1
                self._end(transaction, committed=False)

    def _end(self, transaction, *, committed):
        for topic, partition in transaction.partitions:
            self._log_of(topic, partition).mark(transaction.producer, transaction.epoch, committed=committed)
        for name in transaction.groups:
            pending = self._groups[name].pending.pop(transaction.producer, {})
            if committed:
                self._groups[name].offsets |= pending
        transaction.partitions, transaction.groups, transaction.begun = set(), set(), None
