"""The commands, each imported when it is used: listing them imports neither torch nor scikit-learn."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SHORT = {
    "demo": "Train on real data, and show error against time.",
    "train": "Train a model on labelled series, and write it with a threshold.",
    "evaluate": "Evaluate a model on labelled test series, and write an HTML report.",
    "threshold": "Change the threshold of a trained model, and write the model back.",
    "stream": "Decide live series: read one observation per line, and print each decision as soon as it is made.",
    "serve": "Decide live series as a service: observations in over HTTP, decisions out as they are made.",
    "score": "Decide stored series, and write one row per series: its ID, label, time, crossed and margin.",
    "tune": "Search for better settings of a recurrent model.",
    "reproduce": "Run an experiment of the paper, and compare its curves with the published ones.",
    "bench": "Measure the time and memory per live observation on this machine.",
    "data": "List, download and show data sets.",
}
"""The help of each command in the list: the first line of its own help, which a test compares."""


class _Modules(Mapping[str, Any]):
    """The commands by name."""

    def __getitem__(self, name: str) -> Any:
        if name not in SHORT:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SHORT)

    def __len__(self) -> int:
        return len(SHORT)


class Verbs(TyperGroup):
    """A group of commands whose modules are imported when they are used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Modules()  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their short texts."""
        modules = self.commands
        self.commands = {name: TyperCommand(name, help=text) for name, text in SHORT.items()}
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = modules


@cache
def _command(name: str) -> Any:
    module = import_module(f"sooner.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        from sooner.cli.options import grouped

        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        app.command(name)(grouped(getattr(module, name)))
    command = typer.main.get_command(app)
    command.name = name
    return command
