"""The results of an evaluation, computed once for the page and the figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from sooner.evaluate import ClassErrors, HittingTimes, class_errors, hitting_times
from sooner.evaluate.group_intervals import group_counts, group_limits
from sooner.evaluate.intervals import Limits, balanced_limits
from sooner.report.evaluation import Evaluation
from sooner.report.records import Records
from sooner.report.trajectories import ShownSeries, choose
from sooner.types import Decisions, FloatArray, IntArray, SATCurve

ExactAt: TypeAlias = Literal["every threshold", "the drawn points"]

DRAWN = 1200  # approximate number of drawn points of a curve; the numbers always come from all points
MOST_STATES = 1_000_000  # of the records in a page: 15 MB; beyond, the page has counts
MOST_COUNTS = 2_000_000  # 11 MB
MOST_CELLS = 4_000_000  # numbers of wrong decisions by threshold, group and class that are counted at once
MOST_BINS = 100  # bars of a histogram


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of an evaluation at its threshold, and the points to draw.

    `counts` are the numbers of series per class, `limits` the confidence limits of the balanced error, `drawn` the indices of the
    drawn points of the curve, and `band` the limits there. With groups the limits are by group, and `class_bands` are those of
    each class at the drawn points. The histogram of times has `bins` bars of `width` times. `exact_at` is every threshold if the
    records fit into a page; otherwise the page contains only the drawn points.
    """

    evaluation: Evaluation
    records: Records
    counts: IntArray
    decisions: Decisions
    errors: ClassErrors
    times: HittingTimes
    limits: Limits
    drawn: IntArray
    band: Limits
    class_bands: tuple[Limits, ...] | None
    chosen: tuple[ShownSeries, ...]
    exact_at: ExactAt
    width: int
    bins: int

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Findings":
        """The results of an evaluation."""
        records, (_, horizon, classes) = Records.of(evaluation), evaluation.scores.shape
        width = -(-horizon // MOST_BINS)
        bins = -(-horizon // width)
        everywhere = len(records.values) <= MOST_STATES
        count = DRAWN if everywhere else min(DRAWN, max(50, MOST_COUNTS // (classes**2 + classes + 2 * bins + 1)))
        decisions = records.decide(evaluation.threshold)
        current = np.searchsorted(evaluation.curve.thresholds, evaluation.threshold)
        points = to_draw(evaluation.curve, count=count, keep=[int(current)])
        band, class_bands = bands_of(records, evaluation.curve.thresholds[points], evaluation.groups, classes=classes)
        limits, _ = bands_of(records, np.array([evaluation.threshold]), evaluation.groups, classes=classes)
        return cls(
            evaluation=evaluation,
            records=records,
            counts=np.bincount(records.truths, minlength=classes),
            decisions=decisions,
            errors=class_errors(decisions, records.truths, classes=range(classes), groups=evaluation.groups),
            times=hitting_times(decisions),
            limits=Limits(limits.low[0], limits.high[0]),
            drawn=points,
            band=band,
            class_bands=class_bands,
            chosen=choose(decisions, records.truths),
            exact_at="every threshold" if everywhere else "the drawn points",
            width=width,
            bins=bins,
        )


def bands_of(
    records: Records, thresholds: FloatArray, groups: IntArray | None, *, classes: int
) -> tuple[Limits, tuple[Limits, ...] | None]:
    """Limits of the balanced error at each threshold, and by group those of each class too."""
    if groups is None:
        sizes = np.bincount(records.truths, minlength=classes)
        return balanced_limits(records.wrong_along(thresholds, classes=classes), sizes), None
    counts = group_counts(records.truths, groups, classes=classes)
    chunks = np.array_split(thresholds, -(-len(thresholds) * counts.size // MOST_CELLS))
    bands = [_group_bands(records, chunk, groups, counts) for chunk in chunks]
    joined = [Limits(*map(np.concatenate, zip(*limits, strict=True))) for limits in zip(*bands, strict=True)]
    return joined[0], tuple(joined[1:])


def _group_bands(records: Records, thresholds: FloatArray, groups: IntArray, counts: FloatArray) -> list[Limits]:
    """The limits of the balanced error, then of each class."""
    classes, truths = counts.shape[1], records.truths[records.series]
    cells = groups[records.series] * classes + truths
    wrong = records.along(thresholds, cells, (records.labels != truths).astype(np.int64), size=counts.size)
    wrong = wrong.reshape(-1, *counts.shape)
    limits = [group_limits(wrong, counts)]
    for k in range(classes):
        absent = not counts[:, k].any()
        limits.append(
            Limits(*np.full((2, len(thresholds)), np.nan)) if absent else group_limits(wrong[..., [k]], counts[:, [k]])
        )
    return limits


def to_draw(curve: SATCurve, *, count: int = DRAWN, keep: Sequence[int] = ()) -> IntArray:
    """Indices of the points to draw, including `keep`: all of them up to `count`, otherwise about `count`.

    The points are equally spaced along the path of the curve, in linear and logarithmic units; both ends of a jump are kept. So
    between two drawn points the curve deviates by at most one step.
    """
    points = len(curve)
    if points <= count:
        return np.arange(points)
    path = np.zeros(points)
    for axis in (curve.mean_times, curve.errors, curve.forced, _log(curve.errors), _log(curve.mean_times)):
        if np.ptp(axis) > 0:
            path[1:] += np.abs(np.diff(axis)) / np.ptp(axis)
    steps = np.floor(path.cumsum() / max(float(path.sum()), np.finfo(float).tiny) * (count // 2))
    before = np.flatnonzero(np.diff(steps) > 0)
    return np.unique(np.concatenate([[0, points - 1], list(keep), before, before + 1]).astype(np.int64))


def _log(values: FloatArray) -> FloatArray:
    """The logarithm; zero is replaced by half of the smallest positive number."""
    positive = values[values > 0]
    logs: FloatArray = np.log(np.maximum(values, positive.min() / 2)) if len(positive) else np.zeros_like(values)
    return logs
