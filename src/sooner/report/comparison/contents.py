"""The contents of a comparison of our speed-accuracy curves with the published ones."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from torch import Tensor

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_finite, as_real, as_whole, with_lengths
from sooner.report.trajectories import leads
from sooner.rules import MSPRT
from sooner.types import FloatArray

Origin: TypeAlias = Literal["ours", "published"]
Highlight: TypeAlias = Literal["headline", "plain"]


class Band(NamedTuple):
    """Errors in percent, one standard error below and above, at the mean times that have one."""

    times: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Line:
    """A speed-accuracy curve of one model, or a single point of it, which is drawn as a marker.

    Args:
        name: the model. Ours and the published one of the same name share a hue.
        origin: "ours" or "published".
        times: mean times, ascending.
        errors: balanced errors in percent, one for each time.
        trials: number of trainings over which the errors are averaged.
        sem: standard errors of the mean in percent; NaN where there is none, as with a single trial.
        highlight: "headline" for the thickest line, with its band of one standard error.

    >>> Line("LSTM-s", "published", [5.0, 6.5], [20.51, 15.393], trials=300, sem=[0.007, np.nan]).texts
    ('time 5, error 20.510 ± 0.007 %', 'time 6.5, error 15.393 %')
    """

    name: str
    origin: Origin
    times: FloatArray
    errors: FloatArray
    _: KW_ONLY
    trials: int
    sem: FloatArray | None = None
    highlight: Highlight = "plain"

    def __post_init__(self) -> None:
        for name, choices in (("origin", get_args(Origin)), ("highlight", get_args(Highlight))):
            if getattr(self, name) not in choices:
                raise UnknownName(name, getattr(self, name), choices)
        times = _as_times(self.times)
        checked = {
            "name": str(self.name),
            "times": times,
            "errors": _as_percent(self.errors, len(times), name="errors"),
            "trials": as_whole(self.trials, name="trials", low=1, remedy="It counts the trainings behind the errors."),
            "sem": None if self.sem is None else _as_sem(self.sem, len(times)),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def origin_and_trials(self) -> str:
        """The origin and the number of trials as text."""
        return f"{self.origin}, {self.trials:,} trial{'s' if self.trials > 1 else ''}"

    @property
    def texts(self) -> tuple[str, ...]:
        """Each point as text."""
        sem = np.full(len(self.times), np.nan) if self.sem is None else self.sem
        return tuple(map(_point_text, self.times.tolist(), self.errors.tolist(), sem.tolist()))

    @property
    def band(self) -> Band | None:
        """One standard error to each side, or None without standard errors."""
        if self.sem is None or not (known := np.isfinite(self.sem)).any():
            return None
        errors, sem = self.errors[known], self.sem[known]
        return Band(self.times[known], np.maximum(errors - sem, 0.0), np.minimum(errors + sem, 100.0))


@dataclass(frozen=True)
class Table:
    """A table of ready texts; the first column names its rows.

    >>> Table("Errors", ("time", "ours"), (("5", "10.8 %"), ("10", "2.1 %"))).rows[1]
    ('10', '2.1 %')
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                expected = f"{len(self.columns)} cells a row, as there are columns"
                raise InvalidArgument("rows", expected, f"{len(row)} in row {index}", "Leave a cell blank with ''.")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The leads of the classes of one series over time.

    Args:
        title: the heading of its panel.
        truth: the true class, in 0..K-1.
        scores: (time, classes).
        threshold: the threshold of MSPRT; None draws no threshold and no decision.
        classes: names of the K classes; by default 0..K-1.

    >>> Trajectories("A quick one", 1, [[0.0, 1.5], [0.0, 4.0]], 3.0, ("cat", "dog")).stop
    (1, 2)
    """

    title: str
    truth: int
    scores: Tensor
    threshold: float | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        scores = as_real(self.scores, name="scores")
        if scores.ndim != 2:
            raise InvalidArgument("scores", "of shape (time, classes)", f"shape {scores.shape}", "Give one series.")
        batch, count = with_lengths(scores[None], None)[0], scores.shape[1]
        truth = as_whole(self.truth, name="truth", low=0, remedy="It is the index of the true class, from 0.")
        if truth >= count:
            raise InvalidArgument("truth", f"in 0..{count - 1}", truth, f"The scores have {count} classes.")
        if len(self.classes) not in (0, count):
            raise InvalidArgument("classes", f"{count} names", len(self.classes), "Give one name for each class.")
        if self.threshold is not None:
            as_finite(self.threshold, name="threshold", low=0.0, remedy="Without a threshold, give None.")
        object.__setattr__(self, "scores", batch[0])
        object.__setattr__(self, "classes", tuple(map(str, self.classes or range(count))))

    @property
    def leads(self) -> FloatArray:
        """(time, classes): the smallest log-likelihood ratio of each class to the others."""
        return leads(self.scores)

    @property
    def stop(self) -> tuple[int, int] | None:
        """The predicted class and the time of the decision, or None if the threshold is not reached."""
        if self.threshold is None:
            return None
        decided = MSPRT(self.threshold).decide(self.scores[None])
        return (int(decided.labels[0]), int(decided.times[0])) if decided.crossed[0] else None

    @property
    def text(self) -> str:
        """The true class and the decision as text."""
        truth = f"True class: {self.classes[self.truth]}."
        if self.threshold is None:
            return truth
        if self.stop is None:
            return f"{truth} The threshold of {self.threshold:.4g} is not reached."
        named, time = self.stop
        return f"{truth} With a threshold of {self.threshold:.4g} it is named {self.classes[named]} at t\u00a0=\u00a0{time}."


@dataclass(frozen=True, eq=False)
class Comparison:
    """The contents of the page.

    Args:
        title: the heading.
        lede: one or two sentences below it.
        lines: the curves; at least one, and at most one for each name and origin.
        tables: shown below the curves, in that order.
        trajectories: a few single series.
        about: settings for the table at the end, by name.
        shortened: a sentence on how training was shortened; it is shown above the curves and in their figure.
    """

    title: str
    lede: str
    lines: tuple[Line, ...]
    _: KW_ONLY
    tables: tuple[Table, ...] = ()
    trajectories: tuple[Trajectories, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    shortened: str = ""

    def __post_init__(self) -> None:
        if not self.lines:
            raise InvalidArgument("lines", "one line at least", "none", "A page needs a curve.")
        keys = [(line.name, line.origin) for line in self.lines]
        for key in keys:
            if keys.count(key) > 1:
                remedy = "Name the variants apart."
                raise InvalidArgument("lines", "one for each name and origin", f"{key} twice", remedy)

    @property
    def models(self) -> tuple[str, ...]:
        """The names, the headline's first; the index of a name determines its hue."""
        ordered = sorted(self.lines, key=lambda line: line.highlight != "headline")
        return tuple(dict.fromkeys(line.name for line in ordered))

    @property
    def floor(self) -> float:
        """Where a logarithmic axis shows an error of 0: at half of the smallest positive error."""
        errors = np.concatenate([line.errors for line in self.lines])
        return 0.5 * float(errors[errors > 0].min(initial=100.0))

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest error drawn, including bands, not below the floor."""
        bands = [line.band for line in self.lines if line.band is not None]
        drawn = [line.errors for line in self.lines] + [side for band in bands for side in band[1:]]
        every = np.maximum(np.concatenate(drawn), self.floor)
        return float(every.min()), float(every.max())


def _as_times(times: FloatArray) -> FloatArray:
    array = as_real(times, name="times")
    remedy = "Mean times count observations; sort the points, and leave out those without a value."
    if array.ndim != 1 or not array.size:
        raise InvalidArgument("times", "of shape (points,), one at least", f"shape {array.shape}", remedy)
    if not (np.isfinite(array).all() and array[0] > 0 and (np.diff(array) >= 0).all()):
        raise InvalidArgument("times", "finite, above 0 and ascending", array.tolist(), remedy)
    return array


def _as_percent(values: FloatArray, points: int, *, name: str) -> FloatArray:
    array = as_real(values, name=name)
    remedy = "These are percents: 2.0 means 2%."
    if array.shape != (points,):
        raise InvalidArgument(name, f"of shape ({points},), as `times`", f"shape {array.shape}", remedy)
    if not ((array >= 0) & (array <= 100)).all():
        worst = array[~((array >= 0) & (array <= 100))][0]
        raise InvalidArgument(name, "in 0..100", worst, remedy)
    return array


def _as_sem(values: FloatArray, points: int) -> FloatArray:
    array = as_real(values, name="sem")
    known = ~np.isnan(array)
    return np.where(known, _as_percent(np.where(known, array, 0.0), points, name="sem"), np.nan)


def _point_text(time: float, error: float, sem: float) -> str:
    spread = "" if np.isnan(sem) else f" ± {sem:.3f}"
    return f"time {f'{time:.2f}'.rstrip('0').rstrip('.')}, error {error:.3f}{spread} %"
