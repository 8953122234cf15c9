"""Arrivals as columns, so that many cost little more than the model's step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sooner.errors import InvalidArgument
from sooner.stream.arrivals import UNNAMED, Arrival, RefusedLine, Rejection
from sooner.stream.fleet import Key
from sooner.types import FloatArray, IntArray

Shape: TypeAlias = tuple[int, ...]
Check: TypeAlias = Callable[[Shape, Key], InvalidArgument | None]
"""The error of an observation of this shape, if the model cannot read it."""
_KEYS = (str, int, type(None))
_READABLE = "an observation that can be processed"


@dataclass(frozen=True, eq=False)
class ArrivalBatch:
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
    def of(cls, arrivals: Sequence[Arrival | Rejection], check: Check) -> "ArrivalBatch":
        """Some arrivals as columns; observations of another shape than the model reads are refused."""
        rejected = [arrival for arrival in arrivals if isinstance(arrival, Rejection)]
        kept = [arrival for arrival in arrivals if isinstance(arrival, Arrival)]
        shapes = [_shape(arrival) for arrival in kept]
        wrong = _wrong(shapes, kept, check)
        if wrong:
            rejected += [_refused(a, check) for a, shape in zip(kept, shapes, strict=True) if shape in wrong]
            kept = [arrival for arrival, shape in zip(kept, shapes, strict=True) if shape not in wrong]
            shapes = [shape for shape in shapes if shape not in wrong]
        there = np.array([shape is not None for shape in shapes], dtype=bool)
        times, ats = [arrival.time for arrival in kept], [arrival.at for arrival in kept]
        timed = any(time is not None for time in times)
        return cls(
            [_key(arrival) for arrival in kept],
            _stacked([a.observation for a in kept if a.observation is not None], shapes, timed=timed),
            None if there.all() else np.where(there, np.cumsum(there) - 1, -1),
            times if timed else None,
            ats if any(at is not None for at in ats) else None,
            [index for index, arrival in enumerate(kept) if arrival.ended],
            [arrival.number for arrival in kept],
            [arrival.text for arrival in kept],
            rejected,
        )

    def checked(self, check: Check) -> "ArrivalBatch":
        """The same arrivals, if the model can read their observations; else without these."""
        shape = self.values.shape[1:]
        if not len(self.values) or check(shape, self.keys[0]) is None:
            return self
        observed = [index for index in range(len(self)) if self.rows is None or self.rows[index] >= 0]
        left = sorted(set(range(len(self))) - set(observed))
        refused = [self.refusal(i, _READABLE, str(check(shape, self.keys[i])), "channels") for i in observed]
        return ArrivalBatch(
            [self.keys[index] for index in left],
            np.empty((0, 0)),
            np.full(len(left), -1),
            None,
            self.ats and [self.ats[index] for index in left],
            [place for place, index in enumerate(left) if index in self.ending],
            [self.numbers[index] for index in left],
            [self.texts[index] for index in left],
            self.rejected + refused,
        )

    def singly(self) -> list[Arrival | Rejection]:
        """The arrivals as records."""
        arrivals: list[Arrival | Rejection] = [*self.rejected]
        for index, key in enumerate(self.keys):
            row, time = self.row(index), None if self.times is None else self.times[index]
            x = None if row < 0 else self.values[row] if time is None else self.values[row, :-1]
            text, at = self.texts[index], None if self.ats is None else self.ats[index]
            line = text if isinstance(text, str) else text.decode(errors="replace")
            arrivals.append(Arrival(self.numbers[index], line, key, x, time, index in self.ending, at))
        return arrivals

    def part(self, indices: IntArray) -> "ArrivalBatch":
        """Some of the arrivals, without what was refused before."""
        rows = indices if self.rows is None else self.rows[indices]
        observed, chosen = rows >= 0, indices.tolist()
        return ArrivalBatch(
            [self.keys[index] for index in chosen],
            self.values[rows[observed]],
            None if observed.all() else np.where(observed, np.cumsum(observed) - 1, -1),
            self.times and [self.times[index] for index in chosen],
            self.ats and [self.ats[index] for index in chosen],
            [place for place, index in enumerate(chosen) if index in self.ending],
            [self.numbers[index] for index in chosen] if self.numbers else (),
            [self.texts[index] for index in chosen] if self.texts else (),
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


def _key(arrival: Arrival) -> Key:
    if type(arrival.key) not in _KEYS:
        got, remedy = f"{arrival.key!r}, a {type(arrival.key).__name__}", "Convert it first."
        raise InvalidArgument("key", "a string or a whole number", got, remedy)
    return UNNAMED if arrival.key is None else arrival.key


def _shape(arrival: Arrival) -> Shape | None:
    """The shape that the model reads: with the gap where there is a time; a number is an observation of one channel."""
    if arrival.observation is None:
        return None
    shape = np.shape(arrival.observation) or (1,)
    return shape if arrival.time is None else (*shape[:-1], shape[-1] + 1)


def _wrong(shapes: Sequence[Shape | None], arrivals: Sequence[Arrival], check: Check) -> set[Shape | None]:
    """The shapes that the model cannot read, and all but the first of those that it can."""
    good: Shape | None = None
    wrong: set[Shape | None] = set()
    for shape in dict.fromkeys(shapes):
        if shape is not None and (good is not None or check(shape, _key(arrivals[shapes.index(shape)])) is not None):
            wrong.add(shape)
        elif shape is not None:
            good = shape
    return wrong


def _refused(arrival: Arrival, check: Check) -> Rejection:
    """The rejection of an observation of a wrong shape."""
    error = check(_shape(arrival) or (), _key(arrival))
    reason = "The others have another shape." if error is None else str(error)
    return RefusedLine(arrival.number, _READABLE, arrival.text, reason, "channels").rejection


def _stacked(observations: list[FloatArray], shapes: Sequence[Shape | None], *, timed: bool) -> FloatArray:
    """All observations; where they have times, with room for the gap as the last channel."""
    values: FloatArray
    if not observations:
        return np.empty((0, 0))
    if not timed:
        values = np.stack(observations).astype(np.float64, copy=False)
        return values if values.ndim > 1 else values[:, None]
    values = np.zeros((len(observations), *next(shape for shape in shapes if shape is not None)))
    for row, x in enumerate(observations):
        values[row, : x.size] = x
    return values
