"""The command line: thin verbs over the library."""

import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer import Option

from sooner.cli.sentences import cli_message
from sooner.cli.verbs import Verbs
from sooner.errors import FilesFailed, FullSets, NearChance, PrecisionChanged, PromiseDropped, SoonerError

app = typer.Typer(
    name="sooner",
    help="Early classification of time series, with a speed-accuracy trade-off that is set after training.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    cls=Verbs,
)


def main() -> None:
    """Run the command line; errors of sooner are printed as one sentence, with exit code 2, or 1 if only some files failed."""
    warnings.showwarning = _show_warning
    try:
        app()
    except (SoonerError, OSError) as error:
        message = cli_message(error, typer.main.get_command(app), sys.argv[1:])
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
        sys.exit(1 if isinstance(error, FilesFailed) else 2)


_show_other_warning = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
    """Print a warning of sooner as one sentence, without file and line."""
    if issubclass(category, PrecisionChanged | NearChance | FullSets | PromiseDropped):
        text = message.finding if isinstance(message, NearChance | PromiseDropped) else str(message)
        Console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), text), soft_wrap=True)
    else:
        _show_other_warning(message, category, *location, **options)


@app.callback(invoke_without_command=True)
def _root(show: Annotated[bool, Option("--version", help="Print the version and exit.")] = False) -> None:
    if show:
        typer.echo(f"sooner {version('sooner')}")
        raise typer.Exit
