"""Rows of a shard as arrivals, and events as rows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from pyspark.sql import types as T  # noqa: N812

from sooner.errors import InvalidArgument
from sooner.stream.arrivals import RefusedLine, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.events import Event
from sooner.types import FloatArray, IntArray

BadRows: TypeAlias = Literal["keep", "stop"]

_LABELS = ((bool, T.BooleanType()), (int, T.LongType()), (float, T.DoubleType()), (str, T.StringType()))
_OBSERVATION = "an observation that can be read"


def label_type(classes: Sequence[Any]) -> T.DataType:
    """The type of a column of these classes."""
    for python, spark in _LABELS:
        if all(type(name) is python for name in classes):
            return spark
    got, remedy = f"{list(classes)}", "Train with classes that are all strings, or all whole numbers."
    raise InvalidArgument("model", "one whose classes are of one type", got, remedy)


def decision_type(classes: Sequence[Any], at_end: str) -> T.StructType:
    """The columns of decisions, as the workers write them."""
    label = label_type(classes)
    sets = [T.StructField("labels", T.ArrayType(label))] if at_end == "set" else []
    fields = [
        T.StructField("series", T.StringType()),
        T.StructField("run", T.LongType()),
        T.StructField("label", label),
        *sets,
        T.StructField("time", T.LongType()),
        T.StructField("crossed", T.BooleanType()),
        T.StructField("margin", T.DoubleType()),
        T.StructField("posterior", T.DoubleType()),
        T.StructField("at", T.StringType()),
        T.StructField("ended", T.StringType()),
        T.StructField("shard", T.IntegerType()),
        T.StructField("event", T.LongType()),
        T.StructField("refused", T.StringType()),
    ]
    return T.StructType(fields)


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a shard: `ObservedColumns.observations`, as pandas has them.

    Args:
        width: how many numbers an observation has.
        timed: whether the model reads the time since the previous observation.
        counts_micros: whether times are microseconds since 1970.
        reads_text: whether times are text, which may hold numbers or timestamps.
    """

    width: int
    timed: bool
    counts_micros: bool
    reads_text: bool

    def arrivals(self, rows: pd.DataFrame) -> ArrivalBatch:
        """The rows in the order of time; those that cannot be read are rejected."""
        if self.reads_text:
            rows = rows.assign(order=_times_of(rows["at"]))
        rows = rows.iloc[self._sorted(rows)]
        reasons = self._reasons(rows)
        good = np.array([reason is None for reason in reasons], dtype=bool)
        rejected = [
            RefusedLine(index + 1, _OBSERVATION, _text_of(rows, index), reason, "field").rejection
            for index, reason in enumerate(reasons)
            if reason is not None
        ]
        rows = rows if good.all() else rows[good]
        values = self._values(rows)
        ends = rows["end"].to_numpy(dtype=bool)
        bare = ends & np.isnan(values).all(axis=1)  # rows that only end their series
        values = values[~bare]
        ats = rows["at"].tolist()
        return ArrivalBatch(
            rows["series"].tolist(),
            np.concatenate([values, np.zeros((len(values), 1))], axis=1) if self.timed else values,
            np.where(bare, -1, np.cumsum(~bare) - 1) if bare.any() else None,
            times=self._ticks(ats) if self.timed else None,
            ats=ats,
            ends=np.flatnonzero(ends).tolist(),
            numbers=range(1, len(rows) + 1),
            texts=_Texts(rows),
            rejected=rejected,
        )

    def _sorted(self, rows: pd.DataFrame) -> IntArray:
        """The rows by time, then by series; what is equal in both is sorted by values, as Spark promises no order."""
        names = pd.factorize(rows["series"], sort=True, use_na_sentinel=True)[0]
        order: IntArray = np.lexsort([*self._values(rows).T[::-1], names, rows["order"].to_numpy()])
        return order

    def _reasons(self, rows: pd.DataFrame) -> list[str | None]:
        """Why a row cannot be read; None for those that can."""
        broken = rows["broken"].notna().to_numpy()
        unnamed = rows["series"].isna().to_numpy() | (rows["series"] == "").fillna(True).to_numpy(dtype=bool)
        untimed = rows["at"].isna().to_numpy() | (rows["order"].isna().to_numpy() if self.reads_text else False)
        odd = (rows["width"].to_numpy() != self.width) & ~(
            rows["end"].to_numpy(dtype=bool) & (rows["width"] < 0).to_numpy()
        )
        reasons: list[str | None] = [None] * len(rows)
        for index in np.flatnonzero(broken | unnamed | untimed | odd).tolist():
            if broken[index]:
                reasons[index] = "Spark could not read it with the types of its columns."
            elif unnamed[index]:
                reasons[index] = "Name the series in every row."
            elif untimed[index]:
                reasons[index] = "Give its time: Spark does not keep the order of rows."
            else:
                reasons[index] = f"The model reads {self.width} numbers."
        return reasons

    def _values(self, rows: pd.DataFrame) -> FloatArray:
        """(rows, width): the observations."""
        values: FloatArray = rows[[f"x{index}" for index in range(self.width)]].to_numpy(dtype=np.float64)
        return values

    def _ticks(self, ats: list[str]) -> list[Any]:
        """The times for gaps, with the unit that they have in a table."""
        return [str(np.datetime64(int(at), "us")) for at in ats] if self.counts_micros else list(ats)


def rows_of(events: Sequence[Event], shard: int, names: Sequence[str], rejected: Sequence[Rejection]) -> pd.DataFrame:
    """Decisions, and rows that were refused, as rows of `decision_type`."""
    found = [_row_of(event, shard) for event in events]
    empty = dict.fromkeys(names) | {"shard": shard}
    found += [empty | {"refused": str(refusal_of(rejection))} for rejection in rejected]
    return pd.DataFrame([[row[name] for name in names] for row in found], columns=list(names), dtype=object)


def refusal_of(rejection: Rejection) -> InvalidArgument:
    """The error of a rejection, which has no line number here."""
    return RefusedLine.of(rejection).about("observation")


def _row_of(event: Event, shard: int) -> dict[str, Any]:
    record = event.record() | {"shard": shard, "event": event.id, "refused": None, "labels": None}
    if isinstance(record["label"], list):
        record |= {"label": None, "labels": record["label"]}
    return record


def _times_of(ats: pd.Series) -> pd.Series:
    """Times as numbers to sort by: numbers as they are, timestamps as seconds."""
    numbers = pd.to_numeric(ats, errors="coerce")
    if (left := numbers.isna() & ats.notna()).any():
        stamps = pd.to_datetime(ats[left], errors="coerce", format="ISO8601", utc=True)
        numbers = numbers.astype(np.float64)
        numbers[left] = (stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    return numbers


def _text_of(rows: pd.DataFrame, index: int) -> str:
    """A row for errors."""
    row = rows.iloc[index]
    if isinstance(row["broken"], str):
        return row["broken"]
    values = [row[name] for name in rows.columns if name[0] == "x" and name[1:].isdigit()]
    shown = {"series": row["series"], "time": row["at"], "x": [None if pd.isna(value) else value for value in values]}
    return json.dumps({name: None if value is pd.NA or value != value else value for name, value in shown.items()})


class _Texts(Sequence[str]):
    """The rows for errors, each made when it is asked for."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return _text_of(self._rows, index)

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))
