"""A model turns observations into scores, in batch or live, with the same numbers.

A model reads windows of N+1 observations (`order` N; None is full memory, one window as long as the series). `forward` returns
the logits of all windows; a formula of `sooner.scores` turns them into scores. Live, `init` and `step` keep a state of bounded
size for each series and return the newest scores after each observation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_lengths, as_tensor, as_whole, refuse_empty, refuse_nonfinite, running, without_padding
from sooner.scores import oblivion_scores, tandem_scores
from sooner.types import (
    ArrayLike,
    Labels,
    Lengths,
    LiveState,
    Observations,
    Scalar,
    Scores,
    Statistic,
    StepObservations,
    StepScores,
    StepStatistic,
    Windows,
)

FORMULAS = {"m_tandem": tandem_scores, "m_tandem_oblivion": oblivion_scores}


class LiveStep(NamedTuple):
    """The result of one observation: the new state, the newest scores, and the halting probability if the model has one."""

    state: LiveState
    scores: StepScores
    halting: StepStatistic | None = None


class Model(nn.Module, ABC):
    """Observations in, scores out.

    Args:
        features: the shape of one observation, for example (channels,).
        classes: K.
        order: N, or None for full memory.
        formula: "m_tandem" or "m_tandem_oblivion".
        log_prior: (classes,), subtracted as the formulas of `sooner.scores` say; by default nothing is.
    """

    log_prior: Tensor | None
    halts: bool = False
    """Whether `forward` and `step` give a halting probability beside the scores, which the rule `Halting` reads."""

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        order: int | None = None,
        formula: str = "m_tandem",
        log_prior: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        if formula not in FORMULAS:
            raise UnknownName("formula", formula, FORMULAS)
        if not isinstance(features, tuple | list):
            raise InvalidArgument(
                "features", "a shape, for example (3,)", repr(features), "It is that of one observation."
            )
        self.features = tuple(as_whole(size, name="features", low=1, remedy="It is a shape.") for size in features)
        self.classes = as_whole(classes, name="classes", low=2, remedy="With one class there is nothing to decide.")
        remedy = "It is the number of earlier observations a window holds; None is full memory."
        self.order = None if order is None else as_whole(order, name="order", low=0, remedy=remedy)
        self.formula = formula
        prior = None if log_prior is None else as_tensor(log_prior, name="log_prior").to(torch.get_default_dtype())
        if prior is not None and (prior.shape != (self.classes,) or not bool(prior.isfinite().all())):
            remedy = "Give the log of one prior probability for each class."
            raise InvalidArgument("log_prior", f"{self.classes} finite numbers", prior.tolist(), remedy)
        self.register_buffer("log_prior", prior)

    @abstractmethod
    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """The logits of every window; padding has no effect on those of the series."""

    @abstractmethod
    def init(self, streams: int) -> LiveState:
        """The state of new live series: tensors whose first axis is the stream."""

    @abstractmethod
    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Read one observation of each live series. Rows are independent of each other."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
        """A few small instances on which the laws of `sooner.checks` are tried."""

    def scores(self, observations: ArrayLike, lengths: ArrayLike | None = None) -> Scores:
        """The scores after each observation, from (batch, time, *features); `torch.no_grad` saves the gradient."""
        return self.scores_and_halting(observations, lengths)[0]

    def scores_and_halting(
        self, observations: ArrayLike, lengths: ArrayLike | None = None
    ) -> tuple[Scores, Statistic | None]:
        """The scores, and the model's own halting probability at each time, None if it has none."""
        windows = self(*self.admit(observations, lengths))
        return FORMULAS[self.formula](windows.logits, log_prior=self.log_prior), windows.halting

    def admit(self, observations: ArrayLike, lengths: ArrayLike | None) -> tuple[Observations, Lengths | None]:
        """The door for a batch: tensors of the right shape, finite within each length, zero beyond."""
        tensor = as_tensor(observations, name="observations")
        self.check_observations(tensor, leading=2)
        refuse_empty(tensor, name="observations")
        time = tensor.shape[1]
        if time == 0:
            raise InvalidArgument("observations", "at least 1 in each series", "none", "Drop empty series.")
        ends = as_lengths(lengths, tensor, time=time)
        if tensor.is_floating_point():
            tensor = without_padding(tensor.flatten(2), running(ends, time), name="observations").view(tensor.shape)
        return tensor, None if lengths is None else ends

    def admit_step(self, state: LiveState, observation: ArrayLike) -> StepObservations:
        """The door for one observation of each live series."""
        tensor = as_tensor(observation, name="observations")
        self.check_observations(tensor, leading=1)
        # Sizes, not `len`, which would make a constant of them in an exported graph.
        if tensor.shape[0] != state[0].shape[0]:
            remedy = "Give one observation for each row of the state."
            raise InvalidArgument("observations", f"of {len(state[0])} stream(s)", f"{len(tensor)}", remedy)
        if tensor.is_floating_point():
            refuse_nonfinite(tensor if tensor.ndim == 2 else tensor.flatten(1), name="observations")
        return tensor

    def training_windows(self, observations: Observations, lengths: Lengths | None) -> tuple[Windows, Lengths | None]:
        """The windows of a training step, and their lengths: those of `forward`, or a sample of them."""
        return self(observations, lengths), lengths

    def own_loss(self, observations: Observations, labels: Labels, lengths: Lengths | None) -> Scalar | None:
        """The loss of a model that has one of its own; None for those that are trained by losses on scores and windows."""
        del observations, labels, lengths
        return None

    def set_progress(self, share: float) -> None:
        """The training loop calls this before each step, from 0 at the first step to 1 at the last; most models do nothing.

        The share depends only on the step and the number of steps, so it is the same in a resumed run and in every worker.
        """
        del share

    def unreached_parameters(self) -> tuple[str, ...]:
        """Names of parameters that have no effect on logits and halting probabilities, for a reason; usually none."""
        return ()

    def bytes_per_stream(self) -> int:
        """The size of the state of one live series."""
        return sum(tensor.element_size() * tensor[0].numel() for tensor in self.init(1))

    def check_observations(self, observations: Tensor, *, leading: int) -> None:
        """Refuse observations of another shape than the model reads, after `leading` axes."""
        if observations.ndim < leading or observations.shape[leading:] != self.features:
            axes = ("batch, time" if leading == 2 else "streams") + "".join(f", {size}" for size in self.features)
            got = f"shape {tuple(observations.shape)}"
            raise InvalidArgument("observations", f"of shape ({axes})", got, "That is what the model reads.")


def of_each_observation(
    function: Callable[[Tensor], Tensor], observations: Observations, lengths: Lengths | None
) -> Float[Tensor, "batch time width"]:
    """The function of each single observation; zero beyond each length, where batch norm must not see the padding."""
    if lengths is None:
        return function(observations.flatten(0, 1)).unflatten(0, observations.shape[:2])  # type: ignore[no-any-return]
    live = running(lengths, observations.shape[1])
    rows = function(observations[live])
    return rows.new_zeros(*live.shape, rows.shape[1]).masked_scatter(live[..., None], rows)
