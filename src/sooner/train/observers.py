"""What hears of a training as it goes: a progress bar, a function, a log file."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from sooner import progress
from sooner.train.learner import Learner, Validation


class Observer:
    """Hears of a training; each method may be left out."""

    def began(self, learner: Learner) -> None:
        """Before the first step, or the first one after a resumption."""

    def stepped(self, learner: Learner) -> None:
        """After each step."""

    def validated(self, found: Validation, best: Validation) -> bool:
        """After each validation, when it was noted and saved; whether the training is to go on."""
        del found, best
        return True

    def ended(self) -> None:
        """However it ended."""


class Watch(Observer):
    """Tells a function about every validation; what it raises ends the training."""

    def __init__(self, tell: Callable[[Validation], None]) -> None:
        self._tell = tell

    def validated(self, found: Validation, best: Validation) -> bool:
        """Tell."""
        del best
        self._tell(found)
        return True


class Bar(Observer):
    """One bar over all steps, with the best metric so far."""

    def __init__(self, iterations: int) -> None:
        self._bar = progress.ProgressBar("training", iterations)

    def began(self, learner: Learner) -> None:
        """Show it."""
        self.show(learner.steps)

    def stepped(self, learner: Learner) -> None:
        """Move it."""
        self.move(learner.steps)

    def validated(self, found: Validation, best: Validation) -> bool:
        """Name the best so far."""
        del found
        self.name(best)
        return True

    def ended(self) -> None:
        """Leave the terminal as it was."""
        self._bar.hide()

    def show(self, step: int) -> None:
        """Begin at a step."""
        self._bar.show(step)

    def move(self, step: int) -> None:
        """To a step."""
        self._bar.move(step)

    def name(self, best: Validation) -> None:
        """The best so far."""
        self._bar.describe(f"training (best mean accuracy over time {best.metric:.4f} at step {best.step}, validation)")


class Log(Observer):
    """Writes the losses of every few steps and all validations into a CSV file of its own for each start.

    Args:
        folder: of the run; the file is logs/start_N/metrics.csv, so that a resumed run keeps the logs of its past.
        every: steps between two rows.
        resumed: whether the run goes on from a checkpoint.
    """

    def __init__(self, folder: Path, every: int, *, resumed: bool) -> None:
        starts = len(list((folder / "logs").glob("start_*"))) if resumed else 0
        self._path = folder / "logs" / f"start_{starts}" / "metrics.csv"
        self._every = every
        self._columns: list[str] = []

    def began(self, learner: Learner) -> None:
        """Begin the file."""
        del learner
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("", encoding="utf-8")

    def stepped(self, learner: Learner) -> None:
        """A row for the losses."""
        if not self._columns:
            losses = [f"loss/{name}" for name in learner.terms]
            self._columns = ["step", *losses, "mean_accuracy", "validation_loss"]
            self._write(self._columns)
        if learner.steps % self._every == 0:
            self._write([learner.steps, *learner.terms.values(), "", ""])

    def validated(self, found: Validation, best: Validation) -> bool:
        """A row for the validation."""
        del best
        self._write([found.step, *[""] * (len(self._columns) - 3), found.metric, found.loss])
        return True

    def _write(self, row: Sequence[object]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)
