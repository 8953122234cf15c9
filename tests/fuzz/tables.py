"""Long tables: CSV and Parquet, whole, in parts, and as bulk scoring reads them."""

import csv
import datetime
import gzip
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.case import Case, Target
from fuzz.mutations import BYTES, TABLES, spoiled
from fuzz.plain import INDEX, Plain, differences, meaning, roles

Rows = tuple[list[str], list[list[Any]]]


def rows_of(chance: random.Random) -> Rows:
    """A sound table: its names, and its rows."""
    time = chance.choice((int, int, float, "timestamp", "zoned"))
    ids = chance.choice((lambda n: f"unit {n}", lambda n: n, lambda n: f"{n:03d}", lambda n: f'a"{n}, b'))
    names = [chance.choice(("series", "id")), chance.choice(("time", "t")), chance.choice(("label", "class"))]
    channels = chance.sample(("u", "v", "w", "x", "z", "__index_level_0__"), chance.randint(1, 3))
    rows = [
        [
            ids(n),
            _time(time, t),
            chance.choice("ab") if chance.random() < 0.02 else "ab"[n % 2],
            *_values(chance, channels),
        ]
        for n in range(chance.randint(2, 5))
        for t in range(chance.randint(1, 5))
    ]
    if chance.random() < 0.4:
        chance.shuffle(rows)
    return [*names, *channels], rows


def _time(way: Any, t: int) -> Any:
    if way in (int, float):
        return way(t) if way is int else t * 0.25
    moment = datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC if way == "zoned" else None)
    return moment + datetime.timedelta(seconds=1.5 * t)


def _values(chance: random.Random, channels: list[str]) -> list[Any]:
    kinds = (lambda: round(chance.gauss(0, 1), 3), lambda: chance.randint(-3, 3), lambda: 1e300 * chance.random())
    return [None if chance.random() < 0.02 else chance.choice(kinds)() for _ in channels]


def csv_bytes(chance: random.Random) -> bytes:
    """A sound CSV file."""
    names, rows = rows_of(chance)
    text = io.StringIO(newline="")
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC, csv.QUOTE_ALL))
    writer = csv.writer(text, quoting=quoting, lineterminator=chance.choice(("\n", "\r\n")))
    writer.writerows([names, *rows])
    return text.getvalue().encode()


def parquet_bytes(chance: random.Random) -> bytes:
    """A sound Parquet file, with checksums or without."""
    names, rows = rows_of(chance)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    for name in names[3:]:
        columns[name] = pa.array(columns[name], chance.choice((pa.float64(), pa.float32(), None)), from_pandas=True)
    file = io.BytesIO()
    pq.write_table(
        pa.table(columns),
        file,
        row_group_size=chance.choice((None, 3)),
        write_page_checksum=chance.random() < 0.5,
        compression=chance.choice(("none", "snappy", "zstd")),
        use_dictionary=chance.random() < 0.5,
    )
    return file.getvalue()


def make_csv(chance: random.Random, folder: Path) -> Case:
    data = spoiled(chance, csv_bytes(chance), [csv_bytes(chance)], TABLES)
    path = folder / "data.csv"
    if chance.random() < 0.03:
        path = folder / "data.csv.gz"
        path.write_bytes(spoiled(chance, gzip.compress(data, 1), [], BYTES))
    else:
        path.write_bytes(data)
    return _case(chance, path, lambda _labels: _plain_csv(path))


def make_parquet(chance: random.Random, folder: Path) -> Case:
    path = folder / "data.parquet"
    path.write_bytes(spoiled(chance, parquet_bytes(chance), [parquet_bytes(chance)], BYTES))
    return _case(chance, path, lambda labels: _plain_parquet(path, labels))


def _plain_csv(path: Path) -> Plain:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    names, *rows = (
        row for row in csv.reader(io.StringIO(data.decode("utf-8-sig", errors="surrogateescape"), newline="")) if row
    )
    return meaning([dict(zip(names, row, strict=True)) for row in rows], names)


def _plain_parquet(path: Path, labels: bool) -> Plain:
    part = roles(pq.read_schema(path).names)
    names = [name for name in pq.read_schema(path).names if name not in INDEX and (labels or name != part.get("label"))]
    with pq.ParquetFile(path) as file:
        table = file.read(columns=names)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:  # which may be damaged, and does not move a time
            table = table.set_column(place, field.name, table.column(place).cast(pa.timestamp(field.type.unit, "UTC")))
    return meaning(table.to_pylist(), names)


def _case(chance: random.Random, path: Path, plain: Any) -> Case:
    """One of the ways to read a table, and its meaning."""
    from sooner.data import read as files
    from sooner.data.tables import reading as tables

    missing, gap = chance.choice(("refuse", "mask")), chance.choice(("none", "none", "channel"))
    words: dict[str, Any] = {"missing": missing, "gaps": gap}
    size, way = chance.randint(1, 12), chance.choice(("read", "read", "read", "observations", "parts", "walk"))

    def run() -> Any:
        if way == "read":
            series = files.read(path, **words)
            return (series.ids, series.names(series.labels), series.channels, series.observations, series.lengths)
        if way == "observations":
            found = files.read_observations(path, **words)
            return found.ids, None, found.channels, found.observations, found.lengths
        if way == "parts":
            parts = list(tables.observation_parts(path, rows=size, dtype="float64", **words))
            return _joined([(part.ids, part.observations, part.lengths) for part in parts], parts[0].channels)
        return _walked(path, size, words)

    def judge(read: Any) -> str | None:
        return differences(plain(read[1] is not None), *read, missing, gap)

    return Case(path.read_bytes(), run, judge)


def _joined(parts: list[Any], channels: Any) -> Any:
    x = [observations for _, many, _ in parts for observations in many]
    ids = [name for names, _, _ in parts for name in np.asarray(names).tolist()]
    return ids, None, channels, x, [int(length) for *_, lengths in parts for length in lengths]


def _walked(path: Path, size: int, words: Any) -> Any:
    from sooner.data.tables.plan import TablePlan
    from sooner.data.tables.shards import RangeUnreadable, ShardReader
    from sooner.data.tables.spill import sorted_by_series
    from sooner.errors import UnreadableFile
    from sooner.series.columns import Columns

    def read(plan: Any) -> list[Any]:
        try:
            return [
                (part.ids, part.observations, part.lengths)
                for shard in range(len(plan.shards))
                for part in ShardReader(plan, shard, plan.broken).series(size)
            ]
        except RangeUnreadable as error:  # bulk scoring catches it, and goes on behind
            raise UnreadableFile(str(path), "readable", error.reason) from None

    plan = TablePlan.of(path, Columns(), "unlabelled", shard_rows=size, **words)
    if plan.contiguous():
        return _joined(read(plan), plan.layout.channels)
    with sorted_by_series(plan, size) as in_order:
        return _joined(read(in_order), plan.layout.channels)


TARGETS = [Target("csv", 24, make_csv), Target("parquet", 12, make_parquet)]
