"""The LSEL family: log-sum-exp losses on scores.

For one series at one time, s = scores and y = the true class. Everything here is O(batch x time x classes).
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from sooner.errors import InvalidArgument
from sooner.inputs import as_nonnegative, as_tensor
from sooner.losses.means import Batch, PerStep, batch_of
from sooner.losses.surprise import surprise
from sooner.types import ArrayLike, CostMatrix, Costs, Scalar, Scores


def lsel(
    scores: ArrayLike, labels: ArrayLike, *, class_counts: ArrayLike | None = None, lengths: ArrayLike | None = None
) -> Scalar:
    """Log-sum-exp loss: LSE(s) - s_y = log(1 + sum_{l != y} e^{-(s_y - s_l)}), balanced mean.

    Its minimum is at the true log-likelihood ratios, and its gradient falls most heavily on the hardest class. Reference:
    Miyagawa and Ebihara, "The Power of Log-Sum-Exp", ICML 2021.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        class_counts: (classes,), the training set's; by default those of `labels`.
        lengths: (batch,); what lies beyond is padding.

    >>> import torch
    >>> float(lsel(torch.zeros(2, 1, 2), torch.tensor([0, 1])))  # log 2
    0.693147...
    """
    batch = batch_of(scores, labels, class_counts, lengths)
    return batch.balanced_mean(_surprise(batch, batch.scores))


def modified_lsel(
    scores: ArrayLike, labels: ArrayLike, *, class_counts: ArrayLike | None = None, lengths: ArrayLike | None = None
) -> Scalar:
    """LSEL by logit adjustment: LSE(s + log M) - s_y - log M_y, plain mean."""
    batch = batch_of(scores, labels, class_counts, lengths)
    return batch.plain_mean(_surprise(batch, batch.scores + batch.frequencies.log()))


def cost_sensitive_lsel(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Scalar:
    """CLSEL: C_y (LSE(s) - s_y), plain mean; LSEL at `costs.inverse_frequency`. By default every cost is 1.

    Args:
        scores: (batch, time, classes).
        labels: (batch,), in 0..K-1.
        costs: (classes,), see `sooner.losses.costs`.
        class_counts: (classes,); checked, but not needed: the costs carry the balance.
        lengths: (batch,); what lies beyond is padding.
    """
    batch = batch_of(scores, labels, class_counts, lengths)
    weights = class_costs(costs, batch)[batch.labels, None]
    return batch.plain_mean(weights * _surprise(batch, batch.scores))


def lscel(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Scalar:
    """LSCEL: log(1 + sum_{l != y} C_yl e^{s_l - s_y}), plain mean; modified LSEL at C_kl = M_l / M_k.

    `costs` is (classes, classes), row the true class, column the rival; its diagonal is ignored. By default all ones.
    """
    batch = batch_of(scores, labels, class_counts, lengths)
    log_costs = cost_matrix(costs, batch).log().fill_diagonal_(0.0)
    return batch.plain_mean(_surprise(batch, batch.scores + log_costs[batch.labels, None]))


def nga_lsel(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Scalar:
    """NGA-LSEL: sum_{k != y} C_yk (LSE(s) - s_k), plain mean. A counter-example, NOT guess-averse: not for use."""
    batch = batch_of(scores, labels, class_counts, lengths)
    weights = cost_matrix(costs, batch)[batch.labels, None]
    return batch.plain_mean(-(weights * log_softmax(batch.scores, dim=2)).sum(dim=2))


def class_costs(costs: ArrayLike | None, batch: Batch) -> Costs:
    """Costs of shape (classes,) on the batch's device; ones where none were given."""
    classes = batch.scores.shape[2]
    if costs is None:
        return batch.scores.new_ones(classes)
    return _as_costs(costs, (classes,), batch, "Give one cost for each class.")


def cost_matrix(costs: ArrayLike | None, batch: Batch) -> CostMatrix:
    """A matrix of costs on the batch's device, row the true class, its diagonal zero; ones where none were given."""
    classes = batch.scores.shape[2]
    if costs is None:
        return 1 - torch.eye(classes).to(batch.scores)
    given = as_tensor(costs, name="costs").clone()
    if given.shape == (classes, classes):
        given.fill_diagonal_(0)
    return _as_costs(given, (classes, classes), batch, "Give one cost for each pair of classes.")


def _as_costs(costs: ArrayLike, shape: tuple[int, ...], batch: Batch, remedy: str) -> Tensor:
    array = as_nonnegative(costs, shape, name="costs", remedy=remedy)
    if not np.isfinite(array).all():
        raise InvalidArgument("costs", "finite", "an entry of inf", remedy)
    return batch.scores.new_tensor(array)


def _surprise(batch: Batch, scores: Scores) -> PerStep:
    """LSE(s) - s_y at every step."""
    time = scores.shape[1]
    return surprise(scores.flatten(0, 1), batch.labels.repeat_interleave(time)).view(-1, time)
