"""`sooner stream --engine spark`: its options, and the way to the engine."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from sooner.cli.on_engine import StreamJob
from sooner.errors import InvalidArgument
from sooner.extras import refuse_missing

_SPARK = "On Spark"
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark reads and writes, and how its work is divided."""

    source: Annotated[
        Path | None, Option(help="Folder of files of observations; new files are read.", rich_help_panel=_SPARK)
    ] = None
    sink: Annotated[
        Path | None,
        Option(help="Folder of files of decisions, and of Spark's checkpoint.", rich_help_panel=_SPARK),
    ] = None
    shards: Annotated[
        int, Option(min=1, help="Number of shards of IDs; it stays that of the sink.", rich_help_panel=_SPARK)
    ] = 8
    files: Annotated[int, Option(min=1, help="New files that a batch reads at most.", rich_help_panel=_SPARK)] = 1000
    once: Annotated[
        bool, Option("--once", help="End when all files have been read; open series stay open.", rich_help_panel=_SPARK)
    ] = False
    master: Annotated[
        str | None, Option(help="Spark master. Default: all cores of this machine.", rich_help_panel=_SPARK)
    ] = None


def stream_on_spark(job: StreamJob, options: SparkOptions) -> None:
    """Decide the observations in the files of a folder, until SIGTERM or Ctrl-C."""
    if options.source is None or options.sink is None:
        name = "source" if options.source is None else "sink"
        raise InvalidArgument(name, "given with --engine spark", "none", "It is the name of a folder.")
    refuse_missing("spark", "engine", "one that is installed")
    from sooner.engines.spark import files
    from sooner.engines.spark.session import session_on

    folders = files.Folders(options.source, options.sink, options.shards, options.files, options.once)
    folders.begin(job.layout)
    total: Counter[str] = Counter()
    with session_on(options.master) as session, job.stopping() as stopped:
        query = files.start(
            session,
            job.classifier,
            folders,
            job.layout,
            job.ends.settings(),
            job.names.columns(),
            job.names.end,
            job.bad_lines,
            lambda counts: total.update(vars(counts)),
        )
        while not files.wait(query, _WAIT_SECONDS):
            if stopped.is_set():
                query.stop()
    job.tell(f"{total['decisions']:,} decisions were written to {options.sink}.")
    if total["refused"]:
        job.tell(f"{total['refused']:,} lines were skipped; the files refused-*.jsonl there say why.")
