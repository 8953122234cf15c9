"""Long tables: whatever the format and the order of rows, the same series; or a sentence that names the cell."""

import datetime
import gzip
import itertools
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from sooner.data.tables import files as sources
from sooner.data.tables.reading import observation_parts, read_observations, read_table, table_parts
from sooner.errors import InvalidArgument
from sooner.series.columns import Columns

NAN = float("nan")
LABELS = ("ant", "bee", "cat")
DAY = datetime.datetime(2026, 11, 15, 12)


def drawn(seed, *, series=25, ids=lambda n: f"unit {n}", times=lambda t: t):
    """Rows (id, time, label, u, v) in a random order; label and length belong to the id."""
    random = np.random.default_rng(seed)
    rows = []
    for n in random.permutation(series):
        moments = np.sort(random.choice(60, size=random.integers(1, 12), replace=False))
        rows += [(ids(int(n)), times(int(t)), LABELS[n % 3], *random.normal(size=2).round(3).tolist()) for t in moments]
    return [rows[place] for place in random.permutation(len(rows))]


def by_hand(rows):
    """The definition, row by row: {id: (label, [(time, values), ...] by time)}, in order of appearance."""
    found = {}
    for name, time, label, *values in rows:
        found.setdefault(name, (label, []))[1].append((time, values))
    return {name: (label, sorted(seen)) for name, (label, seen) in found.items()}


def frame(rows):
    names = ("series", "time", "label", "u", "v")
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def written(rows, path):
    if path.name.endswith(("parquet", "pq")):
        pq.write_table(frame(rows), path)
        return path
    options = csv.WriteOptions(delimiter="\t" if ".tsv" in path.name else ",")
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        csv.write_csv(frame(rows), file, options)
    return path


def in_words(table):
    """A table as `by_hand` gives it, without the times."""
    names = table.names(table.labels).tolist()
    return {
        name: (label, x[:length].tolist())
        for name, label, x, length in zip(table.ids.tolist(), names, table.observations, table.lengths, strict=True)
    }


def same(table, rows):
    want = {name: (label, [values for _, values in seen]) for name, (label, seen) in by_hand(rows).items()}
    assert list(in_words(table)) == list(want)
    assert in_words(table) == want


@pytest.fixture(params=["whole", "small batches"])
def batches(request, monkeypatch):
    """Once as it is, and once with batches so small that series and runs are cut everywhere."""
    if request.param == "small batches":
        monkeypatch.setattr(sources, "_ROWS", 7)
        monkeypatch.setattr(sources, "_BYTES", 256)


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq"])
@pytest.mark.parametrize("order", ["random", "by series", "by time", "by series, time falling"])
def test_every_format_in_every_order_gives_what_the_definition_gives(tmp_path, suffix, order):
    rows = drawn(0)
    keys = {
        "random": None,
        "by series": lambda row: row[:2],
        "by time": lambda row: row[1],
        "by series, time falling": lambda row: (row[0], -row[1]),
    }
    rows = sorted(rows, key=keys[order]) if keys[order] else rows
    table = read_table(written(rows, tmp_path / f"data{suffix}"), dtype="float64")
    same(table, rows)
    assert table.channels == ("u", "v")
    assert table.classes.tolist() == ["ant", "bee", "cat"]


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_and_labels_may_be_whole_numbers(tmp_path, suffix):
    rows = [(name, time, LABELS.index(label) * 10, *x) for name, time, label, *x in drawn(1, ids=lambda n: 3 * n - 9)]
    table = read_table(written(rows, tmp_path / f"data{suffix}"), dtype="float64")
    same(table, rows)
    assert table.classes.tolist() == [0, 10, 20]


def test_ids_may_be_hashes(tmp_path):
    columns = {"id": pa.array([2**64 - 1, 5], pa.uint64()), "t": [1, 1], "class": ["x", "y"], "v": [1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    assert read_table(tmp_path / "data.parquet").ids.tolist() == [2**64 - 1, 5]


def test_ids_that_only_look_like_numbers_stay_text(tmp_path):
    rows = [("007", 1, "a", 0.0, 0.0), ("7", 1, "b", 0.0, 0.0)]
    assert read_table(written(rows, tmp_path / "data.csv")).ids.tolist() == ["007", "7"]


TIMES = {
    "floats": lambda t: t / 8,
    "timestamps": lambda t: DAY + datetime.timedelta(seconds=t / 4),
    "timestamps with a zone": lambda t: (DAY + datetime.timedelta(seconds=t / 4)).replace(tzinfo=datetime.UTC),
    "dates": lambda t: DAY.date() + datetime.timedelta(days=t),
    "large whole numbers": lambda t: 2**62 + t,
}


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_kind_are_put_in_order_and_measured(tmp_path, suffix, kind):
    rows = drawn(2, times=TIMES[kind])
    table = read_table(written(rows, tmp_path / f"data{suffix}"), dtype="float64", gaps="channel")
    assert table.channels == ("u", "v", "gap")
    for (_, seen), x, length in zip(by_hand(rows).values(), table.observations, table.lengths, strict=True):
        steps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(seen)]
        seconds = [step.total_seconds() if isinstance(step, datetime.timedelta) else step for step in steps]
        np.testing.assert_allclose(x[:length, 2], [0.0, *seconds], rtol=1e-12)
        assert x[:length, :2].tolist() == [values for _, values in seen]


def test_durations_are_measured_in_seconds(tmp_path):
    steps = pa.array([0, 1500, 250, 0], pa.duration("ms"))
    columns = {"series": [1, 1, 1, 2], "time": steps, "label": [True, True, True, False], "x": [1.0, 3.0, 2.0, 4.0]}
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    series = read_table(tmp_path / "data.parquet", gaps="channel")
    assert series.observations[0].tolist() == [[1.0, 0.0], [2.0, 0.25], [3.0, 1.25]]
    assert series.names(series.labels).tolist() == [True, False]


@given(st.permutations(range(12)), st.integers(1, 14))
def test_the_order_of_rows_changes_nothing_but_the_order_of_series(tmp_path_factory, order, rows_a_part):
    rows = [(n // 4, n % 4, LABELS[n // 4], float(n), 1.0) for n in range(12)]
    folder = tmp_path_factory.mktemp("tables")
    shuffled = [rows[place] for place in order]
    table = read_table(written(shuffled, folder / "data.parquet"), dtype="float64")
    same(table, shuffled)
    together = sorted(shuffled, key=lambda row: list(by_hand(shuffled)).index(row[0]))
    sizes = []
    for number, lines in enumerate((together, shuffled)):
        for suffix in (".csv", ".parquet"):
            path = written(lines, folder / f"{number}{suffix}")
            parts = list(table_parts(path, classes=LABELS, rows=rows_a_part, dtype="float64"))
            found = {name: seen for part in parts for name, seen in in_words(part).items()}
            assert found == in_words(table)
            assert list(found) == list(in_words(table))
            sizes.append([len(part) for part in parts])
    assert all(size == sizes[0] for size in sizes)


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("rows_a_part", [1, 20, 10_000])
def test_parts_hold_whole_series_and_together_the_whole_table(tmp_path, suffix, rows_a_part):
    rows = sorted(drawn(3, series=60))
    for place in range(0, len(rows), 50):  # a series may go on in the next file
        written(rows[place : place + 50], tmp_path / f"{place:04}{suffix}")
    whole = read_table(tmp_path, dtype="float64", gaps="channel")
    parts = list(table_parts(tmp_path, classes=LABELS, rows=rows_a_part, dtype="float64", gaps="channel"))
    assert {name: seen for part in parts for name, seen in in_words(part).items()} == in_words(whole)
    assert sum(len(part.ids) for part in parts) == len(whole.ids)
    sizes = [int(part.lengths.sum()) for part in parts]
    assert all(size >= rows_a_part for size in sizes[:-1])
    longest = int(whole.lengths.max())
    assert all(size < rows_a_part + longest for size in sizes)
    assert all(part.classes.tolist() == list(LABELS) for part in parts)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_a_csv_is_opened_once(tmp_path, monkeypatch, suffix):
    opened, parsed = [], []
    open_file, open_csv = sources.pa.OSFile, csv.open_csv
    monkeypatch.setattr(sources.pa, "OSFile", lambda path: (opened.append(Path(path)), open_file(path))[1])
    monkeypatch.setattr(
        sources.csv, "open_csv", lambda source, *options: (parsed.append(source), open_csv(source, *options))[1]
    )
    rows = drawn(0)
    for number, part in enumerate((rows[:40], rows[40:])):
        written(part, tmp_path / f"{number}{suffix}")
    same(read_table(tmp_path, dtype="float64"), rows)
    assert [path.name for path in opened] == [f"0{suffix}", f"1{suffix}"]
    assert not [source for source in parsed if isinstance(source, str | Path)]


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_one_file_a_day_comes_in_parts_of_whole_series(tmp_path, suffix):
    rows = sorted(drawn(3, series=60))
    for day in range(3):
        written([row for row in rows if row[1] % 3 == day], tmp_path / f"{day}{suffix}")
    whole = read_table(tmp_path, dtype="float64", gaps="channel", group=None)
    parts = list(table_parts(tmp_path, classes=LABELS, rows=20, dtype="float64", gaps="channel"))
    assert len(parts) > 5
    assert {name: seen for part in parts for name, seen in in_words(part).items()} == in_words(whole)


def test_a_file_may_go_on_with_an_earlier_time(tmp_path):
    later, earlier = (
        [("a", 5, "x", 5.0, 0.0), ("a", 6, "x", 6.0, 0.0)],
        [("a", 1, "x", 1.0, 0.0), ("b", 1, "y", 2.0, 0.0)],
    )
    written(later, tmp_path / "1.parquet")
    written(earlier, tmp_path / "2.parquet")
    same(read_table(tmp_path), later + earlier)
    parts = list(table_parts(tmp_path, classes=["x", "y"], rows=2))
    assert [part.observations[..., 0].tolist() for part in parts] == [[[1.0, 5.0, 6.0]], [[2.0]]]


def test_a_series_longer_than_a_part_stays_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_ROWS", 7)
    rows = [("a", t, "ant", 0.0, 0.0) for t in range(50)] + [("b", 0, "bee", 0.0, 0.0)]
    parts = list(table_parts(written(rows, tmp_path / "data.parquet"), classes=LABELS, rows=3))
    assert [part.lengths.tolist() for part in parts] == [[50], [1]]


def test_one_file_for_each_series_still_comes_in_parts(tmp_path):
    for n in range(300):
        written([(n, t, LABELS[n % 2], float(n), 0.0) for t in range(10)], tmp_path / f"{n:03}.parquet")
    parts = list(table_parts(tmp_path, classes=LABELS, rows=100))
    assert [len(part.ids) for part in parts] == [10] * 30
    assert np.concatenate([part.ids for part in parts]).tolist() == list(range(300))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_parts_of_a_large_table_need_little_memory(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(sources, "_ROWS", 2**13)
    monkeypatch.setattr(sources, "_BYTES", 2**16)  # pyarrow reads 32 of them ahead
    series, time = 4000, 100
    columns = {
        "series": np.repeat(np.arange(series), time),
        "time": np.tile(np.arange(time), series),
        "label": np.repeat(np.arange(series) % 2, time),
        "x": np.random.default_rng(0).normal(size=series * time).round(4),
        "z": np.zeros(series * time),
    }
    path, table = tmp_path / f"data{suffix}", pa.table(columns)
    if suffix == ".csv":
        csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=50_000)
    whole, seen, arrow = table.nbytes, 0, 0
    del table, columns
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    for part in table_parts(path, classes=[0, 1], rows=10_000):
        seen += len(part.ids)
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    numpy_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == series
    assert arrow < whole / 3
    assert numpy_peak < whole / 6


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_values_get_masks_in_the_order_of_time(tmp_path, suffix):
    rows = [("a", 2, "x", None, 2.0), ("a", 1, "x", 1.0, NAN), ("b", 1, "y", 3.0, 4.0)]
    table = read_table(written(rows, tmp_path / f"data{suffix}"), missing="mask", gaps="channel")
    assert table.observations.tolist() == [
        [[1, 0, 0, 1, 0, 1], [0, 2, 1, 0, 1, 1]],
        [[3, 4, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]],
    ]
    assert table.mask_channels == 3
    assert table.channels == ("u", "v", "gap")


def test_numbers_are_float32_unless_asked_otherwise(tmp_path):
    rows = [("a", 1, "x", 1e9 + 0.25, 1.0), ("b", 1, "y", 0.0, 1.0)]
    path = written(rows, tmp_path / "data.csv")
    assert read_table(path).observations.dtype == torch.float32
    assert read_table(path, dtype="float64").observations[0, 0, 0] == 1e9 + 0.25


def test_columns_of_every_type_of_number_are_read(tmp_path):
    columns = {
        "id": pa.array(["a", "b"]).dictionary_encode(),
        "t": pa.array([1, 1], pa.uint64()),
        "class": pa.array(["x", "y"], pa.large_string()),
        "bytes": pa.array([1, 255], pa.uint8()),
        "halves": pa.array(np.array([0.5, 2.0], np.float16)),
        "flags": [True, False],
        "money": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    assert table.channels == ("bytes", "halves", "flags", "money")
    assert table.observations[:, 0].tolist() == [[1.0, 0.5, 1.0, 1.0], [255.0, 2.0, 0.0, 2.0]]


def test_groups_come_with_their_series(tmp_path):
    (tmp_path / "data.csv").write_text("id,t,who,y,v\n3,1,ann,0,1.5\n3,2,ann,0,1.5\n1,1,bob,1,2.5\n")
    table = read_table(tmp_path / "data.csv", group="who")
    assert table.groups.tolist() == ["ann", "bob"]
    assert table.channels == ("v",)
    assert table.ids.tolist() == [3, 1]


def test_channels_are_read_in_the_order_asked_for(tmp_path):
    path = written(drawn(4), tmp_path / "data.parquet")
    swapped = read_table(path, channels=["v", "u"]).observations
    assert torch.equal(swapped, read_table(path).observations.flip(-1))


def test_what_pandas_leaves_of_its_index_is_no_channel(tmp_path):
    (tmp_path / "data.csv").write_text(",id,t,class,v\n0,a,1,x,1.5\n1,b,1,y,1.5\n")
    assert read_table(tmp_path / "data.csv").channels == ("v",)


def test_y_beside_x_is_a_channel(tmp_path):
    (tmp_path / "data.csv").write_text("id,t,label,x,y\na,1,up,1,2\nb,1,down,3,4\n")
    assert read_table(tmp_path / "data.csv").channels == ("x", "y")
    (tmp_path / "data.csv").write_text("id,t,x,y\na,1,1,2\nb,1,3,4\n")
    assert read_observations(tmp_path / "data.csv").channels == ("x", "y")
    assert read_table(tmp_path / "data.csv", label="y").channels == ("x",)


@pytest.mark.usefixtures("batches")
def test_unlabelled_data_are_the_same_numbers(tmp_path):
    rows = sorted(drawn(5))
    path = written(rows, tmp_path / "data.csv")
    known = read_table(path)
    found = read_observations(path)
    assert torch.equal(found.observations, known.observations)
    assert torch.equal(found.lengths, known.lengths)
    assert found.ids.tolist() == known.ids.tolist()
    assert found.channels == known.channels
    parts = list(observation_parts(path, rows=30))
    assert len(parts) > 3
    assert [name for part in parts for name in part.ids.tolist()] == known.ids.tolist()


def test_labels_may_be_missing_where_none_are_needed(tmp_path):
    (tmp_path / "data.csv").write_text("id,t,label,v\na,1,,1\n")
    assert read_observations(tmp_path / "data.csv").observations.tolist() == [[[1.0]]]


def test_what_is_hidden_in_a_folder_is_not_read(tmp_path):
    rows = [("a", 1, "x", 1.0, 2.0), ("b", 1, "y", 1.0, 2.0)]
    for name in ("data.csv", "_temporary/data.csv", ".checkpoints/data.csv", ".data.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        written(rows, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no table")
    same(read_table(tmp_path), rows)


def test_a_pattern_names_some_of_the_files(tmp_path):
    for name in ("one-a", "one-b", "two"):
        written([(name, 1, "x", 1.0, 2.0), (f"{name}'", 1, "y", 1.0, 2.0)], tmp_path / f"{name}.csv")
    assert read_table(tmp_path / "one-*.csv").ids.tolist() == ["one-a", "one-a'", "one-b", "one-b'"]


def test_empty_parquet_files_among_others_are_passed_over(tmp_path):
    rows = [("a", 1, "x", 1.0, 2.0), ("b", 1, "y", 1.0, 2.0)]
    written(rows, tmp_path / "1.parquet")
    pq.write_table(frame(rows)[:0], tmp_path / "0.parquet")
    same(read_table(tmp_path), rows)


def test_given_classes_are_kept_and_text_is_compared_as_they_are(tmp_path):
    path = written([("a", 1, 7, 1.0, 2.0), ("b", 1, 8, 1.0, 2.0)], tmp_path / "data.csv")
    assert read_table(path, classes=[9, 8, 7]).labels.tolist() == [2, 1]
    assert read_table(path, classes=["7", "8"]).labels.tolist() == [0, 1]
    assert read_table(path, classes=np.array(["8", "7"], dtype=object)).labels.tolist() == [1, 0]


HEAD = "series,time,label,u,v\n"
GOOD = "a,1,x,1,2\nb,1,y,3,4\n"
MANY = "".join(f"a,{t},x,1,2\n" for t in range(100_000))

MESSAGES = {
    "no such file": (
        lambda: read_table("nothing.csv"),
        "`nothing.csv` must be a table, got nothing there. Check the name and the current folder.",
    ),
    "another suffix": (
        lambda: read_table(_text("data.xls", HEAD + GOOD)),
        "`data.xls` must be a table, got a file '.xls'. A table ends in one of .parquet, .pq, .csv, .csv.gz, .tsv, .tsv.gz.",
    ),
    "a folder without tables": (
        lambda: read_table(_folder("empty")),
        "`empty` must be a table, got a folder without one. A table ends in one of .parquet, .pq, .csv, .csv.gz, .tsv, "
        ".tsv.gz.",
    ),
    "a folder of two kinds": (
        lambda: read_table(_folder("both", {"a.csv": b"x", "b.parquet": b"x"})),
        "`both` must be tables of one file type, got Parquet and CSV. Name one file type: *.parquet or *.csv.",
    ),
    "no bytes": (
        lambda: read_table(_text("data.csv", "")),
        "`data.csv` must be a table, got an empty file. Check the program that wrote this file.",
    ),
    "no bytes in Parquet": (
        lambda: read_table(_text("data.parquet", "")),
        "`data.parquet` must be a table, got an empty file. Check the program that wrote this file.",
    ),
    "names alone": (
        lambda: read_table(_text("data.csv", HEAD)),
        "`data.csv` must be a table with at least 1 row, got none. Check the program that wrote this file.",
    ),
    "names alone, without an end of line": (
        lambda: read_table(_text("data.csv", HEAD.strip())),
        "`data.csv` must be a table with at least 1 row, got none. Check the program that wrote this file.",
    ),
    "names alone, in parts": (
        lambda: list(table_parts(_text("data.csv", HEAD), classes=["x", "y"])),
        "`data.csv` must be a table with at least 1 row, got none. Check the program that wrote this file.",
    ),
    "nothing but empty lines": (
        lambda: read_table(_text("data.csv", "\n\n")),
        "`data.csv` must be a table with at least 1 row, got none. Check the program that wrote this file.",
    ),
    "no rows in Parquet": (
        lambda: read_table(_parquet("data.parquet", frame([("a", 1, "x", 1.0, 2.0)])[:0])),
        "`data.parquet` must be a table with at least 1 row, got none. Check the program that wrote this file.",
    ),
    "no Parquet": (
        lambda: read_table(_text("data.parquet", "PAR1 and so on")),
        "`data.parquet` must be a readable Parquet file, got Parquet magic bytes not found in footer. Either the file is "
        "corrupted or this is not a parquet file. Check the program that wrote this file.",
    ),
    "no gzip": (
        lambda: read_table(_text("data.csv.gz", HEAD + GOOD)),
        "`data.csv.gz` must be a readable CSV file, got zlib inflate failed: incorrect header check. "
        "Check the program that wrote this file.",
    ),
    "another encoding of the names": (
        lambda: read_table(_bytes("data.csv", (HEAD.replace("v", "\xe9") + GOOD).encode("latin-1"))),
        "`data.csv` must be text in UTF-8, got other bytes. Save it as UTF-8.",
    ),
    "an id that ends in nothing": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "a\0,2,x,1,2\n")),
        "`data.csv` must be a table with a name in every row of column 'series', got 'a\\x00' at row 3. "
        "Give every row the ID of its series.",
    ),
    "another encoding": (
        lambda: read_table(_bytes("data.csv", (HEAD + "a,1,\xe9t\xe9,1,2\n").encode("latin-1"))),
        "`data.csv` must be text in UTF-8, got other bytes. Save it as UTF-8.",
    ),
    "none of the names": (
        lambda: read_table(_text("data.csv", "a,b\n1,2\n")),
        "`series`, `time`, `label` must be columns of data.csv, got none called 'series', 'series_id', 'id'; "
        "none called 'time', 't', 'timestamp'; none called 'label', 'class', 'target', 'y'. "
        "It has the columns 'a', 'b': name them by series=, time=, label=.",
    ),
    "names that are not there": (
        lambda: read_table(
            _text("data.csv", HEAD + GOOD), series="a", group="who", channels=["v", "w", "z"], ignore=["note"]
        ),
        "`series`, `group`, `channels`, `ignore` must be columns of data.csv, got 'a'; 'who'; 'w', 'z'; 'note'. "
        "It has the columns 'series', 'time', 'label', 'u', 'v'.",
    ),
    "a column to ignore that is not there": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), ignore=["note"]),
        "`ignore` must be columns of data.csv, got 'note'. It has the columns 'series', 'time', 'label', 'u', 'v'.",
    ),
    "a column to read and to ignore": (
        lambda: Columns(label="state", ignore=["state"]),
        "`label`, `ignore` must be different columns, got 'state' twice. "
        "A column is one of series, time, label, group or channel, or it is not read.",
    ),
    "a name for columns to ignore": (
        lambda: Columns(ignore="u"),
        "`ignore` must be names of columns, got 'u'. Give a list of names, for example ignore=[\"note\"].",
    ),
    "y beside x": (
        lambda: read_table(_text("data.csv", "id,t,x,y\n1,2,3,4\n")),
        "`label` must be a column of data.csv, got none called 'label', 'class', 'target'. "
        "It has the columns 'id', 't', 'x', 'y': name one by label=.",
    ),
    "two names that would do": (
        lambda: read_table(_text("data.csv", "id,t,class,target,v\n1,2,3,4,5\n")),
        "`label` must be a column of data.csv, got 'class' and 'target'. "
        "It has the columns 'id', 't', 'class', 'target', 'v': name one by label=.",
    ),
    "a name that is not there": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), group="who"),
        "`group` must be a column of data.csv, got 'who'. It has the columns 'series', 'time', 'label', 'u', 'v'.",
    ),
    "a channel that is not there": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), channels=["u", "w"]),
        "`channels` must be columns of data.csv, got 'w'. It has the columns 'series', 'time', 'label', 'u', 'v'.",
    ),
    "a very wide table": (
        lambda: read_table(_text("data.csv", ",".join(f"c{n}" for n in range(25)) + "\n" + "1," * 24 + "1\n")),
        "`series`, `time`, `label` must be columns of data.csv, got none called 'series', 'series_id', 'id'; "
        "none called 'time', 't', 'timestamp'; none called 'label', 'class', 'target', 'y'. It has the columns "
        + ", ".join(f"'c{n}'" for n in range(20))
        + " and 5 more: name them by series=, time=, label=.",
    ),
    "no channels": (
        lambda: read_table(_text("data.csv", "series,time,label\na,1,x\n")),
        "`channels` must be at least 1 other column of data.csv, got none. It has the columns 'series', 'time', 'label'.",
    ),
    "the time as a channel": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), channels=["time", "u"]),
        "`channels` must be other columns than series, time, label and group, got 'time'. "
        'The time since the observation before is a channel with gaps="channel".',
    ),
    "a name for channels": (
        lambda: Columns(channels="u"),
        '`channels` must be names of columns, got \'u\'. Give a list of names, for example channels=["x", "y"].',
    ),
    "a column twice": (
        lambda: Columns(series="id", group="id"),
        "`series`, `group` must be different columns, got 'id' twice. A column is one of series, time, label, group or channel, "
        "or it is not read.",
    ),
    "two columns of one name": (
        lambda: read_table(_text("data.csv", "series,time,label,u,u\na,1,x,1,2\n")),
        "`data.csv` must be a table whose columns have different names, got 'u' twice. Rename one of them.",
    ),
    "text in a column": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,y,much,4\n")),
        "`channels` must be columns of numbers in data.csv, got text ('much' at row 3) in 'u'. "
        "Leave it out by ignore=, or name its role: series=, time=, label= or group=.",
    ),
    "text in a column of Parquet": (
        lambda: read_table(_parquet("data.parquet", frame([("a", 1, "x", "1.0", 2.0)]))),
        "`channels` must be columns of numbers in data.parquet, got text in 'u'. "
        "Leave it out by ignore=, or name its role: series=, time=, label= or group=.",
    ),
    "text far down": (
        lambda: read_table(_text("data.csv", HEAD + MANY + "b,1,y,3,NA\nb,2,y,3,much\n")),
        "`data.csv` must be a table of numbers in column 'v', got 'much' at row 100002. "
        "Check that row, or leave this column out.",
    ),
    "a row too short": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,y,3\n")),
        "`data.csv` must be a table of 5 cells a row, got 4 at row 3. Check that line for a missing or extra separator.",
    ),
    "a row too long, far down": (
        lambda: read_table(_text("data.csv", HEAD + MANY + "b,1,y,3,4,5\n")),
        "`data.csv` must be a table of 5 cells a row, got 6 at row 100001. "
        "Check that line for a missing or extra separator.",
    ),
    "a missing value": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,y,3,\n")),
        "`data.csv` must be a table of finite numbers in column 'v', got nothing at row 3 (series 'b', time 2). "
        'Fill missing values in, or pass missing="mask".',
    ),
    "a missing value at a timestamp": (
        lambda: read_table(_parquet("data.parquet", frame([("a", DAY, "x", 1.0, NAN)]))),
        "`data.parquet` must be a table of finite numbers in column 'v', got nan at row 1 (series 'a', time 2026-11-15T12:00). "
        'Fill missing values in, or pass missing="mask".',
    ),
    "infinity": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,y,-inf,\n"), missing="mask"),
        "`data.csv` must be a table of finite numbers in column 'u', got -inf at row 3 (series 'b', time 2). "
        "An infinite value is not a missing value: check it.",
    ),
    "more than float32 holds": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,y,1e39,4\n")),
        "`data.csv` must be a table of finite numbers in column 'u', got 1e+39 at row 3 (series 'b', time 2). "
        'float32 ends at 3.4e38: pass dtype="float64".',
    ),
    "a time that comes twice": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "a,2,x,1,2\na,1,x,1,2\n")),
        "`data.csv` must be a table with one row for each series and 'time', got time 1 of series 'a' again at row 4. "
        "Drop one of the rows, or average them.",
    ),
    "a time that comes twice in another file": (
        lambda: read_table(_folder("two", {"1.csv": (HEAD + GOOD).encode(), "2.csv": (HEAD + GOOD).encode()})),
        "`two/2.csv` must be a table with one row for each series and 'time', got time 1 of series 'a' again at row 1. "
        "Drop one of the rows, or average them.",
    ),
    "a row without a time": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,,y,1,2\n")),
        "`data.csv` must be a table with numbers or timestamps in column 'time', got nothing at row 3. Write numbers, or "
        "timestamps like 2026-11-15 23:59:59, all with a time zone or all without.",
    ),
    "a row without a time in Parquet": (
        lambda: read_table(_parquet("data.parquet", frame([("a", 1, "x", 1.0, 1.0), ("a", None, "x", 1.0, 1.0)]))),
        "`data.parquet` must be a table with a time in every row of column 'time', got nothing at row 2. Drop the row.",
    ),
    "a time that is no number": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,nan,y,1,2\n")),
        "`data.csv` must be a table with a time in every row of column 'time', got nan at row 3. Drop the row.",
    ),
    "a date among numbers": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2026-11-15,y,1,2\n")),
        "`data.csv` must be a table with numbers or timestamps in column 'time', got '2026-11-15' at row 3. Write numbers, "
        "or timestamps like 2026-11-15 23:59:59, all with a time zone or all without.",
    ),
    "yes and no for times": (
        lambda: read_table(_parquet("data.parquet", frame([("a", True, "x", 1.0, 1.0)]))),
        "`data.parquet` must be a table with numbers or timestamps in column 'time', got bool. Turn it into one of them.",
    ),
    "a date that nanoseconds cannot count": (
        lambda: read_table(_parquet("data.parquet", frame([("a", datetime.date(1492, 1, 1), "x", 1.0, 1.0)]))),
        "`data.parquet` must be a table of the years 1678..2261 in column 'time', got others from row 1 on. "
        "Times are counted in nanoseconds from 1970; count them in another unit, as whole numbers.",
    ),
    "numbers in one file and timestamps in another": (
        lambda: read_table(
            _folder("two", {"1.csv": (HEAD + GOOD).encode(), "2.csv": f"{HEAD}c,2026-11-15,x,1,2".encode()})
        ),
        "`two/2.csv` must be a table with numbers in column 'time' as in the rows before, got timestamps from row 1 on. "
        "Write all times alike.",
    ),
    "ids of two types": (
        lambda: read_table(_two_parquet([("a", 1, "x", 1.0, 1.0)], [(1, 1, "y", 1.0, 1.0)])),
        "`two/2.parquet` must be a table with text in column 'series' as in two/1.parquet, got int64. "
        "Write all files alike.",
    ),
    "labels of two types": (
        lambda: read_table(_two_parquet([("a", 1, 1, 1.0, 1.0)], [("b", 1, 1.5, 1.0, 1.0)])),
        "`two/2.parquet` must be a table with int64 in column 'label' as in two/1.parquet, got double. "
        "Write all files alike.",
    ),
    "other columns in another file": (
        lambda: read_table(
            _folder("two", {"1.csv": (HEAD + GOOD).encode(), "2.csv": b"series,time,label,u\nc,1,x,1\n"})
        ),
        "`two/2.csv` must be a table of the same columns as two/1.csv, ['series', 'time', 'label', 'u', 'v'], got "
        "['series', 'time', 'label', 'u']. Name the columns that all files have.",
    ),
    "a row without a series": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + ",2,y,1,2\n")),
        "`data.csv` must be a table with a name in every row of column 'series', got nothing at row 3. "
        "Give every row the ID of its series.",
    ),
    "ids that are no names": (
        lambda: read_table(_parquet("data.parquet", frame([(DAY.date(), 1, "x", 1.0, 1.0)]))),
        "`data.parquet` must be a table with text or whole numbers in column 'series', got date32[day]. Turn it into text.",
    ),
    "a row without a label": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,,1,2\n")),
        "`data.csv` must be a table with a name in every row of column 'label', got nothing at row 3. "
        "Name it in every row, or drop the series.",
    ),
    "a label that is nan": (
        lambda: read_table(_parquet("data.parquet", frame([("a", 1, 1.0, 1.0, 1.0), ("a", 2, NAN, 1.0, 1.0)]))),
        "`data.parquet` must be a table with a name in every row of column 'label', got nan at row 2. "
        "Name it in every row, or drop the series.",
    ),
    "no labels at all": (
        lambda: read_table(_parquet("data.parquet", frame([("a", 1, None, 1.0, 1.0)]))),
        "`data.parquet` must be a table with a name in every row of column 'label', got nothing at row 1. "
        "Name it in every row, or drop the series.",
    ),
    "a label that changes": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "b,2,x,1,2\n")),
        "`data.csv` must be a table with one name for each series in column 'label', got 'x' after 'y' in series 'b' "
        "at row 3. Check that row; all rows of a series must agree.",
    ),
    "a label that changes further down": (
        lambda: read_table(_text("data.csv", HEAD + GOOD + "a,2,y,1,2\n")),
        "`data.csv` must be a table with one name for each series in column 'label', got 'y' after 'x' in series 'a' "
        "at row 3. Check that row; all rows of a series must agree.",
    ),
    "one class": (
        lambda: read_table(_text("data.csv", HEAD + "a,1,x,1,2\nb,1,x,1,2\n")),
        "`data.csv` must be a table of at least 2 classes in column 'label', got only 'x'. "
        "With one class there is nothing to decide.",
    ),
    "a class that is not among those given": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), classes=["x", "z"]),
        "`data.csv` must be a table of the classes ['x', 'z'] in column 'label', got 'y' at row 2. "
        "Drop the series, or add it to the classes.",
    ),
    "a class that is no number, among numbers": (
        lambda: read_table(_text("data.csv", HEAD + "a,1,0,1,2\nb,1,x,1,2\n"), classes=[0, 1]),
        "`data.csv` must be a table of the classes [0, 1] in column 'label', got 'x' at row 2. "
        "Drop the series, or add it to the classes.",
    ),
    "parts of nothing": (
        lambda: table_parts(_text("data.csv", HEAD + GOOD), classes=["x", "y"], rows=0),
        "`rows` must be at least 1, got 0.0. It is the minimum number of rows in a chunk.",
    ),
    "a channel that is called gap": (
        lambda: read_table(_text("data.csv", "series,time,label,gap\na,1,x,1\n"), gaps="channel"),
        "`channels` must be without a 'gap', got one in data.csv. It is the name of what gaps=\"channel\" adds: rename the "
        "column, or leave it out by ignore=.",
    ),
    "a channel that is called gap, for a model that would take it for gaps": (
        lambda: read_table(_text("data.csv", "series,time,label,gap\na,1,x,1\n")),
        "`channels` must be without a 'gap', got one in data.csv. It is the name of what gaps=\"channel\" adds: rename the "
        "column, or leave it out by ignore=.",
    ),
    "another word for gaps": (
        lambda: read_table(_text("data.csv", HEAD + GOOD), gaps="channels"),
        "`gaps` must be one of 'channel', 'none', got 'channels'. Did you mean 'channel'?",
    ),
}


def _bytes(name, content):
    Path(name).write_bytes(content)
    return name


def _text(name, content):
    return _bytes(name, content.encode())


def _parquet(name, table):
    pq.write_table(table, name)
    return name


def _folder(name, files=None):
    Path(name).mkdir()
    for file, content in (files or {}).items():
        _bytes(f"{name}/{file}", content)
    return name


def _two_parquet(one, other):
    folder = _folder("two")
    _parquet(f"{folder}/1.parquet", frame(one))
    _parquet(f"{folder}/2.parquet", frame(other))
    return folder


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_damaged_parquet_is_refused_by_name(tmp_path):
    path = written([(n, 1, "xy"[n % 2], float(n), 0.0) for n in range(5000)], tmp_path / "data.parquet")
    content = bytearray(path.read_bytes())
    content[40:20_000] = bytes(19_960)
    path.write_bytes(content)
    with pytest.raises(
        InvalidArgument,
        match=r"data.parquet` must be a readable Parquet file, got .*Check the program that wrote this file",
    ):
        read_table(path)


def test_what_does_not_fit_into_memory_is_said(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise MemoryError

    def full_tensor(*_arguments, **_options):
        raise RuntimeError("not enough memory")

    monkeypatch.chdir(tmp_path)
    path = _text("data.csv", HEAD + GOOD + "b,2,y,1,2\n")
    with monkeypatch.context() as patched:
        patched.setattr(np, "empty", full)
        with pytest.raises(InvalidArgument) as caught:
            read_table(path)
    assert str(caught.value) == (
        "`data.csv` must be a table that fits into memory, got 3 rows. Read it in chunks: `table_parts`."
    )
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "new_zeros", full_tensor)
        with pytest.raises(InvalidArgument) as caught:
            read_table(path)
    assert str(caught.value) == (
        "`data.csv` must be a table that fits into memory, got 2 series, the longest of 2 rows. "
        "All are padded to the longest: cut it, or read the table in chunks."
    )


def test_gaps_are_right_between_the_ends_of_time(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"series,time,label,u\na,{-(2**63)},x,1\na,{2**63 - 1},x,1\nb,-5,y,1\nb,7,y,1\n")
    gaps = read_table(path, gaps="channel", dtype="float64").observations[..., 1]
    assert gaps.tolist() == [[0.0, 2.0**64], [0.0, 12.0]]


def test_a_footer_that_counts_other_rows_than_there_are_is_refused(tmp_path, monkeypatch):
    path = written([("a", 1, "x", 1.0, 2.0), ("b", 1, "y", 3.0, 4.0)], tmp_path / "data.parquet")
    groups = SimpleNamespace(total_byte_size=100)
    footer = SimpleNamespace(num_row_groups=1, row_group=lambda _place: groups, schema=pq.read_metadata(path).schema)
    monkeypatch.setattr(sources, "_footer", lambda _path: footer)
    opened = pq.ParquetFile
    monkeypatch.setattr(sources.pq, "ParquetFile", lambda path, **_options: opened(path))
    groups.num_rows = -1
    with pytest.raises(InvalidArgument, match="must be a Parquet file of row groups with rows, got one of -1"):
        read_table(path)
    for count in (1, 3):
        groups.num_rows = count
        with pytest.raises(
            InvalidArgument, match=f"must be a Parquet file of {count} rows, as its footer says, got another"
        ):
            read_table(path)


def test_no_page_of_a_small_row_group_can_claim_more_memory_than_the_group_has(tmp_path, monkeypatch):
    """A buffered stream believes the size that a damaged page states, up to 2 GB."""
    path = written([("a", 1, "x", 1.0, 2.0), ("b", 1, "y", 3.0, 4.0)], tmp_path / "data.parquet")
    seen, opened = [], pq.ParquetFile
    monkeypatch.setattr(sources.pq, "ParquetFile", lambda *a, **o: (seen.append(o["buffer_size"]), opened(*a, **o))[1])
    read_table(path)
    monkeypatch.setattr(sources, "_LARGE", 0)
    read_table(path)
    assert seen == [0, sources._BUFFER]
