"""The readout in C: batch norm with the statistics of the batch, activation, linear layer; see `recurrent.readout`."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.fused.library import CODES, Library, structure
from sooner.models.recurrent.uncompiled import uncompiled

_BLOCK = 2**16  # entries of a block of rows: 256 KiB
_SAMPLE = 256  # rows

# The names and their order are those of `Rows` in readout.c.
Rows = structure(
    "rows size classes block shares activation scratch_size",
    "hidden scale shift weight logits d_logits d_hidden d_weight sums slope offset scratch",
)

HiddenRows = Float[Tensor, "rows hidden"]


class _Options(NamedTuple):
    library: Library
    activation: int
    eps: float


@uncompiled
def fused_readout(
    library: Library,
    hidden: HiddenRows,
    gamma: Float[Tensor, " hidden"],
    beta: Float[Tensor, " hidden"],
    weight: Float[Tensor, "classes hidden"],
    *,
    eps: float,
    activation: Activation,
) -> tuple[Float[Tensor, "rows classes"], Float[Tensor, " hidden"], Float[Tensor, " hidden"]]:
    """The logits of each row, and the mean and the variance of the rows, without a gradient."""
    options = _Options(library, CODES[type(activation)], eps)
    results: tuple[Tensor, Tensor, Tensor]
    results = _FusedReadout.apply(hidden.contiguous(), gamma, beta, weight, options)  # type: ignore[no-untyped-call]
    return results


def _rows(hidden: Tensor, classes: int, options: _Options) -> tuple[Any, Tensor, Tensor]:
    """The arguments of every pass, with sums and scratch memory, which must live as long as they do."""
    count, size = hidden.shape
    block = max(1, _BLOCK // size)
    shares = options.library.shares(-(-count // block))
    sums = torch.zeros(shares, 2, size, dtype=torch.float64)
    scratch = hidden.new_empty(shares, (block + 2) * size)
    library = options.library
    rows = Rows(
        *(count, size, classes, block, shares, options.activation, scratch.shape[1], library.sgemm, library.parallel),
        hidden=hidden.data_ptr(),
        sums=sums.data_ptr(),
        scratch=scratch.data_ptr(),
    )
    return rows, sums, scratch


def _moments(rows: Any, sums: Tensor, hidden: Tensor, library: Library) -> tuple[Tensor, Tensor]:
    """Mean and variance of each column, in one pass: around the mean of some rows no digits are lost."""
    near = hidden[:: max(1, len(hidden) // _SAMPLE)].mean(dim=0)
    rows.shift = near.data_ptr()
    library.call("sooner_moments", rows)
    first, second = (sums.sum(dim=0) / len(hidden)).unbind()
    return (near + first).to(hidden), (second - first.square()).clamp_min(0.0).to(hidden)


class _FusedReadout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor, options: _Options
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, sums, scratch = _rows(hidden, len(weight), options)
        mean, var = _moments(rows, sums, hidden, options.library)
        scale = gamma * (var + options.eps).rsqrt()
        shift = beta - mean * scale
        weight, logits = weight.contiguous(), hidden.new_empty(len(hidden), len(weight))
        rows.scale, rows.shift, rows.weight, rows.logits = (x.data_ptr() for x in (scale, shift, weight, logits))
        options.library.call("sooner_readout", rows)
        del scratch  # until here
        ctx.save_for_backward(hidden, scale, shift, weight, mean, var)
        ctx.options = options
        ctx.mark_non_differentiable(mean, var)
        return logits, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_logits: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        hidden, scale, shift, weight, mean, var = ctx.saved_tensors
        library, count, weight, d_logits = ctx.options.library, len(hidden), weight.contiguous(), d_logits.contiguous()
        rows, sums, scratch = _rows(hidden, len(weight), ctx.options)
        d_hidden, d_weight = torch.empty_like(hidden), weight.new_zeros(rows.shares, *weight.shape)
        rows.scale, rows.shift, rows.weight = scale.data_ptr(), shift.data_ptr(), weight.data_ptr()
        rows.d_logits, rows.d_hidden, rows.d_weight = (x.data_ptr() for x in (d_logits, d_hidden, d_weight))
        library.call("sooner_readout_backward", rows)
        d_beta, correlation = sums.sum(dim=0).unbind()
        narrow = (var.double() + ctx.options.eps).rsqrt()
        d_gamma = (correlation - mean * d_beta) * narrow
        # The mean and the variance depend on every row, so their share of the gradient is subtracted.
        slope = -scale * d_gamma * narrow / count
        offset = (-scale * d_beta / count - slope * mean).to(hidden)
        slope = slope.to(hidden)
        rows.slope, rows.offset = slope.data_ptr(), offset.data_ptr()
        library.call("sooner_center", rows)
        del scratch  # until here
        return d_hidden, d_gamma.to(hidden), d_beta.to(hidden), d_weight.sum(dim=0), None
