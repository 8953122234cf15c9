"""Kafka in tests: brokers in processes of their own, records into topics, decisions out of them, members of a group."""

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from engines.many_series import LENGTH

TESTS = Path(__file__).parent.parent
QUIET = {"log_level": "0", "error_cb": lambda _: None, "logger": logging.getLogger("tests.kafka")}
GROUP, TOPIC, TO = "pumps", "observations", "decisions"
STATE, DEAD = f"{GROUP}.{TOPIC}.state", f"{TOPIC}.refused"
PARTITIONS = 4
_QUICK = "session.timeout.ms=2000\nheartbeat.interval.ms=200\nreconnect.backoff.max.ms=200\n"


@contextmanager
def broker(*options, partitions=PARTITIONS, topics=None, program=("-m", "engines.broker")):
    """A broker with the topics of a group; yields its address."""
    counts = topics or {TOPIC: partitions, TO: 2, STATE: partitions, DEAD: 1}
    command = [sys.executable, *program, *(f"{name}:{count}" for name, count in counts.items()), *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=TESTS
    ) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(20)


MOCK = (str(Path(__file__).parent / "mock_kafka.py"),)
"""The program of librdkafka's mock cluster."""


def send(address, records, topic=TOPIC):
    """Write records of key and value, in their order."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000, **QUIET}
    )
    for key, value in records:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(60) == 0


def records_of(table):
    """The rows of a table as records; the last one of a series ends it."""
    for row in pq.read_table(table).sort_by("time").to_pylist():
        end = {"end": True} if row["time"] == LENGTH - 1 else {}
        yield row["series"], json.dumps(row | end)


def read(address, topic, partitions, isolation="read_committed"):
    """All records of a topic that are there now."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": isolation, "fetch.wait.max.ms": 50, **QUIET})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    records, ended = [], set()
    while len(ended) < partitions:
        for record in consumer.consume(5_000, 0.2):
            if record.error() is None:
                records.append(record)
            else:
                ended.add(record.partition())
    consumer.close()
    return records


def decisions(address, isolation="read_committed"):
    """The decisions that were written, as JSON objects."""
    return [json.loads(record.value()) for record in read(address, TO, 2, isolation)]


def taken(address, partitions=PARTITIONS):
    """How many offsets of the observations are behind the group, as its state says."""
    behind = dict.fromkeys(range(partitions), 0)
    for record in read(address, STATE, partitions):
        if record.key().startswith(b"step/"):
            behind[record.partition()] = json.loads(record.value())["takes"][-1][0]
    return sum(behind.values())


def by_series(records):
    """Label, time and whether the rule fired, by series ID; each series must be there once."""
    found = {record["series"]: (record["label"], record["time"], record["crossed"]) for record in records}
    assert len(found) == len(records), "a decision came twice"
    return found


def options(address, folder, *more):
    """The options of `sooner stream` for the topics of the group."""
    properties = folder / "kafka.properties"
    properties.write_text(_QUICK)
    named = {"--brokers": address, "--topic": TOPIC, "--to": TO, "--group": GROUP, "--kafka-config": str(properties)}
    return ["--engine", "kafka", *(text for pair in named.items() for text in pair), *more]


def member(address, model_file, folder, *more):
    """A process of the group: `sooner stream`."""
    command = [sys.executable, "-m", "sooner", "stream", str(model_file), *options(address, folder, *more)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(condition, seconds=60.0):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return found
