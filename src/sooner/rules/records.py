"""Records of a statistic, and the sweep over all thresholds at once.

A series stops at the first time at which its statistic reaches the threshold. So only its records matter, the times at which the
statistic rises above all earlier values. When the threshold passes a record, the series moves to its next record, or to its end.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.types import BoolArray, FloatArray, IntArray


def records(statistic: npt.NDArray[np.floating[Any]], lengths: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The value, series and time (from 0) of every record, ordered by series; each series has at least one.

    >>> records(np.array([[1.0, 0.5, 3.0], [2.0, 4.0, 9.0]]), np.array([3, 2]))
    (array([1., 3., 2., 4.]), array([0, 0, 1, 1]), array([0, 2, 0, 1]))
    """
    live = np.arange(statistic.shape[1]) < lengths[:, None]
    masked = np.where(live, statistic, -np.inf).astype(np.float64, copy=False)
    is_record = np.ones(masked.shape, dtype=bool)
    is_record[:, 1:] = masked[:, 1:] > np.maximum.accumulate(masked, axis=1)[:, :-1]
    series, time = np.nonzero(is_record)
    return masked[series, time], series, time


@dataclass(frozen=True, eq=False)
class Sweep:
    """The records in ascending order of value: as the threshold passes each of them, one series moves to a later time.

    Args:
        values: (records,), ascending.
        series: (records,), the series that moves.
        time: (records,), the time from which it moves, counted from 0.
        later: (records,), the time to which it moves.
        last: (records,), whether it moves to the end of the series.
    """

    values: FloatArray
    series: IntArray
    time: IntArray
    later: IntArray
    last: BoolArray

    @classmethod
    def of(cls, statistic: npt.NDArray[np.floating[Any]], lengths: IntArray) -> "Sweep":
        """The sweep of a statistic of shape (series, time)."""
        values, series, time = records(statistic, lengths)
        last = np.append(series[1:] != series[:-1], True)
        later = np.where(last, lengths[series] - 1, np.roll(time, -1))
        order = np.argsort(values)
        return cls(values[order], series[order], time[order], later[order], last[order])

    @property
    def thresholds(self) -> FloatArray:
        """All thresholds with different decisions; the last is infinite, where every series runs to its end."""
        return np.append(self.values[self._ends], np.inf)

    def sums(self, start: float, changes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A sum over series at each threshold, from its value at the least one and the change of each move."""
        sums: npt.NDArray[Any] = start + np.append(0, np.cumsum(changes)[self._ends])
        return sums

    @cached_property
    def _ends(self) -> IntArray:
        """Index of the last record of each value."""
        return np.flatnonzero(np.append(self.values[1:] != self.values[:-1], True))
