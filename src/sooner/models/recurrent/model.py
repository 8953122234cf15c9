"""The temporal integrator: a recurrent cell over windows, then batch norm, an activation and a linear layer.

Live, the states of the N newest windows are kept for each series. Every observation advances all of them and starts a new one:
N+1 cell updates, whatever the time. The oldest window is read out and let go.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole, running
from sooner.models.base import LiveStep, Model
from sooner.models.recurrent.activations import Activation, activation_named
from sooner.models.recurrent.kernel import Workspace, lstm_update, lstm_windows
from sooner.models.recurrent.readout import Readout
from sooner.scores import m_tandem_step
from sooner.types import ArrayLike, Lengths, LiveState, Observations, Windows

Encoded = Float[Tensor, "batch time channels"]
States = Float[Tensor, "rows state"]


class RecurrentCell(nn.Module, ABC):
    """A recurrent cell that reads all windows of a batch, or one observation of many windows.

    `gates` numbers of input projection come from each observation; `states` numbers are carried from one to the next, and the
    first `hidden` of them are what the cell shows.
    """

    gates: int
    states: int

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.channels, self.hidden = channels, hidden

    @abstractmethod
    def windows(self, encoded: Encoded, positions: int) -> Float[Tensor, "position window batch hidden"]:
        """Hidden states after each position of each window. The input projection is computed once an observation."""

    @abstractmethod
    def project(self, observation: Float[Tensor, "streams channels"]) -> Tensor:
        """The input projection of one observation of each stream."""

    @abstractmethod
    def update(self, projected: Tensor, states: States) -> States:
        """One cell update of each row."""


class LSTM(RecurrentCell):
    """LSTM cell with one bias: input kernel Glorot, recurrent kernel orthogonal, forget bias 1; no peepholes."""

    def __init__(self, channels: int, hidden: int, *, activation: str = "tanh") -> None:
        super().__init__(channels, hidden)
        self.gates, self.states = 4, 2 * hidden
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

    def windows(self, encoded: Encoded, positions: int) -> Float[Tensor, "position window batch hidden"]:
        """Hidden states after each position of each window, by the window kernel."""
        # Each gate is projected into a matrix of its own, with time before the batch, as the kernel reads it.
        rows = encoded.transpose(0, 1).flatten(0, 1).expand(4, -1, -1)
        projected: Tensor = torch.baddbmm(self.bias[:, None], rows, self._by_gate(self.input).mT)
        hidden = lstm_windows(
            projected.unflatten(1, (-1, len(encoded))),
            self._by_gate(self.recurrent).mT,
            self.diagonal,
            positions=positions,
            activation=self.activation,
            workspace=self.workspace,
        )
        by_window: Tensor = hidden.unflatten(1, (-1, len(encoded)))
        return by_window

    def project(self, observation: Float[Tensor, "streams channels"]) -> Tensor:
        """Input projection with the bias, (streams, 4, hidden)."""
        flat = nn.functional.linear(observation, self.input, self.bias.flatten())
        projected: Tensor = flat.unflatten(1, (4, self.hidden))
        return projected

    def update(self, projected: Tensor, states: States) -> States:
        """One cell update of each row; a state is the hidden state, then the cell."""
        hidden, cell = states.split(self.hidden, dim=1)
        sums = torch.baddbmm(projected.transpose(0, 1), hidden.expand(4, -1, -1), self._by_gate(self.recurrent).mT)
        return torch.cat(lstm_update(sums, cell.contiguous(), self.diagonal, self.activation), dim=1)

    def train(self, mode: bool = True) -> "LSTM":
        """Outside of training the kernel's memory is let go."""
        self.workspace.clear()
        return super().train(mode)

    def _by_gate(self, weights: Tensor) -> Tensor:
        by_gate: Tensor = weights.unflatten(0, (4, self.hidden))
        return by_gate


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
        super().__init__(channels, hidden)
        if activation != "tanh":
            raise InvalidArgument("activation", "'tanh' for a GRU", repr(activation), "Use an LSTM for another one.")
        self.gates, self.states = 3, hidden
        self.gru = nn.GRU(channels, hidden, batch_first=True)

    def windows(self, encoded: Encoded, positions: int) -> Float[Tensor, "position window batch hidden"]:
        """Hidden states after each position of each window."""
        batch, time, _ = encoded.shape
        if positions == time:
            hidden: Tensor = self.gru(encoded)[0]
            return hidden.transpose(0, 1)[:, None]
        projected = self.project(encoded)
        starts = time - positions + 1
        states, shown = encoded.new_zeros(starts * batch, self.hidden), []
        for position in range(positions):
            rows = projected[:, position : position + starts].transpose(0, 1).flatten(0, 1)
            states = self.update(rows, states)
            shown.append(states)
        by_window: Tensor = torch.stack(shown).unflatten(1, (starts, batch))
        return by_window

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


class _Live(NamedTuple):
    """The state of live series: N window states (oldest first), scores so far, logits of the second-oldest window, and age."""

    windows: Float[Tensor, "streams window state"]
    scores: Float[Tensor, "streams classes"]
    said: Float[Tensor, "streams classes"]
    age: Float[Tensor, " streams"]


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
        encoder: a module from (rows, *features) to (rows, channels), with the attribute `width` for its channels; without one,
            observations are vectors and are taken as they are.
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
            raise InvalidArgument(
                "features", "(channels,) where there is no encoder", self.features, "Give an encoder that reads them."
            )
        hidden = as_whole(hidden, name="hidden", low=1, remedy="It is the number of hidden units.")
        self.encoder = encoder
        channels = self.features[0] if encoder is None else _width_of(encoder, self.features)
        self.cell = CELLS[cell](channels, hidden, activation=activation)
        self.readout = Readout(hidden, classes, activation_named(activation))

    @classmethod
    def examples(cls) -> Iterator["Recurrent"]:
        """Every cell, at order 0, a middling one, and full memory."""
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
        encoded = self._encode(observations, lengths)
        # Mixed precision is for the encoder: the integrator's own products are small, and its sums over time are not.
        with torch.autocast(encoded.device.type, enabled=False):
            hidden = self.cell.windows(encoded.to(self.readout.linear.weight.dtype), positions)
            if lengths is None or bool((lengths == time).all()):
                logits = self.readout(hidden.flatten(0, 2)).unflatten(0, hidden.shape[:3])
            else:
                # Batch norm must not see padding: only the windows and positions count that a series of that length has.
                live = _windows_of(lengths, time, positions)
                logits = hidden.new_zeros(*hidden.shape[:3], self.classes)
                logits = logits.masked_scatter(live[..., None], self.readout(hidden[live]))
        return Windows(logits.permute(2, 1, 0, 3))

    def unreached_parameters(self) -> tuple[str, ...]:
        """Windows of one observation have no recurrence."""
        return ("cell.recurrent", "cell.gru.weight_hh_l0") if self.order == 0 else ()

    def init(self, streams: int) -> LiveState:
        """N window states, the scores, the logits of the second-oldest window and the age of each stream."""
        like = self.readout.linear.weight
        kept = 1 if self.order is None else self.order
        return _Live(
            like.new_zeros(streams, kept, self.cell.states),
            like.new_zeros(streams, self.classes),
            like.new_zeros(streams, self.classes),
            like.new_zeros(streams),
        )

    @torch.no_grad()
    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """N+1 cell updates for each stream, at any age."""
        observation = self.admit_step(state, observation)
        live = _Live(*state)
        encoded = observation if self.encoder is None else self.encoder(observation)
        projected = self.cell.project(encoded.to(self.readout.linear.weight.dtype))
        if self.order is None:
            states = self.cell.update(projected, live.windows[:, 0])
            now = self.readout.evaluated(states[:, : self.cell.hidden])
            scores = now if self.log_prior is None else now - self.log_prior
            return LiveStep(_Live(states[:, None], scores, live.said, live.age), scores)
        return self._step_windows(live, projected)

    def _step_windows(self, live: _Live, projected: Tensor) -> LiveStep:
        streams, order = projected.shape[0], self.order or 0
        before = torch.cat([live.windows, live.windows.new_zeros(streams, 1, self.cell.states)], dim=1)
        rows = projected.repeat_interleave(order + 1, dim=0)
        states = self.cell.update(rows, before.flatten(0, 1)).unflatten(0, (streams, order + 1))
        # The first window of a young series has not yet moved up to the oldest position.
        oldest = (order - live.age).clamp_min(0).long()
        read = torch.stack([oldest, (oldest + 1).clamp_max(order)], dim=1)
        shown = states[torch.arange(streams)[:, None], read, : self.cell.hidden]
        now, next_said = self.readout.evaluated(shown.flatten(0, 1)).unflatten(0, (streams, 2)).unbind(dim=1)
        scores = self._combine(live, now)
        age = (live.age + 1).clamp_max(order + 1)
        return LiveStep(_Live(states[:, 1:].contiguous(), scores, next_said, age), scores)

    def _combine(self, live: _Live, now: Tensor) -> Tensor:
        if self.formula == "m_tandem_oblivion":
            return now if self.log_prior is None else now - self.log_prior
        said = live.said
        if self.order == 0:
            said = torch.zeros_like(now) if self.log_prior is None else self.log_prior.expand_as(now)
        return m_tandem_step(live.scores, now, said, young=live.age <= (self.order or 0), log_prior=self.log_prior)

    def _encode(self, observations: Observations, lengths: Lengths | None) -> Encoded:
        if self.encoder is None:
            return observations
        if lengths is None:
            rows: Tensor = self.encoder(observations.flatten(0, 1))
            encoded: Tensor = rows.unflatten(0, observations.shape[:2])
            return encoded
        live = running(lengths, observations.shape[1])
        rows = self.encoder(observations[live])
        return rows.new_zeros(*live.shape, rows.shape[1]).masked_scatter(live[..., None], rows)


def _width_of(encoder: nn.Module, features: tuple[int, ...]) -> int:
    width, reads = getattr(encoder, "width", None), getattr(encoder, "features", features)
    if not isinstance(width, int) or reads != features:
        raise InvalidArgument(
            "encoder",
            f"a module that reads {features}, with its number of features as `width`",
            f"one that reads {reads}, of width {width}",
            "See `sooner.models.image.encoders`.",
        )
    return width


def _windows_of(lengths: Lengths, time: int, positions: int) -> Bool[Tensor, "position window batch"]:
    """True for the windows and positions that a series has: its full windows, or the one of its own length if it is shorter."""
    start = torch.arange(time - positions + 1, device=lengths.device)[:, None]
    position = torch.arange(positions, device=lengths.device)[:, None, None]
    return (start + position < lengths) & (start <= (lengths - positions).clamp_min(0))
