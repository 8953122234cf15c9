"""Members of a group that are killed by `kill -9` while observations come: what the readers of decisions see of it."""

import multiprocessing
import random
import threading
import time
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

import sooner
from engines.on_kafka import GROUP, PARTITIONS, QUIET, STATE, TO, TOPIC, broker, decisions, records_of, send, wait_for
from sooner.engines.kafka.follow import follow
from sooner.engines.kafka.settings import KafkaSettings
from sooner.estimator.columns import fields_for
from sooner.stream import LiveSettings

# Its processes begin with what is imported here, so that a member takes over at once.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


class Killed(NamedTuple):
    """What came of it.

    Attributes:
        records: the decisions that readers of committed records see.
        cut: how many decisions were written in transactions that were never committed.
        recoveries: seconds from each kill until observations of all partitions were committed again.
    """

    records: list
    cut: int
    recoveries: list


def stable_ends(address):
    """The offset up to which the state of each partition is committed."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "ends", "isolation.level": "read_committed", **QUIET}
    )
    ends = [consumer.get_watermark_offsets(TopicPartition(STATE, index))[1] for index in range(PARTITIONS)]
    consumer.close()
    return ends


def settings_for(address, **more):
    """The settings of a member whose death is noticed soon."""
    quick = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "200", "reconnect.backoff.max.ms": "200"}
    return KafkaSettings(address, TOPIC, TO, GROUP, properties=quick, **{"commit_seconds": 0.05, **more})


def run_member(model_file, address, more, live=None):
    """A member of the group, until it is killed."""
    clf = sooner.load(model_file)
    follow(
        clf,
        live or LiveSettings(),
        fields_for(clf, None),
        settings_for(address, **more),
        tell=lambda _: None,
        stopped=lambda: False,
    )


def killed(task, kills, *, seconds, seed=0, options=("--end-delay=0.03",), **more):
    """Kill a member of two, again and again, while the observations of the task come within so many seconds.

    `more` are settings of the members.
    """
    draw, records, ended = random.Random(seed), list(records_of(task.table)), threading.Event()
    with broker(*options) as address:

        def start():
            process = _FORKS.Process(target=run_member, args=(task.model_file, address, more), daemon=True)
            process.start()
            return process

        members = [start(), start()]
        share = max(len(records) // max(int(seconds * 10), 1), 1)

        def feed():
            for begin in range(0, len(records), share):
                send(address, records[begin : begin + share])
                ended.wait(0.1)

        feeder = threading.Thread(target=feed)
        feeder.start()
        recoveries = []
        try:
            wait_for(lambda: decisions(address))
            for _ in range(kills):
                time.sleep(draw.uniform(0.3, 1.0))
                victim = draw.randrange(2)
                members[victim].kill()
                members[victim].join()
                before, began = stable_ends(address), time.monotonic()
                members[victim] = start()
                if feeder.is_alive():
                    wait_for(
                        lambda before=before: (
                            not feeder.is_alive() or all(map(int.__gt__, stable_ends(address), before))
                        )
                    )
                    recoveries += [time.monotonic() - began] * feeder.is_alive()
            feeder.join()
            wait_for(lambda: len(decisions(address)) >= len(task.decided), 120)
            time.sleep(1.0)  # for what would come twice
        finally:
            ended.set()
            for member in members:
                member.kill()
        found = decisions(address)
        return Killed(found, len(decisions(address, "read_uncommitted")) - len(found), recoveries)
