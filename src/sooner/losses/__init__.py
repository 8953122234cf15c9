"""Losses: pure functions of scores (or of window logits) and labels, by name in `LOSSES`; see `sooner.losses.checked`."""

from collections.abc import Mapping
from typing import Any

from sooner.errors import UnknownName
from sooner.losses import costs as costs
from sooner.losses.checked import Loss
from sooner.losses.logsumexp import cost_sensitive_lsel as cost_sensitive_lsel
from sooner.losses.logsumexp import lscel as lscel
from sooner.losses.logsumexp import lsel as lsel
from sooner.losses.logsumexp import modified_lsel as modified_lsel
from sooner.losses.logsumexp import nga_lsel as nga_lsel
from sooner.losses.monotone import ranking_margin as ranking_margin
from sooner.losses.monotone import ranking_score as ranking_score
from sooner.losses.pairwise import c_logistic as c_logistic
from sooner.losses.pairwise import logistic as logistic
from sooner.losses.pairwise import logistic_c as logistic_c
from sooner.losses.pairwise import modified_logistic as modified_logistic
from sooner.losses.ratios import barr as barr
from sooner.losses.ratios import dskl as dskl
from sooner.losses.ratios import lllr as lllr
from sooner.losses.ratios import lsif as lsif
from sooner.losses.ratios import lsif_clipped as lsif_clipped
from sooner.losses.ratios import lsif_halved as lsif_halved
from sooner.losses.ratios import lsifwc as lsifwc
from sooner.losses.windows import multiplet as multiplet

SCORE_LOSSES: Mapping[str, Loss[Any]] = {
    loss.__name__: loss
    for loss in (
        *(lsel, modified_lsel, cost_sensitive_lsel, lscel, nga_lsel),
        *(logistic, modified_logistic, c_logistic, logistic_c),
        *(lsif, lsif_halved, lsif_clipped, lsifwc, dskl, barr, lllr),
        *(ranking_score, ranking_margin),
    )
}
"""The losses on scores of shape (batch, time, classes)."""

LOSSES: Mapping[str, Loss[Any]] = {**SCORE_LOSSES, "multiplet": multiplet}
"""All losses; `multiplet` alone takes window logits."""


def loss_named(name: str) -> Loss[Any]:
    """The loss of that name.

    >>> loss_named("lsel") is lsel
    True
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise UnknownName("loss", name, LOSSES)
    return LOSSES[name]
