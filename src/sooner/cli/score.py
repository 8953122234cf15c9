"""`sooner score`."""

import time as clock
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from sooner.cli.options import (
    ChannelColumns,
    ClusterOptions,
    Deadline,
    ModelFile,
    SeriesColumn,
    TableOptions,
    Threshold,
    TimeColumn,
)
from sooner.cli.screen import NO_DEADLINE, Screen, promise_record
from sooner.errors import FilesFailed
from sooner.estimator import load


def score(
    model: ModelFile,
    source: Annotated[
        str,
        Argument(metavar="IN", help="Parquet or CSV table in long form: a file, a folder, or a quoted pattern."),
    ],
    out: Annotated[Path, Argument(metavar="OUT", help="Output Parquet file with one row per series.")],
    threshold: Threshold = None,
    deadline: Deadline = None,
    at_end: Annotated[
        Literal["force", "abstain"], Option(help="If the rule has not fired: name the leading class, or abstain.")
    ] = "force",
    threads: Annotated[int, Option(min=1, help="Threads per process; results may differ in the last bit.")] = 1,
    series: SeriesColumn = None,
    time: TimeColumn = None,
    channels: ChannelColumns = None,
    *,
    cluster: ClusterOptions,
    screen: Screen,
) -> None:
    """Decide stored series, and write one row per series: its ID, label, time, crossed and margin.

    The table may be larger than memory: it is read in shards of whole series. Rows may come in any order; a table that is not
    sorted by series is first sorted in a temporary folder beside OUT. With `--engine ray` the workers of a cluster share the
    shards, with the same result.
    OUT appears when it is complete. Unreadable files are listed at the end, with exit code 1; the others are processed.

    Example: `sooner score pumps.sooner 'sensors/*.parquet' decided.parquet`
    """
    from sooner.estimator.bulk import score_table

    cluster.check(cluster.engine)
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    start = clock.perf_counter()
    with screen.progress() as progress:
        bar = progress.add_task("shards", total=None)
        summary = score_table(
            clf,
            source,
            out,
            columns=TableOptions(series=series, time=time, channels=channels).columns(),
            deadline=deadline,
            at_end=at_end,
            engine=cluster.engine or "local",
            address=cluster.address,
            workers=cluster.workers,
            threads=threads,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    share = summary.crossed / max(summary.series, 1)
    screen.file(
        "Written",
        out,
        f": {summary.series:,} series of {summary.observations:,} observations, decided after "
        f"{summary.mean_time:.2f} on average, {share:.1%} by the rule",
    )
    if deadline is None:
        screen.promise(clf.promise_)
    elif clf.promise_ is not None:
        screen.result(NO_DEADLINE)
    screen.json(
        {
            "promise": promise_record(clf.promise_) if deadline is None else None,
            "file": str(out),
            "series": summary.series,
            "observations": summary.observations,
            "crossed": summary.crossed,
            "mean_time": summary.mean_time,
            "failed": dict(summary.failed),
            "seconds": clock.perf_counter() - start,
        }
    )
    if summary.failed:
        raise FilesFailed(summary.failed, str(out))  # last, so that it is seen
