"""Stretches of rows become series: who is who, in which order, and one tensor of them all.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.data.columns import Chosen
from sooner.data.rows import Codes, Stretch, encoded
from sooner.errors import InvalidArgument
from sooner.types import BoolArray, IntArray, Observations


@dataclass(frozen=True, eq=False)
class Assembly:
    """The runs of some stretches, one behind the other.

    Args:
        stretches: where the rows come from, all of one unit of time.
        chosen: the names of their columns.
        ids: (series,), in the order in which they first appear.
        codes: (runs,), the series of each run, as a place among `ids`.
        starts: (runs,), the row where each run begins, counted over all stretches.
        lengths: (series,), how many rows each has.
    """

    stretches: Sequence[Stretch]
    chosen: Chosen
    ids: Any
    codes: Codes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, stretches: Sequence[Stretch], chosen: Chosen) -> "Assembly":
        """Put the stretches together."""
        for stretch in stretches:
            if stretch.unit != stretches[0].unit:
                expected = f"a table with {stretches[0].unit}s in column {chosen.time!r} as in the rows before"
                got = f"{stretch.unit}s from row {stretch.first + 1} on"
                raise InvalidArgument(stretch.file, expected, got, "Write all times alike.")
        codes, ids = _encoded(stretches, [stretch.ids for stretch in stretches], chosen.series)
        before = np.cumsum([0, *map(len, stretches)])
        starts = np.concatenate([stretch.starts + first for stretch, first in zip(stretches, before, strict=False)])
        lengths = np.bincount(codes, weights=np.diff(starts, append=before[-1])).astype(np.int64)
        return cls(stretches, chosen, ids, codes, starts, lengths)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.lengths.sum())

    @property
    def heads(self) -> BoolArray:
        """(runs,): False where a run goes on with the series of the run before, from one stretch to the next."""
        return np.concatenate([[True], self.codes[1:] != self.codes[:-1]])

    def fault(self, row: int, expected: str, got: str, remedy: str) -> InvalidArgument:
        """A sentence about a row, counted over all stretches from 0."""
        stretch, at = self._found(row)
        return InvalidArgument(stretch.file, expected, f"{got} at row {stretch.first + at + 1}", remedy)

    def refuse_returning(self, seen: set[Any]) -> None:
        """Every series must be one run, and not one of those that have been; then it joins them."""
        heads = np.flatnonzero(self.heads)
        ids = self.ids.to_pylist()
        # Series are numbered as they appear, so the first one out of turn has been before.
        turns = np.flatnonzero(self.codes[heads] != np.arange(len(heads)))
        known = [place for place, name in enumerate(ids) if name in seen]
        if len(turns) or known:
            run = heads[min([*turns[:1].tolist(), *known[:1]])]
            expected, got = "a table where the rows of a series lie together", f"series {ids[self.codes[run]]!r} again"
            raise self.fault(int(self.starts[run]), expected, got, "Sort it by series id, or read it whole.")
        seen.update(ids)

    def names(self, parts: Sequence[Any], column: str) -> tuple[Codes, Any]:
        """Places (series,) among the names of the runs, and these names; each series must have one."""
        runs, names = _encoded(self.stretches, parts, column)
        places = np.empty(len(self.ids), dtype=np.int32)
        places[self.codes[::-1]] = runs[::-1]  # the first run of a series is written last, and stays
        torn = np.flatnonzero(places[self.codes] != runs)
        if len(torn):
            run, known = torn[0], names.to_pylist()
            first, name = known[places[self.codes[run]]], self.ids[int(self.codes[run])].as_py()
            got = f"{known[runs[run]]!r} after {first!r} in series {name!r}"
            expected = f"a table with one name for each series in column {column!r}"
            raise self.fault(int(self.starts[run]), expected, got, "Look there; a series has one.")
        return places, names

    def observations(self, values: npt.NDArray[Any], gap: int | None) -> Observations:
        """(series, time, channels), zeros beyond each length.

        Args:
            values: (rows, channels).
            gap: the channel to fill with the time since the observation before.
        """
        order, longest, series = self._order(), int(self.lengths.max()), len(self.lengths)
        rows = x = torch.from_numpy(values)
        if order is not None or len(rows) != series * longest:
            places = torch.from_numpy(self._places(longest))
            places = places if order is None else torch.empty_like(places).index_copy_(0, order, places)
            x = self._room(rows, longest).index_copy_(0, places, rows)
        if gap is not None:
            x[torch.from_numpy(self._places(longest)), gap] = torch.from_numpy(self._gaps(order)).to(x.dtype)
        return x.reshape(series, longest, -1)

    def _room(self, rows: Tensor, longest: int) -> Tensor:
        try:
            return rows.new_zeros(len(self.lengths) * longest, rows.shape[1])
        except RuntimeError:
            got = f"{len(self.lengths)} series, the longest of {longest} rows"
            remedy = "All are padded to the longest: cut it, or read the table in parts."
            raise InvalidArgument(self.stretches[0].file, "a table that fits into memory", got, remedy) from None

    def _places(self, longest: int) -> IntArray:
        """(rows,): where the rows, once in order, stand among series that all have `longest` rows."""
        before = np.cumsum(self.lengths) - self.lengths
        places: IntArray = np.arange(self.rows) + np.repeat(np.arange(len(before)) * longest - before, self.lengths)
        return places

    def _gaps(self, order: Tensor | None) -> npt.NDArray[Any]:
        """(rows,), once they are in order: the time since the row before, 0 where a series begins."""
        times = self._times() if order is None else self._times()[order.numpy()]
        gaps = np.diff(times, prepend=times[:1])
        if gaps.dtype == np.int64:
            gaps = gaps.view(np.uint64)  # times ascend, and the widest gap does not fit into int64
        gaps[np.cumsum(self.lengths) - self.lengths] = 0
        return gaps if self.stretches[0].unit == "number" else gaps * 1e-9

    def _times(self) -> npt.NDArray[Any]:
        return np.concatenate([stretch.times for stretch in self.stretches])

    def _order(self) -> Tensor | None:
        """(rows,): the rows by series and time; None if that is how they lie."""
        together = int(self.heads.sum()) == len(self.ids)
        if together and all(stretch.ordered for stretch in self.stretches) and self._joints_ascend():
            return None
        series = torch.from_numpy(np.repeat(self.codes, np.diff(self.starts, append=self.rows)))
        times = torch.from_numpy(self._times())
        # torch sorts whole numbers by radix, ten times as fast as NumPy.
        order = series.sort(stable=True).indices
        sorted_times = times[order]
        within = torch.ones(len(times), dtype=torch.bool)
        within[torch.from_numpy(np.cumsum(self.lengths) - 1)] = False
        within = within[:-1]
        if bool((within & (sorted_times[1:] < sorted_times[:-1])).any()):
            del order, sorted_times
            order = times.sort(stable=True).indices
            order = order[series[order].sort(stable=True).indices]
            sorted_times = times[order]
        twice = within & (sorted_times[1:] == sorted_times[:-1])
        if bool(twice.any()):
            raise self._time_twice(int(order[1:][twice].min()), series)
        return order

    def _found(self, row: int) -> tuple[Stretch, int]:
        """The stretch that holds a row, and its place there."""
        ends = np.cumsum([len(stretch) for stretch in self.stretches])
        where = int(np.searchsorted(ends, row, side="right"))
        return self.stretches[where], row - int(ends[where]) + len(self.stretches[where])

    def _joints_ascend(self) -> bool:
        """Whether time goes on ascending where a series goes on from one stretch to the next."""
        ends = np.cumsum([len(stretch.starts) for stretch in self.stretches])[:-1]
        goes_on = np.flatnonzero(~self.heads[ends])
        return all(self.stretches[at].times[-1] < self.stretches[at + 1].times[0] for at in goes_on)

    def _time_twice(self, row: int, series: Tensor) -> InvalidArgument:
        stretch, at = self._found(row)
        got = f"time {stretch.moment(at)} of series {self.ids[int(series[row])].as_py()!r} again"
        expected = f"a table with one row for each series and {self.chosen.time!r}"
        return self.fault(row, expected, got, "Drop one of the rows, or average them.")


def _encoded(stretches: Sequence[Stretch], parts: Sequence[Any], column: str) -> tuple[Codes, Any]:
    """`encoded`, once all parts hold names of one type."""
    for stretch, part in zip(stretches, parts, strict=True):
        if part.type != parts[0].type:
            expected = f"a table with {_word(parts[0].type)} in column {column!r} as in {stretches[0].file}"
            raise InvalidArgument(stretch.file, expected, _word(part.type), "Write all files alike.")
    return encoded(list(parts))


def _word(kind: Any) -> str:
    value = getattr(kind, "value_type", kind)
    return "text" if value == "string" else f"{value}"
