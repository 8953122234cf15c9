"""Single series to look at: which ones, and how far each class leads at each time."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sooner.rules import leader
from sooner.types import Decisions, FloatArray, IntArray

KINDS = ("decided early and right", "decided late and right", "decided wrong", "forced by the end", "others")
_OF_A_KIND = 6


class Chosen(NamedTuple):
    """A series, and what makes it worth a look at the current threshold (one of `KINDS`)."""

    kind: str
    series: int


def choose(decisions: Decisions, truths: IntArray, *, count: int = 24) -> tuple[Chosen, ...]:
    """Up to `count` series: some of each kind, then others, evenly spread."""
    right = decisions.labels == truths
    early = np.argsort(decisions.times, kind="stable")
    groups = (
        early[(right & decisions.crossed)[early]],
        early[::-1][(right & decisions.crossed)[early[::-1]]],
        early[(~right & decisions.crossed)[early]],
        np.flatnonzero(~decisions.crossed),
    )
    chosen: dict[int, str] = {}
    for kind, group in zip(KINDS, groups, strict=False):
        fresh = [i for i in group[: 2 * _OF_A_KIND].tolist() if i not in chosen]
        chosen.update(dict.fromkeys(fresh[:_OF_A_KIND], kind))
    for i in np.linspace(0, len(truths) - 1, min(count, len(truths))).round().astype(int).tolist():
        if len(chosen) < count:
            chosen.setdefault(i, KINDS[-1])
    return tuple(Chosen(kind, series) for series, kind in chosen.items())


def leads(scores: Float[Tensor, "time classes"]) -> FloatArray:
    """(time, classes): by how much each class is ahead of the best other one, min over l != k of lambda_kl.

    >>> import torch
    >>> leads(torch.tensor([[4.0, 1.0, 3.5]]))
    array([[ 0.5, -3. , -0.5]])
    """
    best = scores.double().topk(2, dim=1).values.numpy()
    rows = np.arange(scores.shape[1]) == leader(scores).numpy()[:, None]
    ahead: FloatArray = scores.double().numpy() - np.where(rows, best[:, 1:], best[:, :1])
    return ahead
