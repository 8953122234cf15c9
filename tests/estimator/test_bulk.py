"""Scoring a stored table: one row for each series, the same that `decide` gives, in little memory."""

import itertools
import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sooner
from sooner import EarlyClassifier
from sooner.cli import app, main
from sooner.data import Columns, Series
from sooner.data.tables import files as sources
from sooner.errors import FilesFailed, InvalidArgument, UnknownName
from sooner.estimator.bulk import Summary, score_table
from sooner.rules import FixedTime, Patience
from sooner.scores import margin
from waves import unequal, waves

COLUMNS = Columns(series="pump", time="at", channels=("hum", "flow"))


def frame(cases, ids=lambda n: f"p{n:04}", first=0):
    """A long table of series in aeon's layout."""
    sizes = [case.shape[1] for case in cases]
    return pa.table(
        {
            "pump": [ids(first + n) for n, size in enumerate(sizes) for _ in range(size)],
            "at": np.concatenate([np.arange(size) for size in sizes]),
            "hum": np.concatenate([case[0] for case in cases]),
            "flow": np.concatenate([case[1] for case in cases]),
        }
    )


def rows_of(path):
    return pq.read_table(path)


@pytest.fixture(scope="module")
def clf():
    x, y = waves(90, seed=1)
    clf = EarlyClassifier().fit(Series.from_aeon(x, y))
    clf.columns_ = COLUMNS
    return clf


@pytest.fixture(scope="module")
def cases():
    return unequal(waves(120, seed=2)[0])


@pytest.fixture
def table(cases, tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(frame(cases), path, row_group_size=500)
    return path


def same_decisions(found, decisions):
    assert found["label"].to_pylist() == decisions.labels.tolist()
    assert found["time"].to_pylist() == decisions.times.tolist()
    assert found["crossed"].to_pylist() == decisions.crossed.tolist()


@pytest.mark.parametrize("unit_rows", [17, 333, 10**6])
def test_every_series_gets_the_row_that_decide_gives(clf, cases, table, tmp_path, unit_rows):
    seen = []
    told = score_table(
        clf, table, tmp_path / "out.parquet", unit_rows=unit_rows, progress=lambda *done: seen.append(done)
    )
    found = rows_of(tmp_path / "out.parquet")
    decisions = clf.decide(cases)
    assert found["pump"].to_pylist() == [f"p{n:04}" for n in range(120)]
    same_decisions(found, decisions)
    assert found.schema.types == [pa.string(), pa.string(), pa.int64(), pa.bool_(), pa.float64()]
    rows = sum(case.shape[1] for case in cases)
    assert told == Summary(120, rows, int(decisions.crossed.sum()), pytest.approx(decisions.times.mean()))
    assert [done for done, _ in seen] == list(range(1, seen[0][1] + 1))
    assert not list(tmp_path.glob("*.part"))


def test_the_margin_is_that_of_the_leader_at_the_decision(clf, cases, table, tmp_path):
    score_table(clf, table, tmp_path / "out.parquet")
    found = rows_of(tmp_path / "out.parquet")
    scores, _ = clf.scores(cases)
    expected = margin(scores[np.arange(120), found["time"].to_numpy() - 1]).numpy()
    assert found["margin"].to_numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    crossed = found["crossed"].to_numpy(zero_copy_only=False)
    assert crossed.any()
    assert (found["margin"].to_numpy()[crossed] >= clf.threshold).all()


def test_the_dial_a_deadline_and_abstaining_are_obeyed(clf, cases, table, tmp_path):
    out, other = tmp_path / "out.parquet", sooner.EarlyClassifier()
    other.__dict__.update(clf.__dict__)
    for rule in (clf.threshold + 2.0, FixedTime(9), Patience(3)):
        other.threshold = rule
        for deadline, at_end in ((None, "abstain"), (5, "force"), (5, "abstain"), (500, "force")):
            score_table(other, table, out, deadline=deadline, at_end=at_end, unit_rows=700)
            same_decisions(rows_of(out), other.decide(cases, deadline=deadline, at_end=at_end))


def test_rows_within_a_series_may_come_in_any_order_and_files_may_cut_one(clf, cases, tmp_path):
    whole = frame(cases)
    random = np.random.default_rng(0)
    ends = np.cumsum([0] + [case.shape[1] for case in cases])
    order = np.concatenate([random.permutation(np.arange(*pair)) for pair in itertools.pairwise(ends)])
    shuffled = whole.take(pa.array(order))
    folder = tmp_path / "in"
    folder.mkdir()
    for place in range(0, len(whole), 97):
        pq.write_table(shuffled.slice(place, 97), folder / f"{place:05}.parquet")
    for source in (folder, folder / "*.parquet"):
        score_table(clf, source, tmp_path / "out.parquet", unit_rows=150)
        same_decisions(rows_of(tmp_path / "out.parquet"), clf.decide(cases))


def test_ids_and_labels_keep_their_names_and_types(cases, tmp_path):
    x, y = waves(90, seed=1)
    numbered = EarlyClassifier().fit(x, np.unique(y, return_inverse=True)[1])
    table = frame(cases, ids=int).cast(
        pa.schema([("pump", pa.int32()), ("at", pa.int64()), ("hum", pa.float32()), ("flow", pa.float64())])
    )
    pq.write_table(table, tmp_path / "in.parquet")
    score_table(numbered, tmp_path / "in.parquet", tmp_path / "out.parquet", columns=COLUMNS)
    found = rows_of(tmp_path / "out.parquet")
    assert found.schema.names == ["pump", "label", "time", "crossed", "margin"]
    assert found.schema.types[:2] == [pa.int32(), pa.int64()]
    assert found["pump"].to_pylist() == list(range(120))


def test_what_is_missing_and_gaps_are_read_as_in_training(tmp_path):
    x, y = waves(90, seed=1)
    random = np.random.default_rng(0)
    at = random.integers(1, 5, size=(150, x.shape[2])).cumsum(axis=1)
    gap = np.diff(at, axis=1, prepend=at[:, :1]).astype(float)
    x = np.concatenate([np.concatenate([x, waves(60, seed=2)[0]]), gap[:, None]], axis=1)
    x[:, :2][random.uniform(size=(150, 2, x.shape[2])) < 0.1] = np.nan
    columns = Columns(series="pump", time="at", channels=("hum", "flow", "gap"))
    clf = EarlyClassifier(missing="mask").fit(Series.from_aeon(x[:90], y, missing="mask"))
    clf.columns_ = columns
    held = x[90:]
    table = frame(list(held)).set_column(1, "at", pa.array(at[90:].ravel()))
    pq.write_table(table, tmp_path / "in.parquet")
    score_table(clf, tmp_path / "in.parquet", tmp_path / "out.parquet")
    same_decisions(rows_of(tmp_path / "out.parquet"), clf.decide(held))


def test_a_csv_is_read_as_well_and_its_ids_are_text(clf, cases, tmp_path):
    from pyarrow import csv

    csv.write_csv(frame(cases, ids=int), tmp_path / "in.csv")
    score_table(clf, tmp_path / "in.csv", tmp_path / "out.parquet")
    found = rows_of(tmp_path / "out.parquet")
    same_decisions(found, clf.decide(cases))
    assert found["pump"].to_pylist() == [str(n) for n in range(120)]


def test_a_longer_table_takes_hardly_more_memory(clf, tmp_path, monkeypatch):
    monkeypatch.setattr("sooner.data.tables.shards.ROOM", 2**11)
    monkeypatch.setattr(sources, "_ROWS", 2**11)
    x = waves(200, seed=3)[0]
    table = frame(list(x))
    peaks = []
    for times in (1, 4):
        path = tmp_path / f"{times}.parquet"
        with pq.ParquetWriter(path, table.schema) as writer:
            for turn in range(times):
                writer.write_table(frame(list(x), first=turn * 200), row_group_size=2**11)
        before, arrow = pa.total_allocated_bytes(), []
        tracemalloc.start()
        score_table(
            clf,
            path,
            tmp_path / "out.parquet",
            unit_rows=2**11,
            progress=lambda *_, before=before, arrow=arrow: arrow.append(pa.total_allocated_bytes() - before),
        )
        peaks.append(tracemalloc.get_traced_memory()[1] + max(arrow))
        tracemalloc.stop()
        assert len(rows_of(tmp_path / "out.parquet")) == 200 * times
    assert peaks[1] < 1.5 * peaks[0]


def test_the_file_appears_only_when_it_is_complete(clf, cases, table, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"what was there before")
    broken = frame(cases)
    broken = broken.set_column(2, "hum", pa.array([*broken["hum"].to_pylist()[:-1], None]))
    pq.write_table(broken, table)

    def look(done, total):
        assert done < total
        assert out.read_bytes() == b"what was there before"

    with pytest.raises(
        InvalidArgument, match=r"finite numbers in column 'hum', got nothing at row \d+ \(series 'p0119'"
    ):
        score_table(clf, table, out, unit_rows=300, progress=look)
    assert out.read_bytes() == b"what was there before"
    assert not list(tmp_path.glob("*.part"))


def test_damaged_files_are_named_and_the_others_done(clf, cases, tmp_path):
    for place in range(4):
        pq.write_table(frame(cases[30 * place : 30 * place + 30], first=30 * place), tmp_path / f"{place}.parquet")
    (tmp_path / "1.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-100])
    (tmp_path / "35.parquet").write_bytes(b"")
    for unit_rows in (50, 10**6):
        told = score_table(clf, tmp_path / "[0-9]*.parquet", tmp_path / "out.parquet", unit_rows=unit_rows)
        assert [file for file, _ in told.failed] == [str(tmp_path / "1.parquet"), str(tmp_path / "35.parquet")]
        assert told.failed[1][1] == "an empty file"
        found = rows_of(tmp_path / "out.parquet")
        assert found["pump"].to_pylist() == [f"p{n:04}" for n in range(120) if n // 30 != 1]
        same_decisions(found, clf.decide([case for n, case in enumerate(cases) if n // 30 != 1]))


def test_an_id_that_is_damaged_and_readable_is_no_id(clf, cases, tmp_path):
    for place in range(2):
        part = frame(cases[60 * place :][:60], first=60 * place)
        pq.write_table(part, tmp_path / f"{place}.parquet", compression="none", write_statistics=False)
    path = tmp_path / "1.parquet"
    whole = path.read_bytes()
    assert b"p0077" in whole
    path.write_bytes(whole.replace(b"p0077", b"p00\xff7"))
    told = score_table(clf, tmp_path, tmp_path / "out.parquet")
    assert [file for file, _ in told.failed] == [str(path)]
    assert told.series == 60


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("order", ["by time", "one file a day"])
def test_rows_in_any_order_give_the_file_of_the_sorted_table(clf, cases, tmp_path, order, suffix):
    from pyarrow import csv

    whole = frame(cases)
    folders = tmp_path / "sorted", tmp_path / order
    for folder in folders:
        folder.mkdir()
    write = csv.write_csv if suffix == ".csv" else pq.write_table
    write(whole, folders[0] / f"a{suffix}")
    if order == "by time":
        write(whole.sort_by("at"), folders[1] / f"a{suffix}")
    else:
        for day in range(3):
            write(whole.filter(pc.equal(pc.divide(whole["at"], 7), day)), folders[1] / f"{day}{suffix}")
        write(whole.filter(pc.greater(pc.divide(whole["at"], 7), 2)), folders[1] / f"3{suffix}")
    unit_rows = 300 if suffix == ".parquet" else 10**6  # a sorted CSV is one shard
    outs = [tmp_path / f"{n}.parquet" for n in range(2)]
    told = [score_table(clf, source, out, unit_rows=unit_rows) for source, out in zip(folders, outs, strict=True)]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert told[0] == told[1]
    assert not list(tmp_path.glob(".*"))


def test_the_temporary_folder_goes_after_an_error_too(clf, cases, tmp_path):
    broken = frame(cases)
    broken = broken.set_column(2, "hum", pa.array([*broken["hum"].to_pylist()[:-1], None])).sort_by("at")
    pq.write_table(broken, tmp_path / "in.parquet")
    seen = []
    with pytest.raises(InvalidArgument, match=r"finite numbers in column 'hum', got nothing at row \d+"):
        score_table(
            clf,
            tmp_path / "in.parquet",
            tmp_path / "out.parquet",
            unit_rows=300,
            progress=lambda *_: seen.extend(tmp_path.glob(".sooner-*")),
        )
    assert seen
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


SENTENCES = {
    "no table": ({"source": "nowhere.parquet"}, "`nowhere.parquet` must be a table, got nothing there."),
    "no Parquet": ({"out": "out.csv"}, "`out` must be a Parquet file, got out.csv. Name the file: decided.parquet."),
    "a folder": ({"out": "."}, "`out` must be a Parquet file, got the folder .. Name the file: decided.parquet."),
    "no place": (
        {"out": "gone/out.parquet"},
        "`out` must be in a folder that is there, got gone/out.parquet. Make the folder first.",
    ),
    "itself": (
        {"out": "in.parquet"},
        "`out` must be another file than those of the table, got in.parquet. Name a new one.",
    ),
    "no deadline": ({"deadline": 0}, "`deadline` must be at least 1, got 0.0. It counts observations from 1."),
    "no threads": ({"threads": 0}, "`threads` must be at least 1, got 0.0."),
    "no rows": ({"unit_rows": 0}, "`unit_rows` must be at least 1, got 0.0. It counts rows."),
    "channels": (
        {"columns": Columns(channels=("hum",))},
        "`channels` must be 2 columns of numbers, got ['hum']. Name those that the model was trained on, in that order.",
    ),
    "a column": (
        {"columns": Columns(time="when")},
        "`time` must be a column of in.parquet, got 'when'. It has the columns",
    ),
    "workers": ({"workers": 2}, '`workers` must be None with engine="local", got 2. It belongs to engine="ray".'),
    "an address": (
        {"address": "auto"},
        '`address` must be None with engine="local", got \'auto\'. It belongs to engine="ray".',
    ),
}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_gets_this_sentence(clf, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    given, sentence = SENTENCES[case]
    with pytest.raises(InvalidArgument) as caught:
        score_table(clf, **{"source": "in.parquet", "out": "out.parquet", **given})
    assert str(caught.value).startswith(sentence)


def test_unknown_words_offer_the_known_ones(clf, table, tmp_path):
    for word in ("engine", "at_end"):
        with pytest.raises(UnknownName, match=f"`{word}` must be one of"):
            score_table(clf, table, tmp_path / "out.parquet", **{word: "rey"})


def test_an_id_called_like_an_output_is_refused(clf, cases, tmp_path):
    names = ["label", "at", "hum", "flow"]
    pq.write_table(frame(cases[:3]).rename_columns(names), tmp_path / "in.parquet")
    with pytest.raises(InvalidArgument, match=r"`series` must be a column of another name, got 'label'\. Beside it"):
        score_table(clf, tmp_path / "in.parquet", tmp_path / "out.parquet", columns=Columns(series="label"))


@pytest.fixture(scope="module")
def home(clf, cases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    clf.save(folder / "m.sooner")
    pq.write_table(frame(cases), folder / "in.parquet")
    return folder


def test_the_verb_writes_and_tells(home, clf, cases, tmp_path):
    out = tmp_path / "out.parquet"
    given = [home / "m.sooner", home / "in.parquet", out, "--deadline", "6", "--at-end", "abstain", "--threshold", "9"]
    answer = CliRunner().invoke(app, ["score", *map(str, given), "--json", "--quiet"])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    decisions = clf.decide(cases, 9.0, deadline=6, at_end="abstain")
    same_decisions(rows_of(out), decisions)
    assert told["series"] == 120
    assert told["crossed"] == decisions.crossed.sum()
    assert told["failed"] == {}
    said = CliRunner().invoke(app, ["score", *map(str, given)], env={"COLUMNS": "300"}).stdout
    assert f"Written: {out}: 120 series of " in said.replace("\n", "")


def test_the_verb_ends_with_1_where_a_file_is_damaged(home, cases, tmp_path, monkeypatch, capsys):
    pq.write_table(frame(cases), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    out = tmp_path / "out.parquet"
    given = [home / "m.sooner", tmp_path / "[ab].parquet", out]
    monkeypatch.setattr("sys.argv", ["sooner", "score", *map(str, given), "--quiet"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith(f"error: 1 file(s) could not be read and were left out ({tmp_path / 'b.parquet'}: ")
    assert said.endswith(f"The others are done: {out}. Replace them and run it again.")
    assert len(rows_of(out)) == 120
    assert issubclass(FilesFailed, sooner.errors.SoonerError)


def test_without_ray_one_sentence_names_the_extra(home, tmp_path):
    given = [home / "m.sooner", home / "in.parquet", tmp_path / "out.parquet", "--engine", "ray"]
    command = "import sys; sys.modules['ray'] = None; from sooner.cli import main; main()"
    said = subprocess.run([sys.executable, "-c", command, "score", *map(str, given)], capture_output=True, text=True)
    assert said.returncode == 2
    error = " ".join(said.stderr.split())
    assert 'must be one that is installed, got no package `ray`. Install it: pip install "sooner[ray]".' in error
    assert "Traceback" not in error
