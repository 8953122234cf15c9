"""The means that losses take over a batch, and what a loss knows about it.

The class counts M_k of the TRAINING SET enter as proportions, because a minibatch may miss a class: the mean of a loss
over minibatches is then its value on the whole set.

======== ===================================================================
symbol   meaning
======== ===================================================================
B, T, K  series in the batch, time steps, classes
M, M_k   series in the training set; those of class k
======== ===================================================================
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import ScoredBatch, as_real_tensor, labelled, running
from sooner.types import ArrayLike, Costs, Labels, Lengths, Scalar, Scores

PerStep = Float[Tensor, "batch time"]


@dataclass(frozen=True)
class Batch:
    """A checked batch: scores (zero beyond each length), labels, lengths, and the training set's class counts.

    `counts` has one row, or one row for each time step: the series of each class that still run then.
    """

    scores: Scores
    labels: Labels
    lengths: Lengths
    counts: Float[Tensor, "rows classes"]

    @cached_property
    def frequencies(self) -> Costs:
        """M_k / M."""
        return (self.counts[0] / self.counts[0].sum()).to(self.scores)

    @cached_property
    def ahead(self) -> Scores:
        """s_k - s_y: how far each class is ahead of the true one; 0 for the true class."""
        return self.scores - self.scores.gather(2, self._label_column)

    @cached_property
    def others(self) -> Bool[Tensor, "batch 1 classes"]:
        """True for every class but the true one."""
        return torch.arange(self.scores.shape[2], device=self.labels.device) != self.labels[:, None, None]

    @cached_property
    def running(self) -> Bool[Tensor, "batch time"]:
        """True where the series still runs."""
        return running(self.lengths, self.scores.shape[1])

    @property
    def _label_column(self) -> Tensor:
        return self.labels[:, None, None].expand(-1, self.scores.shape[1], 1)

    def plain_mean(self, per_step: PerStep) -> Scalar:
        """(1/B) sum_i of the mean of series i over its own steps."""
        return self._per_series(per_step).mean()

    def balanced_mean(self, per_step: PerStep) -> Scalar:
        """(1/B) sum_i M / (K M_y) of the mean of series i over its own steps: every class weighs the same."""
        weights = 1 / (len(self.frequencies) * self.frequencies[self.labels])
        return (weights * self._per_series(per_step)).mean()

    def _per_series(self, per_step: PerStep) -> Float[Tensor, " batch"]:
        return torch.where(self.running, per_step, 0.0).sum(dim=1) / self.lengths


def batch_of(scores: ArrayLike, labels: ArrayLike, class_counts: ArrayLike | None, lengths: ArrayLike | None) -> Batch:
    """Check what a loss was given; without `class_counts`, the counts of the given labels stand for the training set."""
    checked = labelled(scores, labels, lengths)
    if checked.scores.dtype.itemsize < 4:
        # Means over a batch do not fit into half precision.
        checked = checked._replace(scores=checked.scores.float())
    if class_counts is None:
        counts = torch.bincount(checked.labels, minlength=checked.scores.shape[2])[None].double()
    else:
        counts = _as_counts(class_counts, checked.scores)
        _refuse_uncounted(counts, checked)
    return Batch(*checked, counts)


def _as_counts(class_counts: ArrayLike, scores: Scores) -> Float[Tensor, "rows classes"]:
    counts = as_real_tensor(class_counts, name="class_counts").to(device=scores.device, dtype=torch.float64)
    time, classes = scores.shape[1:]
    if counts.shape not in ((classes,), (time, classes)):
        raise InvalidArgument(
            "class_counts",
            f"of shape (classes,) = ({classes},) or (time, classes) = ({time}, {classes})",
            f"shape {tuple(counts.shape)}",
            "Give the number of training series of each class.",
        )
    if not bool((torch.isfinite(counts) & (counts >= 0)).all()):
        raise InvalidArgument(
            "class_counts",
            "finite and at least 0",
            counts.tolist(),
            "Give the number of training series of each class.",
        )
    return counts.reshape(-1, classes)


def _refuse_uncounted(counts: Float[Tensor, "rows classes"], batch: ScoredBatch) -> None:
    alive = running(batch.lengths, batch.scores.shape[1])[:, : len(counts)]
    uncounted = (alive & (counts[:, batch.labels].T == 0)).any(dim=1)
    if bool(uncounted.any()):
        raise InvalidArgument(
            "class_counts",
            "at least 1 for every class in `labels`, as long as one of its series runs",
            f"0 for class {int(batch.labels[uncounted][0])}",
            "Count the labels of the whole training set.",
        )
