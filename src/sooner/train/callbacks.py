"""What happens beside the steps: the best weights are kept, a run ends early, files are written, a bar moves."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sooner.settings import TrainingSettings
from sooner.train.trainee import StateDict, Trainee, Validation, copied

BEST, LAST = "best.ckpt", "last.ckpt"


class Selection(Callback):
    """Keeps the history and the weights of the first best validation, and ends a run that is over.

    All of it goes into every checkpoint, so a resumed run knows what an unbroken one would.
    """

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self._started = time.monotonic()
        self._seconds_before = 0.0
        self.history: list[Validation] = []
        self.best: Validation | None = None
        self.weights: StateDict = {}

    @property
    def seconds(self) -> float:
        """The time spent, over all resumptions."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        patience = self._settings.patience
        if patience == "none" or self.best is None:
            return False
        return len(self.history) - 1 - self.history.index(self.best) >= patience

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """A run that had already stopped early stays stopped when it is resumed."""
        trainer.should_stop = self.exhausted

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Stop after the last step; Lightning validates whenever it is asked to stop, so the last step is validated too."""
        if trainer.global_step >= self._settings.iterations:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note what was found."""
        assert isinstance(pl_module, Trainee)
        assert pl_module.latest is not None
        self.history.append(pl_module.latest)
        if self.best is None or pl_module.latest.metric > self.best.metric:
            self.best, self.weights = pl_module.latest, copied(pl_module.model)
        trainer.should_stop = trainer.should_stop or self.exhausted

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint, in plain types."""
        best = None if self.best is None else tuple(self.best)
        history = [tuple(found) for found in self.history]
        return {"history": history, "best": best, "weights": self.weights, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.history = [Validation(*found) for found in state["history"]]
        self.best = None if state["best"] is None else Validation(*state["best"])
        self.weights = state["weights"]
        self._seconds_before = state["seconds"]


class Checkpoints(Callback):
    """After each validation, `last.ckpt`, and `best.ckpt` where it is a new best; of several workers the first one writes.

    Not Lightning's ModelCheckpoint: that one writes the last state only together with a new best, and forgets the best
    when the folder has been moved. Files are replaced in one move, so a kill leaves the old one or the new one; Lightning
    alone would copy from the system's temporary folder.
    """

    def __init__(self, folder: Path, selection: Selection) -> None:
        self._folder = folder
        self._selection = selection

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Write."""
        if self._selection.best == self._selection.history[-1]:
            self._write(trainer, BEST)
        self._write(trainer, LAST)

    def _write(self, trainer: Trainer, name: str) -> None:
        part = self._folder / f"{name}.part"
        trainer.save_checkpoint(part, weights_only=False)  # by all: they wait for each other in there
        if trainer.is_global_zero:
            part.replace(self._folder / name)


class Watch(Callback):
    """Tells a function about every validation; what it raises ends the training."""

    def __init__(self, tell: Callable[[Validation], None]) -> None:
        self._tell = tell

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Tell."""
        assert isinstance(pl_module, Trainee)
        assert pl_module.latest is not None
        self._tell(pl_module.latest)


class Bar:
    """One bar over all steps, with the best metric so far."""

    def __init__(self, iterations: int) -> None:
        text, counts = TextColumn("{task.description}"), MofNCompleteColumn()
        self._progress = Progress(text, BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn())
        self._task = self._progress.add_task("training", total=iterations)

    def show(self, step: int) -> None:
        """Begin at a step."""
        self.move(step)
        self._progress.start()

    def move(self, step: int) -> None:
        """To a step."""
        self._progress.update(self._task, completed=step)

    def name(self, best: Validation) -> None:
        """The best so far."""
        self._progress.update(self._task, description=f"best {best.metric:.4f} at step {best.step}")

    def hide(self) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()


class Shown(Callback):
    """Moves a bar along with the training."""

    def __init__(self, bar: Bar, selection: Selection) -> None:
        self._bar = bar
        self._selection = selection

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Show it."""
        self._bar.show(trainer.global_step)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Move it."""
        self._bar.move(trainer.global_step)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Name the best so far."""
        if self._selection.best is not None:
            self._bar.name(self._selection.best)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """However the training ended."""
        self._bar.hide()
