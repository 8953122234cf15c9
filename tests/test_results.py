"""The committed records: every mean follows from the counts beside it, and the page says what they say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
RECORDS = {
    path.stem: record
    for path in sorted((ROOT / "results").glob("*.json"))
    if "headline" in (record := json.loads(path.read_text(encoding="utf-8")))
}
each_record = pytest.mark.parametrize("name", RECORDS)


def _errors(record, asked):
    rows = [row for seed in record["seeds"] for row in seed["rows"] if row["asked"] == float(asked)]
    return [100 * float(np.mean(np.array(row["wrong"]) / np.array(row["series"]))) for row in rows]


@each_record
def test_the_headline_is_the_mean_over_seeds_of_the_counted_errors(name):
    record = RECORDS[name]
    assert bool(record["headline"]) == bool(record["headline_model"])
    for asked, error in record["headline"].items():
        found = _errors(record, asked)
        assert len(found) == len(record["seeds"])
        assert error == pytest.approx(np.mean(found), abs=1e-3)


@each_record
def test_no_row_takes_longer_than_was_asked_for_and_all_test_series_are_counted(name):
    record = RECORDS[name]
    for row in (row for seed in record["seeds"] for row in seed["rows"]):
        assert row["mean_time"] <= row["asked"] + 1e-9
        assert sum(row["series"]) == 10_000
        assert row["error"] == pytest.approx(
            100 * float(np.mean(np.array(row["wrong"]) / np.array(row["series"]))), abs=1e-3
        )


@each_record
def test_a_record_says_what_was_run(name):
    record = RECORDS[name]
    assert record["command"].startswith(f"sooner reproduce {name} ")
    assert record["shortened"]
    assert (ROOT / "results" / f"{name}.json").stat().st_size < 500_000


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("sat_nmnist_h", {"2": 43.5, "5": 10.5, "8": 3.0, "10": 1.9, "20": 1.7}),
        ("sat_nmnist_100f", {"2": 34.0, "5": 9.0, "10": 3.0, "20": 1.6, "50": 1.3}),
    ],
)
def test_the_published_numbers_are_beaten_by_three_seeds_of_an_hour(name, limits):
    record = RECORDS[name]
    assert len(record["seeds"]) >= 3
    assert np.median([seed["training_minutes"] for seed in record["seeds"]]) <= 60  # on a clock that other work shares
    for asked, limit in limits.items():
        assert record["headline"][asked] < limit


@pytest.mark.parametrize(("name", "asked"), [("sat_nmnist_h", "5"), ("sat_nmnist_100f", "10")])
def test_the_first_page_says_what_the_records_say(name, asked):
    theirs = RECORDS[name]["published"]["MSPRT-TANDEM"][asked]
    ours = RECORDS[name]["headline"][asked]
    said = f"{ours:.1f} % instead of {theirs:.1f} % after {asked}"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_of_results_says_what_the_records_say():
    program = ROOT / "benchmarks" / "results.py"
    found = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
