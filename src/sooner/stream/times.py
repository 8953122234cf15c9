"""The times of live observations, and the gaps between them, as in tables (`sooner.data.tables.reading`)."""

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from sooner.errors import InvalidArgument

_ORDER = "The observations of a series must be in the order of time."
_PLAIN = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,15})?")  # a number, for which no parser of timestamps is needed


class Tick(NamedTuple):
    """A time: a number in the unit of the user, or whole nanoseconds."""

    unit: str
    value: int | float

    def __str__(self) -> str:
        if self.unit.startswith("timestamp"):
            return str(np.datetime_as_string(np.datetime64(int(self.value), "ns"), unit="auto"))
        return f"{self.value}" if self.unit == "number" else f"{self.value / 1e9:g} s"

    def since(self, before: "Tick", *, name: str) -> float:
        """The gap: seconds between timestamps, else a difference of numbers."""
        if self.unit != before.unit:
            got, remedy = f"a {self.unit}", "Write all times in the same way."
            raise InvalidArgument(name, f"a {before.unit}, as the previous time", got, remedy)
        if self.value <= before.value:
            raise InvalidArgument(name, f"later than {before}", str(self), _ORDER)
        gap = self.value - before.value
        return float(gap if self.unit == "number" else gap * 1e-9)


def tick_of(value: object, *, name: str) -> Tick:
    """The time of a number, a timestamp, or one of them as text.

    >>> tick_of("2026-11-15 23:59:59", name="time").since(tick_of("2026-11-15", name="time"), name="time")
    86399.0
    """
    if isinstance(value, str) and (plain := _PLAIN.fullmatch(value.strip())):
        value = float(value) if plain[1] else int(value)
    if type(value) in (int, float) and abs(value) < 2**63:  # type: ignore[arg-type]
        return Tick("number", value)  # type: ignore[arg-type]
    from sooner.series.rows import tick  # here, because it needs pyarrow

    parsed = tick(value)
    if parsed is None or not math.isfinite(parsed[0]):
        remedy = "Timestamps are written like 2026-11-15 23:59:59."
        raise InvalidArgument(name, "a number or a timestamp", repr(value), remedy)
    return Tick(parsed[1], parsed[0])


class Times:
    """The time of the newest observation of each open series that has times."""

    def __init__(self, newest: Mapping[Any, Tick] | None = None) -> None:
        self.newest: dict[Any, Tick] = dict(newest or {})

    def ticks(self, times: Mapping[Any, object], keys: Collection[Any], running: Collection[Any]) -> dict[Any, Tick]:
        """The times of the observations of `keys`, not kept yet; `running` are the keys of all open series."""
        if not isinstance(times, Mapping):
            raise InvalidArgument("times", "a dict", f"a {type(times).__name__}", '{"sensor-7": 12.5} is one.')
        for key in keys:
            if key not in times:
                raise InvalidArgument("times", "one for each observation", f"none for {key!r}", "Give it.")
            if key in running and key not in self.newest:
                expected = "given from the first observation of a series"
                got = f"one for {key!r}, which began without"
                raise InvalidArgument("times", expected, got, "Give its gaps as its last channel.")
        return {key: tick_of(times[key], name=f"times[{key!r}]") for key in keys}

    def gap(self, key: Any, now: Tick) -> float:
        """The time since the previous observation, 0 at the first."""
        before = self.newest.get(key)
        return 0.0 if before is None else now.since(before, name=f"times[{key!r}]")

    def keep(self, keys: Collection[Any], ticks: Mapping[Any, Tick]) -> None:
        """Keep the times of these series, some of which may have none."""
        if self.newest:  # most fleets have no times, and may have many keys
            for key in keys:
                self.forget(key)
        self.newest.update(ticks)

    def forget(self, key: Any) -> None:
        """Drop the time of a closed series."""
        self.newest.pop(key, None)
