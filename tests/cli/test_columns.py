"""Which columns of a table a model learns from, and what `sooner stream` makes of the same table."""

import csv
import json
from datetime import datetime, timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest

import sooner
from command import run, said_of_error
from waves import waves

HEADER = ["id", "timestamp", "hum", "flow", "serial", "note", "class"]
ROLES = ["--ignore", "note, serial", "--gaps", "channel"]


def write_irregular(path, series, seed):
    """Rows of all series in the order of time, irregular; `serial` gives the class away, and `note` is text."""
    x, y = waves(series, time=16, seed=seed)
    random = np.random.default_rng(seed)
    start = datetime(2026, 11, 15)
    times = np.cumsum(random.exponential(20.0, (series, x.shape[2])), axis=1)
    rows = [
        [f"p{i}", start + timedelta(seconds=times[i, t]), *x[i, :, t], ord(y[i][0]), "as usual", y[i]]
        for i in range(series)
        for t in range(x.shape[2])
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *sorted(rows, key=lambda row: row[1])])
    return rows


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_irregular(folder / "pumps.csv", 36, 1)
    said = run("train", folder / "pumps.csv", *ROLES, "--out", folder / "m.sooner", "--json")
    (folder / "said.json").write_text(said)
    write_irregular(folder / "new.csv", 36, 2)
    return folder


def decided(lines):
    records = map(json.loads, lines.splitlines())
    return {record["series"]: (record["label"], record["time"], record["crossed"]) for record in records}


@pytest.fixture(scope="module")
def stored(home):
    """What a batch decides about the new table; its rows lie together there."""
    rows = (home / "new.csv").read_text().splitlines()
    (home / "sorted.csv").write_text("\n".join([rows[0], *sorted(rows[1:])]))
    run("score", home / "m.sooner", home / "sorted.csv", home / "decided.parquet", "--quiet")
    return {
        row["id"]: (row["label"], row["time"], row["crossed"])
        for row in pq.read_table(home / "decided.parquet").to_pylist()
    }


def test_training_names_its_channels_classes_and_groups(home):
    said = json.loads((home / "said.json").read_text())
    assert said["channels"] == ["hum", "flow", "gap"]
    assert said["classes"] == ["calm", "fast", "slow"]
    assert said["groups"] is None
    assert sooner.load(home / "m.sooner").columns_.channels == ("hum", "flow", "gap")


def test_training_says_which_columns_became_channels_unasked(home, tmp_path, monkeypatch, capsys):
    words = ["train", home / "pumps.csv", "--ignore", "note", "--group", "id", "--out", tmp_path / "leaky.sooner"]
    code, said = said_of_error(monkeypatch, capsys, *words)
    assert code == 0
    assert "Channels: hum, flow, serial (all other columns; --ignore leaves some out)" in said
    assert "Classes: calm (12), fast (12), slow (12)" in said
    assert "Groups: 36 of id" in said


def test_the_same_table_is_read_again_without_naming_what_was_ignored(home, stored, tmp_path):
    model = tmp_path / "m.sooner"
    model.write_bytes((home / "m.sooner").read_bytes())
    for verb in (["evaluate", "--out", tmp_path], ["threshold", "--max-mean-time", "9"]):
        found = json.loads(run(verb[0], model, home / "new.csv", *verb[1:], "--json"))
        assert found["series"] == 36
    assert len(stored) == 36


def test_a_stream_counts_gaps_as_a_batch_does(home, stored):
    text = (home / "new.csv").read_text()
    assert decided(run("stream", home / "m.sooner", "--format", "csv", stdin=text)) == stored
    rows = csv.DictReader(text.splitlines())
    kept = [
        {"id": row["id"], "timestamp": row["timestamp"], "hum": float(row["hum"]), "flow": float(row["flow"])}
        for row in rows
    ]
    lines = "\n".join(map(json.dumps, kept))
    assert decided(run("stream", home / "m.sooner", stdin=lines)) == stored
    assert len({time for _, time, _ in stored.values()}) > 1
    # The gaps matter: the same rows, one second apart, are decided otherwise.
    seen = dict.fromkeys((row["id"] for row in kept), 0)
    for row in kept:
        seen[row["id"]] += 1
        row["timestamp"] = seen[row["id"]]
    assert decided(run("stream", home / "m.sooner", stdin="\n".join(map(json.dumps, kept)))) != stored


def test_a_column_that_is_not_there_cannot_be_ignored(home, tmp_path, monkeypatch, capsys):
    words = ["train", home / "pumps.csv", "--ignore", "nope,note", "--ignore", "serial", "--out", tmp_path / "m.sooner"]
    code, said = said_of_error(monkeypatch, capsys, *words)
    assert code == 2
    assert said.endswith(f"got 'nope'. It has the columns {', '.join(map(repr, HEADER))}.")
    code, said = said_of_error(monkeypatch, capsys, "train", home / "pumps.csv", "--ignore", "class")
    assert "got none called 'label', 'class', 'target', 'y'" in said


def test_all_missing_columns_are_named_at_once(home, tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("pump,minute,hum,state\np,1,2.0,x\n")
    code, said = said_of_error(monkeypatch, capsys, "train", tmp_path / "t.csv")
    assert code == 2
    for name in ("'series', 'series_id', 'id'", "'time', 't', 'timestamp'", "'label', 'class', 'target', 'y'"):
        assert name in said
    (tmp_path / "u.csv").write_text("id,timestamp,class\np,1,x\n")
    code, said = said_of_error(monkeypatch, capsys, "evaluate", home / "m.sooner", tmp_path / "u.csv")
    assert "'hum', 'flow'" in said
