"""Assembly of batches of rows into series (imported late: it needs pyarrow)."""

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
    """The runs of consecutive batches."""

    batches: Sequence[RowBatch]
    choice: ColumnChoice
    ids: Any  # (series,), in the order in which they first appear
    codes: Codes  # (runs,), the series of each run, as an index into `ids`
    starts: IntArray  # (runs,), the first row of each run, counted over all batches
    lengths: IntArray  # (series,), the number of rows of each series

    @classmethod
    def of(cls, batches: Sequence[RowBatch], choice: ColumnChoice) -> "Assembly":
        """The runs of these batches, whose times must have one unit."""
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
        """The number of rows."""
        return int(self.lengths.sum())

    @property
    def heads(self) -> BoolArray:
        """(runs,): False where a run continues the series of the run before, from one batch to the next."""
        return np.concatenate([[True], self.codes[1:] != self.codes[:-1]])

    def fault(self, row: int, expected: str, got: str, remedy: str) -> InvalidArgument:
        """The error for a row, counted over all batches from 0."""
        batch, index = self._locate(row)
        return batch.origin.fault(index, expected, got, remedy)

    def returns(self, seen: set[Any]) -> bool:
        """Whether the rows of a series are not contiguous, here or together with those of `seen`; if they are, update `seen`."""
        ids = self.ids.to_pylist()
        if int(self.heads.sum()) > len(ids) or not seen.isdisjoint(ids):
            return True
        seen.update(ids)
        return False

    def names(self, columns: Sequence[Any], name: str) -> tuple[Codes, Any]:
        """(series,) indices into the different names of the runs, and these names; all runs of a series must agree."""
        runs, names = _encoded(self.batches, columns, name)
        indices = np.empty(len(self.ids), dtype=np.int32)
        indices[self.codes[::-1]] = runs[::-1]  # the first run of a series is written last
        differing = np.flatnonzero(indices[self.codes] != runs)
        if len(differing):
            run, known = differing[0], names.to_pylist()
            series = int(self.codes[run])
            got = f"{known[runs[run]]!r} after {known[indices[series]]!r} in series {self.ids[series].as_py()!r}"
            expected = f"with one name for each series in column {name!r}"
            raise self.fault(int(self.starts[run]), expected, got, "Check that row; all rows of a series must agree.")
        return indices, names

    def observations(self, values: npt.NDArray[Any], gap: int | None) -> Observations:
        """(series, time, channels) from (rows, channels); the channel `gap` becomes the time since the observation before."""
        order, longest, series = self._order(), int(self.lengths.max()), len(self.lengths)
        rows = x = torch.from_numpy(values)
        if order is not None or len(rows) != series * longest:
            targets = torch.from_numpy(self._targets(longest))
            targets = targets if order is None else torch.empty_like(targets).index_copy_(0, order, targets)
            x = self._zeros(rows, longest).index_copy_(0, targets, rows)
        if gap is not None:
            x[torch.from_numpy(self._targets(longest)), gap] = torch.from_numpy(self._gaps(order)).to(x.dtype)
        return x.reshape(series, longest, -1)

    def _zeros(self, rows: Tensor, longest: int) -> Tensor:
        try:
            return rows.new_zeros(len(self.lengths) * longest, rows.shape[1])
        except RuntimeError:
            got = f"{len(self.lengths)} series, the longest of {longest} rows"
            remedy = "All are padded to the longest: cut it, or read the table in chunks."
            raise InvalidArgument(self.batches[0].file, "a table that fits into memory", got, remedy) from None

    def _targets(self, longest: int) -> IntArray:
        """(rows,): the row of each sorted row among series that are all padded to `longest` rows."""
        before = np.cumsum(self.lengths) - self.lengths
        targets: IntArray = np.arange(self.rows) + np.repeat(np.arange(len(before)) * longest - before, self.lengths)
        return targets

    def _gaps(self, order: Tensor | None) -> npt.NDArray[Any]:
        """(rows,): the time since the row before in sorted order, 0 for the first row of a series."""
        times = self._times() if order is None else self._times()[order.numpy()]
        gaps = np.diff(times, prepend=times[:1])
        if gaps.dtype == np.int64:
            gaps = gaps.view(np.uint64)  # times ascend, and the widest gap does not fit into int64
        gaps[np.cumsum(self.lengths) - self.lengths] = 0
        return gaps if self.batches[0].unit == "number" else gaps * 1e-9

    def _times(self) -> npt.NDArray[Any]:
        return np.concatenate([batch.times for batch in self.batches])

    def _order(self) -> Tensor | None:
        """(rows,): the rows by series and time; None if they are sorted."""
        contiguous = int(self.heads.sum()) == len(self.ids)
        if contiguous and all(batch.ordered for batch in self.batches) and self._ascends_between_batches():
            return None
        series = torch.from_numpy(np.repeat(self.codes, np.diff(self.starts, append=self.rows)))
        times = torch.from_numpy(self._times())
        # torch sorts integers by radix, ten times as fast as NumPy.
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
        duplicate = within & (sorted_times[1:] == sorted_times[:-1])
        if bool(duplicate.any()):
            row = int(order[1:][duplicate].min())
            batch, index = self._locate(row)
            got = f"time {batch.time_text(index)} of series {self.ids[int(series[row])].as_py()!r} again"
            expected = f"with one row for each series and {self.choice.time!r}"
            raise self.fault(row, expected, got, "Drop one of the rows, or average them.")
        return order

    def _locate(self, row: int) -> tuple[RowBatch, int]:
        """The batch of a row, and its index there."""
        ends = np.cumsum([len(batch) for batch in self.batches])
        index = int(np.searchsorted(ends, row, side="right"))
        return self.batches[index], row - int(ends[index]) + len(self.batches[index])

    def _ascends_between_batches(self) -> bool:
        """Whether time also ascends where a series continues from one batch to the next."""
        ends = np.cumsum([len(batch.starts) for batch in self.batches])[:-1]
        continued = np.flatnonzero(~self.heads[ends])
        return all(self.batches[index].times[-1] < self.batches[index + 1].times[0] for index in continued)


def _encoded(batches: Sequence[RowBatch], columns: Sequence[Any], name: str) -> tuple[Codes, Any]:
    """`encoded`, for columns that all have one type."""
    for batch, column in zip(batches, columns, strict=True):
        if column.type != columns[0].type:
            expected = f"a table with {_type_name(columns[0].type)} in column {name!r} as in {batches[0].file}"
            raise InvalidArgument(batch.file, expected, _type_name(column.type), "Write all files alike.")
    return encoded(list(columns))


def _type_name(arrow_type: Any) -> str:
    value = getattr(arrow_type, "value_type", arrow_type)
    return "text" if value == "string" else f"{value}"
