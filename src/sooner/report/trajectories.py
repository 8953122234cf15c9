"""The single series that a report shows, and the lead of each class at each time."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sooner.rules import leader
from sooner.types import Decisions, FloatArray, IntArray

CATEGORIES = ("early and right", "late and right", "wrong", "forced by the end", "others")
_PER_CATEGORY = 6


class ShownSeries(NamedTuple):
    """The index of a series, and its category at the current threshold (one of `CATEGORIES`)."""

    category: str
    series: int


def choose(decisions: Decisions, truths: IntArray, *, count: int = 24) -> tuple[ShownSeries, ...]:
    """Up to `count` series: some of each category, then others, evenly spread."""
    right = decisions.labels == truths
    early = np.argsort(decisions.times, kind="stable")
    groups = (
        early[(right & decisions.crossed)[early]],
        early[::-1][(right & decisions.crossed)[early[::-1]]],
        early[(~right & decisions.crossed)[early]],
        np.flatnonzero(~decisions.crossed),
    )
    chosen: dict[int, str] = {}
    for category, group in zip(CATEGORIES, groups, strict=False):
        fresh = [i for i in group[: 2 * _PER_CATEGORY].tolist() if i not in chosen]
        chosen.update(dict.fromkeys(fresh[:_PER_CATEGORY], category))
    for i in np.linspace(0, len(truths) - 1, min(count, len(truths))).round().astype(int).tolist():
        if len(chosen) < count:
            chosen.setdefault(i, CATEGORIES[-1])
    return tuple(ShownSeries(category, series) for series, category in chosen.items())


def leads(scores: Float[Tensor, "time classes"]) -> FloatArray:
    """(time, classes): the lead of each class over the best other class, min over l != k of lambda_kl.

    >>> import torch
    >>> leads(torch.tensor([[4.0, 1.0, 3.5]]))
    array([[ 0.5, -3. , -0.5]])
    """
    best = scores.double().topk(2, dim=1).values.numpy()
    rows = np.arange(scores.shape[1]) == leader(scores).numpy()[:, None]
    ahead: FloatArray = scores.double().numpy() - np.where(rows, best[:, 1:], best[:, :1])
    return ahead
