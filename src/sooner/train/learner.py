"""A model with what it is trained on and towards: one step at a time, and a validation of the metric that selects models."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from sooner.errors import TrainingDiverged
from sooner.evaluate.metrics import mean_accuracy_of
from sooner.models.base import Model
from sooner.scores import Scored
from sooner.train.criterion import Criterion, Judged
from sooner.train.optimizers import optimizer_for, schedule_for
from sooner.train.precision import Precision
from sooner.train.settings import Settings
from sooner.train.sources import InOrder, Minibatch, Shuffled, Source, class_counts
from sooner.train.team import Team
from sooner.types import Scores

StateDict: TypeAlias = dict[str, Tensor]


class Validation(NamedTuple):
    """What a validation found after `step` steps: `sooner.evaluate.mean_accuracy`, and the loss on the same series."""

    step: int
    metric: float
    loss: float


class Learner:
    """Everything of a training that a step changes: the weights, the state of the optimizer, and the number of steps done.

    Several workers may train together, each with a copy: every worker reads its own part of each batch, and the mean of their
    gradients is taken before each step. So that this mean is that of the batch, a part counts by its size.

    Args:
        model: on the device that it is trained on.
        training: every class of the model must occur.
        validation: where the metric is measured.
        settings: of the loss, the optimizer and the training.
        precision: the same for all workers.
        team: the workers.
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
        self._device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
        self._criterion = Criterion(settings.loss, class_counts(training, model.classes))
        self._optimizer = optimizer_for(model.parameters(), settings.optimizer)
        self._factor = schedule_for(settings.optimizer, settings.training.iterations)
        # Half precision alone needs its gradients scaled; switched off, all that it does is pass them on.
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=precision.used == "16-mixed")
        batches, seed = settings.training.batch_size, settings.training.seed
        self._batches = Shuffled(training, batches, seed, team.rank, team.size)

    def step(self) -> None:
        """Read the next batch, and move the weights; a loss that is not finite ends the training."""
        training = self.settings.training
        self.model.set_progress(self.steps / max(1, training.iterations - 1))
        self._seed()
        self.team.share_buffers(self.model)
        batch = self._batches.batch(self.steps).to(self._device)
        judged = self._judge(batch)
        if not bool(torch.isfinite(judged.total)):
            raise self._diverged(judged, batch)
        whole = min(training.batch_size, len(self._training))
        self._optimizer.zero_grad()
        self._scaler.scale(judged.total * (self.team.size * len(batch.labels) / whole)).backward()
        self.team.average_gradients(self.model)
        self._scaler.unscale_(self._optimizer)
        if training.gradient_clip != "none":
            nn.utils.clip_grad_norm_(self.model.parameters(), training.gradient_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = self.settings.optimizer.lr * self._factor(self.steps)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.steps += 1
        self.terms = {name: float(term.detach()) for name, term in {"total": judged.total, **judged.terms}.items()}

    @torch.no_grad()
    def validate(self) -> Validation:
        """The metric over the whole validation set, the same for every worker; the model stays in training mode."""
        self.model.eval()
        self.team.share_buffers(self.model)
        seen = [self._seen(batch.to(self._device)) for batch in self._validation_batches()]
        self.model.train()
        # Batch j is that of worker j modulo their number.
        parts = self.team.gather(seen)
        in_order = [part[index] for index in range(len(parts[0])) for part in parts if index < len(part)]
        scores, examples = torch.cat([scores for scores, _ in in_order]).numpy(), self._validation
        full = torch.full((len(examples),), scores.shape[1])
        lengths = full if examples.lengths is None else examples.lengths.cpu()
        metric = mean_accuracy_of(Scored(scores, lengths.numpy(), examples.labels.cpu().numpy()))
        return Validation(self.steps, metric, sum(loss for _, loss in in_order) / len(examples))

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint. The order of series and random numbers follow from the number of steps."""
        return {
            "step": self.steps,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.steps = state["step"]
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty where it was off, and in checkpoints of Lightning's
            self._scaler.load_state_dict(state["scaler"])

    def _validation_batches(self) -> InOrder:
        # At least one batch for every worker.
        size = min(self.settings.training.batch_size, len(self._validation) // self.team.size)
        return InOrder(self._validation, size, self.team.rank, self.team.size)

    def _seen(self, batch: Minibatch) -> tuple[Scores, float]:
        """The scores of a batch, and its loss times its size."""
        judged = self._judge(batch)
        if not bool(torch.isfinite(judged.scores.sum())):
            raise self._diverged(judged, batch)
        return judged.scores.cpu(), float(judged.total) * len(batch.labels)

    def _judge(self, batch: Minibatch) -> Judged:
        observations = batch.observations
        if observations.is_floating_point():
            batch = batch._replace(observations=observations.to(_dtype_of(self.model)))
        with self._precision.autocast(self._device.type):
            return self._criterion(self.model, batch)

    def _seed(self) -> None:
        """Make the random numbers of a worker's step a function of (seed, step, worker): nothing to save, nothing to lose."""
        seed = (self.settings.training.seed * 1_000_003 + self.steps + self.team.rank * (2**40 + 15)) % 2**63
        # `torch.manual_seed` seeds every kind of device, and takes longer than a small step does.
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif self._device.type == "mps":
            torch.mps.manual_seed(seed)

    def _diverged(self, judged: Judged, batch: Minibatch) -> TrainingDiverged:
        bad = ~torch.isfinite(judged.scores).flatten(1).all(dim=1)
        rows = batch.indices[bad] if bool(bad.any()) else batch.indices
        terms = {name: float(term.detach()) for name, term in judged.terms.items()}
        stage = "training" if self.model.training else "validation"
        return TrainingDiverged(self.steps, terms, rows.tolist(), stage=stage, lr=self.settings.optimizer.lr)


def copied(model: nn.Module) -> StateDict:
    """The weights and buffers of a model as they are now."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


@contextmanager
def own_randomness() -> Iterator[None]:
    """Leave the random state of the process as it was found."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield


def _dtype_of(model: nn.Module) -> torch.dtype:
    floating = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
    return next(floating, torch.get_default_dtype())
