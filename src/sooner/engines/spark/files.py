"""Live series from a folder of files, with their decisions as files in another one: `sooner stream --engine spark`.

A file of decisions belongs to one batch, is named by it and appears whole. A batch that is repeated after a crash writes the same
file again, so that each decision is there once.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from sooner.engines.spark.decisions import decide_stream
from sooner.engines.spark.failures import reason
from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier
from sooner.estimator.columns import fields_for
from sooner.series.columns import Columns
from sooner.storage import write_whole
from sooner.stream.decisions import BadLines
from sooner.stream.lines import WHOLE, Layout
from sooner.stream.settings import LiveSettings

_BROKEN = "_broken"
_SOURCE = {"jsonl": "json", "csv": "csv"}


@dataclass(frozen=True)
class Folders:
    """Where observations are read and decisions are written.

    Args:
        source: new files in it are read, in the order of their modification times.
        sink: gets the files, and in `_checkpoint` the state of Spark.
        shards: number of shards of IDs.
        files: at most so many new files are read in a batch.
        once: whether the query ends when all files have been read.
    """

    source: Path
    sink: Path
    shards: int
    files: int
    once: bool

    @property
    def checkpoint(self) -> Path:
        """The folder of Spark's state."""
        return self.sink / "_checkpoint"

    def begin(self, layout: Layout) -> None:
        """Refuse folders that cannot be used, and another number of shards than the sink was begun with."""
        if not self.source.is_dir():
            remedy = "Make it, and move files into it when they are complete."
            raise InvalidArgument("source", "a folder of files", f"{self.source}, which is none", remedy)
        if self.source.resolve() in (self.sink.resolve(), *self.sink.resolve().parents):
            remedy = "Decisions would be read as observations."
            raise InvalidArgument("sink", "a folder outside of the source", str(self.sink), remedy)
        about = self.checkpoint / "sooner.json"
        asked = {"shards": self.shards, "format": layout}
        if not about.exists():
            self.checkpoint.mkdir(parents=True, exist_ok=True)
            write_whole(about, json.dumps(asked))
        for name, value in json.loads(about.read_text(encoding="utf-8")).items():
            if asked[name] != value:
                remedy = "Name another sink to begin anew."
                raise InvalidArgument(name, f"{value}, as when {self.sink} was begun", asked[name], remedy)


@dataclass(frozen=True)
class Counts:
    """How many decisions and refused lines a query has written."""

    decisions: int = 0
    refused: int = 0


def start(
    session: Any,
    classifier: EarlyClassifier,
    folders: Folders,
    layout: Layout,
    settings: LiveSettings,
    columns: Columns | None,
    end: str,
    bad_lines: BadLines,
    count: Callable[[Counts], None],
) -> Any:
    """Start the query; returns it. `count` is told of each batch that has been written."""
    folders.begin(layout)
    session.conf.set("spark.sql.shuffle.partitions", str(folders.shards))  # more of them would be empty
    fields = fields_for(classifier, columns, end=end)
    series, time = fields.series or "series", fields.time or "time"
    observed = _read(session, folders, layout, (series, time, end), fields.channels)
    decided = decide_stream(
        observed,
        classifier,
        series=series,
        time=time,
        channels=[WHOLE],
        end=end,
        shards=folders.shards,
        rearm=settings.rearm,
        bad_rows="stop" if bad_lines == "stop" else "keep",
        broken=_BROKEN,
        **{name: value for name, value in asdict(settings).items() if name != "rearm"},
    )
    if folders.once:  # silence is not waited for
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")

    def write(batch: Any, number: int) -> None:
        rows = [row.asDict() for row in batch.collect()]
        decisions = [_line_of(row) for row in rows if row["refused"] is None]
        refused = [{"refused": row["refused"]} for row in rows if row["refused"] is not None]
        for name, records in (("decisions", decisions), ("refused", refused)):
            if records:
                lines = "".join(json.dumps(record, default=str) + "\n" for record in records)
                write_whole(folders.sink / f"{name}-{number:09d}.jsonl", lines)
        count(Counts(len(decisions), len(refused)))

    writer = decided.writeStream.foreachBatch(write).option("checkpointLocation", str(folders.checkpoint))
    return (writer.trigger(availableNow=True) if folders.once else writer).start()


def wait(query: Any, seconds: float) -> bool:
    """Wait for the end of a query, at most so long; whether it has ended. What its workers refused is raised."""
    try:
        return bool(query.awaitTermination(seconds))
    except PySparkException as error:
        raise reason(error) or error from None


def _read(
    session: Any, folders: Folders, layout: Layout, names: tuple[str, str, str], channels: tuple[str, ...] | None
) -> Any:
    """The observations in the files, with their numbers in one array."""
    series, time, end = names
    numbers = [(name, "double") for name in channels or ()]
    types = dict([(series, "string"), (time, "string"), (end, "boolean"), *numbers])
    reader = session.readStream.option("maxFilesPerTrigger", folders.files)
    if layout == "csv":
        header = _header(folders.source)
        _refuse_missing(header, [series, time, *(channels or ())])
        types = {name: types.get(name, "string") for name in [*header, end]} | {end: types[end]}
        reader = reader.option("header", True).option("enforceSchema", False)
        types = {name: type_ for name, type_ in types.items() if name in header}
    else:
        types[WHOLE] = "array<double>"
    types[_BROKEN] = "string"
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
    reader = reader.option("columnNameOfCorruptRecord", _BROKEN).schema(schema)
    df = reader.format(_SOURCE[layout]).load(str(folders.source))
    if channels:
        apart = F.array(*(F.col(f"`{name}`") for name in channels))
        whole = F.coalesce(F.col(WHOLE), apart) if layout == "jsonl" and WHOLE not in channels else apart
        df = df.withColumn(WHOLE, whole)
    return df if end in types else df.withColumn(end, F.lit(False))


def _header(source: Path) -> list[str]:
    """The columns of the first CSV file."""
    first = min((path for path in source.iterdir() if path.is_file() and path.name[0] not in "._"), default=None)
    if first is None:
        remedy = "The header of the first one says which columns there are."
        raise InvalidArgument("source", "a folder with a CSV file", f"{source}, which is empty", remedy)
    with first.open(encoding="utf-8-sig", newline="") as file:
        return [name.strip() for name in next(csv.reader(file), [])]


def _refuse_missing(header: list[str], wanted: list[str]) -> None:
    for name in wanted:
        if name not in header:
            remedy = f"The first file has {', '.join(map(repr, header))}."
            raise InvalidArgument("source", f"files with the column {name!r}", "others", remedy)


def _line_of(row: dict[str, Any]) -> dict[str, Any]:
    """A decision as `sooner stream` writes it, with its shard."""
    rounded = {name: None if row[name] is None else round(row[name], 6) for name in ("margin", "posterior")}
    label = {"label": row["labels"]} if row.get("labels") is not None else {}
    left = {name: value for name, value in row.items() if name not in ("refused", "labels")}
    return {**left, **rounded, **label}
