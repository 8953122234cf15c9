"""The records of every series' statistic, which determine the decisions at every threshold.

A series stops at the first time at which its statistic reaches the threshold, so only the times at which the statistic
exceeds all earlier values matter. Each is a *state*: its value, its time, and the class that would be named. One more state
ends each series: its value is infinite, and it has the last time and the class of the forced decision. At a threshold a series
is in its first state whose value is at least the threshold.
"""

from dataclasses import dataclass

import numpy as np

from sooner.report.evaluation import Evaluation
from sooner.rules import leader
from sooner.rules.records import records
from sooner.types import Decisions, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Records:
    """The states of all series, one series after the other; those of series i are starts[i]..starts[i + 1].

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
        leaders, lengths = leader(evaluation.scores).numpy(), evaluation.lengths.numpy()
        statistic = evaluation.rule.statistic_with(evaluation.scores, evaluation.halting)
        values, series, time = records(statistic.numpy(), lengths)
        ends, rows = np.cumsum(np.bincount(series)), np.arange(len(lengths))
        return cls(
            values=np.insert(values, ends, np.inf),
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
        """The decisions of the rule at that threshold."""
        state = self.starts[:-1] + np.add.reduceat(self.values < threshold, self.starts[:-1], dtype=np.int64)
        return Decisions(self.labels[state], self.times[state], state < self.starts[1:] - 1)

    def take(self, series: IntArray) -> "Records":
        """The records of some series, in that order."""
        spans = [np.arange(self.starts[i], self.starts[i + 1]) for i in series]
        states = np.concatenate(spans)
        starts = np.append(0, np.cumsum([len(span) for span in spans]))
        return Records(self.values[states], self.times[states], self.labels[states], starts, self.truths[series])

    def along(self, thresholds: FloatArray, cells: IntArray, weights: IntArray, *, size: int) -> IntArray:
        """(thresholds, size): at each threshold (ascending), the sum by cell of the weights of the states of the series.

        `cells`, in 0..size-1, and `weights` are those of each state.
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
        """(thresholds, classes): the number of wrong decisions in each class."""
        truths = self.truths[self.series]
        return self.along(thresholds, truths, (self.labels != truths).astype(np.int64), size=classes)
