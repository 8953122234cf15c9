"""The content of a report: scores and labels, the rule and its threshold, and baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.evaluate.calibration import Reliability
from sooner.evaluate.curve import as_threshold_family, curve_of
from sooner.inputs import as_finite, as_number
from sooner.rules import MSPRT, ThresholdRule
from sooner.scores import Scored
from sooner.types import SATCurve


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of labelled series and a rule: everything in a report is computed from these.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        threshold: the current threshold, one number; infinity waits for the end of every series.
        lengths: (batch,); everything beyond is padding.
        groups: (batch,), group IDs of any type, for example the patient; confidence intervals are then by group.
        classes: the names of the K classes, of any type; by default 0..K-1.
        rule: the family of rules, for example `MSPRT`.
        halting: (batch, time), the model's own halting probability, for `Halting`.
        baselines: other curves to draw, by name.
        points: other results to draw, by name: (mean time, balanced error as a fraction).
        reliability: probabilities at the decisions against how often they are right, from `reliability` or `clf.reliability`.
        title: the heading.
        promise: the sentence of a promise about the error at `threshold`, if it was certified.
        about: settings and versions for the table at the end, by name.

    >>> evaluation = Evaluation([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1], 2.0, classes=["cat", "dog"])
    >>> evaluation.curve.thresholds
    array([ 1.,  2.,  3.,  4., inf])
    """

    scores: Tensor
    labels: Tensor
    threshold: float
    _: KW_ONLY
    lengths: Tensor = None  # type: ignore[assignment]  # None becomes a tensor
    groups: Any = None
    classes: Sequence[object] = ()
    rule: type[ThresholdRule] = MSPRT
    halting: Tensor | None = None
    baselines: Mapping[str, SATCurve] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reliability: Reliability | None = None
    title: str = "Speed against accuracy"
    promise: str | None = None
    about: Mapping[str, str | int | float] = field(default_factory=dict)
    curve: SATCurve = field(init=False)

    def __post_init__(self) -> None:
        scored = Scored.of(self.scores, self.labels, lengths=self.lengths, groups=self.groups, halting=self.halting)
        checked = {
            "curve": curve_of(scored, as_threshold_family(self.rule)),
            "scores": torch.from_numpy(scored.scores),
            "labels": torch.from_numpy(scored.truths),
            "lengths": torch.from_numpy(scored.lengths),
            "groups": scored.groups,
            "halting": None if scored.halting is None else torch.from_numpy(scored.halting),
            "classes": _as_names(self.classes, scored.scores.shape[2]),
            "threshold": _as_threshold(self.threshold, self.rule),
            "baselines": _as_curves(self.baselines),
            "points": {str(name): _as_point(name, point) for name, point in self.points.items()},
            "title": str(self.title),
            "promise": None if self.promise is None else str(self.promise),
            "about": {str(name): value for name, value in self.about.items()},
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _as_names(classes: Sequence[object], count: int) -> tuple[str, ...]:
    names = tuple(map(str, classes if len(classes) else range(count)))
    if len(names) != count:
        expected = f"{count} names, as the scores have classes"
        raise InvalidArgument("classes", expected, f"{len(names)}", "Give one name for each class.")
    return names


def _as_threshold(threshold: float, rule: type[ThresholdRule]) -> float:
    remedy = "A matrix of thresholds is not a point of the curve: pass its result in `points`."
    number = as_number(threshold, name="threshold", low=-math.inf, remedy=remedy)
    rule.at(number)  # the rule may refuse it
    return number


def _as_curves(curves: Mapping[str, object]) -> dict[str, SATCurve]:
    checked = {}
    for name, curve in curves.items():
        if not isinstance(curve, SATCurve):
            remedy = "Pass the result of `sat_curve`; pass a single result in `points`."
            raise InvalidArgument("baselines", "curves by name", f"a {type(curve).__name__} as {name!r}", remedy)
        checked[str(name)] = curve
    return checked


def _as_point(name: str, point: tuple[float, float]) -> tuple[float, float]:
    try:
        time, error = point
    except (TypeError, ValueError):
        remedy = "The error is a fraction: 0.02 means 2%."
        raise InvalidArgument("points", "pairs (mean time, error) by name", f"{point!r} as {name!r}", remedy) from None
    return (
        as_finite(time, name=f"points[{name!r}]", low=0.0, remedy="Mean times count observations."),
        as_number(error, name=f"points[{name!r}]", low=0.0, high=1.0, remedy="An error is a fraction: 0.02 means 2%."),
    )
