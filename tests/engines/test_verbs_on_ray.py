"""Every verb that takes `--engine ray`, once, on one small cluster. What its workers survive is tried by `make test-cluster`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import small_plan
from on_ray import small_digits, two_cores
from sooner import EarlyClassifier
from sooner.cli import app
from sooner.train.settings import read_settings
from waves import waves

pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with two_cores(small_digits):
        yield


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words), "--engine", "ray", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_train(tmp_path):
    out = tmp_path / "digits.sooner"
    run("train", "digits", "--model", "recurrent", "--max-epochs", 1, "--workers", 2, "--out", out)
    assert out.exists()
    assert not out.with_name("digits.sooner.run").exists()


def test_tune(tmp_path):
    path, out = tmp_path / "tune.toml", tmp_path / "tuning"
    path.write_text(
        "[model]\nhidden = 4\n[training]\nbatch_size = 100\niterations = 4\nvalidate_every = 2\n"
        '[search]\n"optimizer.lr" = [1e-3, 1e-2]\n'
    )
    assert run("tune", "digits", "--settings", path, "--trials", 3, "--out", out)["trials"] == 3
    assert read_settings(out / "best.toml").training.engine == "ray"


def test_score(tmp_path):
    x, y = waves(60)
    EarlyClassifier().fit(x, y).save(tmp_path / "m.sooner")
    cases, _, times = x.shape
    rows = {"series": [n for n in range(cases) for _ in range(times)], "time": list(range(times)) * cases}
    table = pa.table({**rows, "a": x[:, 0].ravel(), "b": x[:, 1].ravel()})
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    assert run("score", tmp_path / "m.sooner", tmp_path / "in.parquet", out, "--quiet")["series"] == 60
    assert len(pq.read_table(out)) == 60


def test_reproduce(tmp_path):
    small_plan.read(tmp_path)
    places = ("--work", tmp_path / "runs", "--out", tmp_path / "results")
    run("reproduce", tmp_path / "small.toml", *places, "--only", "pooling", "--seeds", 1, "--workers", 1)
    assert (tmp_path / "results" / "small.json").exists()
