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
    "streams windows fresh size classes block shares activation scratch_size",
    "projected recurrent peepholes zeros states ages gamma beta mean var weight after logits scratch",
    "eps",
)


class LiveWeights(NamedTuple):
    """The weights that a live step reads after the projection."""

    recurrent: Float[Tensor, "gates hidden"]
    peepholes: Float[Tensor, "3 hidden"] | None
    gamma: Float[Tensor, " hidden"]
    beta: Float[Tensor, " hidden"]
    mean: Float[Tensor, " hidden"]
    var: Float[Tensor, " hidden"]
    weight: Float[Tensor, "classes hidden"]


def fused_step(
    library: Library,
    weights: LiveWeights,
    projected: Float[Tensor, "streams gates"],
    states: Float[Tensor, "streams windows state"],
    ages: Float[Tensor, " streams"],
    *,
    fresh: bool,
    activation: Activation,
    eps: float,
) -> tuple[Float[Tensor, "streams windows state"], Float[Tensor, "streams reads classes"]]:
    """The new states, and the logits of the oldest window and, where a fresh one was started, of the next one.

    Args:
        library: the compiled functions.
        weights: the model's.
        projected: the projected observation of each series.
        states: hidden state and cell of the newest windows, oldest first.
        ages: how many observations were read before.
        fresh: whether a window is started, and the first one dropped; otherwise the memory is full.
        activation: phi, of the cell and of the readout.
        eps: that of the batch norm.
    """
    streams, windows, size = states.shape[0], states.shape[1], states.shape[2] // 2
    classes, reads, states = len(weights.weight), 1 + fresh, states.contiguous()
    shares = library.shares(streams)
    block = max(1, min(-(-streams // shares), _BLOCK // (4 * size * (windows + 1))))
    scratch_size = 6 * size + block * (4 * windows + reads) * size
    # One piece of memory for all that is only needed here: an allocation takes as long as the gates of a window.
    work = torch.empty(shares * scratch_size + 4 * size)
    zeros = work[-4 * size :].zero_()
    after, logits = torch.empty_like(states), projected.new_empty(streams, reads, classes)
    projected, ages = projected.contiguous(), ages.contiguous()
    recurrent, peepholes, *norm, weight = weights
    pointers = (projected, recurrent, zeros if peepholes is None else peepholes, zeros, states, ages, *norm, weight)
    arguments = Live(
        *(streams, windows, int(fresh), size, classes, block, shares, CODES[type(activation)], scratch_size),
        *(library.sgemm, library.parallel),
        *(tensor.data_ptr() for tensor in (*pointers, after, logits, work)),
        eps,
    )
    library.call("sooner_live", arguments)
    return after, logits
