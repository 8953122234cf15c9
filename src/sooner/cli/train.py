"""`sooner train`."""

import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from rich.markup import escape
from typer import Option

from sooner.cli.options import ClusterOptions, IgnoredColumns, Seed, Source, Split, TableOptions
from sooner.cli.screen import Screen
from sooner.data.read import is_table, read
from sooner.errors import InvalidArgument, NearChance
from sooner.estimator import EarlyClassifier
from sooner.estimator.file import refuse_no_place
from sooner.rules import ThresholdRule
from sooner.series import Series
from sooner.series.columns import Columns
from sooner.train.settings import read_settings

_MAX_NAMES = 10  # of channels and classes in the output


def train(
    source: Source,
    out: Annotated[Path, Option("--out", "-o", help="Output file.")] = Path("model.sooner"),
    model: Annotated[str, Option(help="`auto`, `rocket`, `recurrent`, `lstm`, `gru`, or `earliest`.")] = "auto",
    order: Annotated[
        str, Option(help="Number of earlier observations in a window of the recurrent model, or `full`.")
    ] = "auto",
    loss: Annotated[str, Option(help="Losses of the recurrent model, joined by +.")] = "lsel+multiplet",
    max_epochs: Annotated[int, Option(min=1, help="Maximum number of epochs.")] = 100,
    settings: Annotated[
        Path | None, Option(exists=True, help="TOML file with all settings of a recurrent model.")
    ] = None,
    rule: Annotated[
        str,
        Option(
            help="`msprt`, `log_odds`, `probability_threshold`, `fixed_time`, or `halting` with the model `earliest`; or a rule "
            "that is fitted for a cost: `taper`, `calimera`, `firmbound`, `mori`, `economy`, `teaser`."
        ),
    ] = "msprt",
    priors: Annotated[
        Literal["equal", "training"], Option(help="Class frequencies in use: equal, or as in training.")
    ] = "equal",
    missing: Annotated[
        Literal["refuse", "mask"], Option(help="Treatment of empty cells: `mask` adds mask channels.")
    ] = "refuse",
    gaps: Annotated[
        Literal["none", "channel"], Option(help="`channel` adds the time since the previous observation.")
    ] = "none",
    calibration_share: Annotated[
        float, Option(help="Share of the series kept for certifying a threshold: 0.2 means 20%.")
    ] = 0.0,
    part: Split = "train",
    *,
    table: TableOptions,
    ignore: IgnoredColumns = None,
    cluster: ClusterOptions,
    seed: Seed = 0,
    screen: Screen,
) -> None:
    """Train a model on labelled series, and write it with a threshold.

    Small data are fitted in seconds; training of a recurrent model shows a progress bar. **Ctrl-C keeps a checkpoint**, from
    which the same command resumes. The threshold has the least average cost (0.8 for an error, 0.2 for the share of a series that
    is read) on held-out series, among the thresholds whose error is at least three quarters of the way from chance to the
    smallest error. A menu shows other thresholds: change it later with `sooner threshold`.

    With `--calibration-share 0.2` a fifth of the series is kept away from training, so that `sooner threshold --confidence 0.95`
    can promise an error.

    With `--engine ray` the workers share each batch of a recurrent model (default: 1 worker). With several machines, the output
    file must be on a shared disk.

    Example: `sooner train pumps.csv --series pump --time minute --label state --out pumps.sooner`
    """
    if out.name and not out.is_dir():
        out.parent.mkdir(parents=True, exist_ok=True)
    refuse_no_place(out)  # before the training
    folder, window = out.with_name(out.name + ".run"), _order(order)
    if model == "prefix":
        remedy = "In Python EarlyClassifier(model='prefix') fits one."
        raise InvalidArgument("model", "one that can be written to a file", repr(model), remedy)
    all_settings, engine = None, str(cluster.engine or "local")
    if settings is not None:
        all_settings = cluster.training_settings(read_settings(settings), cluster.workers)
        engine = all_settings.training.engine
    clf = EarlyClassifier(
        model,
        window,
        loss,
        max_epochs,
        rule=rule,
        priors=priors,
        missing=missing,
        calibration_share=calibration_share,
        engine=engine,
        workers=cluster.workers or 1,
        settings=all_settings,
        folder=folder,
        random_state=seed,
        verbose=2 if screen.shows_progress else 0,
    )
    columns = table.columns(ignore)
    try:
        with cluster.connected(engine):
            with screen.status(f"reading {escape(source)}"):
                series = read(source, columns=columns, missing=missing, gaps=gaps, part=part)
            _describe(screen, source, series, columns or Columns())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NearChance)  # `screen.achieved` prints it
                clf.fit(series)
            clf.columns_ = replace(columns or Columns(), channels=series.channels, ignore=())
    except KeyboardInterrupt:
        resume = f"The last checkpoint is in {escape(str(folder))}; the same command resumes from there."
        screen.message(f"[bold]Stopped.[/] {resume if folder.exists() else ''}")
        sys.exit(130)
    clf.save(out)
    shutil.rmtree(folder, ignore_errors=True)
    screen.file("Model", clf.model_name_, " (chosen by the size of the data)" if model == "auto" else "")
    if best := clf.training_.get("best"):
        screen.message(f"Best mean accuracy over time {best['metric']:.4f} at step {best['step']}, validation.")
    if clf.calibration_ is not None:
        screen.result(
            f"Kept for calibration: {len(clf.calibration_):,} series. `sooner threshold {escape(str(out))} --max-error 0.05 "
            "--confidence 0.95` certifies a threshold on them, if they suffice."
        )
    screen.achieved(clf.achieved_)
    menu = clf.menu() if isinstance(clf.rule_, ThresholdRule) else None
    if menu is not None:
        screen.menu(menu)
    chosen = "The rule was fitted to" if menu is None else "The threshold was chosen on"
    screen.message(f"{chosen} these series: for an unbiased estimate, run `sooner evaluate` on a test set.")
    screen.file("Written", out)
    screen.json(
        {
            "model": clf.model_name_,
            "file": str(out),
            "series": len(series),
            "channels": list(series.channels or ()),
            "classes": series.classes.tolist(),
            "groups": None if series.groups is None else len(set(series.groups.tolist())),
            "calibration_series": 0 if clf.calibration_ is None else len(clf.calibration_),
            "held_out": clf.achieved_.to_dict(),
            "menu": None if menu is None else menu.to_dict(),
        }
    )


def _order(order: str) -> int | str:
    if order in ("auto", "full"):
        return order
    if not order.isdigit():
        raise InvalidArgument("order", "a whole number, 'full' or 'auto'", repr(order), "It counts observations.")
    return int(order)


def _describe(screen: Screen, source: str, series: Series, columns: Columns) -> None:
    """Print the series, channels, classes and groups, so that a column that is a channel by mistake is noticed."""
    low, high = int(series.lengths.min()), int(series.lengths.max())
    lengths = f"{low}" if low == high else f"{low} to {high}"
    screen.message(f"{escape(source)}: {len(series):,} series of {lengths} observations")
    by_default = is_table(source) and columns.channels is None
    hint = " (all other columns; --ignore leaves some out)" if by_default else ""
    screen.message(f"Channels: {_shortened(series.channels or ())}{hint}")
    counts = zip(series.classes.tolist(), series.class_counts().tolist(), strict=True)
    screen.message(f"Classes: {_shortened([f'{name} ({count:,})' for name, count in counts])}")
    groups = "none" if series.groups is None else f"{len(set(series.groups.tolist())):,} of {columns.group}"
    screen.message(f"Groups: {escape(groups)}")


def _shortened(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return escape(", ".join(names[:_MAX_NAMES])) + more
