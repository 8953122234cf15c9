"""Progress messages and bars, on standard error, because standard output is for results."""

import sys


def tell(text: str) -> None:
    """Print one message."""
    sys.stderr.write(text + "\n")


class ProgressBar:
    """A progress bar for one task after another, each with its number of steps.

    If standard error is not a terminal, only one line is printed at the end.

    Args:
        what: the first task.
        total: its number of steps.
    """

    def __init__(self, what: str, total: int) -> None:
        # Imported here, because `import sooner` does not need it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column

        # On a narrow terminal the words are broken into lines, not the numbers.
        words = TextColumn("{task.description}", table_column=Column(no_wrap=False))
        columns = (words, BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(what, total=total)

    def show(self, step: int = 0) -> None:
        """Show the bar at a step."""
        self.move(step)
        self._progress.start()

    def move(self, step: int) -> None:
        """Move to a step."""
        self._progress.update(self._task, completed=step)

    def turn_to(self, what: str, step: int, total: int) -> None:
        """Switch to a step of another task."""
        self._progress.update(self._task, description=what, completed=step, total=total)

    def describe(self, what: str) -> None:
        """Change the description."""
        self._progress.update(self._task, description=what)

    def hide(self) -> None:
        """Stop drawing."""
        self._progress.stop()
