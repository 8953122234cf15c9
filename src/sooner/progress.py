"""Progress messages and bars, on standard error, because standard output is for results."""

import sys


def tell(text: str) -> None:
    """Print one message."""
    sys.stderr.write(text + "\n")


class ProgressBar:
    """A progress bar for a task of `total` steps, and for others after it; without a terminal, one line at the end."""

    def __init__(self, what: str, total: int) -> None:
        from rich import progress  # late: `import sooner` does not need it
        from rich.console import Console
        from rich.table import Column

        self._progress = progress.Progress(
            # On a narrow terminal the description is wrapped, not the numbers.
            progress.TextColumn("{task.description}", table_column=Column(no_wrap=False)),
            progress.BarColumn(20),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
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
