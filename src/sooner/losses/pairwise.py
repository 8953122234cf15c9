"""The logistic family: one softplus for each rival of the true class."""

import torch
from torch.nn.functional import logsigmoid

from sooner.losses.logsumexp import cost_matrix
from sooner.losses.means import Batch, PerStep, batch_of
from sooner.types import ArrayLike, Scalar, Scores


def logistic(
    scores: ArrayLike, labels: ArrayLike, *, class_counts: ArrayLike | None = None, lengths: ArrayLike | None = None
) -> Scalar:
    """(1/(K-1)) sum_{l != y} softplus(s_l - s_y), balanced mean.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        class_counts: (classes,), the training set's; by default those of `labels`.
        lengths: (batch,); what lies beyond is padding.
    """
    batch = batch_of(scores, labels, class_counts, lengths)
    return batch.balanced_mean(_mean_over_rivals(batch, _softplus(batch.ahead)))


def modified_logistic(
    scores: ArrayLike, labels: ArrayLike, *, class_counts: ArrayLike | None = None, lengths: ArrayLike | None = None
) -> Scalar:
    """(1/(K-1)) sum_{l != y} softplus(s_l - s_y + log(M_l / M_y)), plain mean."""
    batch = batch_of(scores, labels, class_counts, lengths)
    prior = batch.frequencies.log()
    shift = (prior - prior[batch.labels, None])[:, None]
    return batch.plain_mean(_mean_over_rivals(batch, _softplus(batch.ahead + shift)))


def c_logistic(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Scalar:
    """C-logistic: (1/(K-1)) sum_{l != y} C_yl softplus(s_l - s_y), plain mean. By default every cost is 1."""
    batch = batch_of(scores, labels, class_counts, lengths)
    weights = cost_matrix(costs, batch)[batch.labels, None]
    return batch.plain_mean(_mean_over_rivals(batch, weights * _softplus(batch.ahead)))


def logistic_c(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Scalar:
    """Logistic-C: (1/(K-1)) sum_{l != y} log(1 + C_yl e^{s_l - s_y}), plain mean. By default every cost is 1."""
    batch = batch_of(scores, labels, class_counts, lengths)
    shift = cost_matrix(costs, batch).log()[batch.labels, None]
    return batch.plain_mean(_mean_over_rivals(batch, _softplus(batch.ahead + shift)))


def _softplus(x: Scores) -> Scores:
    # torch's softplus turns linear at 20 and is off by 2e-9 there; this form is exact and as stable.
    return -logsigmoid(-x)


def _mean_over_rivals(batch: Batch, terms: Scores) -> PerStep:
    return torch.where(batch.others, terms, 0.0).sum(dim=2) / (terms.shape[2] - 1)
