"""`sooner score`."""

import time as clock
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from sooner.cli.engines import Address, Engine, Workers, refuse_alone
from sooner.cli.options import (
    AsJson,
    ChannelColumns,
    ModelFile,
    Quiet,
    SeriesColumn,
    TimeColumn,
    columns_of,
)
from sooner.cli.screen import Screen
from sooner.errors import FilesFailed
from sooner.estimator import load


def score(
    model: ModelFile,
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="Parquet or CSV table in long form: a file, a folder, or a quoted pattern."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output Parquet file with one row per series.")],
    threshold: Annotated[float | None, typer.Option(help="A different threshold than the model's.")] = None,
    deadline: Annotated[int | None, typer.Option(min=1, help="Force a decision at this observation.")] = None,
    at_end: Annotated[
        Literal["force", "abstain"], typer.Option(help="If the rule has not fired: name the leading class, or abstain.")
    ] = "force",
    threads: Annotated[int, typer.Option(min=1, help="Threads per process; results may differ in the last bit.")] = 1,
    series: SeriesColumn = None,
    time: TimeColumn = None,
    channels: ChannelColumns = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Decide stored series, and write one row per series: its ID, label, time, crossed and margin.

    The table may be larger than memory: it is read in shards of whole series. Rows may come in any order; a table that is not
    sorted by series is first sorted in a temporary folder beside OUT. With `--engine ray` the workers of a cluster share the
    shards, with the same result.
    OUT appears when it is complete. Unreadable files are listed at the end, with exit code 1; the others are processed.

    Example: `sooner score pumps.sooner 'sensors/*.parquet' decided.parquet`
    """
    from sooner.estimator.bulk import score_table

    screen = Screen(as_json=as_json, quiet=quiet)
    refuse_alone(engine or "local", workers, address)
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    start = clock.perf_counter()
    with screen.counts() as progress:
        bar = progress.add_task("shards", total=None)
        found = score_table(
            clf,
            source,
            out,
            columns=columns_of(series, time, None, None, channels),
            deadline=deadline,
            at_end=at_end,
            engine=engine or "local",
            address=address,
            workers=workers,
            threads=threads,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    share = found.crossed / max(found.series, 1)
    screen.result(
        f"Written: [bold]{escape(str(out))}[/]: {found.series:,} series of {found.observations:,} observations, decided after "
        f"{found.mean_time:.2f} on average, {share:.1%} by the rule"
    )
    screen.answer(
        {
            "file": str(out),
            "series": found.series,
            "observations": found.observations,
            "crossed": found.crossed,
            "mean_time": found.mean_time,
            "failed": dict(found.failed),
            "seconds": clock.perf_counter() - start,
        }
    )
    if found.failed:
        raise FilesFailed(found.failed, str(out))  # last, so that it is seen
