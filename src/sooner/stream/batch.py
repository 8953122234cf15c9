"""Arrivals as columns, so that many cost little more than the model's step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.stream.arrivals import UNNAMED, Arrival, RefusedLine, Rejection
from sooner.stream.fleet import Key
from sooner.types import FloatArray, IntArray

Check = Callable[[FloatArray], None]
"""Raises what is wrong with one observation, if anything is."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some arrivals, in their order; the lines that were refused already stand beside them.

    Args:
        keys: the series ID of each arrival.
        values: (observations, channels); for arrivals with a time, the last channel is the gap, still to be filled in.
        rows: (arrivals,): the row of each arrival in `values`, -1 for a line that only ends its series. None: all in order.
        times: for models that read gaps; None for others.
        ats: the time of each arrival as it was written, if any has one.
        ends: the indices of the arrivals that end their series.
        numbers: the line number of each arrival; empty in a replay.
        texts: the lines, for errors; empty in a replay.
        rejected: the lines that were refused.
    """

    keys: list[Key]
    values: FloatArray
    rows: IntArray | None = None
    times: list[Any] | None = None
    ats: list[Any] | None = None
    ends: list[int] = field(default_factory=list)
    numbers: Sequence[int] = ()
    texts: Sequence[str | bytes] = ()
    rejected: list[Rejection] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, arrivals: Sequence[Arrival | Rejection], check: Check) -> "Batch":
        """Some arrivals as columns; observations of another shape than the model reads are refused."""
        rejected = [arrival for arrival in arrivals if isinstance(arrival, Rejection)]
        kept = [arrival for arrival in arrivals if isinstance(arrival, Arrival)]
        rows, values = _stacked([arrival.observation for arrival in kept], [arrival.time for arrival in kept])
        if values is None:
            kept, refused = _of_one_shape(kept, check)
            rejected += refused
            rows, values = _stacked([arrival.observation for arrival in kept], [arrival.time for arrival in kept])
            assert values is not None
        times = [arrival.time for arrival in kept]
        ats = [arrival.at for arrival in kept]
        return cls(
            [UNNAMED if arrival.key is None else arrival.key for arrival in kept],
            values,
            rows,
            times if any(time is not None for time in times) else None,
            ats if any(at is not None for at in ats) else None,
            [index for index, arrival in enumerate(kept) if arrival.ended],
            [arrival.number for arrival in kept],
            [arrival.text for arrival in kept],
            rejected,
        )

    def row(self, index: int) -> int:
        """The row of an arrival in `values`."""
        return index if self.rows is None else int(self.rows[index])

    def values_of(self, indices: IntArray) -> FloatArray:
        """The observations of some arrivals."""
        if len(indices) == len(self.values):
            return self.values
        values: FloatArray = self.values[indices if self.rows is None else self.rows[indices]]
        return values

    @cached_property
    def ending(self) -> frozenset[int]:
        """The indices of the arrivals that end their series."""
        return frozenset(self.ends)

    def refusal(self, index: int, expected: str, remedy: str, kind: str) -> Rejection:
        """The rejection of an arrival."""
        if not self.numbers:
            return Rejection(0, remedy, kind)
        return RefusedLine(self.numbers[index], expected, self.texts[index], remedy, kind).rejection

    def waves(self) -> list[list[int]]:
        """The indices of the first arrival of each series, of the second one, and so on."""
        waves: list[list[int]] = []
        counts: dict[Key, int] = {}
        for index, key in enumerate(self.keys):
            count = counts.get(key, 0)
            counts[key] = count + 1
            if count == len(waves):
                waves.append([])
            waves[count].append(index)
        return waves


def _stacked(observations: list[FloatArray | None], times: list[Any]) -> tuple[IntArray | None, FloatArray | None]:
    """The row of each observation, and all of them; None where their shapes differ."""
    rows = None
    widths = [None if x is None else _width(x, time) for x, time in zip(observations, times, strict=True)]
    if None in widths:
        there = np.array([width is not None for width in widths], dtype=bool)
        rows = np.where(there, np.cumsum(there) - 1, -1)
    different = set(widths) - {None}
    if len(different) > 1:
        return rows, None
    if not different:
        return rows, np.empty((0, 0))
    (shape,) = different
    values = np.zeros((sum(width is not None for width in widths), *shape))  # type: ignore[misc]
    given = [x for x in observations if x is not None]
    timed = any(time is not None for time in times)
    if timed:
        for row, x in enumerate(given):
            values[row, : x.size] = x
    else:
        values = np.stack([x.reshape(shape) for x in given]) if shape == (1,) else np.stack(given)
    return rows, values


def _width(x: FloatArray, time: Any) -> tuple[int, ...]:
    """The shape that the model reads: with the gap where there is a time; a number is an observation of one channel."""
    shape = x.shape or (1,)
    return shape if time is None else (*shape[:-1], shape[-1] + 1)


def _of_one_shape(arrivals: list[Arrival], check: Check) -> tuple[list[Arrival], list[Rejection]]:
    """The arrivals whose observations the model can read, and the refusals of the others."""
    good: tuple[int, ...] | None = None
    errors: dict[tuple[int, ...], str] = {}
    kept, refused = [], []
    for arrival in arrivals:
        shape = None if arrival.observation is None else _width(arrival.observation, arrival.time)
        if shape is None or shape == good:
            kept.append(arrival)
            continue
        if shape not in errors:
            try:
                check(np.zeros(shape))
                errors[shape] = f"Others have shape {good}, and this one {shape}."
            except InvalidArgument as error:
                errors[shape] = str(error)
            else:
                if good is None:
                    good = shape
                    kept.append(arrival)
                    continue
        expected = "an observation that can be processed"
        refused.append(RefusedLine(arrival.number, expected, arrival.text, errors[shape], "channels").rejection)
    return kept, refused
