"""`sooner tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
from sooner.data.read import read
from sooner.data.standardizer import Standardizer
from sooner.models import Model
from sooner.series import Series
from sooner.train.settings import Settings, read_settings
from sooner.train.untrained import untrained


@dataclass(frozen=True, eq=False)
class _Maker:
    """Builds an untrained model, in this process or on a worker."""

    series: Series

    def __call__(self, settings: Settings) -> Model:
        return untrained(settings.model, self.series, len(self.series.classes), seed=settings.training.seed)


def tune(
    source: Source,
    settings: Annotated[Path, typer.Option(exists=True, help="TOML file with the settings and a [search] table.")],
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials, over all runs of this study.")] = 20,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder for `best.toml`, the record and the study.")
    ] = Path("tuning"),
    validation_share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Share of the series in the validation set.")
    ] = 0.2,
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
        str | None, typer.Option(help="URL of the study's database. Default: a file in the output folder.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search for better settings of a recurrent model.

    The study is kept in the output folder: the same command continues it, also from a second terminal at the same time. The
    result, `best.toml`, can be passed to `sooner train --settings`.

    With `--engine ray` trials run concurrently, by default one per core of the cluster. All machines must be able to reach the
    study: use a shared disk for the output folder, or a `--storage` such as `postgresql://host/studies`.

    Example: `sooner tune pumps.csv --settings pumps.toml --trials 50`
    """
    from sooner.lab.tuning import read_search
    from sooner.lab.tuning import tune as search

    screen = Screen(as_json=as_json, quiet=quiet)
    shared, space = on_engine(read_settings(settings), engine, None), read_search(settings)
    with cluster(shared.training.engine, workers, address):
        table = read(source, columns=columns_of(series, time, label, group, channels, ignore), part=part)
        training, held = table.hold_out(validation_share, seed)
        standardizer = Standardizer.fit(training)
        ready, unseen = standardizer.apply(training), standardizer.apply(held)
        out.mkdir(parents=True, exist_ok=True)
        found = search(
            _Maker(ready),
            ready,
            unseen,
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
