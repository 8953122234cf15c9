"""What a decision rests on: margins and posteriors of score vectors."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sooner.stream.fold import Decision
from sooner.types import FloatArray, IntArray

Posterior: TypeAlias = Callable[[FloatArray, IntArray], FloatArray]
"""(series, classes): the posteriors, from the scores that a rule reads and the number of observations."""


def margins(scores: FloatArray) -> FloatArray:
    """(series,): the largest minus the second largest score, from (series, classes)."""
    best: FloatArray = np.partition(scores, -2, axis=1)[:, -2:]
    gaps: FloatArray = best[:, 1] - best[:, 0]
    return gaps


def softmax(scores: FloatArray, times: IntArray) -> FloatArray:
    """(series, classes): the posteriors, where scores include the log prior and need no calibration."""
    del times
    weights: FloatArray = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def posteriors_of_named(
    decisions: Sequence[Decision], scores: FloatArray, classes: Sequence[Any], posterior: Posterior
) -> list[float]:
    """The posterior of the class that each decision names, or of the leading one where none is named."""
    index_of = {name: index for index, name in enumerate(classes)}
    times = np.array([decision.time for decision in decisions], dtype=np.int64)
    leaders = scores.argmax(axis=1).tolist()
    # A set of labels is a tuple, and no class.
    named = [index_of.get(d.label, leading) for d, leading in zip(decisions, leaders, strict=True)]
    return [float(p) for p in posterior(scores, times)[np.arange(len(named)), named]]
