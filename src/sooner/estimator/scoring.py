"""Stored series, as many as there are: a long table in, one row out for each series.

The work is done by units (`sooner.data.units`), each of which is read, decided and forgotten, here one after the other or by the
workers of a cluster. Both ways make the same parts of the same series and use the same number of threads, so that they give
the same rows to the last bit.

Only `sooner score` and who calls it from Python import this module, and late: it needs pyarrow.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
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

from sooner.data import sources
from sooner.data.columns import Columns
from sooner.data.units import ROWS, Broken, Part, PieceUnreadable, Plan, Walk
from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.classifier import EarlyClassifier
from sooner.estimator.columns import columns_for, refuse_other_channels
from sooner.inputs import as_whole
from sooner.scores import margin
from sooner.storage import whole_file
from sooner.stream import AtEnd
from sooner.types import IntArray

Engine: TypeAlias = Literal["local", "ray"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the units that are done, and with all."""

COLUMNS = ("label", "time", "crossed", "margin")
"""Of the table that comes out, behind the id of the series."""

_GROUP = 2**17  # rows of the output that are written at a time


@dataclass(frozen=True)
class Summary:
    """What was done.

    Attributes:
        series: rows written, one for each series.
        observations: rows of the table behind them.
        crossed: series at which the rule fired.
        mean_time: observations until the decision.
        failed: files that could not be read, and why.
    """

    series: int
    observations: int
    crossed: int
    mean_time: float
    failed: tuple[tuple[str, str], ...] = ()


class Outcome(NamedTuple):
    """What a unit gave: its rows, the number of observations behind them, and files that could not be read."""

    rows: Any
    observations: int
    failed: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Scoring:
    """All that is needed to decide the series of a unit.

    Args:
        classifier: fitted; its threshold is used.
        plan: the table, in units.
        deadline: no decision may take more observations.
        at_end: where the rule never fires, "force" names the leader, and "abstain" nobody.
        threads: of torch; the last bit of a sum may depend on it.
    """

    classifier: EarlyClassifier
    plan: Plan
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
        series, channels = self.plan.reading.chosen.series, self.plan.reading.channels
        if series in COLUMNS:
            remedy = f"Beside it the output has {', '.join(COLUMNS)}: rename it."
            raise InvalidArgument("series", "a column of another name", repr(series), remedy)
        refuse_other_channels(self.classifier, channels)

    @cached_property
    def schema(self) -> Any:
        """The columns of the output: the id as it was, the label as the classes are."""
        labels = _names(self.classifier.classes_, None).type
        kinds = (self.plan.ids, labels, pa.int64(), pa.bool_(), pa.float64())
        return pa.schema(zip((self.plan.reading.chosen.series, *COLUMNS), kinds, strict=True))

    def outcome(self, unit: int) -> Outcome:
        """Decide the series that begin in a unit. What turns out to be damaged is passed over, from the start."""
        broken: Broken = self.plan.broken
        while True:
            walk = Walk(self.plan, unit, broken)
            try:
                with _threads(self.threads):
                    tables = [self._decide(part) for part in walk.parts()]
                break
            except PieceUnreadable as error:
                broken = {**broken, error.place: error.reason}
        rows = pa.concat_tables([self.schema.empty_table(), *tables])
        if walk.torn:
            torn = pa.array(list(walk.torn)).cast(self.plan.ids)
            rows = rows.filter(pc.invert(pc.is_in(rows.column(0), value_set=torn)))
        ours = {place: why for place, why in broken.items() if place in walk.unit or place not in self.plan.broken}
        return Outcome(rows, walk.rows, {self.plan.pieces[place].file: why for place, why in ours.items()})

    def _decide(self, part: Part) -> Any:
        """The rows of some series."""
        observations = part.observations[:, : self.deadline]  # what comes later can no longer matter
        ends = part.lengths.clamp(max=observations.shape[1])
        scores, lengths = self.classifier.scores_of_series(observations, ends)
        found = self.classifier.decided(self.classifier.rule_, scores, lengths, self.deadline, self.at_end)
        ahead = margin(scores[np.arange(len(scores)), found.times - 1]).numpy()
        labels = _names(found.labels, self.schema.field("label").type)
        return pa.table([part.ids, labels, found.times, found.crossed, ahead], schema=self.schema)


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
    """Decide every series of a long table, and write one row for each: its id, `label`, `time`, `crossed` and `margin`.

    `margin` is how far the leader was ahead of the next class at the decision. The memory holds a unit of the table and 8 bytes
    for each series. Series are in the order of the table, and the file appears when it is complete.

    A file that cannot be read is left out, and named in what comes back; of one that is damaged inside, what can be read is
    done. A series that lies partly in what cannot be read is left out where that shows (`sooner.data.units`).

    Args:
        classifier: fitted.
        source: Parquet files: one, a folder or a pattern. The rows of a series lie together, in any order; it may go on in the
            next file. CSV files are read as well, as one unit, and their ids are text.
        out: the Parquet file to write.
        columns: which column is what; by default as in training.
        deadline: no decision may take more observations.
        at_end: where the rule never fires, "force" names the leader, and "abstain" gives null as the label.
        engine: "local" is this process, "ray" a cluster (the extra `sooner[ray]`). The rows are the same.
        address: of a running cluster, as in `sooner.cluster.connected`; by default one is started here, and stopped.
        workers: of the cluster; by default one for each of its cores.
        threads: of each worker.
        unit_rows: the least number of rows in a unit.
        progress: called after each unit.
    """
    if engine not in ("local", "ray"):
        raise UnknownName("engine", engine, ("local", "ray"))
    target = _refuse_no_table(out)
    named, gaps = columns_for(classifier, columns)
    unit_rows = as_whole(unit_rows, name="unit_rows", low=1, remedy="It counts rows.")
    plan = Plan.of(source, named, missing=classifier.missing, gaps=gaps, least=unit_rows)
    if target.resolve() in {file.resolve() for file in map(Path, {piece.file for piece in plan.pieces})}:
        raise InvalidArgument("out", "another file than those of the table", str(target), "Name a new one.")
    scoring = Scoring(classifier, plan, deadline, at_end, threads)
    if engine == "ray":
        from sooner.estimator.scoring_on_ray import outcomes

        with closing(outcomes(scoring, address, workers)) as found:
            return _written(target, scoring, found, progress)
    for name, value in (("address", address), ("workers", workers)):
        if value is not None:
            raise InvalidArgument(name, 'None with engine="local"', repr(value), 'It belongs to engine="ray".')
    return _written(target, scoring, map(scoring.outcome, range(len(plan.units))), progress)


def _written(target: Path, scoring: Scoring, outcomes: Iterable[Outcome], progress: Progress | None) -> Summary:
    """Write the rows of all units under another name, which becomes the right one in one move."""
    tally = _Tally()
    with whole_file(target) as part:
        with pq.ParquetWriter(part, scoring.schema) as writer:
            held: list[Any] = []
            for done, outcome in enumerate(outcomes, start=1):
                tally.add(outcome)
                held.append(outcome.rows)
                if sum(map(len, held)) >= _GROUP:
                    writer.write_table(pa.concat_tables(held))
                    held = []
                if progress is not None:
                    progress(done, len(scoring.plan.units))
            if held:
                writer.write_table(pa.concat_tables(held))
        tally.refuse_twice(part, scoring.plan.reading.path)
    return tally.summary()


class _Tally:
    """Counts what is written, and remembers 8 bytes of each series to find one that comes twice."""

    def __init__(self) -> None:
        self._observations, self._crossed, self._times = 0, 0, 0
        self._failed: dict[str, str] = {}
        self._keys: list[IntArray] = []

    def add(self, outcome: Outcome) -> None:
        ids, _, times, crossed, _ = outcome.rows.columns
        self._observations += outcome.observations
        self._crossed += pc.sum(crossed).as_py() or 0
        self._times += pc.sum(times).as_py() or 0
        self._failed.update(outcome.failed)
        self._keys.append(_keys(ids))

    def refuse_twice(self, part: Path, source: str) -> None:
        """A series that comes back in the same unit was seen at once; in another unit it is seen now."""
        keys = np.concatenate([np.zeros(0, np.int64), *self._keys])
        keys.sort()
        twice = keys[1:][keys[1:] == keys[:-1]]
        seen: set[Any] = set()
        for name in _with_keys(part, twice):  # keys of different names may be the same
            if name in seen:
                expected = "a table where the rows of a series lie together"
                remedy = "Sort it by series id, or read it whole."
                raise InvalidArgument(source, expected, f"series {name!r} in two places", remedy)
            seen.add(name)

    def summary(self) -> Summary:
        series = sum(map(len, self._keys))
        mean = self._times / series if series else math.nan
        return Summary(series, self._observations, self._crossed, mean, tuple(sorted(self._failed.items())))


def _keys(ids: Any) -> IntArray:
    """A number for each id, the same for the same."""
    if pa.types.is_integer(ids.type):
        whole: IntArray = ids.to_numpy().astype(np.int64)
        return whole
    return np.fromiter(map(hash, ids.to_pylist()), np.int64, len(ids))


def _with_keys(part: Path, wanted: IntArray) -> Iterator[Any]:
    """The ids in a file of rows that have one of these keys."""
    if len(wanted):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(columns=file.schema_arrow.names[:1]):
                ids = batch.column(0)
                yield from ids.filter(pa.array(np.isin(_keys(ids), wanted))).to_pylist()


def _names(labels: npt.NDArray[Any], kind: Any) -> Any:
    try:
        return pa.array(labels.tolist(), type=kind)
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


def _refuse_no_table(out: str | PathLike[str]) -> Path:
    """The path of a Parquet file that can be written."""
    target = Path(out).expanduser()
    if target.is_dir() or not sources.is_parquet(target):
        got = f"the folder {target}" if target.is_dir() else str(target)
        raise InvalidArgument("out", "a Parquet file", got, "Name the file: decided.parquet.")
    if not target.parent.is_dir():
        raise InvalidArgument("out", "in a folder that is there", str(target), "Make the folder first.")
    return target
