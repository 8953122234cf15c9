"""The verbs, each imported when it is asked for: a list of them needs neither torch nor scikit-learn."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SHORT = {
    "demo": "Train on real data, and show error against time.",
    "train": "Learn from labelled series, and write a model with a threshold.",
    "evaluate": "Measure a model on labelled series that it has not seen, and write a page to look at.",
    "threshold": "Turn the dial of a trained model, by a target or by hand, and write it back.",
    "stream": "Decide live series: observations come in as lines, a decision goes out the moment it is made.",
    "score": "Decide stored series, as many as there are, and write a row for each: its id, label, time, crossed and margin.",
    "tune": "Look for better settings of a recurrent model.",
    "reproduce": "Carry out an experiment of the paper, and lay its curves over the published ones.",
    "bench": "Measure what a live observation costs on this machine: time and memory.",
    "data": "List, fetch and look at data sets.",
}
"""What the list says of each verb: the first line of its own help, which a test compares."""


class _Modules(Mapping[str, Any]):
    """The commands by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in SHORT:
            raise KeyError(name)
        if name not in self._loaded:
            self._loaded[name] = _command(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SHORT)

    def __len__(self) -> int:
        return len(SHORT)


class Verbs(TyperGroup):
    """A group of commands whose modules are imported one by one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Modules()  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list, from the short texts."""
        modules = self.commands
        self.commands = {name: TyperCommand(name, help=text) for name, text in SHORT.items()}
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = modules


def _command(name: str) -> Any:
    module = import_module(f"sooner.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        app.command(name)(getattr(module, name))
    command = typer.main.get_command(app)
    command.name = name
    return command
