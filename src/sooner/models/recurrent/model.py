"""The temporal integrator: a recurrent cell over windows, then batch norm, an activation and a linear layer.

Live, the states of the N newest windows are kept for each series. Every observation advances all of them and starts a new one:
N+1 cell updates at any time. The scores are those of the oldest window, whose state is then dropped.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole, running_windows
from sooner.models.base import LiveStep, Model, of_each_observation
from sooner.models.recurrent.activations import Activation, activation_named
from sooner.models.recurrent.fused.build import fused_for
from sooner.models.recurrent.fused.library import Library
from sooner.models.recurrent.fused.live import LiveWeights, LiveWindows, fused_step
from sooner.models.recurrent.fused.windows import fused_windows
from sooner.models.recurrent.kernel import Workspace, lstm_update, lstm_windows
from sooner.models.recurrent.readout import Readout
from sooner.scores import m_tandem_step
from sooner.types import ArrayLike, Lengths, LiveState, Observations, Windows

Encoded = Float[Tensor, "batch time channels"]
States = Float[Tensor, "rows state"]
HiddenStates = Float[Tensor, "position batch window hidden"]


class RecurrentCell(nn.Module, ABC):
    """A recurrent cell that reads all windows of a batch, or one observation of many windows.

    The state has `states` numbers, of which the first `hidden` are the hidden state.
    """

    states: int

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    @abstractmethod
    def windows(self, encoded: Encoded, positions: int) -> HiddenStates:
        """Hidden states after each position of each window. The input projection is computed once for each observation."""

    @abstractmethod
    def project(self, observation: Float[Tensor, "streams channels"]) -> Tensor:
        """The input projection of one observation of each stream."""

    @abstractmethod
    def update(self, projected: Tensor, states: States) -> States:
        """One cell update of each row."""


class LSTM(RecurrentCell):
    """LSTM cell with one bias: input kernel Glorot, recurrent kernel orthogonal, forget bias 1; no peepholes."""

    def __init__(self, channels: int, hidden: int, *, activation: str = "tanh") -> None:
        super().__init__(hidden)
        self.states = 2 * hidden
        self.activation: Activation = activation_named(activation)
        self.input = nn.Parameter(nn.init.xavier_uniform_(torch.empty(4 * hidden, channels)))
        self.recurrent = nn.Parameter(nn.init.orthogonal_(torch.empty(4 * hidden, hidden)))
        self.bias = nn.Parameter(torch.zeros(4, hidden))
        nn.init.ones_(self.bias[1])
        self.workspace = Workspace()

    @property
    def diagonal(self) -> Tensor | None:
        """The peephole weights, (3, hidden), if there are any."""
        return None

    def windows(self, encoded: Encoded, positions: int) -> HiddenStates:
        """Hidden states after each position of each window, by the window kernel."""
        fused = fused_for(encoded, self.activation)
        if fused is not None:
            projected = nn.functional.linear(encoded, self.input, self.bias.flatten())
            return fused_windows(
                fused,
                projected,
                self.recurrent.T,
                self.diagonal,
                positions=positions,
                activation=self.activation,
                workspace=self.workspace,
            )
        # The kernel reads a matrix for each gate, with time before the batch.
        rows = encoded.transpose(0, 1).flatten(0, 1).expand(4, -1, -1)
        projected = torch.baddbmm(self.bias[:, None], rows, self._by_gate(self.input).mT)
        hidden = lstm_windows(
            projected.unflatten(1, (-1, len(encoded))),
            self._by_gate(self.recurrent).mT,
            self.diagonal,
            positions=positions,
            activation=self.activation,
            workspace=self.workspace,
        )
        return hidden.unflatten(1, (-1, len(encoded))).transpose(1, 2)  # type: ignore[no-any-return]

    def project(self, observation: Float[Tensor, "streams channels"]) -> Tensor:
        """Input projection with the bias, (streams, 4, hidden)."""
        flat = nn.functional.linear(observation, self.input, self.bias.flatten())
        return flat.unflatten(1, (4, self.hidden))  # type: ignore[no-any-return]

    def update(self, projected: Tensor, states: States) -> States:
        """One cell update of each row; a state is the hidden state, then the cell."""
        hidden, cell = states.split(self.hidden, dim=1)
        sums = torch.baddbmm(projected.transpose(0, 1), hidden.expand(4, -1, -1), self._by_gate(self.recurrent).mT)
        return torch.cat(lstm_update(sums, cell.contiguous(), self.diagonal, self.activation), dim=1)

    def train(self, mode: bool = True) -> "LSTM":
        """Set the mode, and free the kernel's memory."""
        self.workspace.clear()
        return super().train(mode)

    def _by_gate(self, weights: Tensor) -> Tensor:
        return weights.unflatten(0, (4, self.hidden))  # type: ignore[no-any-return]


class PeepholeLSTM(LSTM):
    """The paper's cell: LSTM with diagonal peepholes; input and forget gates see c(t-1), the output gate sees c(t)."""

    def __init__(self, channels: int, hidden: int, *, activation: str = "tanh") -> None:
        super().__init__(channels, hidden, activation=activation)
        self.peepholes = nn.Parameter(0.1 * torch.randn(3, hidden))

    @property
    def diagonal(self) -> Tensor | None:
        """p_i, p_f, p_o."""
        return self.peepholes


class GRU(RecurrentCell):
    """Gated recurrent unit, as PyTorch defines it. Where one window holds the whole series, PyTorch's own kernel runs."""

    def __init__(self, channels: int, hidden: int, *, activation: str = "tanh") -> None:
        super().__init__(hidden)
        if activation != "tanh":
            raise InvalidArgument("activation", "'tanh' for a GRU", repr(activation), "Use an LSTM for another one.")
        self.states = hidden
        self.gru = nn.GRU(channels, hidden, batch_first=True)

    def windows(self, encoded: Encoded, positions: int) -> HiddenStates:
        """Hidden states after each position of each window."""
        batch, time, _ = encoded.shape
        if positions == time:
            hidden: Tensor = self.gru(encoded)[0]
            return hidden.transpose(0, 1)[:, :, None]
        projected = self.project(encoded)
        starts = time - positions + 1
        states = [encoded.new_zeros(starts * batch, self.hidden)]
        for position in range(positions):
            rows = projected[:, position : position + starts].transpose(0, 1).flatten(0, 1)
            states.append(self.update(rows, states[-1]))
        return torch.stack(states[1:]).unflatten(1, (starts, batch)).transpose(1, 2)  # type: ignore[no-any-return]

    def project(self, observation: Float[Tensor, "*rows channels"]) -> Tensor:
        """Input projection with its bias, (*rows, 3 * hidden)."""
        weight, _, bias, _ = self.gru.all_weights[0]
        return nn.functional.linear(observation, weight, bias)

    def update(self, projected: Tensor, states: States) -> States:
        """h' = (1 - z) n + z h, with n = tanh(x_n + r (h R_n + b_n))."""
        _, weight, _, bias = self.gru.all_weights[0]
        sums = nn.functional.linear(states, weight, bias)
        (x_r, x_z, x_n), (h_r, h_z, h_n) = projected.flatten(1).chunk(3, dim=1), sums.chunk(3, dim=1)
        reset, keep = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
        new = (x_n + reset * h_n).tanh()
        return new + keep * (states - new)


CELLS: dict[str, type[PeepholeLSTM] | type[LSTM] | type[GRU]] = {"peephole": PeepholeLSTM, "lstm": LSTM, "gru": GRU}


class Recurrent(Model):
    """Encoder, recurrent cell over windows, batch norm, activation, linear layer without bias.

    With the peephole cell this is the paper's integrator: 4Hd + 4H^2 + 4H + 3H + 2H + HK trainable parameters.

    Args:
        features: the shape of one observation.
        classes: K.
        hidden: H.
        order: N, or None for full memory.
        cell: "peephole", "lstm" or "gru".
        activation: "tanh" or "b2bsqrt".
        formula: "m_tandem" or "m_tandem_oblivion".
        log_prior: (classes,), see `sooner.scores`.
        encoder: a module from (rows, *features) to (rows, channels), with its number of channels as `width`; by default there is
            none, and observations are vectors.
    """

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        hidden: int = 128,
        order: int | None = None,
        cell: str = "peephole",
        activation: str = "tanh",
        formula: str = "m_tandem",
        log_prior: ArrayLike | None = None,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__(features, classes, order=order, formula=formula, log_prior=log_prior)
        if cell not in CELLS:
            raise UnknownName("cell", cell, CELLS)
        if encoder is None and len(self.features) != 1:
            expected, remedy = "(channels,) where there is no encoder", "Give an encoder that reads them."
            raise InvalidArgument("features", expected, self.features, remedy)
        hidden = as_whole(hidden, name="hidden", low=1, remedy="It is the number of hidden units.")
        self.encoder = encoder
        channels = self.features[0] if encoder is None else _width_of(encoder, self.features)
        self.cell = CELLS[cell](channels, hidden, activation=activation)
        self.readout = Readout(hidden, classes, activation_named(activation))

    @classmethod
    def examples(cls) -> Iterator["Recurrent"]:
        """Every cell, at order 0, at order 2, and with full memory."""
        for cell in CELLS:
            for order in (0, 2, None):
                yield cls((3,), 4, hidden=5, order=order, cell=cell)
        yield cls((3,), 4, hidden=5, order=3, activation="b2bsqrt", formula="m_tandem_oblivion")
        yield cls((3,), 4, hidden=5, order=1, log_prior=[-1.0, -2.0, -1.5, -1.2])
        yield cls((3,), 4, hidden=5, order=0, log_prior=[-1.0, -2.0, -1.5, -1.2])

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """The logits of every window."""
        observations, lengths = self.admit(observations, lengths)
        time = observations.shape[1]
        positions = time if self.order is None else min(self.order + 1, time)
        encoded = observations if self.encoder is None else of_each_observation(self.encoder, observations, lengths)
        # Mixed precision is for the encoder: the integrator's products are small, and its sums over time are large.
        with torch.autocast(encoded.device.type, enabled=False):
            hidden = self.cell.windows(encoded.to(self.readout.linear.weight.dtype), positions)
            # Rows are read in the order in which the kernel stored them: a copy would cost as much as the gates.
            stored = (0, 1, 2) if hidden.is_contiguous() else (0, 2, 1)
            hidden = hidden.permute(*stored, 3)
            if lengths is None or bool((lengths == time).all()):
                logits = self.readout(hidden.flatten(0, 2)).unflatten(0, hidden.shape[:3])
            else:
                # Batch norm must not see padding, only the windows and positions that a series of that length has.
                live = running_windows(lengths, time - positions + 1, positions).permute(2, 0, 1).permute(stored)
                logits = hidden.new_zeros(*hidden.shape[:3], self.classes)
                logits = logits.masked_scatter(live[..., None], self.readout(hidden[live]))
        return Windows(logits.permute(*stored, 3).permute(1, 2, 0, 3))

    def unreached_parameters(self) -> tuple[str, ...]:
        """Windows of one observation have no recurrence."""
        return ("cell.recurrent", "cell.gru.weight_hh_l0") if self.order == 0 else ()

    def init(self, streams: int) -> LiveState:
        """N window states, the scores, the logits of the second-oldest window and the age of each stream."""
        zeros, kept = self.readout.linear.weight.new_zeros, 1 if self.order is None else self.order
        windows = zeros(streams, kept, self.cell.states)
        return LiveWindows(windows, zeros(streams, self.classes), zeros(streams, self.classes), zeros(streams))

    @torch.no_grad()
    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """N+1 cell updates for each stream, at any age."""
        observation = self.admit_step(state, observation)
        # Each attribute of a module is read once: PyTorch looks it up in three dictionaries.
        live, encoder, readout, cell = LiveWindows(*state), self.encoder, self.readout, self.cell
        encoded = observation if encoder is None else encoder(observation)
        encoded = encoded.to(readout.linear.weight.dtype)
        if isinstance(cell, LSTM) and (fused := fused_for(encoded, readout.activation)) is not None:
            return self._fused_step(fused, live, encoded, cell, readout)
        projected = cell.project(encoded)
        if self.order is None:
            states = cell.update(projected, live.windows[:, 0])
            now = readout.evaluated(states[:, : cell.hidden])
            scores = now if self.log_prior is None else now - self.log_prior
            return LiveStep(LiveWindows(states[:, None], scores, live.logits, live.age), scores)
        return self._step_windows(live, projected)

    def _step_windows(self, live: LiveWindows, projected: Tensor) -> LiveStep:
        streams, order = projected.shape[0], self.order or 0
        before = torch.cat([live.windows, live.windows.new_zeros(streams, 1, self.cell.states)], dim=1)
        inputs = projected.repeat_interleave(order + 1, dim=0)
        states = self.cell.update(inputs, before.flatten(0, 1)).unflatten(0, (streams, order + 1))
        # The first window of a young series has not yet moved up to the oldest position.
        oldest = (order - live.age).clamp_min(0).long()
        rows = torch.stack([oldest, (oldest + 1).clamp_max(order)], dim=1)
        hidden = states[torch.arange(streams)[:, None], rows, : self.cell.hidden]
        now, second = self.readout.evaluated(hidden.flatten(0, 1)).unflatten(0, (streams, 2)).unbind(dim=1)
        scores = self._combine(live, now)
        age = (live.age + 1).clamp_max(order + 1)
        return LiveStep(LiveWindows(states[:, 1:].contiguous(), scores, second, age), scores)

    def _fused_step(self, fused: Library, live: LiveWindows, encoded: Tensor, cell: LSTM, readout: Readout) -> LiveStep:
        fresh, prior = self.order is not None, None if self.log_prior is None else self.log_prior.to(encoded)
        weights = (cell.input, cell.bias, cell.recurrent, cell.diagonal, *readout.evaluated_weights(), prior)
        after = fused_step(
            *(fused, LiveWeights(*weights), encoded, live),
            fresh=fresh,
            adds=fresh and self.formula == "m_tandem",
            activation=readout.activation,
            eps=readout.norm.eps,
        )
        return LiveStep(after, after.scores)

    def _combine(self, live: LiveWindows, now: Tensor) -> Tensor:
        if self.formula == "m_tandem_oblivion":
            return now if self.log_prior is None else now - self.log_prior
        before = live.logits
        if self.order == 0:
            before = torch.zeros_like(now) if self.log_prior is None else self.log_prior.expand_as(now)
        return m_tandem_step(live.scores, now, before, young=live.age <= (self.order or 0), log_prior=self.log_prior)


def _width_of(encoder: nn.Module, features: tuple[int, ...]) -> int:
    width, reads = getattr(encoder, "width", None), getattr(encoder, "features", features)
    if not isinstance(width, int) or reads != features:
        expected = f"a module that reads {features}, with its number of features as `width`"
        got, remedy = f"one that reads {reads}, of width {width}", "See `sooner.models.image.encoders`."
        raise InvalidArgument("encoder", expected, got, remedy)
    return width
