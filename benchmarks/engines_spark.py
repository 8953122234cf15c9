"""Spark: one state for each shard of IDs beside one state for each ID, in turns, and a query that is killed.

Both decide the same files of the same series: 5,000 of 30 observations of two channels, five files, one a batch. One state per ID
is what a user would write: `clf.stream()`, restored from its snapshot for each ID of a batch, with the row interface of
`transformWithState`, which Spark recommends for many keys. The first batch, in which workers start, is left out of the rates.
Then `sooner stream --engine spark` decides 5,000 series in 30 batches, and is killed: the driver three times, a worker once.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sooner
from engines.many_series import LENGTH, task_in
from engines.spark_kills import survive
from engines.sparking import session
from sooner.engines.spark import decide_stream
from sooner.engines.spark.model import SentModel
from sooner.stream import ArrivalBatch, CarriedSeries, LiveSettings

SERIES, FILES, SHARDS, REPEATS = 5_000, 5, 4, 2
SCHEMA = "series string, time long, hum double, flow double"
DECISION = "series string, label string, time long, crossed boolean"


def per_id(df: Any, model: sooner.EarlyClassifier) -> Any:
    """The decisions with one state for each ID."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    sent = SentModel(df.sparkSession, model)

    class OneSeries(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("live", "state binary, closed boolean")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            stream = sent.classifier().stream(deadline=LENGTH)
            if self._state.exists():
                state, closed = self._state.get()
                if closed:
                    return
                stream.restore(bytes(state))
            for row in sorted(rows, key=lambda row: row.time):
                decision = stream.update(np.array([row.hum, row.flow]))
                if decision is not None:
                    self._state.update((b"", True))
                    yield Row(series=key[0], label=decision.label, time=decision.time, crossed=decision.crossed)
                    return
            self._state.update((stream.snapshot(), False))

        def close(self) -> None:
            pass

    return df.groupBy("series").transformWithState(OneSeries(), DECISION, "append", "none")


def run(spark: Any, way: Any, source: Path, folder: Path) -> tuple[dict[str, Any], list[float]]:
    """The decisions of all files, and the seconds of each batch."""
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    found: dict[str, Any] = {}

    def keep(batch: Any, number: int) -> None:  # noqa: ARG001
        found.update({row.series: (row.label, row.time, row.crossed) for row in batch.collect()})

    writer = way(df).writeStream.foreachBatch(keep).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each.numInputRows]
    return found, [each.batchDuration / 1000 for each in progress]


def throughput(folder: Path) -> dict[str, float]:
    """Records a second of both ways, in turns."""
    task = task_in(folder, SERIES)
    source, rows = folder / "in", pq.read_table(task.table).to_pylist()
    source.mkdir()
    for number in range(FILES):
        lines = (json.dumps(row) + "\n" for row in rows if row["time"] * FILES // LENGTH == number)
        (source / f"{number}.jsonl").write_text("".join(lines))
        os.utime(source / f"{number}.jsonl", (1e9 + number, 1e9 + number))
    spark, clf = session(), sooner.load(task.model_file)
    ways = {
        "shard": lambda df: decide_stream(df, clf, shards=SHARDS, deadline=LENGTH),
        "per_id": lambda df: per_id(df, clf),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    latencies: dict[str, list[float]] = {name: [] for name in ways}
    equal = []
    for repeat in range(REPEATS):
        for name, way in ways.items():
            found, seconds = run(spark, way, source, folder / f"{name}-{repeat}")
            equal.append(sum(found.get(series) == wanted for series, wanted in task.decided.items()) / SERIES)
            later = seconds[1:]
            rates[name].append(SERIES * LENGTH / FILES * len(later) / sum(later))
            latencies[name] += later
            print(f"{name:>7}: batches of {', '.join(f'{each:.2f}' for each in seconds)} s", flush=True)
    middle = {name: statistics.median(values) for name, values in rates.items()}
    records = SERIES * LENGTH // FILES
    for name, rate in middle.items():
        latency = statistics.median(latencies[name])
        print(f"{name:>7}: {rate:>8,.0f} records a second, a batch of {records:,} takes {latency:.2f} s")
    return {
        "decisions_equal": min(equal),
        "spark_over_per_id": middle["shard"] / middle["per_id"],
        "spark_per_second": middle["shard"],
        "spark_batch_seconds": statistics.median(latencies["shard"]),
    }


def state_bytes(folder: Path) -> float:
    """The bytes of state of an open series, in a shard of 1,250."""
    task = task_in(folder, 1_250)
    live = CarriedSeries(sooner.load(task.model_file), LiveSettings())
    live.set_rule(type(live.rule)(float("inf")), 0.0)
    rows = pq.read_table(task.table).slice(0, 1_250)
    values = np.stack([rows["hum"].to_numpy(), rows["flow"].to_numpy()], axis=1)
    live.take(ArrivalBatch(rows["series"].to_pylist(), values, ats=rows["time"].to_pylist()), 0.0)
    assert len(live) == 1_250
    size = len(live.state()) / 1_250
    print(f"state: {size:,.0f} bytes for each open series, of which the model's and the rule's are {_row(live):,}")
    return size


def _row(live: CarriedSeries) -> int:
    return live._newest.bytes_per_stream


def killed(folder: Path) -> dict[str, float]:
    """Three kills of the driver and one of a worker, in 30 batches."""
    found = survive(folder, series=5_000, files=LENGTH, kills=3)
    recoveries = ", ".join(f"{seconds:.0f}" for seconds in found.recoveries)
    print(
        f"{found.drivers_killed} drivers and {found.workers_killed} worker killed: {found.equal:,} of {found.series:,} decisions "
        f"equal those of clf.decide, {found.doubled} came twice; back after {recoveries} s; a batch of 5,000 takes "
        f"{statistics.median(found.latencies):.2f} s"
    )
    return {
        "decisions_equal": found.equal / found.series if not found.doubled else 0.0,
        "spark_doubled": float(found.doubled),
        "spark_kills": float(found.drivers_killed + found.workers_killed),
        "spark_recovery_seconds": statistics.median(found.recoveries),
    }


def measure() -> dict[str, float]:
    """All that is measured on Spark."""
    with tempfile.TemporaryDirectory(prefix="engines-", ignore_cleanup_errors=True) as name:
        folders = [Path(name, part) for part in ("throughput", "state", "killed")]
        for folder in folders:
            folder.mkdir()
        rates = throughput(folders[0])
        size = state_bytes(folders[1])
        session().stop()
        kills = killed(folders[2])
    equal = min(rates.pop("decisions_equal"), kills.pop("decisions_equal"))
    return {"decisions_equal": equal, **rates, "spark_state_bytes": size, **kills}
