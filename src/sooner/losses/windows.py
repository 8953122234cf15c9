"""The multiplet loss, on the logits of windows."""

import torch

from sooner.inputs import as_labels, as_lengths, as_logits, refuse_empty, without_padding
from sooner.losses.surprise import surprise
from sooner.types import ArrayLike, Scalar


def multiplet(logits: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None) -> Scalar:
    """Cross-entropy of z[w, j] against the label, mean over all windows and positions of a series, then over series.

    With `lengths`, the windows and positions that a series of that length has: those of its full windows, or the one
    window of its own length if it is shorter than N+1.

    Args:
        logits: (batch, window, position, classes).
        labels: (batch,), in 0..K-1.
        lengths: (batch,), in 1..T with T = windows + positions - 1.
    """
    z = as_logits(logits)
    refuse_empty(z, name="logits")
    targets = as_labels(labels, z)
    starts, positions = z.shape[1:3]
    ends = as_lengths(lengths, z, time=starts + positions - 1)[:, None, None]
    start = torch.arange(starts, device=z.device)[:, None]
    position = torch.arange(positions, device=z.device)
    live = (start + position < ends) & (start <= (ends - positions).clamp_min(0))
    z = without_padding(z, live, name="logits")
    terms = surprise(z.flatten(0, 2), targets.repeat_interleave(starts * positions))
    per_series = torch.where(live, terms.view(live.shape), 0.0).sum(dim=(1, 2)) / live.sum(dim=(1, 2))
    return per_series.mean()
