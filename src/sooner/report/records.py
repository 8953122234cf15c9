"""The records of every series' statistic: all that a decision at any threshold depends on.

A series stops at the first time at which its statistic reaches the threshold, so only the times at which the statistic
rises above all before matter. Each is a *state*: its value, its time, and the class that would be named. One more state
ends each series: its value is infinite, and it holds the last time and the class that the end forces. At a threshold a series
is in its first state whose value is at least the threshold.
"""

from dataclasses import dataclass

import numpy as np
import torch

from sooner.inputs import running
from sooner.report.evaluation import Evaluation
from sooner.rules import leader
from sooner.types import Decisions, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Records:
    """The states of all series, one series after the other; those of series i lie in starts[i]..starts[i + 1].

    >>> records = Records.of(Evaluation([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1], 2.0))
    >>> records.values, records.times, records.labels
    (array([ 1.,  3., inf,  2.,  4., inf]), array([1, 2, 2, 1, 2, 2]), array([1, 0, 0, 1, 1, 1]))
    >>> records.decide(2.0)
    Decisions(labels=array([0, 1]), times=array([2, 1]), crossed=array([ True,  True]))
    """

    values: FloatArray
    times: IntArray
    labels: IntArray
    starts: IntArray
    truths: IntArray

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Records":
        """The records of an evaluation, of the very statistic that its curve was swept from."""
        live = running(evaluation.lengths, evaluation.scores.shape[1])
        statistic = evaluation.rule.statistic(evaluation.scores)
        masked = torch.where(live, statistic, -torch.inf).double().numpy()
        leaders, lengths = leader(evaluation.scores).numpy(), evaluation.lengths.numpy()
        is_record = np.ones(masked.shape, dtype=bool)
        is_record[:, 1:] = masked[:, 1:] > np.maximum.accumulate(masked, axis=1)[:, :-1]
        series, time = np.nonzero(is_record)
        ends = np.cumsum(is_record.sum(axis=1))
        rows = np.arange(len(lengths))
        return cls(
            values=np.insert(masked[series, time], ends, np.inf),
            times=np.insert(time, ends, lengths - 1) + 1,
            labels=np.insert(leaders[series, time], ends, leaders[rows, lengths - 1]),
            starts=np.append(0, ends + rows + 1),
            truths=evaluation.labels.numpy(),
        )

    def __len__(self) -> int:
        return len(self.truths)

    @property
    def series(self) -> IntArray:
        """The series that each state belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def decide(self, threshold: float) -> Decisions:
        """What the rule decides at that threshold."""
        state = self.starts[:-1] + np.add.reduceat(self.values < threshold, self.starts[:-1], dtype=np.int64)
        return Decisions(self.labels[state], self.times[state], state < self.starts[1:] - 1)

    def take(self, series: IntArray) -> "Records":
        """The records of some series, in that order."""
        spans = [np.arange(self.starts[i], self.starts[i + 1]) for i in series]
        states = np.concatenate(spans)
        starts = np.append(0, np.cumsum([len(span) for span in spans]))
        return Records(self.values[states], self.times[states], self.labels[states], starts, self.truths[series])

    def along(self, thresholds: FloatArray, cells: IntArray, weights: IntArray, *, size: int) -> IntArray:
        """(thresholds, size): at each threshold, the sum by cell of the weights of the states that the series are in.

        Args:
            thresholds: ascending.
            cells: (states,), in 0..size-1, where a state is counted.
            weights: (states,), how much it counts.
            size: how many cells there are.
        """
        leaves = np.searchsorted(thresholds, self.values, side="right")
        enters = np.roll(leaves, 1)
        enters[self.starts[:-1]] = 0
        shape = (len(thresholds) + 1, size)
        changes = [
            np.bincount(when * size + cells, weights, minlength=shape[0] * size).reshape(shape)
            for when in (enters, leaves)
        ]
        sums: IntArray = (changes[0] - changes[1]).cumsum(axis=0)[:-1].astype(np.int64)
        return sums

    def wrong_along(self, thresholds: FloatArray, *, classes: int) -> IntArray:
        """(thresholds, classes): how many decisions are wrong in each class."""
        truths = self.truths[self.series]
        return self.along(thresholds, truths, (self.labels != truths).astype(np.int64), size=classes)
