"""The model as Lightning sees it: batches in, a loss out, and a validation of the metric by which models are chosen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn

from sooner.errors import TrainingDiverged
from sooner.evaluate.metrics import mean_accuracy
from sooner.models.base import Model
from sooner.settings import Settings, to_dict
from sooner.train.criterion import Criterion, Judged
from sooner.train.examples import Batch, InOrder, Shuffled, Source
from sooner.train.optimizers import optimizer_for, schedule_for
from sooner.types import Scores

StateDict: TypeAlias = dict[str, Tensor]


class Validation(NamedTuple):
    """What a validation found after `step` steps: `sooner.evaluate.mean_accuracy`, and the loss on the same series."""

    step: int
    metric: float
    loss: float


class Trainee(LightningModule):
    """A model with what it is trained on and towards."""

    def __init__(self, model: Model, training: Source, validation: Source, settings: Settings) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.training_set = training
        self.validation_set = validation
        self.criterion = Criterion(settings.loss, training.class_counts(model.classes))
        self.latest: Validation | None = None
        self._seen: list[tuple[Scores, float]] = []

    def train_dataloader(self) -> Shuffled:
        """The batches of the steps that are left: Lightning asks for them after it has restored the step."""
        training = self.settings.training
        return Shuffled(self.training_set, training.batch_size, training.seed, self.global_step, training.iterations)

    def val_dataloader(self) -> InOrder:
        """The validation set, in order."""
        return InOrder(self.validation_set, self.settings.training.batch_size)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The optimizer of the settings, its learning rate a function of the step alone."""
        optimizer = optimizer_for(self.model.parameters(), self.settings.optimizer)
        factor = schedule_for(self.settings.optimizer, self.settings.training.iterations)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Make the step's random numbers a function of (seed, step), as its batch is: nothing to save, nothing to lose."""
        seed = (self.settings.training.seed * 1_000_003 + self.global_step) % 2**63
        # `torch.manual_seed` seeds every kind of device, and takes longer than a small step does.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif self.device.type == "mps":
            torch.mps.manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:  # noqa: ARG002
        """The loss of a batch; one that is not finite ends the training."""
        judged = self._judge(batch)
        if not bool(torch.isfinite(judged.total)):
            raise self._diverged(judged, batch)
        if self.trainer.loggers:
            terms = {f"loss/{name}": term.detach() for name, term in judged.terms.items()}
            self.log_dict({"loss/total": judged.total.detach(), **terms}, batch_size=len(batch.labels))
        return judged.total

    def validation_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Keep the scores of a batch and its loss, weighed by its size."""
        judged = self._judge(batch)
        if not bool(torch.isfinite(judged.scores.sum())):
            raise self._diverged(judged, batch)
        self._seen.append((judged.scores.cpu(), float(judged.total.detach()) * len(batch.labels)))

    def on_validation_epoch_end(self) -> None:
        """The metric over the whole validation set."""
        scores = torch.cat([scores for scores, _ in self._seen])
        examples = self.validation_set
        metric = mean_accuracy(scores, examples.labels.cpu(), lengths=examples.lengths)
        self.latest = Validation(self.global_step, metric, sum(loss for _, loss in self._seen) / len(examples))
        self._seen = []
        self.log_dict({"mean_accuracy": metric, "validation_loss": self.latest.loss})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say which settings the run has, so that it is not resumed with others."""
        checkpoint["settings"] = to_dict(self.settings)

    def _judge(self, batch: Batch) -> Judged:
        observations = batch.observations
        if observations.is_floating_point():
            batch = batch._replace(observations=observations.to(_dtype_of(self.model)))
        return self.criterion(self.model, batch)

    def _diverged(self, judged: Judged, batch: Batch) -> TrainingDiverged:
        bad = ~torch.isfinite(judged.scores).flatten(1).all(dim=1)
        rows = batch.indices[bad] if bool(bad.any()) else batch.indices
        terms = {name: float(term.detach()) for name, term in judged.terms.items()}
        stage = "training" if self.training else "validation"
        return TrainingDiverged(self.global_step, terms, rows.tolist(), stage=stage, lr=self.settings.optimizer.lr)


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
