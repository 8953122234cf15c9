"""Observers of a training: a progress bar, a callback, a log file."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from sooner.progress import ProgressBar
from sooner.train.learner import Learner, Validation


class Observer:
    """Is called as a training runs; every method is optional."""

    def began(self, learner: Learner) -> None:
        """Called before the first step, also of a resumed run."""

    def stepped(self, learner: Learner) -> None:
        """Called after each step."""

    def validated(self, validation: Validation, best: Validation) -> bool:
        """Called after each validation, once it is saved; returns whether to continue."""
        del validation, best
        return True

    def ended(self) -> None:
        """Called at the end, also after an exception."""


class Callback(Observer):
    """Passes every validation to a function; an exception in it ends the training."""

    def __init__(self, function: Callable[[Validation], None]) -> None:
        self._function = function

    def validated(self, validation: Validation, best: Validation) -> bool:
        """Call the function."""
        del best
        self._function(validation)
        return True


class Bar(ProgressBar, Observer):
    """A progress bar over all steps, with the best metric so far."""

    def __init__(self, iterations: int) -> None:
        super().__init__("training", iterations)

    def began(self, learner: Learner) -> None:
        """Show the bar."""
        self.show(learner.steps)

    def stepped(self, learner: Learner) -> None:
        """Move the bar."""
        self.move(learner.steps)

    def validated(self, validation: Validation, best: Validation) -> bool:
        """Show the best metric."""
        self.move(validation.step)
        self.describe(f"training (best mean accuracy over time {best.metric:.4f} at step {best.step}, validation)")
        return True

    def ended(self) -> None:
        """Hide the bar."""
        self.hide()


class Log(Observer):
    """Writes the losses of every n-th step and all validations to logs/start_N/metrics.csv; a resumed run starts a new file."""

    def __init__(self, folder: Path, every: int, *, resumed: bool) -> None:
        starts = len(list((folder / "logs").glob("start_*"))) if resumed else 0
        self._path = folder / "logs" / f"start_{starts}" / "metrics.csv"
        self._every = every
        self._columns: list[str] = []

    def began(self, learner: Learner) -> None:
        """Create the file."""
        del learner
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("", encoding="utf-8")

    def stepped(self, learner: Learner) -> None:
        """Write the losses."""
        if not self._columns:
            losses = [f"loss/{name}" for name in learner.terms]
            self._columns = ["step", *losses, "mean_accuracy", "validation_loss"]
            self._write(self._columns)
        if learner.steps % self._every == 0:
            self._write([learner.steps, *learner.terms.values(), "", ""])

    def validated(self, validation: Validation, best: Validation) -> bool:
        """Write the metric."""
        del best
        self._write([validation.step, *[""] * (len(self._columns) - 3), validation.metric, validation.loss])
        return True

    def _write(self, row: Sequence[object]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)
