"""One training step at a time, and the validation metric that selects models."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from sooner.errors import TrainingDiverged
from sooner.evaluate.metrics import last_error_of, mean_accuracy_of
from sooner.models.base import Model
from sooner.scores import Scored
from sooner.train.criterion import BatchLoss, Criterion
from sooner.train.optimizers import optimizer_for, schedule_for
from sooner.train.precision import Precision
from sooner.train.settings import Settings
from sooner.train.sources import InOrder, Minibatch, Shuffled, Source, class_counts
from sooner.train.team import Team
from sooner.types import Scores

StateDict: TypeAlias = dict[str, Tensor]


class Validation(NamedTuple):
    """The result of a validation after `step` steps.

    `metric` is `sooner.evaluate.mean_accuracy`, `loss` the loss on the same series, and `last_error` their balanced error at the
    last observation; it is None in checkpoints of versions that did not measure it.
    """

    step: int
    metric: float
    loss: float
    last_error: float | None = None


class Learner:
    """The state of a training: the weights, the state of the optimizer, and the number of steps done.

    Several workers may train together, each with a copy: every worker reads its share of each batch, and the gradients of the
    workers are averaged, weighted by the sizes of their shares, so that the mean is the gradient of the batch.
    """

    def __init__(
        self,
        model: Model,
        training: Source,
        validation: Source,
        settings: Settings,
        precision: Precision,
        team: Team = Team(),  # noqa: B008
    ) -> None:
        self.model, self.settings, self.team = model, settings, team
        self.steps = 0
        self.terms: dict[str, float] = {}
        """The losses of the last step by name, and their weighted sum, "total"."""
        self._training, self._validation, self._precision = training, validation, precision
        self._device = device_of(model)
        floating = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
        self._dtype = next(floating, torch.get_default_dtype())
        self._criterion = Criterion(settings.loss, class_counts(training, model.classes))
        self._optimizer = optimizer_for(model.parameters(), settings.optimizer)
        self._factor = schedule_for(settings.optimizer, settings.training.iterations)
        # Only float16 needs scaled gradients.
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=precision.used == "16-mixed")
        options = settings.training
        self._batches = Shuffled(
            training,
            options.batch_size,
            options.seed,
            team.rank,
            team.size,
            None if options.crop == "none" else options.crop,
            None if options.whole_every == "none" else options.whole_every,
        )

    def step(self) -> None:
        """Read the next batch and update the weights; a loss that is not finite raises `TrainingDiverged`."""
        training = self.settings.training
        self.model.set_progress(self.steps / max(1, training.iterations - 1))
        self._seed()
        self.team.share_buffers(self.model)
        batch = self._batches.batch(self.steps).to(self._device)
        loss = self._loss(batch)
        if not bool(torch.isfinite(loss.total)):
            raise self._diverged(loss, batch)
        whole = min(training.batch_size, len(self._training))
        self._optimizer.zero_grad()
        self._scaler.scale(loss.total * (self.team.size * len(batch.labels) / whole)).backward()
        self.team.average_gradients(self.model)
        self._scaler.unscale_(self._optimizer)
        if training.gradient_clip != "none":
            nn.utils.clip_grad_norm_(self.model.parameters(), training.gradient_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = self.settings.optimizer.lr * self._factor(self.steps)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.steps += 1
        self.terms = _as_floats({"total": loss.total, **loss.terms})

    @torch.no_grad()
    def validate(self) -> Validation:
        """The metric over the whole validation set, the same for every worker; the model stays in training mode."""
        validation, team = self._validation, self.team
        # At least one batch for every worker; worker i of n reads every n-th batch.
        size = min(self.settings.training.batch_size, len(validation) // team.size)
        self.model.eval()
        team.share_buffers(self.model)
        batches = InOrder(validation, size, team.rank, team.size)
        by_worker = team.gather([self._validated(batch.to(self._device)) for batch in batches])
        self.model.train()
        rounds = range(len(by_worker[0]))
        in_order = [results[index] for index in rounds for results in by_worker if index < len(results)]
        scores = torch.cat([scores for scores, _ in in_order]).numpy()
        full = torch.full((len(validation),), scores.shape[1])
        lengths = full if validation.lengths is None else validation.lengths.cpu()
        scored = Scored(scores, lengths.numpy(), validation.labels.cpu().numpy())
        loss = sum(loss for _, loss in in_order) / len(validation)
        return Validation(self.steps, mean_accuracy_of(scored), loss, last_error_of(scored))

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint. The order of the series and random numbers follow from the number of steps."""
        return {
            "step": self.steps,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.steps = state["step"]
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty if it was disabled, and in checkpoints that Lightning wrote
            self._scaler.load_state_dict(state["scaler"])

    def _validated(self, batch: Minibatch) -> tuple[Scores, float]:
        """The scores of a batch, and its loss times its size."""
        loss = self._loss(batch)
        if not bool(torch.isfinite(loss.scores.sum())):
            raise self._diverged(loss, batch)
        return loss.scores.cpu(), float(loss.total) * len(batch.labels)

    def _loss(self, batch: Minibatch) -> BatchLoss:
        if batch.observations.is_floating_point():
            batch = batch._replace(observations=batch.observations.to(self._dtype))
        with self._precision.autocast(self._device.type):
            return self._criterion(self.model, batch)

    def _seed(self) -> None:
        """Make the random numbers of a worker's step a function of (seed, step, worker), so that none need be saved."""
        seed = (self.settings.training.seed * 1_000_003 + self.steps + self.team.rank * (2**40 + 15)) % 2**63
        # `torch.manual_seed` seeds every type of device, and takes longer than a small step.
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif self._device.type == "mps":
            torch.mps.manual_seed(seed)

    def _diverged(self, loss: BatchLoss, batch: Minibatch) -> TrainingDiverged:
        bad = ~torch.isfinite(loss.scores).flatten(1).all(dim=1)
        rows = batch.indices[bad] if bool(bad.any()) else batch.indices
        stage, lr = "training" if self.model.training else "validation", self.settings.optimizer.lr
        return TrainingDiverged(self.steps, _as_floats(loss.terms), rows.tolist(), stage=stage, lr=lr)


def device_of(model: nn.Module) -> torch.device:
    """The device of the weights."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


def state_copy(model: nn.Module) -> StateDict:
    """A copy of the weights and buffers, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def isolated_rng() -> AbstractContextManager[None]:
    """A block that leaves the state of torch's random number generators as it was."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def _as_floats(terms: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: float(term.detach()) for name, term in terms.items()}
