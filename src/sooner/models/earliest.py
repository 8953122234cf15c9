"""EARLIEST: a recurrent network that learns when to stop (Hartvigsen, Sen, Kong, Rundensteiner, KDD 2019).

======== ===================================================================================
symbol   meaning
======== ===================================================================================
h(t)     the state of the LSTM after observation t
p_t      the probability to halt at t, if the series has not halted before
b_t      the baseline: the expected reward at t
tau      the halting time: the first t at which a draw from p_t says halt, else the last one
R        the reward: +1 if the class named at tau is right, -1 if not
epsilon  exploration in training: p_t = (1 - epsilon) sigmoid(.) + 0.05 epsilon
======== ===================================================================================
"""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from sooner.errors import InvalidArgument
from sooner.inputs import as_labels, as_lengths, as_number, as_whole, refuse_empty, running, without_padding
from sooner.models.base import LiveStep, Model
from sooner.scores import tandem_scores
from sooner.types import (
    ArrayLike,
    Decisions,
    Labels,
    Lengths,
    LiveState,
    Observations,
    Scalar,
    Statistic,
    Windows,
)

EXPLORED = 0.05
"""The halting probability that exploration mixes in."""
DECAY = 4.0
"""The rate at which annealed exploration falls: after half of the training 12% of it is left."""
_EPSILON = 'It is the share of exploration; "annealed" lets it fall from 1 to 0.'


class Earliest(Model):
    """An LSTM with a classifier, and a controller that gives a halting probability at each time.

    logits z(t) = W h(t) + w;  p_t = sigmoid(u . [h(t), t] + v), where no gradient flows from p_t into h(t).

    The paper draws the halting time from p_t, as `sample_decisions` does: ONE point on the speed-accuracy plane for each trained
    network and each `penalty`. `forward` and `step` return p_t as `halting` instead, and the rule
    `sooner.rules.Halting(threshold)`, "halt at the first t with p_t >= threshold", has a whole exact curve,
    `sat_curve(scores, labels, rule=Halting, halting=windows.halting)`.

    Args:
        features: (channels,).
        classes: K.
        hidden: the size of h.
        penalty: lambda, the cost of waiting in training (`own_loss`).
        epsilon: exploration in training: "annealed" from 1 at the first step to 0 at the last one (`annealed`), or a constant in
            0..1. Outside of training it is 0.
        log_prior: (classes,), subtracted from the logits to give scores; by default nothing is.

    >>> sum(parameter.numel() for parameter in Earliest((128,), 10, hidden=128).parameters())
    133646
    """

    halts = True

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        hidden: int = 128,
        penalty: float = 0.01,
        epsilon: float | Literal["annealed"] = "annealed",
        log_prior: ArrayLike | None = None,
    ) -> None:
        super().__init__(features, classes, log_prior=log_prior)
        self.epsilon: float | Literal["annealed"] = "annealed"
        if epsilon != "annealed":
            self.epsilon = as_number(epsilon, name="epsilon", low=0.0, high=1.0, remedy=_EPSILON)
        self._progress = 0.0  # of the run: the training loop sets it before each step
        self.penalty = as_number(penalty, name="penalty", low=0.0, remedy="It is lambda, the price of waiting.")
        self.hidden = as_whole(hidden, name="hidden", low=1, remedy="It is the size of the network's state.")
        if len(self.features) != 1:
            raise InvalidArgument("features", "(channels,)", self.features, "Flatten or encode each observation first.")
        self.lstm = nn.LSTM(self.features[0], self.hidden, batch_first=True)
        self.classifier = nn.Linear(self.hidden, self.classes)
        self.controller = nn.Linear(self.hidden + 1, 1)
        self.baseline = nn.Linear(self.hidden + 1, 1)

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """Logits of shape (batch, 1, time, classes), and the halting probabilities p_t, without exploration."""
        states, _ = self._read(observations, lengths)
        return Windows(self.classifier(states)[:, None], self.controller(_with_times(states)).sigmoid()[..., 0])

    def init(self, streams: int) -> LiveState:
        """h, the cell of the LSTM, and the number of observations: 2H + 1 numbers a series."""
        zeros = self.classifier.weight.new_zeros
        return zeros(streams, self.hidden), zeros(streams, self.hidden), zeros(streams, 1)

    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """One update of the cell."""
        observation = self.admit_step(state, observation)
        hidden, cell, times = state
        _, (hidden, cell) = self.lstm(observation[:, None].to(hidden), (hidden[None], cell[None]))
        hidden, cell, times = hidden[0], cell[0], times + 1
        halting = self.controller(torch.cat([hidden.detach(), times], dim=1)).sigmoid()[:, 0]
        scores = tandem_scores(self.classifier(hidden)[:, None, None], log_prior=self.log_prior)[:, 0]
        return LiveStep((hidden, cell, times), scores, halting)

    @classmethod
    def examples(cls) -> Iterator["Earliest"]:
        """Two small networks."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            models = cls((3,), 4, hidden=5), cls((1,), 2, hidden=3, log_prior=[-0.1, -2.4])
        yield from models

    def unreached_parameters(self) -> tuple[str, ...]:
        """The baseline, which is only used in the loss."""
        return tuple(f"baseline.{name}" for name, _ in self.baseline.named_parameters())

    def set_progress(self, share: float) -> None:
        """Set the share of the training that is done, for annealed exploration."""
        self._progress = share

    @property
    def exploration(self) -> float:
        """The current epsilon: 0 outside of training."""
        if not self.training:
            return 0.0
        return annealed(self._progress) if self.epsilon == "annealed" else self.epsilon

    def own_loss(self, observations: Observations, labels: Labels, lengths: Lengths | None) -> Scalar:
        """The paper's loss at this model's penalty and exploration; outside of training always with the same draws."""
        draws = None if self.training else torch.Generator(observations.device).manual_seed(0)
        penalty, epsilon = self.penalty, self.exploration
        return self.loss(observations, labels, lengths, penalty=penalty, epsilon=epsilon, generator=draws)

    def loss(
        self,
        observations: Observations,
        labels: ArrayLike,
        lengths: ArrayLike | None = None,
        *,
        penalty: float,
        epsilon: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Scalar:
        """The paper's loss at halting times that are drawn anew in each call.

        Mean over series of
        sum_{t<=tau} -log pi_t (R - b_t) + CE(z(tau), y) + penalty * sum_{t<=tau} -log p_t,
        plus the mean of (R - b_t)^2 over all steps up to tau. Here pi_t is the probability of the draw at t (p_t or 1 - p_t),
        p_t = (1 - epsilon) sigmoid(.) + 0.05 epsilon, and b_t is a constant in the first sum. All four terms are finite for every
        finite output of the controller.

        Args:
            observations: (batch, time, channels).
            labels: (batch,), in 0..K-1.
            lengths: (batch,); what lies beyond is padding.
            penalty: the paper's lambda, at least 0; the larger, the earlier the network halts.
            epsilon: exploration in 0..1; `own_loss` lowers it in the course of training.
            generator: random generator of the draws; by default torch's own.
        """
        remedy = "Below zero the network would be paid for waiting."
        penalty = as_number(penalty, name="penalty", low=0.0, remedy=remedy)
        states, ends = self._read(observations, lengths)
        refuse_empty(states, name="observations")
        logits, inputs = self.classifier(states), _with_times(states)
        log_halt, log_wait = log_policy(self.controller(inputs)[..., 0], epsilon=epsilon)
        drawn, times = draw_halts(log_halt.exp(), ends, generator)
        before = running(times, states.shape[1])
        named = logits[torch.arange(len(times), device=times.device), times - 1]
        targets = as_labels(labels, named)
        reward = 2.0 * (named.argmax(dim=1) == targets).to(named) - 1
        advantage = reward[:, None] - self.baseline(inputs)[..., 0]
        reinforce = -torch.where(drawn, log_halt, log_wait) * advantage.detach() - penalty * log_halt
        regression = torch.where(before, advantage.square(), 0.0).sum() / before.sum()
        return torch.where(before, reinforce, 0.0).sum(1).mean() + regression + functional.cross_entropy(named, targets)

    def sample_decisions(
        self,
        observations: Observations,
        lengths: ArrayLike | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Decisions:
        """The paper's decisions: halt at random with probability p_t, or by force at the end of the series."""
        with torch.no_grad():
            states, ends = self._read(observations, lengths)
            drawn, times = draw_halts(self.controller(_with_times(states)).sigmoid()[..., 0], ends, generator)
            index = torch.arange(len(times), device=times.device), times - 1
            scores = tandem_scores(self.classifier(states)[:, None], log_prior=self.log_prior)
        return Decisions(scores[index].argmax(dim=1).cpu().numpy(), times.cpu().numpy(), drawn[index].cpu().numpy())

    def _read(
        self, observations: Observations, lengths: ArrayLike | None
    ) -> tuple[Float[Tensor, "batch time hidden"], Lengths]:
        """h(t) of all series, and their lengths; padding is read as zeros, so that no NaN reaches a gradient."""
        self.check_observations(observations, leading=2)
        time = observations.shape[1]
        ends = as_lengths(lengths, observations, time=time)
        clean = without_padding(observations, running(ends, time), name="observations")
        return self.lstm(clean.to(self.classifier.weight))[0], ends


def annealed(share: float) -> float:
    """Exploration after a share of the training: epsilon = (e^{-4 share} - e^{-4}) / (1 - e^{-4}), from 1 to 0.

    The published runs let it fall exponentially from 1 to 0, and name no rate.

    >>> [round(annealed(share), 3) for share in (0.0, 0.25, 0.5, 1.0)]
    [1.0, 0.356, 0.119, 0.0]
    """
    share = as_number(share, name="share", low=0.0, high=1.0, remedy="It is the share of the training that is done.")
    return math.expm1(DECAY * (1 - share)) / math.expm1(DECAY)


def log_policy(controls: Statistic, *, epsilon: float) -> tuple[Statistic, Statistic]:
    """log p_t and log(1 - p_t) for p_t = (1 - epsilon) sigmoid(controls) + 0.05 epsilon, finite for every finite control.

    >>> halt, wait = log_policy(torch.tensor([[0.0, -1e4]]), epsilon=0.5)
    >>> halt.exp(), wait.exp()
    (tensor([[0.2750, 0.0250]]), tensor([[0.7250, 0.9750]]))
    """
    share = as_number(epsilon, name="epsilon", low=0.0, high=1.0, remedy=_EPSILON)
    mixed = controls.new_tensor([1 - share, EXPLORED * share, (1 - EXPLORED) * share]).log()
    halt = torch.logaddexp(mixed[0] + functional.logsigmoid(controls), mixed[1])
    return halt, torch.logaddexp(mixed[0] + functional.logsigmoid(-controls), mixed[2])


def draw_halts(
    halting: Statistic, lengths: Lengths, generator: torch.Generator | None
) -> tuple[Bool[Tensor, "batch time"], Lengths]:
    """Random draws whether to halt, for every time; and the time of the first one that halts, at most the length."""
    drawn = torch.bernoulli(halting.detach(), generator=generator).bool()
    after = torch.full_like(drawn[:, :1], True)
    first = torch.cat([drawn, after], dim=1).int().argmax(dim=1) + 1
    return drawn, torch.minimum(first, lengths)


def _with_times(states: Float[Tensor, "batch time hidden"]) -> Float[Tensor, "batch time inputs"]:
    """[h(t), t], without a gradient into h."""
    times = torch.arange(1.0, states.shape[1] + 1, device=states.device, dtype=states.dtype)
    return torch.cat([states.detach(), times.expand(len(states), -1)[..., None]], dim=2)
