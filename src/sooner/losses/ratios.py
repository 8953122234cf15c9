"""The density-ratio losses that LSEL is compared with: sums over time and over ordered pairs k != l.

A series adds only to the row of its own class, by s_k - s_y (`Batch.ahead`), so no K x K matrix per series is needed.

========= ===========================================================================
symbol    meaning
========= ===========================================================================
E_k[f]    mean over the series of class k that still run: (M / (B M_k)) sum_{i in k} f
R_lk      E_l[e^{s_k - s_l}]: 1 if the ratio is a ratio of probability densities
========= ===========================================================================

With unequal lengths M_k falls with time. `class_counts` of shape (time, classes) has it exactly; from (classes,) the
share of each class that still runs is taken from the batch, and the mean over minibatches is only nearly the value on the set.
A class without a running series takes no part.

LSIF, LSIFwC and BARR contain the ratio itself: by definition they overflow where scores differ by more than about 88 in float32
(44 for the squares). They are not clamped; `lsif_clipped` is.
"""

import math

import torch
from jaxtyping import Bool
from torch import Tensor

from sooner.losses.checked import checked_by, on_scores, on_scores_with_gamma
from sooner.losses.means import Batch, PerStep
from sooner.types import Scalar

_CLIP = 35.0
"""e^70 and its sums fit into float32."""


@checked_by(on_scores)
def lsif(batch: Batch) -> Scalar:
    """LSIF as the paper has it: sum E_l[e^{2(s_k-s_l)}] - E_k[e^{s_k-s_l}]. Unbounded below.

    Without the half on the square it shrinks the ratios: `lsif_halved` is the classical form, minimal at the true ones.
    """
    return _least_squares(batch, square=1.0)


@checked_by(on_scores)
def lsif_halved(batch: Batch) -> Scalar:
    """Classical LSIF (Kanamori et al., 2009): sum (1/2) E_l[e^{2(s_k-s_l)}] - E_k[e^{s_k-s_l}]; minimal at the true ratio."""
    return _least_squares(batch, square=0.5)


@checked_by(on_scores)
def lsif_clipped(batch: Batch) -> Scalar:
    """LSIF as the paper ran it, not as it printed it: 2 `lsif_halved` on log-ratios that are cut off at -35 and 35.

    sum E_l[e^{2(s_k-s_l)}] - 2 E_k[e^{s_k-s_l}]: minimal at the true ratio, finite, and without a gradient beyond the limits.
    """
    return 2 * _least_squares(batch, square=0.5, limit=_CLIP)


@checked_by(on_scores_with_gamma)
def lsifwc(batch: Batch, *, gamma: float) -> Scalar:
    """LSIF with constraint: LSIF + gamma * sum |R_lk - 1|.

    The constraint is not linear, so its mean over minibatches is not its value on the whole set.
    """
    return _least_squares(batch, square=1.0) + gamma * _constraint(batch)


@checked_by(on_scores)
def dskl(batch: Batch) -> Scalar:
    """DSKL (Khan et al., 2019): sum E_l[s_k-s_l] - E_k[s_k-s_l]. Unbounded below."""
    return 2 * _divergence(batch)


@checked_by(on_scores_with_gamma)
def barr(batch: Batch, *, gamma: float) -> Scalar:
    """BARR (Khan et al., 2019): sum -E_k[s_k-s_l] + gamma |R_lk - 1|; the true ratio is its minimum for gamma >= 1.

    The constraint is not linear, so its mean over minibatches is not its value on the whole set.
    """
    return _divergence(batch) + gamma * _constraint(batch)


@checked_by(on_scores)
def lllr(batch: Batch) -> Scalar:
    """LLLR (Ebihara et al., ICLR 2021): sum (1/(M_k+M_l)) (sum_{I_l} sigma(s_k-s_l) + sum_{I_k} (1 - sigma(s_k-s_l))).

    Bounded and stable, but biased: its minimum is not at the true ratio.
    """
    pair = batch.shares[:, batch.labels].T[..., None] + batch.shares
    live = _pairs(batch) & batch.running[..., None]
    # A series has the same term in both sums: sigma(s_k - s_y) = 1 - sigma(s_y - s_k). Without a running series `pair` is 0.
    terms = batch.ahead.sigmoid() / torch.where(live, pair, 1.0)
    return 2 * torch.where(live, terms, 0.0).sum() / len(batch.labels)


def _least_squares(batch: Batch, *, square: float, limit: float = math.inf) -> Scalar:
    pairs = _pairs(batch)
    ahead = torch.where(pairs, batch.ahead, 0.0).clamp(-limit, limit)
    terms = torch.where(pairs, square * (2 * ahead).exp() - (-ahead).exp(), 0.0)
    return (_weights(batch) * terms.sum(dim=2)).sum()


def _divergence(batch: Batch) -> Scalar:
    """Sum over pairs of -E_k[s_k - s_l]."""
    return (_weights(batch) * torch.where(_pairs(batch), batch.ahead, 0.0).sum(dim=2)).sum()


def _constraint(batch: Batch) -> Scalar:
    """Sum over pairs of |R_lk - 1|, from one K x K matrix of class means a time step."""
    ratios = _weights(batch)[..., None] * batch.ahead.exp()
    time, classes = ratios.shape[1:]
    means = ratios.new_zeros(classes, time, classes).index_add(0, batch.labels, ratios)
    present = batch.shares.T > 0
    pairs = present[:, :, None] & present.T[None] & ~torch.eye(classes, dtype=torch.bool, device=means.device)[:, None]
    return torch.where(pairs, means - 1, 0.0).abs().sum()


def _weights(batch: Batch) -> PerStep:
    """1 / (B p_y(t)) where the series runs, so that a weighted sum over the batch is the sum of E_k over classes."""
    shares = batch.shares[:, batch.labels].T
    return torch.where(batch.running & (shares > 0), 1 / (len(batch.labels) * shares), 0.0)


def _pairs(batch: Batch) -> Bool[Tensor, "batch time classes"]:
    """True for the rivals with a running series at that time; without one E_k is not defined."""
    return batch.others & (batch.shares > 0)
