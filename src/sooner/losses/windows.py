"""The multiplet loss, on the logits of windows."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from sooner.inputs import as_labels, as_lengths, as_logits, refuse_empty, refuse_nonfinite, running_windows, zero_beyond
from sooner.losses.checked import Admitted, checked_by
from sooner.losses.surprise import surprise
from sooner.types import ArrayLike, Labels, Lengths, Scalar, WindowLogits


@dataclass(frozen=True)
class WindowBatch:
    """The input of `multiplet`: logits, labels, and lengths where they differ. The constructor trusts."""

    logits: WindowLogits
    labels: Labels
    lengths: Lengths | None

    @property
    def live(self) -> Bool[Tensor, "batch window position"]:
        """True for the windows and positions that a series of that length has."""
        windows, positions = self.logits.shape[1:3]
        ends = torch.full_like(self.labels, windows + positions - 1) if self.lengths is None else self.lengths
        return running_windows(ends, windows, positions)


def _on_windows(logits: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None) -> Admitted:
    z = as_logits(logits)
    refuse_empty(z, name="logits")
    targets = as_labels(labels, z)
    ends = None if lengths is None else as_lengths(lengths, z, time=z.shape[1] + z.shape[2] - 1)
    batch = WindowBatch(z, targets, ends)
    refuse_nonfinite(z, batch.live, name="logits")
    return batch, {}


@checked_by(_on_windows)
def multiplet(batch: WindowBatch) -> Scalar:
    """Cross-entropy of z[w, j] against the label, mean over all windows and positions of a series, then over series.

    With `lengths`, the windows and positions that a series of that length has: those of its full windows, or the one
    window of its own length if it is shorter than N+1.

    Args:
        logits: (batch, window, position, classes).
        labels: (batch,), in 0..K-1.
        lengths: (batch,), in 1..T with T = windows + positions - 1.
    """
    live = batch.live
    z = batch.logits if batch.lengths is None else zero_beyond(batch.logits, live)
    terms = surprise(z.flatten(0, 2), batch.labels.repeat_interleave(live[0].numel())).view(live.shape)
    return (torch.where(live, terms, 0.0).sum(dim=(1, 2)) / live.sum(dim=(1, 2))).mean()
