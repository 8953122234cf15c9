"""`sooner stream --engine kafka`: follow a topic until it is stopped."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sooner.engines.kafka.client import checked_topics
from sooner.engines.kafka.delivery import new_writer
from sooner.engines.kafka.restore import Job
from sooner.engines.kafka.settings import KafkaSettings
from sooner.engines.kafka.worker import Worker
from sooner.stream.lines import Fields
from sooner.stream.settings import LiveSettings
from sooner.stream.sources import Streamable


def follow(
    source: Streamable,
    live: LiveSettings,
    fields: Fields,
    kafka: KafkaSettings,
    *,
    tell: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Worker:
    """Decide the series of a topic as one process of a group, until it is stopped; then hand its series over.

    Args:
        source: a fitted classifier.
        live: when series end.
        fields: the names of the fields of an observation.
        kafka: topics and group.
        tell: takes sentences for the user.
        stopped: whether it is time to stop.
    """
    job = Job(source, live, fields, kafka, checked_topics(kafka))
    with _seldom_collected(), Worker(job, new_writer(kafka, tell)) as worker:
        while not stopped():
            worker.turn()
    return worker


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage in cycles seldom: a batch makes thousands of records, which are in none."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
