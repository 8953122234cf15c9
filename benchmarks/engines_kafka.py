"""Live series on Kafka: records a second beside the bare fleet, and what killed members of a group cost.

The broker is that of the tests, in memory on this machine; `measure()` is called by `benchmarks/engines.py`.
"""

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the broker and the kills are those of the tests

import sooner
from engines.kafka_kills import killed, settings_for
from engines.many_series import task_in
from engines.on_kafka import PARTITIONS, TOPIC, broker, decisions, read, records_of, send
from sooner.engines.kafka.follow import follow
from sooner.engines.kafka.records import RecordReader, observation_of
from sooner.estimator.columns import fields_for
from sooner.stream import LiveSeries, LiveSettings

SERIES, KILLS, AT_ONCE = 5_000, 20, 2_500


def measure() -> dict[str, float]:
    """The share of decisions that are right after the kills, and the ratio of rates."""
    with tempfile.TemporaryDirectory() as folder:
        task = task_in(Path(folder), SERIES)
        kafka, fleet = rates(task)
        found = killed(task, KILLS, seconds=90)
    print(f"Kafka: {kafka:,.0f} records/s, bare fleet on the same parsed records: {fleet:,.0f}/s")
    by_series = defaultdict(list)
    for record in found.records:
        by_series[record["series"]].append((record["label"], record["time"], record["crossed"]))
    equal = sum(by_series[name] == [decision] for name, decision in task.decided.items()) / len(task.decided)
    slowest = sorted(found.recoveries)
    print(f"{KILLS} kills: {len(found.records):,} decisions of {len(by_series):,} series, {found.cut:,} more cut off")
    print(f"all partitions again after {slowest[len(slowest) // 2]:.1f} s (median), {slowest[-1]:.1f} s (longest)")
    return {"decisions_equal": equal, "kafka_over_fleet": kafka / fleet}


def rates(task) -> tuple[float, float]:
    """Records a second through Kafka, and through a fleet for each partition without Kafka and without reading lines.

    The threshold is so high that all series stay open to their ends: late observations would cost next to nothing.
    """
    clf = sooner.load(task.model_file)
    clf.threshold = 1e9
    records = list(records_of(task.table))
    with broker() as address:
        send(address, records)
        kafka = rate_of_kafka(clf, address, len(records))
        assert len(decisions(address)) == len(task.decided)
        return kafka, rate_of_fleet(clf, read(address, TOPIC, PARTITIONS))


def rate_of_kafka(clf, address, count) -> float:
    from sooner.engines.kafka.worker import Worker

    done: list[tuple[float, int, bool]] = []
    turn = Worker.turn

    def timed(worker):
        turn(worker)
        if worker.observations:
            committed = not any(fleet.changed for fleet in worker._fleets.values())
            done.append((time.perf_counter(), worker.observations, committed))

    Worker.turn = timed
    try:
        settings = settings_for(address, commit_seconds=0.2)
        follow(
            clf,
            LiveSettings(),
            fields_for(clf, None),
            settings,
            tell=print,
            stopped=lambda: bool(done) and done[-1][1:] == (count, True),
        )
    finally:
        Worker.turn = turn
    (begin, first, _), (end, _, _) = done[0], done[-1]
    return (count - first) / (end - begin)


def rate_of_fleet(clf, messages) -> float:
    shares = defaultdict(list)
    for message in messages:
        shares[message.partition()].append(observation_of(message))
    fleets = [LiveSeries(clf) for _ in shares]
    batches = []
    for fleet, share in zip(fleets, shares.values(), strict=True):
        reader = RecordReader(fields_for(clf, None))
        batches += [(fleet, reader.read(share[at : at + AT_ONCE])) for at in range(0, len(share), AT_ONCE)]
    begin = time.perf_counter()
    for fleet, batch in batches:
        fleet.take(batch, 0.0)
    return len(messages) / (time.perf_counter() - begin)


if __name__ == "__main__":
    print(measure())
