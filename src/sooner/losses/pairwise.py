"""The logistic family: one softplus for each rival of the true class."""

import torch
from torch.nn.functional import logsigmoid

from sooner.losses.checked import checked_by, on_scores, on_scores_with_pair_costs
from sooner.losses.means import Batch, PerStep
from sooner.types import CostMatrix, Scalar, Scores


@checked_by(on_scores)
def logistic(batch: Batch) -> Scalar:
    """Logistic: (1/(K-1)) sum_{l != y} softplus(s_l - s_y), balanced mean."""
    return batch.balanced_mean(_mean_over_rivals(batch, _softplus(batch.ahead)))


@checked_by(on_scores)
def modified_logistic(batch: Batch) -> Scalar:
    """Modified logistic: (1/(K-1)) sum_{l != y} softplus(s_l - s_y + log(M_l / M_y)), plain mean."""
    prior = batch.frequencies.log()
    shift = (prior - prior[batch.labels, None])[:, None]
    return batch.plain_mean(_mean_over_rivals(batch, _softplus(batch.ahead + shift)))


@checked_by(on_scores_with_pair_costs)
def c_logistic(batch: Batch, *, costs: CostMatrix) -> Scalar:
    """C-logistic: (1/(K-1)) sum_{l != y} C_yl softplus(s_l - s_y), plain mean. By default every cost is 1."""
    weights = costs.to(batch.scores)[batch.labels, None]
    return batch.plain_mean(_mean_over_rivals(batch, weights * _softplus(batch.ahead)))


@checked_by(on_scores_with_pair_costs)
def logistic_c(batch: Batch, *, costs: CostMatrix) -> Scalar:
    """Logistic-C: (1/(K-1)) sum_{l != y} log(1 + C_yl e^{s_l - s_y}), plain mean. By default every cost is 1."""
    shift = costs.to(batch.scores).log()[batch.labels, None]
    return batch.plain_mean(_mean_over_rivals(batch, _softplus(batch.ahead + shift)))


def _softplus(x: Scores) -> Scores:
    # torch's softplus turns linear at 20 and is off by 2e-9 there; this form is exact and as stable.
    return -logsigmoid(-x)


def _mean_over_rivals(batch: Batch, terms: Scores) -> PerStep:
    return torch.where(batch.others, terms, 0.0).sum(dim=2) / (terms.shape[2] - 1)
