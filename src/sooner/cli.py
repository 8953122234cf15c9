"""The command line: thin verbs over the library."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sooner.data import Gaussian
from sooner.errors import SoonerError
from sooner.evaluate import class_errors, hitting_times, sat_curve
from sooner.report import speed_accuracy
from sooner.rules import MSPRT, FixedTime, bounds

app = typer.Typer(
    name="sooner",
    help="Names the class of a series as early as the evidence allows.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

TARGETS = (0.3, 0.1, 0.03, 0.01, 0.001)


def main() -> None:
    """Run the command line; what sooner raises on purpose becomes one sentence and exit code 2."""
    try:
        app()
    except (SoonerError, OSError) as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def _root(show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if show:
        typer.echo(f"sooner {version('sooner')}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    series: Annotated[int, typer.Option(min=100, help="How many series to draw.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed draws the same series.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show the sequential test on a process whose scores are known exactly.

    Three classes of noise that differ by half a standard deviation. The threshold of each row is set from its error
    target alone, before any series is looked at; the fixed-time test beside it is given the same mean time, and the last
    column is the time that it would need for the same error.
    """
    process = Gaussian.equidistant(classes=3, distance=0.5)
    horizon = int(6 * bounds.first_order_times(bounds.for_class_errors(min(TARGETS), classes=3), process.rates()).max())
    with Console(stderr=True).status(f"drawing {series:,} series of {horizon} observations"):
        observations, labels = process.sample(series, horizon, seed=seed)
        scores = process.scores(observations)
        sequential, fixed = sat_curve(scores, labels), sat_curve(scores, labels, rule=FixedTime)
        rows = [_demo_row(target, scores, labels, fixed) for target in TARGETS]
    figure = out / "speed_accuracy.png"
    speed_accuracy(
        {"sequential test (MSPRT)": sequential, "fixed-time test": fixed},
        figure,
        title="Three classes half a standard deviation apart: error against mean time",
        least_error=10 / series,
        points={f"target {100 * row['target']:g} %": (row["mean_time"], row["error"]) for row in rows},
    )
    if as_json:
        typer.echo(json.dumps({"series": series, "seed": seed, "rows": rows, "figure": str(figure)}))
        return
    _print_demo(rows, series, figure)


def _demo_row(target: float, scores: Any, labels: Any, fixed: Any) -> dict[str, Any]:
    rule = MSPRT(bounds.for_class_errors(target, classes=3))
    decisions = rule.decide(scores)
    errors, times = class_errors(decisions, labels), hitting_times(decisions)
    slower = np.flatnonzero(fixed.errors <= errors.balanced)
    return {
        "target": target,
        "threshold": float(np.max(rule.threshold)),
        "error": errors.balanced,
        "worst_class_high": float(errors.high.max()),
        "mean_time": times.mean,
        "forced": times.forced,
        "fixed_error": fixed.error_at(times.mean),
        "fixed_time": float(fixed.mean_times[slower[0]]) if len(slower) else None,
    }


def _print_demo(rows: list[dict[str, Any]], series: int, figure: Path) -> None:
    table = Table(title=f"Error against mean time, {series:,} series with exact scores")
    for name in ("target", "threshold", "error", "worst\nclass*", "mean\ntime", "forced"):
        table.add_column(name, justify="right")
    table.add_column("fixed time:\nits error", justify="right", style="dim")
    table.add_column("fixed time\nfor equal error", justify="right", style="dim")
    for row in rows:
        table.add_row(
            f"{row['target']:.1%}",
            f"{row['threshold']:.2f}",
            f"{row['error']:.2%}",
            f"{row['worst_class_high']:.2%}",
            f"{row['mean_time']:.1f}",
            f"{row['forced']:.2%}",
            f"{row['fixed_error']:.2%}",
            "not reached" if row["fixed_time"] is None else f"{row['fixed_time']:.0f}",
        )
    console = Console()
    console.print(table)
    console.print("[dim]* upper end of the 95 % interval of the class with the largest error[/]", highlight=False)
    console.print(f"Figure: [bold]{figure}[/]", highlight=False)
