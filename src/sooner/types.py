"""Axes, shapes of tensors, and records that all rooms share.

======== ==========================================================================
axis     meaning
======== ==========================================================================
batch    series
time     observations, counted from 1 in documents and results
classes  the K classes, 0..K-1
window   starts of windows of N+1 consecutive observations
position 1..N+1 inside a window
======== ==========================================================================

A public function takes `ArrayLike` and checks it (`sooner.inputs`); inner functions take the exact shapes below.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ArrayLike: TypeAlias = Tensor | npt.ArrayLike

Scores = Float[Tensor, "batch time classes"]
"""s_k(t): log-likelihood of each class given the first t observations, up to a term shared by all classes."""
StepScores = Float[Tensor, "batch classes"]
"""The scores at one time, one row for each live series."""
WindowLogits = Float[Tensor, "batch window position classes"]
"""z[w, j]: class logits after position j of the window that starts at w."""
Labels = Int[Tensor, " batch"]
Lengths = Int[Tensor, " batch"]
Costs = Float[Tensor, "classes"]
CostMatrix = Float[Tensor, "classes classes"]
Scalar = Float[Tensor, ""]

Observations = Shaped[Tensor, "batch time *features"]
"""x(t); one observation is a vector of channels, an image, or any other input of the model's encoder."""
StepObservations = Shaped[Tensor, "streams *features"]
LiveState: TypeAlias = tuple[Tensor, ...]
"""The state of a model for live series: tensors whose first axis is the stream, so rows can be added and dropped."""
Statistic = Float[Tensor, "batch time"]
"""A number for each time, for example a model's own halting probability."""
StepStatistic = Float[Tensor, " batch"]
StepLabels = Int[Tensor, " batch"]
StepFlags = Bool[Tensor, " batch"]
RuleState = Shaped[Tensor, "batch memory"]
"""The state of a rule for live series: one row for each, so rows can be added, dropped and saved."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Windows:
    """Class logits of a batch of series for each window start and position.

    A model of order N reads every window of N+1 consecutive observations from a fresh state; one with full memory reads one
    window as long as the series. A batch of T <= N observations is one window of T positions. `halting` is the model's own
    halting probability at each time, if it has one (EARLIEST).
    """

    logits: WindowLogits
    halting: Statistic | None = None


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decision on each series of a batch.

    `labels` are the decided classes, `times` the number of observations read (from 1), and `crossed` is False where the
    rule never fired and the end of the series forced the leader.
    """

    labels: npt.NDArray[Any]
    times: IntArray
    crossed: BoolArray

    def __len__(self) -> int:
        return len(self.times)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decisions) and _same(self, other)


@dataclass(frozen=True, eq=False)
class SATCurve:
    """The exact speed-accuracy curve of a rule, at all thresholds.

    Point j belongs to the thresholds above `thresholds[j - 1]` up to `thresholds[j]`. `errors` are balanced errors as fractions,
    `forced` the shares of forced decisions, `error_rates` the plain shares of wrong decisions, and `earliness` the mean shares of
    a series that were read, t / T. `thresholds` ascend (the last is infinite: always wait for the end), and `mean_times` never
    decrease. `absent` are the classes without a series: they are left out of the balanced error.
    """

    thresholds: FloatArray
    mean_times: FloatArray
    errors: FloatArray
    forced: FloatArray
    error_rates: FloatArray
    earliness: FloatArray
    absent: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.thresholds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SATCurve) and _same(self, other)

    def error_at(self, mean_time: npt.ArrayLike) -> Any:
        """Balanced error at a mean time: linear between neighbouring points, NaN before the first, constant after the last."""
        errors = np.interp(np.asarray(mean_time, dtype=np.float64), self.mean_times, self.errors, left=np.nan)
        return errors if np.ndim(mean_time) else float(errors)

    def plot(self, axes: "Axes | None" = None, *, label: str | None = None) -> "Axes":
        """Draw error in percent over mean time, on the given matplotlib axes or on new ones."""
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.figure().add_subplot()
        axes.plot(self.mean_times, 100 * self.errors, label=label)
        axes.set_xlabel("mean time to decision")
        axes.set_ylabel("balanced error (%)")
        return axes


def _same(left: object, right: object) -> bool:
    return all(np.array_equal(value, getattr(right, name)) for name, value in vars(left).items())
