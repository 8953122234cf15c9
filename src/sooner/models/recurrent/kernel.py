"""The window kernel: an LSTM over all windows of a batch at once, forward and backward, at the speed of its matrix products.

========== =============================================================================
symbol     meaning
========== =============================================================================
T, B, H    time steps, series, hidden units
P, W       positions of a window (N+1), windows of a series (T-N)
i, f, g, o input gate, forget gate, candidate, output gate; stored in this order
c, h       cell and hidden state
phi        the activation, tanh in the paper
========== =============================================================================

    i = sigma(x_i + h R_i + p_i c)      f = sigma(x_f + h R_f + p_f c)      g = phi(x_g + h R_g)
    c' = f c + i g                      o = sigma(x_o + h R_o + p_o c')     h' = o phi(c')

All windows advance together, in P steps. Three things make it fast on a CPU. The projection x of an observation is computed
once, by the caller, with time before the batch: the inputs of all windows at position j are then the slice x[j : j+W], without a
copy. Windows are processed in blocks of rows that stay in the cache, with a matrix for each gate. And gates, cells and their
activation are kept for the backward pass in memory that is reused by the next step: fresh pages would take as long as the
arithmetic.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sooner.errors import SecondBackward
from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.uncompiled import uncompiled

_BLOCK = 2**19  # entries of a block of gates: 2 MiB in float32
# Arrays that start at the same offset of a memory page slow each other down: a store seems to be to the address of the next load
# (4K aliasing). Different offsets save a quarter of the whole step.
_STAGGER = 400  # entries

Projected = Float[Tensor, "4 time batch hidden"]
Recurrent = Float[Tensor, "4 hidden hidden"]
Peepholes = Float[Tensor, "3 hidden"]
Hidden = Float[Tensor, "position rows hidden"]


class Workspace:
    """Memory that is reused from one training step to the next. It keeps at most one unused piece."""

    def __init__(self) -> None:
        self._idle: list[Tensor] = []

    def take(self, entries: int, like: Tensor) -> Tensor:
        """A flat piece of memory of that many entries, old or new."""
        idle = self._idle.pop() if self._idle else None
        if idle is None or len(idle) < entries or idle.dtype != like.dtype or idle.device != like.device:
            return like.new_empty(entries)
        return idle

    def give_back(self, piece: Tensor) -> None:
        """Keep the piece for the next call of `take`."""
        self._idle[:] = [piece]

    def clear(self) -> None:
        """Free the memory."""
        self._idle.clear()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Workspace, ()


@uncompiled
def lstm_windows(
    projected: Projected,
    recurrent: Recurrent,
    peepholes: Peepholes | None,
    *,
    positions: int,
    activation: Activation,
    workspace: Workspace,
) -> Hidden:
    """Hidden states after each position of each window; row w * batch + b is window w of series b.

    Args:
        projected: input projections with the bias, for each gate.
        recurrent: R_i, R_f, R_g, R_o.
        peepholes: p_i, p_f, p_o, or None for a plain LSTM.
        positions: P, at most the number of time steps.
        activation: phi.
        workspace: the memory for the backward pass. One backward pass is allowed: it returns the memory, with the hidden states,
            which must not be used after it.
    """
    options = _KernelOptions(positions, activation, workspace, keep=torch.is_grad_enabled())
    hidden: Tensor = _LSTMWindows.apply(projected, recurrent, peepholes, options)  # type: ignore[no-untyped-call]
    return hidden


def lstm_update(
    sums: Float[Tensor, "4 rows hidden"],
    cell: Float[Tensor, "rows hidden"],
    peepholes: Peepholes | None,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """One step without a gradient: the new hidden state and cell of each row. `sums` holds x + h R and is overwritten."""
    state = _BlockState(sums, torch.empty_like(cell), torch.empty_like(cell), torch.empty_like(cell))
    _advance(state, cell, None if peepholes is None else peepholes.unbind(), activation)
    return state.hidden, state.cell


class _KernelOptions(NamedTuple):
    positions: int
    activation: Activation
    workspace: Workspace
    keep: bool


class _BlockState(NamedTuple):
    """The arrays of one block at one position: gates (4, rows, H), cell, phi(cell), hidden state."""

    gates: Tensor
    cell: Tensor
    activated: Tensor
    hidden: Tensor


class _Memory:
    """The states of all blocks and positions, cut out of one piece of the workspace.

    The gates of a block are contiguous. Without a backward pass, two positions are enough.
    """

    def __init__(self, projected: Tensor, options: _KernelOptions) -> None:
        _, time, self.batch, self.size = projected.shape
        self.rows = (time - options.positions + 1) * self.batch
        self.kept = options.positions if options.keep else min(2, options.positions)
        shape = (self.kept, self.rows, self.size)
        entries, arrays = self.kept * self.rows * self.size, 4 if options.keep else 3
        size = (3 + arrays) * entries + arrays * _STAGGER
        self.piece = options.workspace.take(size, projected) if options.keep else projected.new_empty(size)
        starts = [(3 + array) * entries + array * _STAGGER for array in range(1, arrays)]
        self._gates = self.piece[: 4 * entries].view(self.kept, -1)
        self._cells, self._activated, *hidden = (self.piece[start : start + entries].view(shape) for start in starts)
        self.hidden = hidden[0] if options.keep else projected.new_empty(options.positions, self.rows, self.size)

    def blocks(self) -> list[slice]:
        """Slices of rows whose gates stay in the cache, of about the same length, which is odd to stagger the gates too."""
        count = max(1, round(4 * self.rows * self.size / _BLOCK))
        length = -(-self.rows // count) | 1
        return [slice(start, min(start + length, self.rows)) for start in range(0, self.rows, length)]

    def states(self, block: slice) -> list[_BlockState]:
        """The states of one block at all positions."""
        gates = self._gates[:, 4 * self.size * block.start : 4 * self.size * block.stop]
        gates, cells, activated = (
            gates.view(self.kept, 4, -1, self.size),
            self._cells[:, block],
            self._activated[:, block],
        )
        kept = list(zip(gates.unbind(), cells.unbind(), activated.unbind(), strict=True))
        hidden = self.hidden[:, block].unbind()
        return [_BlockState(*kept[position % self.kept], hidden=state) for position, state in enumerate(hidden)]

    def inputs(self, projected: Tensor, position: int, block: slice) -> Tensor:
        """The slice of (a tensor like) the projected inputs that a block reads at a position."""
        start = position * self.batch
        return projected.view(4, -1, self.size)[:, start + block.start : start + block.stop]


def _advance(
    state: _BlockState, before: Tensor | None, peepholes: tuple[Tensor, ...] | None, activation: Activation
) -> None:
    """Turn the gates from sums into values in place, and fill in the rest of the state. `before` is the cell, None for zero."""
    i, f, g, o = state.gates.unbind()
    if before is not None and peepholes is not None:
        i.addcmul_(before, peepholes[0])
        f.addcmul_(before, peepholes[1])
    state.gates[:2].sigmoid_()
    torch.mul(i, activation.write(g, g), out=state.cell)
    if before is not None:
        state.cell.addcmul_(f, before)
    if peepholes is not None:
        o.addcmul_(state.cell, peepholes[2])
    torch.mul(o.sigmoid_(), activation.write(state.cell, state.activated), out=state.hidden)


class _Adjoint:
    """The backward pass of one block: gradients of its hidden state, cell, gates and peepholes, and the workspace."""

    def __init__(self, rows: int, recurrent: Tensor, peepholes: Tensor | None, activation: Activation) -> None:
        self.activation = activation
        self.peepholes = None if peepholes is None else peepholes.unbind()
        size = recurrent.shape[1]
        staggered = recurrent.new_zeros(3, rows * size + _STAGGER)[:, : rows * size]
        self.hidden, self.cell, self.work = staggered.unflatten(1, (rows, size)).unbind()
        self.gates = recurrent.new_empty(4, rows, size)
        self.gate_gradients, self.weights = self.gates.unbind(), recurrent.unbind()
        self.peephole_terms = recurrent.new_zeros(3, rows, size).unbind()

    def step(self, d_hidden: Tensor, state: _BlockState, before: Tensor | None) -> None:
        """From the gradients of a position's hidden state and of later positions to those of its sums and of `before`."""
        (i, f, g, o), (di, df, dg, do) = state.gates.unbind(), self.gate_gradients
        dh, dc, work = self.hidden.add_(d_hidden), self.cell, self.work
        _through_sigmoid(torch.mul(dh, state.activated, out=work), o, do)
        dc.add_(self.activation.weigh(torch.mul(dh, o, out=work), state.activated, work))
        if self.peepholes is not None:
            dc.addcmul_(do, self.peepholes[2])
            self.peephole_terms[2].addcmul_(do, state.cell)
        _through_sigmoid(torch.mul(dc, g, out=work), i, di)
        self.activation.weigh(torch.mul(dc, i, out=work), g, dg)
        if before is None:
            df.zero_()
            return
        _through_sigmoid(torch.mul(dc, before, out=work), f, df)
        dc.mul_(f)
        if self.peepholes is not None:
            dc.addcmul_(di, self.peepholes[0]).addcmul_(df, self.peepholes[1])
            self.peephole_terms[0].addcmul_(di, before)
            self.peephole_terms[1].addcmul_(df, before)
        torch.mm(di, self.weights[0], out=dh)
        for gradient, weights in zip(self.gate_gradients[1:], self.weights[1:], strict=True):
            dh.addmm_(gradient, weights)


def _through_sigmoid(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(gradient, value, grad_input=out)


class _LSTMWindows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, recurrent: Tensor, peepholes: Tensor | None, options: _KernelOptions
    ) -> Tensor:
        projected, memory = projected.contiguous(), _Memory(projected, options)
        peephole_rows = None if peepholes is None else peepholes.unbind()
        for block in memory.blocks():
            before = None
            for position, state in enumerate(memory.states(block)):
                inputs = memory.inputs(projected, position, block)
                if before is None:
                    state.gates.copy_(inputs)
                else:
                    torch.baddbmm(inputs, before.hidden.expand(4, -1, -1), recurrent, out=state.gates)
                _advance(state, None if before is None else before.cell, peephole_rows, options.activation)
                before = state
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
        time = memory.rows // memory.batch + options.positions - 1
        d_projected = recurrent.new_zeros(4, time, memory.batch, memory.size)
        d_recurrent, back = torch.zeros_like(recurrent), recurrent.mT.contiguous()
        d_peepholes = None if peepholes is None else torch.zeros_like(peepholes)
        for block in memory.blocks():
            adjoint = _Adjoint(block.stop - block.start, back, peepholes, options.activation)
            states, d_states = memory.states(block), d_hidden[:, block].unbind()
            for position in reversed(range(options.positions)):
                before = states[position - 1] if position else None
                adjoint.step(d_states[position], states[position], None if before is None else before.cell)
                memory.inputs(d_projected, position, block).add_(adjoint.gates)
                if before is not None:
                    d_recurrent.baddbmm_(before.hidden.T.expand(4, -1, -1), adjoint.gates)
            if d_peepholes is not None:
                d_peepholes += torch.stack([terms.sum(dim=0) for terms in adjoint.peephole_terms])
        options.workspace.give_back(memory.piece)
        return d_projected, d_recurrent, d_peepholes, None
