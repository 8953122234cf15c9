"""The model as Lightning sees it: batches in, a loss out, and a validation of the metric by which models are chosen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.distributed
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
Seen: TypeAlias = tuple[Scores, float]
"""Of a batch: its scores, and its loss times its size."""


class Validation(NamedTuple):
    """What a validation found after `step` steps: `sooner.evaluate.mean_accuracy`, and the loss on the same series."""

    step: int
    metric: float
    loss: float


class Trainee(LightningModule):
    """A model with what it is trained on and towards.

    Several workers may train it together, each with a copy: every worker reads its own part of each batch, and Lightning
    takes the mean of their gradients before each step. So that this mean is that of the batch, a part counts by its size.
    """

    def __init__(self, model: Model, training: Source, validation: Source, settings: Settings) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.training_set = training
        self.validation_set = validation
        self.criterion = Criterion(settings.loss, training.class_counts(model.classes))
        self.latest: Validation | None = None
        self._seen: list[Seen] = []

    def train_dataloader(self) -> Shuffled:
        """The batches of the steps that are left: Lightning asks for them after it has restored the step."""
        training, examples = self.settings.training, self.training_set
        steps = (self.global_step, training.iterations)
        return Shuffled(examples, training.batch_size, training.seed, *steps, self.global_rank, self.trainer.world_size)

    def val_dataloader(self) -> InOrder:
        """The validation set, in order, shared between the workers."""
        workers = self.trainer.world_size
        # At least one batch for everybody: before the first one, workers take over the buffers of the first worker together.
        size = min(self.settings.training.batch_size, len(self.validation_set) // workers)
        return InOrder(self.validation_set, size, self.global_rank, workers)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The optimizer of the settings, its learning rate a function of the step alone."""
        optimizer = optimizer_for(self.model.parameters(), self.settings.optimizer)
        factor = schedule_for(self.settings.optimizer, self.settings.training.iterations)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Make the random numbers of a worker's step a function of (seed, step, worker): nothing to save, nothing to lose.

        So is what the model hears of the progress: a function of the step.
        """
        self.model.set_progress(self.global_step / max(1, self.settings.training.iterations - 1))
        seed = (self.settings.training.seed * 1_000_003 + self.global_step + self.global_rank * (2**40 + 15)) % 2**63
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
        whole = min(self.settings.training.batch_size, len(self.training_set))
        return judged.total * (self.trainer.world_size * len(batch.labels) / whole)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:  # noqa: ARG002
        """Keep the scores of a batch and its loss, weighed by its size."""
        judged = self._judge(batch)
        if not bool(torch.isfinite(judged.scores.sum())):
            raise self._diverged(judged, batch)
        self._seen.append((judged.scores.cpu(), float(judged.total.detach()) * len(batch.labels)))

    def on_validation_epoch_end(self) -> None:
        """The metric over the whole validation set, the same for every worker."""
        seen, examples = _of_all(self._seen, self.trainer.world_size), self.validation_set
        scores = torch.cat([scores for scores, _ in seen])
        metric = mean_accuracy(scores, examples.labels.cpu(), lengths=examples.lengths)
        self.latest = Validation(self.global_step, metric, sum(loss for _, loss in seen) / len(examples))
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


def _of_all(mine: list[Seen], workers: int) -> list[Seen]:
    """What all workers have seen, in the order of the validation set: batch j is that of worker j modulo their number."""
    if workers == 1:
        return mine
    parts: list[list[Seen]] = [[] for _ in range(workers)]
    torch.distributed.all_gather_object(parts, mine)
    return [part[place] for place in range(len(parts[0])) for part in parts if place < len(part)]


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
