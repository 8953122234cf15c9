"""The data of the page: arrays as base64, everything else as JSON. `numbers.js` reads it.

The page contains the records of every series, so that it can decide at any threshold just as Python does. If these are too
many (`Findings.exact_at`) it contains counts instead, one set for each drawn point of the curve.
"""

import base64
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sooner.evaluate.intervals import exact_limits
from sooner.report.findings import Findings, to_draw
from sooner.report.records import Records
from sooner.report.trajectories import CATEGORIES, leads
from sooner.rules import MSPRT, FixedTime, Halting, ProbabilityThreshold, ThresholdRule
from sooner.types import IntArray, SATCurve

Packed: TypeAlias = dict[str, str]

_MOST_STEPS = 600  # of a trajectory; more cannot be told apart on a screen
_MOST_LINES = 12

# Valid thresholds of each type of rule: minimum, maximum, and "whole" or "any". Infinity is always valid.
_DOMAINS: dict[type[ThresholdRule], tuple[float, float, str]] = {
    MSPRT: (0.0, math.inf, "any"),
    ProbabilityThreshold: (0.0, 1.0, "any"),
    Halting: (0.0, 1.0, "any"),
    FixedTime: (1.0, math.inf, "whole"),
}


def payload(findings: Findings) -> dict[str, Any]:
    """All data of the page, as JSON types."""
    evaluation, records = findings.evaluation, findings.records
    curve, drawn = evaluation.curve, findings.drawn
    contents = {
        "rule": _rule(evaluation.rule),
        "threshold": number(evaluation.threshold),
        "promise": evaluation.promise,
        "classes": evaluation.classes,
        "horizon": evaluation.scores.shape[1],
        "width": findings.width,
        "counts": findings.counts.tolist(),
        "limits": _limits(findings.counts),
        "curve": _drawn(curve, drawn) | {"low": pack(findings.band.low), "high": pack(findings.band.high)},
        "baselines": [{"name": name} | _drawn(other, to_draw(other)) for name, other in evaluation.baselines.items()],
        "points": [{"name": name, "x": time, "y": error} for name, (time, error) in evaluation.points.items()],
        "trajectories": [_trajectory(findings, index) for index in range(len(findings.chosen))],
        "categories": CATEGORIES,
        "chosen": _records(records.take(np.array([series for _, series in findings.chosen]))),
    }
    if findings.class_bands is not None:
        low, high = (np.stack(ends, axis=1) for ends in zip(*findings.class_bands, strict=True))
        contents["by_group"] = {"low": pack(low), "high": pack(high)}
    everywhere = findings.exact_at == "every threshold"
    return contents | ({"records": _records(records)} if everywhere else {"steps": _steps(findings)})


def pack(array: npt.NDArray[Any]) -> Packed:
    """An array in base64, little-endian, in the smallest type that represents every number exactly."""
    if array.dtype.kind in "iu":
        array = array.astype(np.min_scalar_type(int(array.max(initial=0))))
        array = array.astype(np.float64) if array.dtype.itemsize > 4 else array  # as JavaScript has it, whole to 2**53
    if array.dtype == np.float64 and (array.astype(np.float32) == array).all():
        array = array.astype(np.float32)  # scores of a network are, mostly
    dtype = f"{array.dtype.kind}{array.dtype.itemsize}"
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return {"type": dtype, "data": base64.b64encode(data).decode("ascii")}


def number(value: float) -> str:
    """A number as text that reads back to the same bits; JSON has no infinity."""
    return repr(float(value))


def _rule(rule: type[ThresholdRule]) -> dict[str, str]:
    low, high, grain = next((_DOMAINS[base] for base in rule.__mro__ if base in _DOMAINS), (-math.inf, math.inf, "any"))
    statistic = (rule.statistic.__doc__ or "The statistic.").splitlines()[0].rstrip(".")
    unit = "leads" if issubclass(rule, MSPRT) else "own"
    bounds = {"low": number(low), "high": number(high), "grain": grain}
    return {"name": rule.__name__, "statistic": statistic, "unit": unit, **bounds}


def _limits(counts: IntArray) -> dict[str, dict[str, Packed]]:
    """For each class size, a lookup table of the confidence limits for every possible number of errors."""
    tables = {int(count): exact_limits(np.arange(count + 1), count) for count in np.unique(counts[counts > 0])}
    return {str(count): {"low": pack(table.low), "high": pack(table.high)} for count, table in tables.items()}


def _drawn(curve: SATCurve, points: IntArray) -> dict[str, Packed]:
    arrays = {"thresholds": curve.thresholds, "times": curve.mean_times, "errors": curve.errors}
    return {name: pack(array[points]) for name, array in arrays.items()}


def _records(records: Records) -> dict[str, Packed]:
    return {name: pack(array) for name, array in vars(records).items()}


def _steps(findings: Findings) -> dict[str, Packed]:
    """Counts at each drawn point of the curve."""
    records, classes = findings.records, len(findings.counts)
    thresholds = findings.evaluation.curve.thresholds[findings.drawn]
    truths, ones = records.truths[records.series], np.ones_like(records.times)
    bar = 2 * ((records.times - 1) // findings.width) + (records.labels != truths)
    crossed = ones.copy()
    crossed[records.starts[1:] - 1] = 0
    sums = {
        "confusion": (truths * classes + records.labels, ones, classes * classes),
        "bins": (bar, ones, 2 * findings.bins),
        "waits": (truths, records.times, classes),
        "crossed": (np.zeros_like(truths), crossed, 1),
    }
    return {
        name: pack(records.along(thresholds, cells, weights, size=size))
        for name, (cells, weights, size) in sums.items()
    }


def _trajectory(findings: Findings, index: int) -> dict[str, Any]:
    category, series = findings.chosen[index]
    evaluation = findings.evaluation
    length, truth = int(evaluation.lengths[series]), int(evaluation.labels[series])
    scores = evaluation.scores[series : series + 1, :length]
    own = None if evaluation.halting is None else evaluation.halting[series : series + 1, :length]
    steps = np.unique(np.linspace(0, length - 1, min(length, _MOST_STEPS)).round().astype(np.int64))
    ahead = leads(scores[0])
    strongest = np.argsort(-ahead.max(axis=0), kind="stable")
    lines = np.append(truth, strongest[strongest != truth][: _MOST_LINES - 1])
    return {
        "series": series,
        "category": CATEGORIES.index(category),
        "times": pack(steps + 1),
        "lines": lines.tolist(),
        "leads": pack(ahead[np.ix_(steps, lines)].T.astype(np.float32)),
        "statistic": pack(evaluation.rule.statistic_with(scores, own)[0].double().numpy()[steps].astype(np.float32)),
    }
