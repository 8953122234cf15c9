"""The live step in C: one observation of some series, see `Recurrent.step`."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.fused.library import CODES, Library, structure

_BLOCK = 2**18  # entries of a block of gates: 1 MiB

# The names and their order are those of `Live` in live.c.
Live = structure(
    "streams channels windows fresh adds size classes block shares activation scratch_size",
    "observations input bias recurrent peepholes gamma beta mean var weight prior states scores logits ages"
    " new_states new_scores new_logits new_ages scratch",
    "eps",
)


class LiveWeights(NamedTuple):
    """The weights that a live step reads after the encoder."""

    input: Float[Tensor, "gates channels"]
    bias: Float[Tensor, "4 hidden"]
    recurrent: Float[Tensor, "gates hidden"]
    peepholes: Float[Tensor, "3 hidden"] | None
    gamma: Float[Tensor, " hidden"]
    beta: Float[Tensor, " hidden"]
    mean: Float[Tensor, " hidden"]
    var: Float[Tensor, " hidden"]
    weight: Float[Tensor, "classes hidden"]
    prior: Float[Tensor, " classes"] | None


class LiveWindows(NamedTuple):
    """The state of live series: N window states (oldest first), scores so far, logits of the second-oldest window, and age."""

    windows: Float[Tensor, "streams window state"]
    scores: Float[Tensor, "streams classes"]
    logits: Float[Tensor, "streams classes"]
    age: Float[Tensor, " streams"]


def fused_step(
    library: Library,
    weights: LiveWeights,
    observations: Float[Tensor, "streams channels"],
    before: LiveWindows,
    *,
    fresh: bool,
    adds: bool,
    activation: Activation,
    eps: float,
) -> LiveWindows:
    """The state after an observation, with the new scores.

    Args:
        library: the compiled functions.
        weights: the model's.
        observations: one of each series, encoded.
        before: the state.
        fresh: whether a window is started, and the first one dropped; otherwise the memory is full.
        adds: whether the scores are a sum, that of M-TANDEM; otherwise they are those of the oldest window.
        activation: phi, of the cell and of the readout.
        eps: that of the batch norm.
    """
    before = LiveWindows(*[tensor.contiguous() for tensor in before])
    streams, windows, state = before.windows.shape
    size, classes, reads = state // 2, before.scores.shape[1], 1 + fresh
    shares = library.shares(streams)
    block = max(1, min(-(-streams // shares), _BLOCK // (4 * size * (windows + 1))))
    scratch_size = max(4 * size, classes) + 6 * size + block * (4 * windows * size + reads * (size + classes))
    # One piece of memory for all that is only needed here: an allocation takes as long as the gates of a window.
    scratch = observations.new_empty(shares * scratch_size + streams * 4 * size)
    after = LiveWindows(
        torch.empty_like(before.windows),
        torch.empty_like(before.scores),
        torch.empty_like(before.logits) if fresh else before.logits,
        torch.empty_like(before.age) if fresh else before.age,
    )
    # The tuple keeps copies of what was not contiguous until the call is over.
    given = [None if tensor is None else tensor.contiguous() for tensor in (observations, *weights)]
    pointers = (*given, *before, *after, scratch)
    arguments = Live(
        *(streams, observations.shape[1], windows, fresh, adds, size, classes),
        *(block, shares, CODES[type(activation)], scratch_size),
        *(library.sgemm, library.parallel),
        *[None if tensor is None else tensor.data_ptr() for tensor in pointers],
        eps,
    )
    library.call("sooner_live", arguments)
    return after
