"""`sooner tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from sooner.cli.options import ClusterOptions, IgnoredColumns, Seed, Source, Split, TableOptions
from sooner.cli.screen import Screen
from sooner.data.read import read
from sooner.data.standardizer import Standardizer
from sooner.models import Model
from sooner.series import Series
from sooner.train.settings import Settings, read_settings
from sooner.train.untrained import untrained


@dataclass(frozen=True, eq=False)
class _Factory:
    """Builds untrained models, in this process or on a worker."""

    series: Series

    def __call__(self, settings: Settings) -> Model:
        return untrained(settings.model, self.series, len(self.series.classes), seed=settings.training.seed)


def tune(
    source: Source,
    settings: Annotated[Path, Option(exists=True, help="TOML file with the settings and a [search] table.")],
    trials: Annotated[int, Option(min=1, help="Total number of trials, over all runs of this study.")] = 20,
    out: Annotated[Path, Option("--out", "-o", help="Output folder for `best.toml`, the record and the study.")] = Path(
        "tuning"
    ),
    validation_share: Annotated[
        float, Option(min=0.01, max=0.9, help="Share of the series in the validation set.")
    ] = 0.2,
    part: Split = "train",
    *,
    table: TableOptions,
    ignore: IgnoredColumns = None,
    cluster: ClusterOptions,
    storage: Annotated[
        str | None, Option(help="URL of the study's database. Default: a file in the output folder.")
    ] = None,
    seed: Seed = 0,
    screen: Screen,
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

    fixed, space = cluster.training_settings(read_settings(settings), None), read_search(settings)
    with cluster.connected(fixed.training.engine):
        series = read(source, columns=table.columns(ignore), part=part)
        training, validation = series.hold_out(validation_share, seed)
        standardizer = Standardizer.fit(training)
        training, validation = standardizer.apply(training), standardizer.apply(validation)
        out.mkdir(parents=True, exist_ok=True)
        result = search(
            _Factory(training),
            training,
            validation,
            fixed,
            space,
            trials=trials,
            study="sooner",
            storage=storage or f"sqlite:///{(out / 'study.db').resolve()}",
            seed=seed,
            folder=out,
            verbose=screen.shows_progress,
            workers=cluster.workers,
        )
    best = next(trial for trial in result.trials if trial.metric == result.metric)
    rows = [(key, str(value)) for key, value in best.values.items()]
    screen.table(f"Best of {len(result.trials)} trials: mean accuracy {result.metric:.4f}", ["setting", "value"], rows)
    screen.file("Written", out / "best.toml")
    screen.json(
        {"metric": result.metric, "values": dict(best.values), "trials": len(result.trials), "folder": str(out)}
    )
