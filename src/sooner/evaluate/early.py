"""The error among the series that are decided by t, for all t at once, in two stages (Ringel et al. 2024, arXiv 2402.13857).

The first half of the calibration series chooses a threshold a; anything may be done with it. On the second half, which it has not
seen, the start s walks down from the longest length: the rule has threshold a and stops not before s. The null hypothesis at s is
"for some t >= s, the error among those decided by t is above the level". Given that n_t series are decided by t, the number W_t
of wrong ones is binomial, so max over t >= s of P(Bin(n_t, level) <= W_t) is a valid p-value, and the walk is a fixed sequence.
A series that ends before s is decided at its end; it counts for every t >= s.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.evaluate.choose import midpoint_rule_at
from sooner.evaluate.pvalues import binomial_limit
from sooner.rules import NotBefore, ThresholdRule
from sooner.rules.records import Sweep
from sooner.types import BoolArray, FloatArray, IntArray

_CANDIDATES = 64


def early_rule(
    family: type[ThresholdRule],
    statistic: npt.NDArray[np.floating[Any]],
    wrong: BoolArray,
    lengths: IntArray,
    *,
    parts: tuple[IntArray, IntArray],
    level: float,
    delta: float,
) -> NotBefore | None:
    """The rule that passes, or None.

    Args:
        family: of the rules.
        statistic: (series, time), which is compared with the threshold.
        wrong: (series, time), True where a decision then would be wrong.
        lengths: (series,).
        parts: the rows of the first stage and those of the second.
        level: the promised error.
        delta: 1 - confidence.
    """
    first, second = parts
    limits = np.atleast_1d(binomial_limit(np.arange(len(first) + len(second) + 1), level, delta))
    thresholds = Sweep.of(statistic[first], lengths[first]).thresholds if len(first) else np.array([np.inf])
    tried = np.unique(np.linspace(0, len(thresholds) - 1, _CANDIDATES).round().astype(np.int64))
    means = []
    for threshold in thresholds[tried]:
        passed = list(_passing(statistic[first] >= threshold, wrong[first], lengths[first], limits))
        means.append(passed[-1][1] if passed else np.inf)
    chosen = len(means) - 1 - int(np.argmin(means[::-1]))  # the most cautious one in a tie
    rule = midpoint_rule_at(family, thresholds, int(tried[chosen]))
    fires = statistic[second] >= rule.cutoff
    starts = [start for start, _ in _passing(fires, wrong[second], lengths[second], limits)]
    return NotBefore(rule, starts[-1]) if starts else None


def _passing(fires: BoolArray, wrong: BoolArray, lengths: IntArray, limits: FloatArray) -> Iterator[tuple[int, float]]:
    """The starts (from 1) that pass, from the last one down to the first failure, each with its mean time of decision."""
    series, horizon = fires.shape
    rows, stops = np.arange(series), lengths - 1
    for start in range(horizon, 0, -1):
        stops = np.where(fires[:, start - 1] & (start <= lengths), start - 1, stops)
        decided = np.cumsum(np.bincount(stops, minlength=horizon))[start - 1 :]
        bad = np.cumsum(np.bincount(stops, wrong[rows, stops], minlength=horizon))[start - 1 :]
        if not (bad <= limits[decided]).all():
            return
        yield start, float(stops.mean()) + 1
