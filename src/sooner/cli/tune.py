"""`sooner tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
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
from sooner.data.files import read
from sooner.data.standardizer import Standardizer
from sooner.models import Model, build_model
from sooner.settings import Settings, read_settings
from sooner.types import FloatArray


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes a fresh model, here or wherever it is sent."""

    features: tuple[int, ...]
    log_prior: FloatArray

    def __call__(self, settings: Settings) -> Model:
        torch.manual_seed(settings.training.seed)
        return build_model(settings.model, self.features, len(self.log_prior), log_prior=self.log_prior)


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
    ignore: IgnoredColumns = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    storage: Annotated[
        str | None, typer.Option(help="URL of the study's database; by default a file in the folder.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look for better settings of a recurrent model.

    The study is kept in the folder: the same command again, here or in another terminal, goes on with it. `best.toml` is for
    `sooner train --settings`.

    With `--engine ray` trials run at a time, by default one on each core of the cluster. Its machines must reach the study:
    share the disk of the folder, or name a `--storage` such as `postgresql://host/studies`.

    Example: `sooner tune pumps.csv --settings pumps.toml --trials 50`
    """
    from sooner.train import Examples
    from sooner.tune import read_search
    from sooner.tune import tune as search

    screen = Screen(as_json=as_json, quiet=quiet)
    shared, space = on_engine(read_settings(settings), engine, None), read_search(settings)
    with cluster(shared.training.engine, workers, address):
        table = read(source, columns=columns_of(series, time, label, group, channels, ignore), part=part)
        cut = table.series.split if table.series.groups is None else table.series.split_by_group
        training, held = cut(validation_share, seed)
        standardizer = Standardizer.fit(training)
        learned, judged = (
            Examples(each.observations, each.labels, each.lengths)
            for each in (standardizer.apply(training), standardizer.apply(held))
        )

        out.mkdir(parents=True, exist_ok=True)
        found = search(
            _Maker(training.features, np.log(training.class_counts() / len(training))),
            learned,
            judged,
            shared,
            space,
            trials=trials,
            study="sooner",
            storage=storage or f"sqlite:///{(out / 'study.db').resolve()}",
            seed=seed,
            folder=out,
            verbose=not (quiet or as_json),
            workers=workers,
        )
    best = next(trial for trial in found.trials if trial.metric == found.metric)
    rows = [(key, str(value)) for key, value in best.values.items()]
    screen.table(f"Best of {len(found.trials)} trials: mean accuracy {found.metric:.4f}", ["setting", "value"], rows)
    screen.result(f"Written: [bold]{escape(str(out / 'best.toml'))}[/]")
    screen.answer(
        {"metric": found.metric, "values": dict(best.values), "trials": len(found.trials), "folder": str(out)}
    )
