"""A shard of IDs in a worker: its live series, whose state Spark keeps, and its timer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from sooner.engines.spark.rows import BadRows, RowReader, refusal_of, rows_of
from sooner.stream.arrivals import Rejection
from sooner.stream.carried import CarriedSeries
from sooner.stream.events import Event
from sooner.stream.settings import LiveSettings

_DIGITS, _BASE = 3, 38  # a decimal of Spark has at most 38 digits
MOST_SHARDS = _BASE**_DIGITS
_LATE = 0.5
"""Share of `idle` by which a timer may be late; where it is later, the query was not running."""


@dataclass(frozen=True, eq=False)
class ShardWork:
    """What the worker of a shard does with its rows.

    Args:
        model: the reference to the classifier (`SentModel`).
        settings: when series end.
        reader: of the rows.
        bad_rows: "stop" fails at a row that is refused, "keep" writes its reason.
        names: the columns of decisions.
    """

    model: Any
    settings: LiveSettings
    reader: RowReader
    bad_rows: BadRows
    names: tuple[str, ...]

    def series(self, state: bytes | None, now: float) -> CarriedSeries:
        """The live series of the shard."""
        return CarriedSeries(self.model.classifier(), self.settings, state, now=now)

    def take(self, live: CarriedSeries, rows: pd.DataFrame, shard: int, now: float) -> pd.DataFrame:
        """The decisions that the rows of a batch lead to."""
        batch = self.reader.arrivals(rows)
        live.hear(batch.keys, now)
        outcome = live.take(batch, now)
        if outcome.rejected and self.bad_rows == "stop":
            raise refusal_of(outcome.rejected[0])
        return self.rows(outcome.events, shard, outcome.rejected)

    def rows(self, events: list[Event], shard: int, rejected: list[Rejection]) -> pd.DataFrame:
        """Decisions as rows."""
        return rows_of(events, shard, self.names, rejected)

    def stored(self, shard: int, rows: pd.DataFrame) -> pd.DataFrame:
        """The decisions of stored series."""
        live = self.series(None, 0.0)
        decided = self.take(live, rows, shard, 0.0)
        return pd.concat([decided, self.rows(live.finish_all(0.0), shard, [])])


class ShardProcessor(StatefulProcessor):  # type: ignore[misc]
    """Keeps the live series of each shard in the state of Spark, and a timer for the next silence or deadline.

    Args:
        work: of a shard.
        shards: their number. It is in the type of the state, so that Spark refuses another one before the query starts.
    """

    def __init__(self, work: ShardWork, shards: int) -> None:
        self._work, self._shards = work, shards

    def init(self, handle: Any) -> None:
        """Called by Spark before each batch."""
        self._handle = handle
        self._state = handle.getValueState("live", state_type(self._shards))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """The decisions that the rows of a shard lead to."""
        now = max(0, timerValues.getCurrentProcessingTimeInMs())  # -1 without a clock
        live, timer = self._open(now)
        decided = self._work.take(live, pd.concat(list(rows)), int(key[0]), now / 1000)
        self._keep(live, timer)
        if len(decided):
            yield decided

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """The decisions of series that have been silent, or whose time is over."""
        now = timerValues.getCurrentProcessingTimeInMs()
        live, _ = self._open(now)
        events = live.tick(now / 1000)
        self._keep(live, None)  # Spark itself deletes a timer that has fired
        if events:
            yield self._work.rows(events, int(key[0]), [])

    def close(self) -> None:
        """Called by Spark after each batch."""

    def _open(self, now: int) -> tuple[CarriedSeries, int | None]:
        """The live series of the shard, and its timer."""
        state, timer = self._state.get()[:2] if self._state.exists() else (None, None)
        live = self._work.series(None if state is None else bytes(state), now / 1000)
        idle = self._work.settings.idle
        if timer is not None and idle is not None and now > timer + 1000 * _LATE * idle:
            live.silent_since(now / 1000)  # nothing was read meanwhile, so that nothing was silent
        return live, timer

    def _keep(self, live: CarriedSeries, timer: int | None) -> None:
        due = live.next_tick()
        after = None if due is None else math.ceil(1000 * due)
        if timer is not None and timer != after:
            self._handle.deleteTimer(timer)
        if after is not None and timer != after:
            self._handle.registerTimer(after)
        self._state.update((live.state(), after, *(None,) * _DIGITS))


def state_type(shards: int) -> T.StructType:
    """The type of the state, in which the number of shards is: Spark compares types, not names."""
    digits = [shards // _BASE**place % _BASE + 1 for place in range(_DIGITS)]
    marks = [T.StructField(f"of_{shards}_shards_{n}", T.DecimalType(digit, 0)) for n, digit in enumerate(digits)]
    return T.StructType([T.StructField("state", T.BinaryType()), T.StructField("timer", T.LongType()), *marks])
