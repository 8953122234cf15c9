"""Decisions of a DataFrame of Spark, live or stored.

A row has the columns `series`, `run`, `label`, `time`, `crossed`, `margin`, `posterior`, `at`, `ended` (as in `Event`; with
`at_end="set"` also `labels`), and `shard` and `event`, which number the decisions of a shard. In a row that says why an
observation was refused, only `refused` and `shard` are not null.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sooner.engines.spark.columns import ObservedColumns
from sooner.engines.spark.model import SentModel
from sooner.engines.spark.rows import BadRows, RowReader, decision_type
from sooner.engines.spark.shards import MOST_SHARDS, ShardProcessor, ShardWork
from sooner.errors import InvalidArgument, refuse_unknown
from sooner.estimator import EarlyClassifier
from sooner.inputs import as_whole
from sooner.stream.fold import AtEnd
from sooner.stream.settings import Late, LiveSettings, Rearm, seconds_of

SHARDS = 8
"""The default number of shards."""
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def decide_stream(
    df: Any,
    model: EarlyClassifier,
    *,
    series: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    end: str | None = None,
    shards: int = SHARDS,
    idle: str | float | None = None,
    rearm: str | Rearm = "never",
    deadline: int | None = None,
    deadline_seconds: float | None = None,
    at_end: AtEnd = "force",
    coverage: float | None = None,
    late: Late = "ignore",
    remember: int = LiveSettings.remember,
    bad_rows: BadRows = "keep",
    broken: str | None = None,
) -> Any:
    """The decisions of live series as a streaming DataFrame, each in the batch in which it is made.

    The series of a shard of IDs are one fleet, whose snapshot is the state that Spark keeps. The rows of a batch are sorted by
    time in each shard. Silence, gaps and deadlines in seconds are read from the clock at the start of a batch.

    Args:
        df: streaming; it is not grouped or sorted.
        model: a fitted classifier. A query continues with another threshold; other weights and classes are refused.
        series: column with the series ID, strings or whole numbers; by default as in training.
        time: column with the time: numbers, dates, timestamps or text.
        channels: columns of numbers in the order of the model, or one column with an array of all of them.
        end: column that is true in the last row of a series; by default none.
        shards: number of shards, each with one fleet. It cannot be changed in a checkpoint.
        idle: silence after which a series ends, for example "30s". A time in which the query did not run is no silence.
        rearm: "never", "next" or "gap:10s", as in `LiveSettings`.
        deadline: maximum number of observations of a series.
        deadline_seconds: maximum time from the first observation to the decision.
        at_end: "force", "abstain" or "set", as in `clf.stream`.
        coverage: of the label sets.
        late: "ignore" or "refuse" observations after a decision.
        remember: how many closed IDs are remembered in each shard.
        bad_rows: "keep" writes a row with the reason for an observation that is refused, "stop" fails the query.
        broken: column with the text of rows that Spark could not read (`columnNameOfCorruptRecord`); by default none.
    """
    _check_frame(df, streaming=True)
    idle = None if idle is None else seconds_of(idle, name="idle")
    rearm = rearm if isinstance(rearm, Rearm) else Rearm.parse(rearm)
    settings = LiveSettings(idle, rearm, deadline, deadline_seconds, at_end, coverage, late, remember)
    observed = ObservedColumns.of(df, model, series, time, channels, end, broken)
    shards = _as_shards(shards)
    work, schema = _work(df, model, observed, settings, bad_rows)
    df.sparkSession.conf.set(_PROVIDER, _ROCKSDB)  # the only state store with timers
    grouped = observed.observations(df, shards).groupBy("shard")
    # With a clock, Spark runs batches without rows as well; without one, a query of all available rows comes to its end.
    clock = "processingTime" if settings.reads_clock else "none"
    with _with_newer_pandas():
        decided = grouped.transformWithStateInPandas(ShardProcessor(work, shards), schema, "append", clock)
    return observed.decisions(decided)


def decide(
    df: Any,
    model: EarlyClassifier,
    *,
    series: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    shards: int = SHARDS,
    deadline: int | None = None,
    at_end: AtEnd = "force",
    coverage: float | None = None,
    bad_rows: BadRows = "stop",
) -> Any:
    """The decisions of stored series, with the columns of `decide_stream`; all rows of a shard must fit into a worker's memory.

    Args:
        df: static; the rows come in any order.
        model: a fitted classifier.
        series: column with the series ID, strings or whole numbers; by default as in training.
        time: column with the time, by which the rows are sorted.
        channels: columns of numbers in the order of the model, or one column with an array of all of them.
        shards: number of shards, which the workers share.
        deadline: maximum number of observations of a series.
        at_end: "force", "abstain" or "set", as in `clf.stream`.
        coverage: of the label sets.
        bad_rows: "stop" fails at an observation that is refused, "keep" writes a row with the reason.
    """
    _check_frame(df, streaming=False)
    settings = LiveSettings(deadline=deadline, at_end=at_end, coverage=coverage)
    observed = ObservedColumns.of(df, model, series, time, channels, None)
    work, schema = _work(df, model, observed, settings, bad_rows)

    grouped = observed.observations(df, _as_shards(shards)).groupBy("shard")
    with _with_newer_pandas():
        decided = grouped.applyInPandas(lambda key, rows: work.stored(int(key[0]), rows), schema)
    return observed.decisions(decided)


def _work(
    df: Any, model: EarlyClassifier, observed: ObservedColumns, settings: LiveSettings, bad_rows: BadRows
) -> tuple[ShardWork, Any]:
    """What the workers do, and the columns that they write."""
    from pyspark.sql.types import StringType

    refuse_unknown("bad_rows", bad_rows, ("keep", "stop"))
    # Refuses here what a worker would refuse later: a deadline below 1, or a coverage without calibration series.
    model.stream(keyed=True, deadline=settings.deadline, at_end=settings.at_end, coverage=settings.coverage)
    schema = decision_type(model.classes_.tolist(), settings.at_end)
    text = isinstance(observed.time_type, StringType)
    reader = RowReader(observed.width, observed.timed, observed.counts_micros, text)
    sent = SentModel(df.sparkSession, model)
    return ShardWork(sent, settings, reader, bad_rows, tuple(schema.names)), schema


@contextmanager
def _with_newer_pandas() -> Iterator[None]:
    """Without the warning of Spark that its pandas should be older: what is used of it is tested with the newer one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*PySpark does not yet fully support pandas")
        yield


def _as_shards(shards: int) -> int:
    shards = as_whole(shards, name="shards", low=1, remedy="IDs are divided among them.")
    if shards >= MOST_SHARDS:
        raise InvalidArgument("shards", f"below {MOST_SHARDS:,}", shards, "IDs are divided among them.")
    return shards


def _check_frame(df: Any, *, streaming: bool) -> None:
    wanted, other = ("streaming", "decide") if streaming else ("static", "decide_stream")
    if not hasattr(df, "isStreaming"):
        got, remedy = f"a {type(df).__name__}", "Read one with spark.read or spark.readStream."
        raise InvalidArgument("df", f"a {wanted} DataFrame of Spark", got, remedy)
    if df.isStreaming != streaming:
        got = "a static one" if streaming else "a streaming one"
        raise InvalidArgument("df", f"a {wanted} DataFrame", got, f"Use `{other}` for that.")
