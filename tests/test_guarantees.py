"""The benchmark of the guarantees on a small scale, and its record."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from sooner.data import Gaussian
from sooner.evaluate import class_errors
from sooner.rules import MSPRT, NotBefore
from sooner.scores import Scored

ROOT = Path(__file__).parents[1]
ROWS = json.loads((ROOT / "results" / "guarantees.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("guarantees", ROOT / "benchmarks" / "guarantees.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "guarantees", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def population(benchmark):
    process = Gaussian.equidistant(classes=3, distance=1.0)
    x, y = process.sample(400, 12, seed=0)
    lengths = np.random.default_rng(0).integers(6, 13, 400)
    return benchmark.Population(Scored(process.scores(x).float().numpy(), lengths, y.numpy()))


@pytest.mark.parametrize("threshold", [0.0, 0.7, 2.5, np.inf])
def test_a_risk_is_that_of_the_decisions_of_the_rule(threshold, population):
    scored = population.scored
    decisions = MSPRT(threshold).decide(*scored)
    wrong, errors = decisions.labels != scored.truths, class_errors(decisions, scored.truths)
    at_the_end = MSPRT(np.inf).decide(*scored).labels == scored.truths
    expected = {
        "error": wrong.mean(),
        "balanced_error": errors.balanced,
        "class_error": errors.errors.max(),
        "gap": (wrong & at_the_end).mean(),
    }
    for risk, value in expected.items():
        assert population.sweep.at(risk, threshold) == pytest.approx((value, decisions.times.mean()))


@pytest.mark.parametrize("start", [1, 4, 12])
def test_an_early_error_is_the_largest_one_among_those_decided_by_any_time(start, benchmark, population):
    scored = population.scored
    decisions = NotBefore(MSPRT(1.0), start).decide(*scored)
    wrong = decisions.labels != scored.truths
    by = [wrong[decisions.times <= t].mean() for t in range(start, 13) if (decisions.times <= t).any()]
    risks, times = benchmark.early(population, slice(None), 1.0)
    assert (risks[start - 1], times[start - 1]) == pytest.approx((max(by), decisions.times.mean()))


@pytest.mark.parametrize("risk", ["error", "early_error"])
def test_few_draws_of_a_small_population_give_shares(risk, benchmark, population):
    found = benchmark.promises(population, risk, 0.2, 100, 10)
    assert 0 <= found["certified_broken"] <= 0.5
    assert found["certified_limits"][0] <= found["certified_broken"] <= found["certified_limits"][1]


def test_the_command_keeps_its_rows_and_ends_with_a_line_of_json(benchmark, tmp_path, monkeypatch, capsys):
    out = tmp_path / "record.json"
    command = ["guarantees.py", "--draws", "2", "--counts", "60", "--only", "archive, gap", "--out", str(out)]
    monkeypatch.setattr("sys.argv", command)
    for _ in range(2):
        benchmark.main()
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert "certified_broken_mean" in json.loads(first)
    assert set(json.loads(out.read_text())["rows"]) == {"archive, gap, 0.05, 60", "archive, gap, 0.1, 60"}


# --- the record ---------------------------------------------------------------------------------------------------------

PROMISES = {name: row for name, row in ROWS["rows"].items() if "certified_broken" in row}


@pytest.mark.parametrize("name", PROMISES)
def test_a_certified_promise_is_not_broken_significantly_more_often_than_was_said(name):
    # The limits are those of 95% confidence; of so many rows, some would lie beyond them by chance alone.
    row = PROMISES[name]
    broken = round(row["certified_broken"] * row["draws"])
    allowed = (1 - ROWS["confidence"]) * row["draws"]
    assert broken <= allowed + 4 * np.sqrt(allowed * ROWS["confidence"])


def test_the_record_has_every_row_of_the_benchmark(benchmark):
    expected = {name for name, _ in benchmark.pieces(1, benchmark.COUNTS)} | {"watch"}
    assert expected <= set(ROWS["rows"])
    assert {row["draws"] for row in PROMISES.values()} == {benchmark.DRAWS}
    assert [name for name in ROWS["rows"] if name.startswith("calibration, ")]
    assert (ROOT / "results" / "guarantees.json").stat().st_size < 500_000


@pytest.mark.parametrize("name", [name for name, row in ROWS["rows"].items() if "coverage" in row])
def test_label_sets_contain_the_label_as_often_as_was_said(name):
    row = ROWS["rows"][name]
    assert row["coverage"] >= ROWS["coverage"] - 4 * row["standard_error"]
    assert row["coverage_at_the_decision"] >= row["coverage"] - 0.02


def test_the_watch_has_no_more_false_alarms_than_was_said():
    runs, delta = ROWS["watch"]["repeats"], ROWS["watch"]["delta"]
    assert ROWS["rows"]["watch"]["false_alarms"] <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
