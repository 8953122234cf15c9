"""Scoring on a cluster gives the rows of one process, whatever happens to its workers. Left out without the extra."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from sooner import EarlyClassifier
from sooner.data import Columns, Series
from sooner.engines.ray.cluster import connected
from sooner.errors import InvalidArgument
from sooner.estimator.bulk import score_table
from waves import waves

pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.cluster]

TIME = 30


def frame(x, first=0):
    series = len(x)
    names = np.array([f"p{n:05}" for n in range(first, first + series)])
    return pa.table(
        {
            "pump": names[np.repeat(np.arange(series), TIME)],
            "at": np.tile(np.arange(TIME), series),
            "hum": x[:, 0].ravel(),
            "flow": x[:, 1].ravel(),
        }
    )


@pytest.fixture(scope="module")
def clf():
    x, y = waves(90, TIME, seed=1)
    columns = Columns(series="pump", time="at", channels=("hum", "flow"))
    clf = EarlyClassifier().fit(Series.from_aeon(x, y))
    clf.columns_ = columns
    return clf


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.setdefault("RAY_worker_niceness", "0")  # so that they need not wait for whatever else runs here
    with connected(cpus=2, object_store_bytes=100_000_000):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that cut series, and among them one that is damaged."""
    place = tmp_path_factory.mktemp("tables")
    table = frame(waves(600, TIME, seed=2)[0])
    for part, (low, high) in enumerate(itertools.pairwise([0, 4_000, 4_001, 9_000, 12_345, len(table)])):
        pq.write_table(table.slice(low, high - low), place / f"{part}.parquet", row_group_size=1_000)
    return place


def both(clf, source, tmp_path, **given):
    """The bytes that each way writes, and what it tells."""
    local, ray = tmp_path / "local.parquet", tmp_path / "ray.parquet"
    one = score_table(clf, source, local, unit_rows=2_000, **given)
    other = score_table(clf, source, ray, unit_rows=2_000, engine="ray", **given)
    return (local.read_bytes(), one), (ray.read_bytes(), other)


def test_the_rows_are_the_same_to_the_last_bit(clf, folder, tmp_path):
    one, other = both(clf, folder, tmp_path)
    assert one == other
    assert one[1].series == 600
    one, other = both(clf, folder, tmp_path, deadline=4, at_end="abstain")
    assert one == other


def test_a_damaged_file_is_named_as_well(clf, folder, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for file in folder.iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    (source / "2.parquet").write_bytes(b"PAR1")
    one, other = both(clf, source, tmp_path)
    assert one == other
    assert [Path(file).name for file, _ in other[1].failed] == ["2.parquet"]
    assert 400 < other[1].series < 600


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_table_sorted_by_time_gives_the_rows_of_the_sorted_one(clf, tmp_path, suffix):
    table = frame(waves(200, TIME, seed=2)[0])
    source, in_order = tmp_path / f"by_time{suffix}", tmp_path / "in.parquet"
    (csv.write_csv if suffix == ".csv" else pq.write_table)(table.sort_by("at"), source)
    pq.write_table(table, in_order)
    one, other = both(clf, source, tmp_path)
    assert one == other
    score_table(clf, in_order, tmp_path / "out.parquet", unit_rows=2_000)
    assert (tmp_path / "out.parquet").read_bytes() == other[0]
    assert not list(tmp_path.glob(".sooner-*"))


def test_bad_data_are_the_same_sentence(clf, tmp_path):
    table = frame(waves(100, TIME, seed=2)[0])
    hum = table["hum"].to_numpy().copy()
    hum[2_500] = np.inf
    pq.write_table(table.set_column(2, "hum", pa.array(hum)), tmp_path / "in.parquet")
    said = []
    for engine in ("local", "ray"):
        with pytest.raises(InvalidArgument) as caught:
            score_table(clf, tmp_path / "in.parquet", tmp_path / "out.parquet", unit_rows=1_000, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "got inf at row 2501 (series 'p00083', time 10)" in said[0]
    assert not (tmp_path / "out.parquet").exists()


def busy():
    """The processes of this cluster that decide a unit now."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"ray::_call" in (place / "cmdline").read_bytes()
            if is_one and _below(int(place.name), os.getpid()):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def _below(pid, wanted):
    while pid > 1:
        if pid == wanted:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc: workers cannot be found")
def test_killed_workers_lose_no_series_and_double_none(clf, tmp_path):
    x = waves(1_000, TIME, seed=4)[0]
    with pq.ParquetWriter(tmp_path / "in.parquet", frame(x[:1]).schema) as writer:
        for turn in range(6):
            writer.write_table(frame(x, 1_000 * turn))
    killed = []

    def kill(done, total):
        if done >= total // 6 and not killed:  # a worker may be between two units
            for pid in busy():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    source, local, ray = (tmp_path / f"{name}.parquet" for name in ("in", "local", "ray"))
    one = score_table(clf, source, local, unit_rows=10_000)
    other = score_table(clf, source, ray, unit_rows=10_000, engine="ray", workers=2, progress=kill)
    assert killed
    assert other == one
    assert one.series == 6_000
    assert local.read_bytes() == ray.read_bytes()


def test_the_command_starts_a_cluster_and_stops_it_in_silence(clf, folder, tmp_path):
    clf.save(tmp_path / "m.sooner")
    out, local = tmp_path / "out.parquet", tmp_path / "local.parquet"
    given = ["score", tmp_path / "m.sooner", folder, out, "--engine", "ray", "--workers", "1", "--json", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = subprocess.run(
        [sys.executable, "-m", "sooner", *map(str, given)], capture_output=True, text=True, env=environment, timeout=200
    )
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["series"] == 600
    assert said.stderr == ""
    score_table(clf, folder, local)
    assert out.read_bytes() == local.read_bytes()
