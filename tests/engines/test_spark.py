"""The engine in a real session of Spark: what it refuses, timers, restarts. `test_same_decisions` has its decisions."""

import json
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

import sooner
from engines.many_series import task_in
from engines.sparking import MISSING, session
from sooner.cli import main
from sooner.errors import InvalidArgument, SoonerError

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings(
        "ignore:PySpark does not yet fully support pandas"
    ),  # of what the tests use beside the engine
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]
SCHEMA = "series string, time long, hum double, flow double"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_in(tmp_path_factory.mktemp("task"), 20)


@pytest.fixture(scope="module")
def clf(task):
    return sooner.load(task.model_file)


@pytest.fixture(scope="module")
def spark():
    return session()


def live(spark, folder):
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(SCHEMA).json(str(folder))


def write(folder, number, *records):
    lines = "".join(
        json.dumps(dict(zip(("series", "time", "hum", "flow"), each, strict=True))) + "\n" for each in records
    )
    (folder / f"{number}.jsonl").write_text(lines)


def run(decided, folder):
    """Decide what is there, and stop; the decisions of this run."""
    found = []
    writer = decided.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(lambda batch, _: found.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination()
    return found


def test_what_cannot_be_decided_is_refused_before_a_query_starts(spark, clf, tmp_path):
    from sooner.engines.spark import decide, decide_stream

    stored, stream = spark.createDataFrame([("a", 0, 1.0, 2.0)], SCHEMA), live(spark, tmp_path / "in")
    cases = [
        (
            lambda: decide_stream(stored, clf),
            "`df` must be a streaming DataFrame, got a static one. Use `decide` for that.",
        ),
        (
            lambda: decide(stream, clf),
            "`df` must be a static DataFrame, got a streaming one. Use `decide_stream` for that.",
        ),
        (lambda: decide([1], clf), "`df` must be a static DataFrame of Spark, got a list. Read one with spark.read"),
        (
            lambda: decide_stream(stream, clf, series="pump"),
            "`series` must be the name of a column of the DataFrame, got 'pump'. It has 'series', 'time', 'hum', 'flow'.",
        ),
        (
            lambda: decide_stream(stream, clf, time="gone"),
            "`time` must be the name of a column of the DataFrame, got 'gone'.",
        ),
        (
            lambda: decide_stream(stream.drop("flow"), clf),
            "`channels` must be the name of a column of the DataFrame, got 'flow'.",
        ),
        (
            lambda: decide_stream(stream.withColumn("hum", stream.hum.cast("string")), clf),
            "`channels` must be a column of numbers, got string in 'hum'. Cast it first.",
        ),
        (lambda: decide_stream(stream, clf, channels=["hum"]), "`channels` must be 2 columns of numbers, got ['hum']."),
        (lambda: decide_stream(stream, clf, shards=0), "`shards` must be at least 1, got 0."),
        (lambda: decide_stream(stream, clf, idle="soon"), "`idle` must be a duration, got 'soon'."),
        (lambda: decide_stream(stream, clf, deadline=0), "`deadline` must be at least 1, got 0."),
        (lambda: decide_stream(stream, clf, bad_rows="drop"), "`bad_rows` must be one of 'keep', 'stop', got 'drop'."),
    ]
    for call, sentence in cases:
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert sentence in str(caught.value)


def test_arrays_timestamps_and_whole_ids_keep_their_types(spark, clf):
    from sooner.engines.spark import decide

    rows = [
        (7, "2026-11-19 10:00:00.25", [1.0, 2.0]),
        (7, "2026-11-19 10:00:01", [1.0, 2.0]),
        (8, "2026-11-19 10:00:00", [0.0, 9.0]),
    ]
    df = spark.createDataFrame(rows, "pump long, at string, x array<double>").selectExpr(
        "pump", "cast(at as timestamp) at", "x"
    )
    found = {row.series: row for row in decide(df, clf, series="pump", time="at", channels=["x"], deadline=2).collect()}
    assert set(found) == {7, 8}
    assert str(found[7].at) in ("2026-11-19 10:00:01", "2026-11-19 10:00:00.250000")
    assert found[7].at is not None


def test_a_query_continues_with_another_threshold_and_not_with_other_shards_or_another_model(spark, clf, tmp_path):
    from sooner.engines.spark import decide_stream, reason

    stream = live(spark, tmp_path / "in")
    write(tmp_path / "in", 0, *((f"s{n}", 0, 5.0, 5.0) for n in range(20)))
    assert run(decide_stream(stream, clf, shards=4, deadline=3), tmp_path) == []
    write(tmp_path / "in", 1, *((f"s{n}", 1, 5.0, 5.0) for n in range(20)))
    with pytest.raises(Exception, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE") as caught:
        run(decide_stream(stream, clf, shards=8, deadline=3), tmp_path)
    assert str(reason(caught.value)) == (
        "`shards` must be 4, as in the checkpoint, got 8. An ID would lose its state: name another checkpoint to begin anew."
    )
    other = sooner.load(task_in(tmp_path, 20).model_file)
    other.model_.load_state_dict({name: value + 1 for name, value in other.model_.state_dict().items()})
    with pytest.raises(Exception, match=r"sooner\.errors") as caught:
        run(decide_stream(stream, other, shards=4, deadline=3), tmp_path)
    assert isinstance(reason(caught.value), SoonerError)
    assert str(reason(caught.value)).startswith("`state` must be of this model and these classes, got one of others.")
    changed = sooner.load(tmp_path / "waves.sooner")
    with pytest.warns(UserWarning, match="near chance"):
        changed.threshold = 0.0
    found = run(decide_stream(stream, changed, shards=4, deadline=3), tmp_path)
    assert sorted(row.series for row in found) == sorted(f"s{n}" for n in range(20))
    assert {(row.time, row.crossed) for row in found} == {(2, True)}


def test_silence_ends_series_when_nothing_more_arrives(spark, clf, tmp_path):
    from sooner.engines.spark import decide_stream

    stream = live(spark, tmp_path / "in")
    write(tmp_path / "in", 0, ("a", 0, 5.0, 5.0), ("b", 0, 5.0, 5.0))
    found = []
    writer = decide_stream(stream, clf, shards=2, idle="3s").writeStream
    query = (
        writer.option("checkpointLocation", str(tmp_path / "c"))
        .foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .start()
    )
    try:
        until = time.time() + 90
        while len(found) < 2 and time.time() < until:
            time.sleep(0.1)
    finally:
        query.stop()
    assert sorted((row.series, row.time, row.ended) for row in found) == [("a", 1, "idle"), ("b", 1, "idle")]


def test_the_command_continues_where_it_stopped_and_names_its_mistakes(task, tmp_path, monkeypatch, capsys):
    session()
    rows = pq.read_table(task.table).to_pylist()
    source, sink = tmp_path / "in", tmp_path / "out"
    words = [
        "stream",
        task.model_file,
        "--engine",
        "spark",
        "--source",
        source,
        "--sink",
        sink,
        "--once",
        "--deadline",
        30,
    ]
    assert said(words, monkeypatch, capsys, code=2).startswith("error: `--source` must be a folder of files")
    source.mkdir()
    for part in range(2):
        lines = [json.dumps(row) for row in rows if row["time"] // 15 == part] + ["{broken"] * part
        (source / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
        told = said([*words, "--shards", 4, "--bad-lines", "skip"], monkeypatch, capsys)
        assert "decisions were written" in told
    assert "1 lines were skipped" in told
    found = [json.loads(line) for path in sink.glob("decisions-*") for line in path.read_text().splitlines()]
    assert {each["series"]: (each["label"], each["time"], each["crossed"]) for each in found} == task.decided
    assert len(found) == 20
    assert sorted(path.name for path in sink.glob("refused-*")) == ["refused-000000001.jsonl"]
    assert "`--shards` must be 4, as when" in said([*words, "--shards", 5], monkeypatch, capsys, code=2)
    assert "`--sink` must be a folder outside of the source" in said(
        [*words, "--sink", source / "x"], monkeypatch, capsys, code=2
    )
    stopped = said([*words, "--shards", 4, "--sink", tmp_path / "stop"], monkeypatch, capsys, code=2)
    assert "Spark could not read it with the types of its columns." in stopped


def said(words, monkeypatch, capsys, code=0):
    monkeypatch.setattr(sys, "argv", ["sooner", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code or 0) == code
    return " ".join(capsys.readouterr().err.split())


def test_the_same_rows_in_another_order_are_decided_alike(spark, clf, task):
    from sooner.engines.spark import decide

    table = pq.read_table(task.table)
    mixed = table.take(np.random.default_rng(0).permutation(len(table)))
    rows = [tuple(row.values()) for row in mixed.to_pylist()]
    found = decide(spark.createDataFrame(rows, SCHEMA), clf, shards=3).collect()
    assert {row.series: (row.label, row.time, row.crossed) for row in found} == task.decided
