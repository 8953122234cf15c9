"""Output of the commands: results to standard output, messages to standard error."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sooner.evaluate.achieved import Achieved
from sooner.evaluate.menu import COLUMNS, Menu


class Screen:
    """Prints results or one JSON object to standard output, and messages to standard error.

    Args:
        as_json: print only the JSON object.
        quiet: print no messages.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self._out = Console(highlight=False)
        self._news = Console(stderr=True, highlight=False, quiet=quiet)

    @contextmanager
    def status(self, what: str) -> Iterator[None]:
        """Show a spinner."""
        with self._news.status(what):
            yield

    def news(self, text: str) -> None:
        """Print a message that is not a result."""
        self._news.print(text, soft_wrap=True)

    def result(self, text: str) -> None:
        """Print a line of the result, unless the output is JSON."""
        if not self.as_json:
            self._out.print(text, soft_wrap=True)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
        """Print a table of the result; the first `texts` columns are text, the others numbers."""
        if self.as_json:
            return
        table = Table(title=escape(title), title_justify="left")
        for index, name in enumerate(columns):
            table.add_column(name, justify="left" if index < texts else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(escape, row))
        self._out.print(table)

    def answer(self, record: Mapping[str, Any]) -> None:
        """Print the JSON object, if the output is JSON."""
        if self.as_json:
            typer.echo(as_json(record))

    def achieved(self, found: Achieved) -> None:
        """Print the error and the mean time of a rule, with confidence intervals."""
        rows = [
            ("balanced error", f"{found.error:.2%}", f"{found.error_low:.2%} to {found.error_high:.2%}"),
            ("mean time", f"{found.mean_time:.2f}", f"{found.mean_time_low:.2f} to {found.mean_time_high:.2f}"),
            ("share of the series read", f"{found.earliness:.1%}", ""),
            ("forced decisions", f"{found.forced:.2%}", f"{found.forced_low:.2%} to {found.forced_high:.2%}"),
        ]
        limits = "95% confidence interval" if found.groups is None else "95% confidence interval, by group"
        groups = "" if found.groups is None else f" in {found.groups:,} groups"
        self.table(f"{found.rule!r} on {found.series:,} series{groups}", ["", "estimate", limits], rows)

    def near_chance(self, found: Achieved) -> None:
        """Print a warning if a rule is hardly better than guessing."""
        if (said := found.warning()) is not None:
            remedy = (
                "`sooner threshold MODEL` shows other thresholds. If none is better, use more series or other channels."
            )
            self._news.print(f"[bold yellow]warning:[/] {escape(said.finding)} {remedy}", soft_wrap=True)

    def menu(self, menu: Menu) -> None:
        """Print the thresholds to choose from."""
        self.table("Thresholds to choose from", COLUMNS, menu.rows(), texts=0)
        self.result(f"{menu.note} Set one with `sooner threshold MODEL --max-error 0.05`, for example.")

    @contextmanager
    def downloads(self) -> Iterator[Progress]:
        """Progress bars in bytes."""
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._news) as progress:
            yield progress

    def bar(self) -> Progress:
        """A progress bar that the caller starts and stops."""
        return Progress(
            BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=self._news, disable=self.quiet
        )

    @contextmanager
    def counts(self) -> Iterator[Progress]:
        """Progress bars in items."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._news) as progress:
            yield progress


def as_json(record: Mapping[str, Any]) -> str:
    """One line of JSON; infinite and NaN numbers become strings ("inf")."""
    return json.dumps(_plain(record), allow_nan=False)


def _plain(value: Any) -> Any:
    """The value as JSON types: NumPy arrays become lists, other objects strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)
