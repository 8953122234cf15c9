"""Output of the commands: results to standard output, messages to standard error."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table
from typer import Option

from sooner.evaluate.achieved import Achieved
from sooner.evaluate.menu import COLUMNS, Menu
from sooner.evaluate.promise import Promise

NO_DEADLINE = "no promise: the threshold was certified without a deadline"

AsJson: TypeAlias = Annotated[bool, Option("--json", help="Print one JSON object instead of text.")]
Quiet: TypeAlias = Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")]


@dataclass(frozen=True)
class Screen:
    """Prints results or one JSON object to standard output, and messages to standard error."""

    as_json: AsJson = False
    quiet: Quiet = False

    @cached_property
    def _out(self) -> Console:
        return Console(highlight=False)

    @cached_property
    def _messages(self) -> Console:
        return Console(stderr=True, highlight=False, quiet=self.quiet)

    @property
    def shows_progress(self) -> bool:
        """Whether the library may show its progress."""
        return not (self.quiet or self.as_json)

    def status(self, text: str) -> Status:
        """A spinner."""
        return self._messages.status(text)

    def message(self, text: str) -> None:
        """Print a message that is not a result."""
        self._messages.print(text, soft_wrap=True)

    def result(self, text: str) -> None:
        """Print a line of the result, unless the output is JSON."""
        if not self.as_json:
            self._out.print(text, soft_wrap=True)

    def file(self, label: str, path: object, hint: str = "") -> None:
        """Print the path of a result."""
        self.result(f"{label}: [bold]{escape(str(path))}[/]{hint}")

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
    ) -> None:
        """Print a table of the result; the first `text_columns` columns are text, the others numbers."""
        if self.as_json:
            return
        table = Table(title=escape(title), title_justify="left")
        for index, name in enumerate(columns):
            table.add_column(name, justify="left" if index < text_columns else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(escape, row))
        self._out.print(table)

    def json(self, record: Mapping[str, Any]) -> None:
        """Print the JSON object, if the output is JSON."""
        if self.as_json:
            typer.echo(as_json(record))

    def achieved(self, achieved: Achieved) -> None:
        """Print the error and the mean time of a rule, with confidence intervals, and a warning near chance."""
        a = achieved
        rows = [
            ("balanced error", f"{a.error:.2%}", f"{a.error_low:.2%} to {a.error_high:.2%}"),
            ("mean time", f"{a.mean_time:.2f}", f"{a.mean_time_low:.2f} to {a.mean_time_high:.2f}"),
            ("share of the series read", f"{a.earliness:.1%}", ""),
            ("forced decisions", f"{a.forced:.2%}", f"{a.forced_low:.2%} to {a.forced_high:.2%}"),
        ]
        groups = "" if a.groups is None else f" in {a.groups:,} groups"
        self.table(f"{a.rule!r} on {a.series:,} series{groups}", ["", "estimate", limits_title(a.groups)], rows)
        if (warning := a.warning()) is not None:
            remedy = (
                "`sooner threshold MODEL` shows other thresholds. If none is better, use more series or other channels."
            )
            self.message(f"[bold yellow]warning:[/] {escape(warning.finding)} {remedy}")

    def promise(self, promise: Promise | None) -> None:
        """Print the promise of the current threshold, if there is one."""
        if promise is not None:
            self.result(escape(f"{promise} ({promise.bound})"))

    def menu(self, menu: Menu) -> None:
        """Print the thresholds to choose from."""
        self.table("Thresholds to choose from", COLUMNS, menu.rows(), text_columns=0)
        self.result(f"{menu.note} Set one with `sooner threshold MODEL --max-error 0.05`, for example.")

    def progress(self, done: ProgressColumn | None = None) -> Progress:
        """Progress bars; `done` is the column with the completed and the total number, by default of items."""
        columns = (TextColumn("{task.description}"), BarColumn(), done or MofNCompleteColumn(), TimeRemainingColumn())
        return Progress(*columns, console=self._messages, disable=self.quiet)


def limits_title(groups: object) -> str:
    """The title of a column of confidence intervals."""
    return "95% confidence interval" if groups is None else "95% confidence interval, by group"


def promise_record(promise: Promise | None) -> dict[str, Any] | None:
    """The promise for a JSON object."""
    return None if promise is None else {**promise.to_dict(), "sentence": str(promise)}


def as_json(record: Mapping[str, Any]) -> str:
    """One line of JSON; infinite and NaN numbers become strings ("inf")."""
    return json.dumps(_plain(record), allow_nan=False)


def _plain(value: Any) -> Any:
    """The value as JSON types: NumPy arrays become lists, other objects strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)
