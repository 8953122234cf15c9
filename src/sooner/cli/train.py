"""`sooner train`."""

import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from sooner.cli.engines import Address, Engine, Workers, cluster, on_engine
from sooner.cli.options import (
    AsJson,
    ChannelColumns,
    GroupColumn,
    IgnoredColumns,
    LabelColumn,
    Part,
    Quiet,
    Seed,
    SeriesColumn,
    Source,
    TimeColumn,
    columns_of,
)
from sooner.cli.screen import Screen
from sooner.data.columns import Columns
from sooner.data.files import is_table, read
from sooner.data.tables import Table
from sooner.errors import InvalidArgument, NearChance
from sooner.estimator import EarlyClassifier
from sooner.estimator.file import refuse_no_place
from sooner.settings import read_settings

_SHOWN = 10  # channels and classes


def train(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("model.sooner"),
    model: Annotated[str, typer.Option(help="`auto`, `rocket`, `recurrent`, `lstm`, `gru`, or `earliest`.")] = "auto",
    order: Annotated[
        str, typer.Option(help="Earlier observations in a window of a recurrent model, or `full`.")
    ] = "auto",
    loss: Annotated[str, typer.Option(help="Losses of a recurrent model, joined by +.")] = "lsel+multiplet",
    max_epochs: Annotated[int, typer.Option(min=1, help="Passes over the data, at most.")] = 100,
    settings: Annotated[
        Path | None, typer.Option(exists=True, help="A TOML file with all settings of a recurrent model.")
    ] = None,
    rule: Annotated[str, typer.Option(help="`msprt`, `log_odds`, `probability_threshold` or `fixed_time`.")] = "msprt",
    priors: Annotated[
        Literal["equal", "training"], typer.Option(help="How frequent the classes are in use.")
    ] = "equal",
    missing: Annotated[
        Literal["refuse", "mask"], typer.Option(help="What to do about empty cells: `mask` adds channels that say so.")
    ] = "refuse",
    gaps: Annotated[
        Literal["none", "channel"], typer.Option(help="`channel` adds the time since the observation before.")
    ] = "none",
    part: Part = "train",
    series: SeriesColumn = None,
    time: TimeColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    channels: ChannelColumns = None,
    ignore: IgnoredColumns = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from labelled series, and write a model with a threshold.

    Small data are fitted in seconds; a recurrent model is trained with a progress bar. **Ctrl-C leaves a checkpoint**: the same
    command goes on from there. The threshold has the least average cost (0.8 for an error, 0.2 for the share of a series read) on
    series that the model did not learn from, among those that lead three quarters of the way from chance to the least error. A
    menu shows what others reach: turn it later with `sooner threshold`.

    With `--engine ray` the workers share each batch of a recurrent model (by default 1 works). Machines of a cluster must share
    the disk that the model is written to.

    Example: `sooner train pumps.csv --series pump --time minute --label state --out pumps.sooner`
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    if out.name and not out.is_dir():
        out.parent.mkdir(parents=True, exist_ok=True)
    refuse_no_place(out)  # now, not after training
    folder, window = out.with_name(out.name + ".run"), _order(order)
    if model == "prefix":
        remedy = "In Python EarlyClassifier(model='prefix') fits one."
        raise InvalidArgument("model", "one that can be written to a file", repr(model), remedy)
    chosen = None if settings is None else on_engine(read_settings(settings), engine, workers)
    on = (engine or "local") if chosen is None else chosen.training.engine
    clf = EarlyClassifier(
        model,
        window,
        loss,
        max_epochs,
        rule=rule,
        priors=priors,
        missing=missing,
        engine=on,
        workers=workers or 1,
        settings=chosen,
        folder=folder,
        random_state=seed,
        verbose=int(not (quiet or as_json)),
    )
    columns = columns_of(series, time, label, group, channels, ignore)
    try:
        with cluster(on, workers, address):
            with screen.status(f"reading {escape(source)}"):
                table = read(source, columns=columns, missing=missing, gaps=gaps, part=part)
            tell(screen, source, table, columns or Columns())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NearChance)  # said below, in the words of the command line
                clf.fit_series(table.series, columns=replace(columns or Columns(), channels=table.channels, ignore=()))
    except KeyboardInterrupt:
        kept = (
            f"Its last checkpoint is in {escape(str(folder))}; the same command goes on from there."
            if folder.exists()
            else ""
        )
        screen.news(f"[bold]Stopped.[/] {kept}")
        sys.exit(130)
    clf.save(out)
    shutil.rmtree(folder, ignore_errors=True)
    screen.result(
        f"Model: [bold]{clf.model_name_}[/]" + (" (chosen by the size of the data)" if model == "auto" else "")
    )
    if best := clf.training_.get("best"):
        screen.news(f"Best mean accuracy over time {best['metric']:.4f} at step {best['step']}, validation.")
    screen.achieved(clf.achieved_)
    screen.near_chance(clf.achieved_)
    screen.menu(clf.menu())
    screen.news("The threshold was chosen on these series: for an honest figure, `sooner evaluate` others.")
    screen.result(f"Written: [bold]{escape(str(out))}[/]")
    screen.answer(
        {
            "model": clf.model_name_,
            "file": str(out),
            "series": len(table.series),
            "channels": list(table.channels),
            "classes": table.series.classes.tolist(),
            "groups": None if table.series.groups is None else len(set(table.series.groups.tolist())),
            "held_out": clf.achieved_.to_dict(),
            "menu": clf.menu().to_dict(),
        }
    )


def _order(order: str) -> int | str:
    if order in ("auto", "full"):
        return order
    if not order.isdigit():
        raise InvalidArgument("order", "a whole number, 'full' or 'auto'", repr(order), "It counts observations.")
    return int(order)


def tell(screen: Screen, source: str, table: Table, columns: Columns) -> None:
    """Say what is learned from: a column that nobody meant to be a channel must not become one in silence."""
    series = table.series
    low, high = int(series.lengths.min()), int(series.lengths.max())
    lengths = f"{low}" if low == high else f"{low} to {high}"
    screen.news(f"{escape(source)}: {len(series):,} series of {lengths} observations")
    by_default = is_table(source) and columns.channels is None
    hint = " (all other columns; --ignore leaves some out)" if by_default else ""
    screen.news(f"Channels: {_some(table.channels)}{hint}")
    counts = zip(series.classes.tolist(), series.class_counts().tolist(), strict=True)
    screen.news(f"Classes: {_some([f'{name} ({count:,})' for name, count in counts])}")
    groups = "none" if series.groups is None else f"{len(set(series.groups.tolist())):,} of {columns.group}"
    screen.news(f"Groups: {escape(groups)}")


def _some(names: Sequence[str]) -> str:
    """The first of them, as many as are read at a glance."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return escape(", ".join(names[:_SHOWN])) + more
