"""`sooner tune`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.markup import escape

from sooner.cli.options import (
    AsJson,
    ChannelColumns,
    GroupColumn,
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
from sooner.data.files import read
from sooner.data.standardizer import Standardizer
from sooner.models import Model, build_model
from sooner.settings import Settings, read_settings


def tune(
    source: Source,
    settings: Annotated[
        Path, typer.Option(exists=True, help="A TOML file with settings, and a [search] table of what to try.")
    ],
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, over every run of this study.")] = 20,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for `best.toml`, the record and the study.")] = Path(
        "tuning"
    ),
    validation_share: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of the series to judge by.")] = 0.2,
    part: Part = "train",
    series: SeriesColumn = None,
    time: TimeColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    channels: ChannelColumns = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look for better settings of a recurrent model.

    The study is kept in the folder: the same command again, here or in another terminal, goes on with it. `best.toml` is for
    `sooner train --settings`.

    Example: `sooner tune pumps.csv --settings pumps.toml --trials 50`
    """
    from sooner.train import Examples
    from sooner.tune import read_search
    from sooner.tune import tune as search

    screen = Screen(as_json=as_json, quiet=quiet)
    shared, space = read_settings(settings), read_search(settings)
    table = read(source, columns=columns_of(series, time, label, group, channels), part=part)
    cut = table.series.split if table.series.groups is None else table.series.split_by_group
    training, held = cut(validation_share, seed)
    standardizer = Standardizer.fit(training)
    counts = training.class_counts()
    learned, judged = (
        Examples(each.observations, each.labels, each.lengths)
        for each in (standardizer.apply(training), standardizer.apply(held))
    )

    def make(chosen: Settings) -> Model:
        torch.manual_seed(chosen.training.seed)
        log_prior = np.log(counts / counts.sum())
        return build_model(chosen.model, training.features, len(training.classes), log_prior=log_prior)

    out.mkdir(parents=True, exist_ok=True)
    found = search(
        make,
        learned,
        judged,
        shared,
        space,
        trials=trials,
        study="sooner",
        storage=f"sqlite:///{(out / 'study.db').resolve()}",
        seed=seed,
        folder=out,
        verbose=not (quiet or as_json),
    )
    best = next(trial for trial in found.trials if trial.metric == found.metric)
    rows = [(key, str(value)) for key, value in best.values.items()]
    screen.table(f"Best of {len(found.trials)} trials: mean accuracy {found.metric:.4f}", ["setting", "value"], rows)
    screen.result(f"Written: [bold]{escape(str(out / 'best.toml'))}[/]")
    screen.answer(
        {"metric": found.metric, "values": dict(best.values), "trials": len(found.trials), "folder": str(out)}
    )
