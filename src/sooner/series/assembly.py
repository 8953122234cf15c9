"""Batches of rows become series: which rows belong to which, in which order, and one tensor of them all.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.series.columns import ColumnChoice
from sooner.series.rows import Codes, RowBatch, encoded
from sooner.types import BoolArray, IntArray, Observations


@dataclass(frozen=True, eq=False)
class Assembly:
    """The runs of some batches, one behind the other.

    Args:
        batches: where the rows come from, all of one unit of time.
        choice: the names of their columns.
        ids: (series,), in the order in which they first appear.
        codes: (runs,), the series of each run, as an index into `ids`.
        starts: (runs,), the row where each run begins, counted over all batches.
        lengths: (series,), how many rows each has.
    """

    batches: Sequence[RowBatch]
    choice: ColumnChoice
    ids: Any
    codes: Codes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, batches: Sequence[RowBatch], choice: ColumnChoice) -> "Assembly":
        """Put the batches together."""
        for batch in batches:
            if batch.unit != batches[0].unit:
                expected = f"a table with {batches[0].unit}s in column {choice.time!r} as in the rows before"
                got = f"{batch.unit}s from row {batch.origin.at(0)[1]} on"
                raise InvalidArgument(batch.file, expected, got, "Write all times alike.")
        codes, ids = _encoded(batches, [batch.ids for batch in batches], choice.series)
        before = np.cumsum([0, *map(len, batches)])
        starts = np.concatenate([batch.starts + first for batch, first in zip(batches, before, strict=False)])
        lengths = np.bincount(codes, weights=np.diff(starts, append=before[-1])).astype(np.int64)
        return cls(batches, choice, ids, codes, starts, lengths)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.lengths.sum())

    @property
    def heads(self) -> BoolArray:
        """(runs,): False where a run goes on with the series of the run before, from one batch to the next."""
        return np.concatenate([[True], self.codes[1:] != self.codes[:-1]])

    def fault(self, row: int, expected: str, got: str, remedy: str) -> InvalidArgument:
        """A sentence about a row, counted over all batches from 0."""
        batch, at = self._found(row)
        file, number = batch.origin.at(at)
        return InvalidArgument(file, expected, f"{got} at row {number}", remedy)

    def returns(self, seen: set[Any]) -> bool:
        """Whether a series is more than one run, or one of those seen before; if not, they join those."""
        ids = self.ids.to_pylist()
        if int(self.heads.sum()) > len(ids) or not seen.isdisjoint(ids):
            return True
        seen.update(ids)
        return False

    def names(self, parts: Sequence[Any], column: str) -> tuple[Codes, Any]:
        """Places (series,) among the names of the runs, and these names; each series must have one."""
        runs, names = _encoded(self.batches, parts, column)
        places = np.empty(len(self.ids), dtype=np.int32)
        places[self.codes[::-1]] = runs[::-1]  # the first run of a series is written last, and stays
        torn = np.flatnonzero(places[self.codes] != runs)
        if len(torn):
            run, known = torn[0], names.to_pylist()
            first, name = known[places[self.codes[run]]], self.ids[int(self.codes[run])].as_py()
            got = f"{known[runs[run]]!r} after {first!r} in series {name!r}"
            expected = f"a table with one name for each series in column {column!r}"
            raise self.fault(int(self.starts[run]), expected, got, "Check that row; all rows of a series must agree.")
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
            raise InvalidArgument(self.batches[0].file, "a table that fits into memory", got, remedy) from None

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
        return gaps if self.batches[0].unit == "number" else gaps * 1e-9

    def _times(self) -> npt.NDArray[Any]:
        return np.concatenate([batch.times for batch in self.batches])

    def _order(self) -> Tensor | None:
        """(rows,): the rows by series and time; None if that is how they are."""
        together = int(self.heads.sum()) == len(self.ids)
        if together and all(batch.ordered for batch in self.batches) and self._joints_ascend():
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

    def _found(self, row: int) -> tuple[RowBatch, int]:
        """The batch that holds a row, and its index there."""
        ends = np.cumsum([len(batch) for batch in self.batches])
        where = int(np.searchsorted(ends, row, side="right"))
        return self.batches[where], row - int(ends[where]) + len(self.batches[where])

    def _joints_ascend(self) -> bool:
        """Whether time goes on ascending where a series goes on from one batch to the next."""
        ends = np.cumsum([len(batch.starts) for batch in self.batches])[:-1]
        goes_on = np.flatnonzero(~self.heads[ends])
        return all(self.batches[at].times[-1] < self.batches[at + 1].times[0] for at in goes_on)

    def _time_twice(self, row: int, series: Tensor) -> InvalidArgument:
        batch, at = self._found(row)
        got = f"time {batch.moment(at)} of series {self.ids[int(series[row])].as_py()!r} again"
        expected = f"a table with one row for each series and {self.choice.time!r}"
        return self.fault(row, expected, got, "Drop one of the rows, or average them.")


def _encoded(batches: Sequence[RowBatch], parts: Sequence[Any], column: str) -> tuple[Codes, Any]:
    """`encoded`, once all parts hold names of one type."""
    for batch, part in zip(batches, parts, strict=True):
        if part.type != parts[0].type:
            expected = f"a table with {_word(parts[0].type)} in column {column!r} as in {batches[0].file}"
            raise InvalidArgument(batch.file, expected, _word(part.type), "Write all files alike.")
    return encoded(list(parts))


def _word(kind: Any) -> str:
    value = getattr(kind, "value_type", kind)
    return "text" if value == "string" else f"{value}"
