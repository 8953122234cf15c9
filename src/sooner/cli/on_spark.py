"""`sooner stream --engine spark`: its options, and the way to the engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from sooner.cli.on_engine import StreamJob
from sooner.errors import InvalidArgument

_SPARK = "On Spark"


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark reads and writes, and how its work is divided."""

    source: Annotated[
        Path | None, Option(help="Folder of files of observations; new files are read.", rich_help_panel=_SPARK)
    ] = None
    sink: Annotated[
        Path | None,
        Option(help="Folder of files of decisions, with the checkpoint of Spark in it.", rich_help_panel=_SPARK),
    ] = None


def stream_on_spark(job: StreamJob, options: SparkOptions) -> None:
    """Decide the observations in the files of a folder."""
    for name in ("source", "sink"):
        if getattr(options, name) is None:
            raise InvalidArgument(name, "given with --engine spark", "None", "It is a folder.")
    from sooner.engines.spark.files import follow_files

    follow_files(job, options)
