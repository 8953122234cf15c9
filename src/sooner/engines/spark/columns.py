"""The columns of a DataFrame of observations, checked, and as its workers get them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier
from sooner.estimator.columns import columns_for, refuse_other_channels
from sooner.series.columns import GAP, Columns

_IDS = (T.StringType, T.IntegralType)
_TIMES = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
_NO_TIME = -(2**63)


@dataclass(frozen=True)
class ObservedColumns:
    """The columns of observations: their names in the DataFrame, and the types that matter.

    Args:
        series: with the ID.
        time: by which the rows of a batch are sorted.
        channels: of numbers, or one array of all of them.
        width: how many numbers an observation has.
        end: true in the last row of a series; None for no such column.
        broken: not null in a row that could not be read, which is its text; None for no such column.
        timed: whether the model reads the time since the previous observation.
        id_type: of the IDs.
        time_type: of the times.
    """

    series: str
    time: str
    channels: tuple[str, ...]
    width: int
    end: str | None
    broken: str | None
    timed: bool
    id_type: T.DataType
    time_type: T.DataType

    @classmethod
    def of(
        cls,
        df: Any,
        classifier: EarlyClassifier,
        series: str | None,
        time: str | None,
        channels: Sequence[str] | None,
        end: str | None,
        broken: str | None = None,
    ) -> "ObservedColumns":
        """The columns of a DataFrame; those that are not named are called as in training."""
        types = {field.name: field.dataType for field in df.schema.fields}
        given = Columns(series=series, time=time, channels=channels)
        known, gaps = columns_for(classifier, None if given == Columns() else given)
        series, time = known.series or "series", known.time or "time"
        if known.channels is None:
            remedy = "The model was not trained on a table, so that it does not know them."
            raise InvalidArgument("channels", "the names of columns", "None", remedy)
        names, width = tuple(known.channels), len(known.channels)
        _check(types, "series", series, _IDS, "strings or whole numbers")
        _check(types, "time", time, _TIMES, "numbers, dates, timestamps or strings")
        if end is not None:
            _check(types, "end", end, (T.BooleanType,), "true and false")
        if len(names) == 1 and isinstance(types.get(names[0]), T.ArrayType):
            width = classifier.standardizer_.mean.shape[0] - (gaps == "channel")
        else:
            for name in names:
                _check(types, "channels", name, (T.NumericType,), "numbers")
            refuse_other_channels(classifier, (*names, GAP) if gaps == "channel" else names)
        return cls(series, time, names, width, end, broken, gaps == "channel", types[series], types[time])

    def observations(self, df: Any, shards: int) -> Any:
        """The observations as the workers of the shards get them; IDs and times are text."""
        shard = F.pmod(F.xxhash64(self._text(self.series)), F.lit(shards)).cast("int").alias("shard")
        chosen = [shard, self._text(self.series).alias("series"), *self._times(), *self._values(df)]
        chosen.append(
            (F.lit(False) if self.end is None else F.coalesce(F.col(_quoted(self.end)), F.lit(False))).alias("end")
        )
        chosen.append(
            (F.lit(None) if self.broken is None else F.col(_quoted(self.broken))).cast("string").alias("broken")
        )
        return df.select(*chosen)

    def decisions(self, df: Any) -> Any:
        """The decisions of the workers, with the IDs and times of the DataFrame in their own types."""
        at = F.col("at")
        if isinstance(self.time_type, T.DateType | T.TimestampType | T.TimestampNTZType):
            at = F.timestamp_micros(at.cast("long"))
        return df.withColumns({"series": F.col("series").cast(self.id_type), "at": at.cast(self.time_type)})

    @property
    def counts_micros(self) -> bool:
        """Whether the times reach the workers as microseconds since 1970."""
        return isinstance(self.time_type, T.DateType | T.TimestampType | T.TimestampNTZType)

    def _text(self, name: str) -> Any:
        return F.col(_quoted(name)).cast("string")

    def _times(self) -> list[Any]:
        """The time as it is written, and as a number to sort by; text is read by the workers."""
        time = F.col(_quoted(self.time))
        if self.counts_micros:
            time = F.unix_micros(time.cast("timestamp"))
        whole = self.counts_micros or isinstance(self.time_type, T.IntegralType)
        order = (
            time.cast("long")
            if whole
            else F.lit(0)
            if isinstance(self.time_type, T.StringType)
            else time.cast("double")
        )
        return [time.cast("string").alias("at"), F.coalesce(order, F.lit(_NO_TIME)).alias("order")]

    def _values(self, df: Any) -> list[Any]:
        """The channels as numbers, and how many there were."""
        first = F.col(_quoted(self.channels[0]))
        if isinstance(df.schema[self.channels[0]].dataType, T.ArrayType):
            numbers = [F.get(first, index).cast("double") for index in range(self.width)]
            count = F.coalesce(F.size(first), F.lit(-1))
        else:
            numbers, count = [F.col(_quoted(name)).cast("double") for name in self.channels], F.lit(self.width)
        return [*(number.alias(f"x{index}") for index, number in enumerate(numbers)), count.cast("int").alias("width")]


def _check(types: dict[str, T.DataType], role: str, name: str, wanted: tuple[Any, ...], described: str) -> None:
    if name not in types:
        has = ", ".join(map(repr, list(types)[:20]))
        raise InvalidArgument(role, "the name of a column of the DataFrame", repr(name), f"It has {has}.")
    if not isinstance(types[name], wanted):
        got = f"{types[name].simpleString()} in {name!r}"
        raise InvalidArgument(role, f"a column of {described}", got, "Cast it first.")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
