"""The records of a statistic: all that a decision at any threshold depends on, and the sweep over all thresholds at once.

A series stops at the first time at which its statistic reaches the threshold. So only its records matter, the times at which the
statistic rises above all before. As the threshold passes a record, the series moves on to its next one, or else to its end.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.types import BoolArray, FloatArray, IntArray


def records(statistic: npt.NDArray[np.floating[Any]], lengths: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The value, the series and the time (from 0) of every record, one series after the other; each has at least one.

    Args:
        statistic: (series, time).
        lengths: (series,); what lies beyond is padding.

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
    """What happens as the threshold rises: at each record, in ascending order of value, one series moves on.

    Args:
        values: (records,), ascending.
        series: (records,), which one moves.
        time: (records,), where it stopped until then, counted from 0.
        then: (records,), where it stops from then on.
        last: (records,), True where it is the end of the series that stops it from then on.
    """

    values: FloatArray
    series: IntArray
    time: IntArray
    then: IntArray
    last: BoolArray

    @classmethod
    def of(cls, statistic: npt.NDArray[np.floating[Any]], lengths: IntArray) -> "Sweep":
        """The sweep of a statistic of shape (series, time)."""
        values, series, time = records(statistic, lengths)
        last = np.append(series[1:] != series[:-1], True)
        then = np.where(last, lengths[series] - 1, np.roll(time, -1))
        order = np.argsort(values)
        return cls(values[order], series[order], time[order], then[order], last[order])

    @property
    def thresholds(self) -> FloatArray:
        """Every threshold that decides otherwise than the one before; the last is infinite: always wait for the end."""
        return np.append(self.values[self._ends], np.inf)

    def sums(self, start: float, changes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A sum over series at each threshold, from what it is at the least one and from what each move changes."""
        sums: npt.NDArray[Any] = start + np.append(0, np.cumsum(changes)[self._ends])
        return sums

    @cached_property
    def _ends(self) -> IntArray:
        """The last record of each value."""
        return np.flatnonzero(np.append(self.values[1:] != self.values[:-1], True))
