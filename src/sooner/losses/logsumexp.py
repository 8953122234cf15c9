"""The LSEL family: log-sum-exp losses of the scores s and the true class y, in O(batch x time x classes)."""

import torch
from torch.nn.functional import log_softmax

from sooner.losses.checked import checked_by, on_scores, on_scores_with_class_costs, on_scores_with_pair_costs
from sooner.losses.means import Batch, PerStep
from sooner.losses.surprise import surprise
from sooner.types import CostMatrix, Costs, Scalar, Scores


@checked_by(on_scores)
def lsel(batch: Batch) -> Scalar:
    """Log-sum-exp loss: LSE(s) - s_y = log(1 + sum_{l != y} e^{-(s_y - s_l)}), balanced mean.

    Its minimum is at the true log-likelihood ratios, and its gradient falls most heavily on the hardest class. Reference:
    Miyagawa and Ebihara, "The Power of Log-Sum-Exp", ICML 2021.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        class_counts: (classes,), the training set's; by default those of `labels`.
        lengths: (batch,); what lies beyond is padding.

    The other losses on scores take the same arguments.

    >>> import torch
    >>> float(lsel(torch.zeros(2, 1, 2), torch.tensor([0, 1])))  # log 2
    0.693147...
    """
    return batch.balanced_mean(_surprise(batch, batch.scores))


@checked_by(on_scores)
def modified_lsel(batch: Batch) -> Scalar:
    """LSEL by logit adjustment: LSE(s + log M) - s_y - log M_y, plain mean."""
    return batch.plain_mean(_surprise(batch, batch.scores + batch.frequencies.log()))


@checked_by(on_scores_with_class_costs)
def cost_sensitive_lsel(batch: Batch, *, costs: Costs) -> Scalar:
    """CLSEL: C_y (LSE(s) - s_y), plain mean; LSEL at `costs.inverse_frequency`.

    `costs` is (classes,), see `sooner.losses.costs`; by default all ones. `class_counts` are checked, but have no effect.
    """
    weights = costs.to(batch.scores)[batch.labels, None]
    return batch.plain_mean(weights * _surprise(batch, batch.scores))


@checked_by(on_scores_with_pair_costs)
def lscel(batch: Batch, *, costs: CostMatrix) -> Scalar:
    """LSCEL: log(1 + sum_{l != y} C_yl e^{s_l - s_y}), plain mean; modified LSEL at C_kl = M_l / M_k.

    `costs` is (classes, classes), row the true class, column the rival; its diagonal is ignored. By default all ones.
    """
    log_costs = costs.to(batch.scores).log().fill_diagonal_(0.0)
    return batch.plain_mean(_surprise(batch, batch.scores + log_costs[batch.labels, None]))


@checked_by(on_scores_with_pair_costs)
def nga_lsel(batch: Batch, *, costs: CostMatrix) -> Scalar:
    """NGA-LSEL: sum_{k != y} C_yk (LSE(s) - s_k), plain mean. A counter-example, NOT guess-averse: not for use."""
    weights = torch.where(batch.others, costs.to(batch.scores)[batch.labels, None], 0.0)
    return batch.plain_mean(-(weights * log_softmax(batch.scores, dim=2)).sum(dim=2))


def _surprise(batch: Batch, scores: Scores) -> PerStep:
    """LSE(s) - s_y at every step."""
    time = scores.shape[1]
    return surprise(scores.flatten(0, 1), batch.labels.repeat_interleave(time)).view(-1, time)
