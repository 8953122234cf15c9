"""What a decision costs: the error, by true and decided class, and the waiting until then.

======== ==================================================================
symbol   meaning
======== ==================================================================
C[k, l]  cost of deciding class l where class k is true
w(t)     cost of waiting until observation t (or until a share of the series)
======== ==================================================================
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_finite, as_nonnegative, as_number, as_real
from sooner.scores import Scored
from sooner.types import ArrayLike, FloatArray

Waiting: TypeAlias = float | FloatArray | Callable[[FloatArray], Any]
Clock: TypeAlias = Literal["observations", "share"]

_WAITING = "It is a number for each observation, an array with the cost of deciding at times 1, 2, ..., or a function of times."
_ERRORS = "Entry [k, l] is the cost of deciding class l where class k is true; costs are finite."


@dataclass(frozen=True, eq=False)
class DecisionCost:
    """The cost of a decision: C[true, decided] + w(t).

    Args:
        error: the cost of any wrong decision, or C of shape (classes, classes), indexed [true, decided].
        waiting: the cost of one observation; or an array whose entry t - 1 is the cost of deciding at observation t; or a
            function that takes an array of times and returns their costs.
        clock: what the waiting is a function of: "observations" (counted from 1), or "share" of the series that was read, t / T.

    >>> cost = DecisionCost([[0.0, 1.0], [5.0, 0.0]], waiting=lambda t: 0.01 * t**2)
    >>> cost.paid(Scored.of([[[1.0, 0.0], [0.0, 1.0]]], [1])).round(2).tolist()     # class 0 is named at first
    [[5.01, 0.04]]
    """

    error: float | FloatArray
    waiting: Waiting
    clock: Clock = "observations"

    def __post_init__(self) -> None:
        if self.clock not in ("observations", "share"):
            raise UnknownName("clock", self.clock, ("observations", "share"))
        object.__setattr__(self, "error", _as_error(self.error))
        if not callable(self.waiting):
            object.__setattr__(self, "waiting", _as_waiting(self.waiting, self.clock))

    @classmethod
    def of(cls, waiting: Any, error: Any = 1.0, matrix: ArrayLike | None = None) -> "DecisionCost":
        """The cost from the arguments `cost_of_waiting`, `cost_of_error` and `cost_matrix`, which replaces the second."""
        if matrix is None:
            try:
                return cls(_as_one_error(error), waiting)
            except InvalidArgument as wrong:
                raise wrong.about(f"cost_of_{wrong.argument}") from None
        if error != 1.0:
            raise InvalidArgument("cost_of_error", "left out with a cost matrix", error, "The matrix has all errors.")
        try:
            return cls(np.atleast_1d(as_real(matrix, name="cost_matrix")), waiting)
        except InvalidArgument as wrong:
            names = {"error": "cost_matrix", "waiting": "cost_of_waiting"}
            raise wrong.about(names.get(wrong.argument, wrong.argument)) from None

    @classmethod
    def average(cls, alpha: float = 0.5) -> "DecisionCost":
        """alpha for an error and (1 - alpha) x the share of the series that was read, as benchmarks of the field have it."""
        weight = as_number(alpha, name="alpha", low=0.0, high=1.0, remedy="It weighs errors against waiting.")
        return cls(weight, 1 - weight, "share")

    def matrix(self, classes: int) -> FloatArray:
        """C, (classes, classes)."""
        if isinstance(self.error, float):
            return self.error * (1 - np.eye(classes))
        if len(self.error) != classes:
            got, remedy = f"{len(self.error)} classes", "Give one row for each true class, one column for each decided."
            raise InvalidArgument("cost_matrix", f"of {classes} classes, as the scores are", got, remedy)
        return self.error

    def errors(self, scored: Scored) -> FloatArray:
        """(series, time): the cost of naming the leader of each time; beyond the end of a series, that of its last one."""
        named = scored.scores.argmax(axis=2)
        last = np.minimum(np.arange(named.shape[1]), scored.lengths[:, None] - 1)
        costs: FloatArray = self.matrix(scored.scores.shape[2])[
            scored.truths[:, None], np.take_along_axis(named, last, axis=1)
        ]
        return costs

    def waits(self, scored: Scored) -> FloatArray:
        """(series, time): the cost of waiting until each time; beyond the end of a series, until its end."""
        times = np.minimum(np.arange(1.0, scored.scores.shape[1] + 1), scored.lengths[:, None])
        if self.clock == "share":
            return _costs_at(self.waiting, times / scored.lengths[:, None])
        every = _costs_at(self.waiting, np.arange(1.0, scored.lengths.max() + 1))
        waits: FloatArray = every[times.astype(np.int64) - 1]
        return waits

    def paid(self, scored: Scored) -> FloatArray:
        """(series, time): the cost of stopping each series at each time, and naming its leader."""
        return self.errors(scored) + self.waits(scored)


def _as_error(error: Any) -> float | FloatArray:
    if np.ndim(error) == 0:
        return _as_one_error(error)
    shape = np.shape(error)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
        raise InvalidArgument("error", "a number or a K x K matrix", f"shape {shape}", _ERRORS)
    matrix = as_nonnegative(error, shape, name="error", remedy=_ERRORS)
    if not np.isfinite(matrix).all():
        raise InvalidArgument("error", "finite everywhere", "infinity", _ERRORS)
    return matrix


def _as_one_error(error: Any) -> float:
    return as_finite(error, name="error", low=0.0, remedy="Costs are at least 0.")


def _as_waiting(waiting: Any, clock: Clock) -> float | FloatArray:
    if np.ndim(waiting) == 0:
        return as_finite(waiting, name="waiting", low=0.0, remedy="Costs are at least 0.")
    if np.ndim(waiting) != 1 or clock == "share":
        raise InvalidArgument(
            "waiting",
            "a number, a list of costs by time, or a function",
            f"an array of shape {np.shape(waiting)} by {clock}",
            _WAITING,
        )
    return as_nonnegative(waiting, np.shape(waiting), name="waiting", remedy=_WAITING)


def _costs_at(waiting: Waiting, times: FloatArray) -> FloatArray:
    """The costs of waiting until these times."""
    if isinstance(waiting, float):
        return waiting * times
    if not callable(waiting):
        if len(waiting) < times.size:
            got = f"{len(waiting)} costs"
            raise InvalidArgument("cost_of_waiting", f"as long as the longest series, {times.size}", got, _WAITING)
        return waiting[: times.size]
    costs = as_nonnegative(waiting(times), times.shape, name="cost_of_waiting", remedy=_WAITING)
    if not np.isfinite(costs).all():
        raise InvalidArgument("cost_of_waiting", "finite at all times", "infinity", _WAITING)
    return costs
