"""What a long computation says meanwhile: on the standard error, so that results stay alone on the standard output."""

import sys


def tell(text: str) -> None:
    """One message."""
    sys.stderr.write(text + "\n")


class Bar:
    """One bar for one thing after another, each with its number of steps.

    Where the standard error is no terminal, as in a log or under a test, it draws nothing while it moves and one line in the end.

    Args:
        what: the first of them.
        total: its steps.
    """

    def __init__(self, what: str, total: int) -> None:
        # Here, as `import sooner` does without.
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
        """Begin at a step."""
        self.move(step)
        self._progress.start()

    def move(self, step: int) -> None:
        """To a step."""
        self._progress.update(self._task, completed=step)

    def turn_to(self, what: str, step: int, total: int) -> None:
        """To a step of what is done now."""
        self._progress.update(self._task, description=what, completed=step, total=total)

    def describe(self, what: str) -> None:
        """What is written beside it."""
        self._progress.update(self._task, description=what)

    def hide(self) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()
