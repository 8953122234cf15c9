"""Bulk scoring: a long table in, one row out for each series.

The table is read in shards (`sooner.data.tables.shards`), one after the other in this process or by the workers of a cluster.
Both use the same shards and the same number of threads, so the rows are equal to the last bit.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from sooner.data.tables import files as sources
from sooner.data.tables.plan import ROWS, Broken, TablePlan
from sooner.data.tables.shards import RangeUnreadable, SeriesReturns, ShardReader
from sooner.data.tables.spill import sorted_by_series
from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.classifier import EarlyClassifier
from sooner.estimator.columns import columns_for, refuse_other_channels
from sooner.estimator.dial import decided
from sooner.extras import engine_module
from sooner.inputs import as_whole
from sooner.scores import margin
from sooner.series import Series
from sooner.series.columns import Columns
from sooner.storage import whole_file
from sooner.stream import AtEnd

Engine: TypeAlias = Literal["local", "ray"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of shards that are done, and the total number."""

COLUMNS = ("label", "time", "crossed", "margin")
"""Columns of the output after the series ID."""

_ROW_GROUP = 2**17  # rows of the output that are written together


@dataclass(frozen=True)
class Summary:
    """Numbers of series, observations and unforced decisions, the mean time, and the unreadable files with reasons."""

    series: int
    observations: int
    crossed: int
    mean_time: float
    failed: tuple[tuple[str, str], ...] = ()


class ShardResult(NamedTuple):
    """The output rows of a shard, their number of observations, and the unreadable files with reasons."""

    rows: Any
    observations: int
    failed: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Scoring:
    """Decides the series of each shard of a table; the arguments are those of `score_table`."""

    classifier: EarlyClassifier
    plan: TablePlan
    deadline: int | None = None
    at_end: AtEnd = "force"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.at_end not in ("force", "abstain"):
            raise UnknownName("at_end", self.at_end, ("force", "abstain"))
        if self.deadline is not None:
            last = as_whole(self.deadline, name="deadline", low=1, remedy="It counts observations from 1.")
            object.__setattr__(self, "deadline", last)
        as_whole(self.threads, name="threads", low=1, remedy="One for each process is the quickest in all.")
        series, channels = self.plan.layout.choice.series, self.plan.layout.channels
        if series in COLUMNS:
            remedy = f"Beside it the output has {', '.join(COLUMNS)}: rename it."
            raise InvalidArgument("series", "a column of another name", repr(series), remedy)
        refuse_other_channels(self.classifier, channels)

    @cached_property
    def schema(self) -> Any:
        """The columns of the output, with the types of the IDs and of the classes."""
        label = _label_array(self.classifier.classes_, None).type
        types = (self.plan.id_type, label, pa.int64(), pa.bool_(), pa.float64())
        return pa.schema(zip((self.plan.layout.choice.series, *COLUMNS), types, strict=True))

    def decide_shard(self, shard: int) -> ShardResult:
        """Decide the series that begin in a shard; if a section is damaged, the shard is read again without it."""
        broken: Broken = self.plan.broken
        while True:
            reader = ShardReader(self.plan, shard, broken)
            try:
                with _threads(self.threads):
                    tables = [self._decide(series) for series in reader.series()]
                break
            except RangeUnreadable as error:
                broken = {**broken, error.index: error.reason}
        rows = pa.concat_tables([self.schema.empty_table(), *tables])
        if reader.torn:
            torn = pa.array(list(reader.torn)).cast(self.plan.id_type)
            rows = rows.filter(pc.invert(pc.is_in(rows.column(0), value_set=torn)))
        ranges = self.plan.shards[shard]
        failed = {index: why for index, why in broken.items() if index in ranges or index not in self.plan.broken}
        return ShardResult(rows, reader.rows, {self.plan.ranges[index].file: why for index, why in failed.items()})

    def _decide(self, series: Series) -> Any:
        """The output rows of some series."""
        observations = series.observations[:, : self.deadline]
        ends = series.lengths.clamp(max=observations.shape[1])
        scored = self.classifier.scores(Series(observations, ends))
        decisions = decided(self.classifier.rule_, scored, self.classifier.classes_, self.deadline, self.at_end)
        margins = margin(scored.scores[np.arange(len(scored)), decisions.times - 1]).numpy()
        labels = _label_array(decisions.labels, self.schema.field("label").type)
        ids = pa.array([] if series.ids is None else series.ids.tolist(), self.plan.id_type)
        return pa.table([ids, labels, decisions.times, decisions.crossed, margins], schema=self.schema)


def score_table(
    classifier: EarlyClassifier,
    source: str | Path,
    out: str | PathLike[str],
    *,
    columns: Columns | None = None,
    deadline: int | None = None,
    at_end: AtEnd = "force",
    engine: Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    unit_rows: int = ROWS,
    progress: Progress | None = None,
) -> Summary:
    """Decide every series of a long table, and write one row for each: its ID, `label`, `time`, `crossed` and `margin`.

    `margin` is the lead over the second class at the decision. Memory holds one shard of the table and 8 bytes per series. The
    output has the series in the order in which they first appear. Unreadable files are listed in the result; the readable shards
    of a damaged file are processed, without the series that touch a damaged section (see `sooner.data.tables.shards`).

    Args:
        classifier: fitted.
        source: Parquet or CSV files: one, a folder or a pattern. If the rows of a series are not contiguous, the table is first
            sorted in a temporary folder beside `out`. A CSV table is one shard, and its IDs are text.
        out: the Parquet file to write; it appears when it is complete.
        columns: the column names; by default as in training.
        deadline: maximum number of observations per decision.
        at_end: if the rule never fires, "force" names the leading class, and "abstain" gives null as the label.
        engine: "local" works in this process, "ray" on a cluster (the extra `sooner[ray]`). The results are the same.
        address: Ray address (host:port or auto). Default: a temporary local cluster.
        workers: number of workers; by default one per core of the cluster.
        threads: number of threads per worker, on which the last bit of a margin may depend.
        unit_rows: minimum number of rows per shard.
        progress: called after each shard.
    """
    target = _as_target(out)
    unit_rows = as_whole(unit_rows, name="unit_rows", low=1, remedy="It counts rows.")
    plan = _plan(classifier, source, columns, unit_rows, target)
    scoring = Scoring(classifier, plan, deadline, at_end, threads)
    _check_engine(engine, address, workers)

    def score(scoring: Scoring) -> Summary:
        if engine == "ray":
            with closing(engine_module("ray", "bulk").shard_results(scoring, address, workers)) as results:
                return _write(target, scoring, results, progress)
        return _write(target, scoring, map(scoring.decide_shard, range(len(scoring.plan.shards))), progress)

    try:
        # Reading only the IDs is fast in Parquet files. A CSV file would be read twice: it is checked while it is scored.
        if plan.rows is not None and not plan.contiguous():
            raise SeriesReturns
        return score(scoring)
    except SeriesReturns:
        with sorted_by_series(plan, unit_rows, target.parent) as in_order:
            return score(replace(scoring, plan=in_order))


def _check_engine(engine: str, address: str | None, workers: int | None) -> None:
    if engine not in ("local", "ray"):
        raise UnknownName("engine", engine, ("local", "ray"))
    for name, value in (("address", address), ("workers", workers)):
        if value is not None and engine == "local":
            raise InvalidArgument(name, 'None with engine="local"', repr(value), 'It belongs to engine="ray".')


def _plan(
    classifier: EarlyClassifier, source: str | Path, columns: Columns | None, shard_rows: int, target: Path
) -> TablePlan:
    """The shards of the table, which must not contain the output file."""
    named, gaps = columns_for(classifier, columns)
    plan = TablePlan.of(source, named, "unlabelled", missing=classifier.missing, gaps=gaps, shard_rows=shard_rows)
    if target.resolve() in {Path(rows.file).resolve() for rows in plan.ranges}:
        raise InvalidArgument("out", "another file than those of the table", str(target), "Name a new one.")
    return plan


def _write(target: Path, scoring: Scoring, results: Iterable[ShardResult], progress: Progress | None) -> Summary:
    """Write the rows of all shards to a file that appears when it is complete."""
    series = observations = crossed = times = 0
    failed: dict[str, str] = {}
    pending: list[Any] = []
    with whole_file(target) as temporary, pq.ParquetWriter(temporary, scoring.schema) as writer:
        for done, result in enumerate(results, start=1):
            series += len(result.rows)
            observations += result.observations
            crossed += pc.sum(result.rows["crossed"]).as_py() or 0
            times += pc.sum(result.rows["time"]).as_py() or 0
            failed.update(result.failed)
            pending.append(result.rows)
            if sum(map(len, pending)) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(pending))
                pending = []
            if progress is not None:
                progress(done, len(scoring.plan.shards))
        if pending:
            writer.write_table(pa.concat_tables(pending))
    return Summary(series, observations, crossed, times / series if series else math.nan, tuple(sorted(failed.items())))


def _label_array(labels: npt.NDArray[Any], type_: Any) -> Any:
    try:
        return pa.array(labels.tolist(), type=type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        remedy = "A column holds one type: train with labels of one."
        raise InvalidArgument("classes", "texts, or numbers of one type", f"{labels.tolist()}", remedy) from None


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _as_target(out: str | PathLike[str]) -> Path:
    """The path of a Parquet file in an existing folder."""
    target = Path(out).expanduser()
    if target.is_dir() or not sources.is_parquet(target):
        got = f"the folder {target}" if target.is_dir() else str(target)
        raise InvalidArgument("out", "a Parquet file", got, "Name the file: decided.parquet.")
    if not target.parent.is_dir():
        raise InvalidArgument("out", "in a folder that is there", str(target), "Make the folder first.")
    return target
