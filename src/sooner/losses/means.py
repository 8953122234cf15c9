"""The input of a loss, and the means that losses take over it.

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
from sooner.inputs import as_labels, as_real_tensor, refuse_empty, running, with_lengths, zero_beyond
from sooner.types import ArrayLike, Costs, Labels, Lengths, Scalar, Scores

PerStep = Float[Tensor, "batch time"]
Counts = Float[Tensor, "rows classes"]


@dataclass(frozen=True)
class Batch:
    """Scores (zero beyond each length), labels, lengths, and the training set's class counts. `batch_of` checks them.

    `counts` has one row, or one row for each time step: the series of each class that still run then.
    """

    scores: Scores
    labels: Labels
    lengths: Lengths
    counts: Counts

    @cached_property
    def frequencies(self) -> Costs:
        """M_k / M."""
        return (self.counts[0] / self.counts[0].sum()).to(self.scores)

    @cached_property
    def ahead(self) -> Scores:
        """s_k - s_y: how far each class is ahead of the true one; 0 for the true class."""
        columns = self.labels[:, None, None].expand(-1, self.scores.shape[1], 1)
        return self.scores - self.scores.gather(2, columns)

    @cached_property
    def others(self) -> Bool[Tensor, "batch 1 classes"]:
        """True for every class but the true one."""
        return torch.arange(self.scores.shape[2], device=self.labels.device) != self.labels[:, None, None]

    @cached_property
    def running(self) -> Bool[Tensor, "batch time"]:
        """True where the series still runs."""
        return running(self.lengths, self.scores.shape[1])

    @cached_property
    def shares(self) -> Float[Tensor, "time classes"]:
        """p_k(t) = M_k(t) / M: the share of the training set that is of class k and still runs at t."""
        if len(self.counts) > 1:
            return (self.counts / self.counts[0].sum()).to(self.scores)
        time, classes = self.scores.shape[1:]
        alive = self.frequencies.new_zeros(classes, time)
        alive = alive.index_add(0, self.labels, self.running.to(alive)).T
        here = torch.bincount(self.labels, minlength=classes)
        return self.frequencies * torch.where(here > 0, alive / here.clamp_min(1), 1.0)

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
    """The checked input of a loss; without `class_counts`, the counts of the labels stand for the training set."""
    values, ends = with_lengths(scores, lengths)
    refuse_empty(values, name="scores")
    truths = as_labels(labels, values)
    if values.dtype.itemsize < 4:
        values = values.float()  # means over a batch do not fit into half precision
    time, classes = values.shape[1:]
    if class_counts is None:
        return Batch(values, truths, ends, torch.bincount(truths, minlength=classes)[None].double())
    batch = Batch(values, truths, ends, as_counts(class_counts, time, classes).to(values.device))
    alive = batch.running[:, : len(batch.counts)]
    uncounted = (alive & (batch.counts[:, truths].T == 0)).any(dim=1)
    if bool(uncounted.any()):
        expected = "at least 1 for every class in `labels`, as long as one of its series runs"
        got, remedy = f"0 for class {int(truths[uncounted][0])}", "Count the labels of the whole training set."
        raise InvalidArgument("class_counts", expected, got, remedy)
    return batch


def trusted_batch(scores: Scores, labels: Labels, counts: Counts, lengths: Lengths | None) -> Batch:
    """The batch of a training step, without checks: scores that are not finite stay as they are."""
    ends = torch.full_like(labels, scores.shape[1]) if lengths is None else lengths
    return Batch(zero_beyond(scores, running(ends, scores.shape[1])), labels, ends, counts.to(scores.device))


def as_counts(class_counts: ArrayLike, time: int, classes: int) -> Counts:
    """One row of class counts, or one row for each time."""
    counts = as_real_tensor(class_counts, name="class_counts").double()
    remedy = "Give the number of training series of each class."
    if counts.shape not in ((classes,), (time, classes)):
        expected = f"of shape (classes,) = ({classes},) or (time, classes) = ({time}, {classes})"
        raise InvalidArgument("class_counts", expected, f"shape {tuple(counts.shape)}", remedy)
    if not bool((torch.isfinite(counts) & (counts >= 0)).all()):
        raise InvalidArgument("class_counts", "finite and at least 0", counts.tolist(), remedy)
    return counts.reshape(-1, classes)
