"""Training histories: loss and last-observation error on the validation set at each validated step, over seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sooner.evaluate import over_seeds

Mean: TypeAlias = tuple[float, float]
"""Mean and standard error over seeds; the standard error of a single seed is NaN."""


class HistoryPoint(NamedTuple):
    """A validated step: its loss, and its balanced error at the last observation in percent.

    The mean is None where a seed has no finite number.
    """

    step: int
    loss: Mean | None
    last_error: Mean | None


def mean_history(histories: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[HistoryPoint, ...]:
    """The mean over seeds at every step that all of them validated.

    Args:
        histories: the validations of each seed, as dicts of `sooner.train.Validation`.

    >>> one, two = ([{"step": 50, "metric": 0.9, "loss": loss, "last_error": loss / 10}] for loss in (1.0, 3.0))
    >>> mean_history([one, two])
    (HistoryPoint(step=50, loss=(2.0, 1.0), last_error=(20.0, 10.0)),)
    """
    by_step = [{each["step"]: each for each in history} for history in histories]
    shared = sorted(set.intersection(*map(set, by_step))) if by_step else []
    return tuple(
        HistoryPoint(
            step,
            _mean([seed[step]["loss"] for seed in by_step]),
            _mean([seed[step].get("last_error") for seed in by_step], times=100),
        )
        for step in shared
    )


def to_record(points: Sequence[HistoryPoint]) -> dict[str, list[Any]]:
    """For the record: a list of steps, and a pair [mean, standard error] for each."""
    return {
        "steps": [point.step for point in points],
        "loss": [_rounded(point.loss) for point in points],
        "last_error": [_rounded(point.last_error) for point in points],
    }


def from_record(record: Mapping[str, Any]) -> tuple[HistoryPoint, ...]:
    """The inverse of `to_record`, up to rounding."""
    rows = zip(record["steps"], record["loss"], record["last_error"], strict=True)
    return tuple(HistoryPoint(step, _as_mean(loss), _as_mean(error)) for step, loss, error in rows)


def _mean(values: Sequence[float | None], times: float = 1.0) -> Mean | None:
    found = [times * value for value in values if value is not None and math.isfinite(value)]
    if len(found) < len(values):
        return None
    means = over_seeds(np.array(found)[:, None])
    return float(means.mean[0]), float(means.sem[0])


def _rounded(mean: Mean | None) -> list[float | None]:
    if mean is None:
        return [None, None]
    return [float(f"{mean[0]:.5g}"), None if math.isnan(mean[1]) else float(f"{mean[1]:.3g}")]


def _as_mean(pair: Sequence[float | None]) -> Mean | None:
    mean, sem = pair
    return None if mean is None else (mean, math.nan if sem is None else sem)
