"""What a report is made of: scores and labels, the rule and its threshold, and what to show beside them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.evaluate import sat_curve
from sooner.evaluate.metrics import as_groups
from sooner.inputs import as_finite, as_number, labelled
from sooner.rules import MSPRT, ThresholdRule
from sooner.types import SATCurve


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of labelled series and the rule that reads them; everything in a report follows from these.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        threshold: the current one, one number; infinity waits for the end of every series.
        lengths: (batch,); what lies beyond is padding.
        groups: (batch,), who or what a series comes from, of any type, where several come from one: limits are then by group.
        classes: the names of the K classes, of any type; by default 0..K-1.
        rule: the family of rules, for example `MSPRT`.
        baselines: other curves to draw, by name.
        points: other results to draw, by name: (mean time, balanced error as a fraction).
        title: the heading.
        about: settings and versions for the table at the end, by name.

    >>> evaluation = Evaluation([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1], 2.0, classes=["cat", "dog"])
    >>> evaluation.curve.thresholds
    array([ 1.,  2.,  3.,  4., inf])
    """

    scores: Tensor
    labels: Tensor
    threshold: float
    _: KW_ONLY
    lengths: Tensor = None  # type: ignore[assignment]  # None is taken and becomes a tensor
    groups: Any = None
    classes: Sequence[object] = ()
    rule: type[ThresholdRule] = MSPRT
    baselines: Mapping[str, SATCurve] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    title: str = "Speed against accuracy"
    about: Mapping[str, str | int | float] = field(default_factory=dict)
    curve: SATCurve = field(init=False)

    def __post_init__(self) -> None:
        batch = labelled(self.scores, self.labels, self.lengths)
        # First the curve: it refuses what is no family of threshold rules.
        curve = sat_curve(*batch[:2], lengths=batch.lengths, rule=self.rule)
        checked = {
            "scores": batch.scores.detach().cpu(),
            "labels": batch.labels.cpu(),
            "lengths": batch.lengths.cpu(),
            "groups": None if self.groups is None else as_groups(self.groups, len(batch.labels)),
            "classes": _as_names(self.classes, batch.scores.shape[2]),
            "threshold": _as_threshold(self.threshold, self.rule),
            "baselines": _as_curves(self.baselines),
            "points": {str(name): _as_point(name, point) for name, point in self.points.items()},
            "title": str(self.title),
            "about": {str(name): value for name, value in self.about.items()},
            "curve": curve,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _as_names(classes: Sequence[object], count: int) -> tuple[str, ...]:
    names = tuple(map(str, classes if len(classes) else range(count)))
    if len(names) != count:
        raise InvalidArgument(
            "classes", f"{count} names, as the scores have classes", f"{len(names)}", "Give one name for each class."
        )
    return names


def _as_threshold(threshold: float, rule: type[ThresholdRule]) -> float:
    remedy = "A matrix of thresholds is no point of the curve: show what it gives among `points`."
    number = as_number(threshold, name="threshold", low=-math.inf, remedy=remedy)
    rule.at(number)  # it knows what it can work with
    return number


def _as_curves(curves: Mapping[str, object]) -> dict[str, SATCurve]:
    checked = {}
    for name, curve in curves.items():
        if not isinstance(curve, SATCurve):
            remedy = "Take what `sat_curve` gives; a single result belongs to `points`."
            raise InvalidArgument("baselines", "curves by name", f"a {type(curve).__name__} as {name!r}", remedy)
        checked[str(name)] = curve
    return checked


def _as_point(name: str, point: tuple[float, float]) -> tuple[float, float]:
    try:
        time, error = point
    except (TypeError, ValueError):
        remedy = "The error is a fraction: 0.02 means 2 %."
        raise InvalidArgument("points", "pairs (mean time, error) by name", f"{point!r} as {name!r}", remedy) from None
    return (
        as_finite(time, name=f"points[{name!r}]", low=0.0, remedy="Mean times count observations."),
        as_number(error, name=f"points[{name!r}]", low=0.0, high=1.0, remedy="An error is a fraction: 0.02 means 2 %."),
    )
