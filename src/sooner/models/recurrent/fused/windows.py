"""The window kernel in C: the same states and gradients as `sooner.models.recurrent.kernel`, in float32 on a CPU.

Where a compiler builds it and it passes its trial (see `sooner.models.recurrent.fused.build`), it takes the place of PyTorch's
operations: these take twenty passes over memory for the gates of a position where this one takes one.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sooner.errors import SecondBackward
from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.fused.library import CODES, Library, structure
from sooner.models.recurrent.kernel import Workspace
from sooner.models.recurrent.uncompiled import uncompiled

_BLOCK = 2**18  # entries of a block of gates: 1 MiB
# Arrays at the same offset of a memory page slow each other down, see `sooner.models.recurrent.kernel`.
_STAGGER = 400  # entries

Projected = Float[Tensor, "batch time gates"]
Hidden = Float[Tensor, "position batch window hidden"]


# The names and their order are those of `Sweep` in windows.c.
Sweep = structure(
    "series windows positions size kept block shares activation scratch_size",
    "projected recurrent peepholes zeros gates cells hidden "
    "recurrent_back d_hidden d_projected d_recurrent d_peepholes scratch",
)


@uncompiled
def fused_windows(
    library: Library,
    projected: Projected,
    recurrent: Float[Tensor, "hidden gates"],
    peepholes: Float[Tensor, "3 hidden"] | None,
    *,
    positions: int,
    activation: Activation,
    workspace: Workspace,
) -> Hidden:
    """Hidden states after each position of each window; the arguments are those of `lstm_windows`, with the gates in rows."""
    options = _Options(library, positions, CODES[type(activation)], workspace, torch.is_grad_enabled())
    hidden: Tensor = _FusedWindows.apply(projected, recurrent, peepholes, options)  # type: ignore[no-untyped-call]
    return hidden


class _Options(NamedTuple):
    library: Library
    positions: int
    activation: int
    workspace: Workspace
    keep: bool


class _Memory:
    """The states of all positions, cut out of one piece of the workspace. Without a backward pass, two positions are enough."""

    def __init__(self, projected: Tensor, options: _Options) -> None:
        self.series, time, gates = projected.shape
        self.size, self.windows, self.positions = gates // 4, time - options.positions + 1, options.positions
        self.kept = options.positions if options.keep else min(2, options.positions)
        rows = self.series * self.windows
        entries, states = self.kept * rows * self.size, self.positions * rows * self.size
        size = 5 * entries + states + 2 * _STAGGER
        self.piece = options.workspace.take(size, projected) if options.keep else projected.new_empty(size)
        self.gates, self.cells = self.piece[: 4 * entries], self.piece[4 * entries + _STAGGER :][:entries]
        shape = (self.positions, self.series, self.windows, self.size)
        self.hidden = self.piece[5 * entries + 2 * _STAGGER :][:states].view(shape)

    def sweep(self, options: _Options) -> Any:
        """The arguments that both passes share."""
        shares = options.library.shares(self.series)
        # No larger than the rows of a share, whose memory the backward pass fills with zeros.
        block = max(1, min(_BLOCK // (4 * self.size), -(-self.series // shares) * self.windows))
        return Sweep(
            *(self.series, self.windows, self.positions, self.size, self.kept, block, shares, options.activation, 0),
            *(options.library.sgemm, options.library.parallel),
            **{name: getattr(self, name).data_ptr() for name in ("gates", "cells", "hidden")},
        )


class _FusedWindows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor, peepholes: Tensor | None, options: _Options) -> Tensor:
        memory = _Memory(projected, options)
        projected, recurrent, zeros = (
            projected.contiguous(),
            recurrent.contiguous(),
            projected.new_zeros(4 * memory.size),
        )
        peephole_rows = zeros if peepholes is None else peepholes.contiguous()
        sweep = memory.sweep(options)
        sweep.projected, sweep.recurrent = projected.data_ptr(), recurrent.data_ptr()
        sweep.peepholes, sweep.zeros = peephole_rows.data_ptr(), zeros.data_ptr()
        options.library.call("sooner_forward", sweep)
        if options.keep:
            ctx.save_for_backward(recurrent, peepholes)
            ctx.memory, ctx.options = memory, options
        return memory.hidden.detach()  # not the tensor in `ctx.memory`: no reference cycle keeps the memory alive

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        recurrent, peepholes = ctx.saved_tensors
        options, memory = ctx.options, ctx.memory
        if memory is None:
            raise SecondBackward
        ctx.memory = None  # a second pass would read memory that was returned
        sweep, size, d_hidden = memory.sweep(options), memory.size, d_hidden.contiguous()
        back, zeros = recurrent.T.contiguous(), recurrent.new_zeros(4 * size)
        peephole_rows = zeros if peepholes is None else peepholes.contiguous()
        d_projected = recurrent.new_empty(memory.series, memory.windows + memory.positions - 1, 4 * size)
        d_recurrent = recurrent.new_zeros(sweep.shares, size, 4 * size)
        d_peepholes = torch.zeros(sweep.shares, 3, size, dtype=torch.float64)
        sweep.scratch_size = (6 * sweep.block + 3) * size + _STAGGER
        scratch = recurrent.new_empty(sweep.shares, sweep.scratch_size)
        sweep.recurrent_back, sweep.peepholes, sweep.zeros = back.data_ptr(), peephole_rows.data_ptr(), zeros.data_ptr()
        sweep.d_hidden, sweep.d_projected = d_hidden.data_ptr(), d_projected.data_ptr()
        sweep.d_recurrent, sweep.d_peepholes = d_recurrent.data_ptr(), d_peepholes.data_ptr()
        sweep.scratch = scratch.data_ptr()
        options.library.call("sooner_backward", sweep)
        options.workspace.give_back(memory.piece)
        d_weights = None if peepholes is None else d_peepholes.sum(dim=0).to(peepholes)
        return d_projected, d_recurrent.sum(dim=0), d_weights, None
