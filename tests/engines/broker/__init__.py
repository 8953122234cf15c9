"""A small Kafka for tests: one broker in memory, with consumer groups and transactions, of the protocol as librdkafka speaks it.

librdkafka's mock cluster shows what was not committed, so that exactly once cannot be seen on it. This one has what a transaction
is about: markers in the log, the last stable offset, the list of aborted transactions, offsets that are pending, epochs and
generations that leave old processes out. It has no replication, no disk and no compaction.
"""
