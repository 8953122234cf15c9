"""Label sets with a coverage that holds at every time, whatever the scores are worth.

========= ==========================================================================
symbol    meaning
========= ==========================================================================
o_l(t)    log sum_{k != l} exp(s_k(t) - s_l(t)), the log-odds against class l
E_i       max over t of o_y(t), for calibration series i of class y
q         the ceil((n + 1) coverage)-th smallest E_i; infinite if that exceeds n
C_t       {l : o_l(u) <= q for all u <= t}
========= ==========================================================================

If the calibration series are exchangeable with a future one, and neither training nor any choice has seen them, then
P(y in C_t for all t) >= coverage: the sets may be read at any time, and any stopping rule may be used. The coverage is that of
all classes together, with the class shares of the calibration series.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_number, as_seed
from sooner.scores import Scored, class_log_odds_against
from sooner.types import ArrayLike, BoolArray, FloatArray, IntArray

ROWS = 500
"""So many series are read at a time."""
_SHARE = "It is the probability that a set contains the true label: 0.9 means 90%."


@dataclass(frozen=True, eq=False)
class LabelSets:
    """The label set of each series after each observation; it never grows. An empty set says "none of the known classes".

    Attributes:
        members: (n_cases, n_timepoints, n_classes), True where the label is in the set. Beyond the end of a series its last set
            is repeated.
        lengths: (n_cases,).
        classes: the names of the classes.
        limit: q, what the log-odds against a label may reach; infinite if so few calibration series exclude no label.

    >>> sets = label_sets([[[0.0, 1.0, 0.0], [0.0, 3.0, 1.0]]], 1.5, classes=["calm", "rain", "storm"])
    >>> sets.sizes
    array([[3, 1]])
    >>> sets.at(1), sets.last
    ([('calm', 'rain', 'storm')], [('rain',)])
    """

    members: BoolArray
    lengths: IntArray
    classes: tuple[Any, ...]
    limit: float

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def sizes(self) -> IntArray:
        """(n_cases, n_timepoints): the number of labels in each set."""
        sizes: IntArray = self.members.sum(axis=2)
        return sizes

    @property
    def last(self) -> list[tuple[Any, ...]]:
        """The labels of each series at its end, in the order of `classes`."""
        return [named(row, self.classes) for row in self.members[:, -1]]

    def at(self, time: ArrayLike) -> list[tuple[Any, ...]]:
        """The labels of each series after `time` observations (one number, or one for each series), for example at decisions."""
        times = np.broadcast_to(np.asarray(time), self.lengths.shape)
        if not np.issubdtype(times.dtype, np.integer) or not ((times >= 1) & (times <= self.members.shape[1])).all():
            expected, remedy = f"whole numbers in 1..{self.members.shape[1]}", "Times count observations from 1."
            raise InvalidArgument("time", expected, np.unique(times).tolist(), remedy)
        return [named(row[t - 1], self.classes) for row, t in zip(self.members, times.tolist(), strict=True)]


def label_sets(
    scores: ArrayLike, limit: float, *, lengths: ArrayLike | None = None, classes: Sequence[Any] | None = None
) -> LabelSets:
    """The label sets of series, from their scores. For a classifier, `clf.label_sets(X)` does the same.

    Args:
        scores: (batch, time, classes).
        limit: q, from `coverage_limit` for calibration series.
        lengths: (batch,); everything beyond is padding.
        classes: the names of the classes; by default 0..K-1.
    """
    scored = Scored.of(scores, lengths=lengths)
    q = as_number(limit, name="limit", low=-math.inf, remedy="`coverage_limit` gives it.")
    names = tuple(range(scored.scores.shape[2])) if classes is None else tuple(classes)
    if len(names) != scored.scores.shape[2]:
        expected, remedy = f"{scored.scores.shape[2]} names", "Give one for each class of the scores."
        raise InvalidArgument("classes", expected, f"{len(names)}", remedy)
    return label_sets_of(scored, q, names)


def label_sets_of(scored: Scored, limit: float, classes: tuple[Any, ...]) -> LabelSets:
    """`label_sets` of a checked record."""
    members = np.empty(scored.scores.shape, dtype=bool)
    for start in range(0, len(scored), ROWS):
        rows = slice(start, start + ROWS)
        odds = torch.from_numpy(log_odds_against_of(scored, rows))
        members[rows] = odds.cummax(dim=1).values.numpy() <= limit
    return LabelSets(members, scored.lengths, classes, limit)


def coverage_limit(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    coverage: float = 0.9,
    lengths: ArrayLike | None = None,
    groups: Any = None,
    seed: int = 0,
) -> float:
    """q, the limit of the log-odds with which label sets contain the true label of `coverage` of future series, at all times.

    Infinity, with which every set is full, if there are fewer than coverage / (1 - coverage) calibration series.

    Args:
        scores: (batch, time, classes), of series that neither training nor any choice has seen.
        labels: (batch,), in 0..K-1.
        coverage: between 0 and 1.
        lengths: (batch,); everything beyond is padding.
        groups: (batch,), group IDs. One series of each group, drawn at random, is used: the coverage is then that of a random
            series of a new group.
        seed: of that draw.

    >>> coverage_limit([[[2.0, 0.0]], [[1.0, 0.0]], [[0.0, 3.0]]], [0, 0, 1], coverage=0.5)
    -2.0
    """
    scored = Scored.of(scores, labels, lengths=lengths, groups=groups)
    return coverage_limit_of(scored, as_coverage(coverage), seed=as_seed(seed))


def coverage_limit_of(scored: Scored, coverage: float, *, seed: int = 0) -> float:
    """`coverage_limit` of a checked record."""
    largest = largest_log_odds(one_per_group(scored, seed))
    # A coverage such as 0.7 is not exact in binary, and 10 x 0.7 must be 7.
    rank = math.ceil((len(largest) + 1) * coverage - 1e-9)
    return math.inf if rank > len(largest) else float(np.partition(largest, max(rank, 1) - 1)[max(rank, 1) - 1])


def series_for_coverage(coverage: float) -> int:
    """The smallest number of calibration series with which sets of that coverage can exclude a label.

    >>> series_for_coverage(0.9), series_for_coverage(0.99)
    (9, 99)
    """
    return math.ceil(coverage / (1 - coverage) - 1e-9)


def largest_log_odds(scored: Scored) -> FloatArray:
    """(series,): E_i, the largest log-odds against the true label of each series, over its observations."""
    largest = np.empty(len(scored))
    for start in range(0, len(scored), ROWS):
        rows = slice(start, start + ROWS)
        truths = scored.truths[rows, None, None]
        largest[rows] = np.take_along_axis(log_odds_against_of(scored, rows), truths, axis=2)[:, :, 0].max(axis=1)
    return largest


def one_per_group(scored: Scored, seed: int) -> Scored:
    """One series of each group, drawn at random, or all of them if there are no groups."""
    if scored.groups is None:
        return scored
    order = np.random.default_rng(seed).permutation(len(scored))
    return scored.take(np.sort(order[np.unique(scored.groups[order], return_index=True)[1]]))


def named(members: BoolArray, classes: Sequence[Any]) -> tuple[Any, ...]:
    """The names of the labels in a set."""
    return tuple(classes[index] for index in np.flatnonzero(members))


def as_coverage(value: object) -> float:
    """A coverage, checked."""
    return as_between(value, name="coverage", low=0.0, high=1.0, remedy=_SHARE)


def log_odds_against_of(scored: Scored, rows: slice) -> FloatArray:
    """(series, time, classes): o_l(t), minus infinity beyond the end of a series."""
    odds: FloatArray = class_log_odds_against(torch.from_numpy(scored.scores[rows])).numpy()
    odds[~scored.live[rows]] = -np.inf
    return odds
