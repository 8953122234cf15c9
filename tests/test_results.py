"""The committed records: every mean follows from the counts beside it, and the page says what they say."""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sooner.lab.experiments.published import PublishedRow

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


# --- the pages ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def copied(results, tmp_path, monkeypatch):
    """The pages in a folder of their own, with the same records; gives what `--check` says of them, "" if it is content."""
    shutil.copyfile(ROOT / "README.md", tmp_path / "README.md")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.setattr(results, "ROOT", tmp_path)

    def checked(page="README.md", old="", new=""):
        path = tmp_path / page
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["results.py", "--check"])
        try:
            results.main()
        except SystemExit as ended:
            return str(ended.code)
        return ""

    return checked


def test_the_pages_say_what_the_records_say(copied):
    assert copied() == ""


TIED = "<!-- results/sat_nmnist_h.json#/rows/MSPRT-TANDEM/5 -->"


def _with_another_digit():
    """A number of the first page as it stands there, and with one digit more."""
    found = re.search(rf"\d+\.\d%{TIED}", (ROOT / "README.md").read_text(encoding="utf-8"))[0]
    return found, f"1{found}"


def test_a_changed_digit_in_a_sentence_is_caught(copied):
    right, wrong = _with_another_digit()
    said = copied("README.md", right, wrong)
    assert "README.md: the page has: " in said
    assert wrong in said
    assert "README.md: the records say: " in said


def test_a_changed_digit_in_a_table_is_caught(copied):
    cell = f"{RECORDS['sat_nmnist_h']['models']['LSTM-s']['mean']['5'][0]:.2f} ±"
    assert "docs/results.md: the page has: " in copied("docs/results.md", cell, "12.34 ±")


def test_a_number_that_names_no_record_is_caught(copied):
    assert "docs/results.md:3: 99.9% names no record" in copied(
        "docs/results.md", "\n\n", "\n\nIt is right in 99.9% of all cases. "
    )


def test_without_check_the_pages_are_mended(results, copied, monkeypatch):
    assert copied("README.md", *_with_another_digit())
    monkeypatch.setattr("sys.argv", ["results.py"])
    results.main()
    assert copied() == ""


def test_the_commands_of_the_first_page_are_those_whose_output_was_recorded():
    record = json.loads((ROOT / "results" / "pages.json").read_text(encoding="utf-8"))
    for page in (ROOT / "README.md", ROOT / "docs" / "getting-started.md"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert [command for command in record["pumps"]["commands"] if command not in text] == []


# --- the order of models ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orders(results):
    return sys.modules[results.result_tables.pairs.__module__]


@each_record
def test_no_mean_time_that_the_paper_has_is_left_out_of_a_comparison(orders, name):
    record = RECORDS[name]
    for pair in orders.pairs(record):
        ordered = {*pair.below, *pair.above}
        assert sorted(ordered) == sorted([*pair.same, *pair.other, *pair.equal])
        if pair.source == "table":
            common = record["published"][pair.lower].keys() & record["published"][pair.upper].keys()
            assert len(common) in (0, pair.times)
        else:
            assert pair.times == len(record["models"][pair.lower]["mean"])


def test_pairs_are_compared_time_by_time(orders):
    ours = {"a": [5, 4, 3, 2], "b": [6, 4, 2, 3], "c": [9, 9, 9, 9]}
    theirs = {"a": {"1": 5, "2": 4, "3": 3, "4": 2}, "b": {"1": 6, "2": 5, "3": 4, "4": 2}, "c": {"1.5": 1}}
    models = {name: {"mean": {str(t): [error, None] for t, error in enumerate(row, 1)}} for name, row in ours.items()}
    ab, ac, bc = orders.pairs({"name": "made", "models": models, "published": theirs})
    assert ab == orders.Pair("a", "b", "table", (1, 2, 3), (), (4,), (1,), (3,), (2,))
    # The lone point of c is compared where it is, beside what lies between the neighbours of the others.
    assert ac == orders.Pair("c", "a", "table", (1.5,), (), (), (), (1.5,), ())
    assert bc == orders.Pair("c", "b", "table", (1.5,), (), (), (), (1.5,), ())


@each_record
def test_every_published_mean_time_is_compared_left_out_or_not_reached(orders, results, name):
    record = RECORDS[name]
    rows = results.result_tables.published_rows(record)
    pairs = {frozenset((pair.lower, pair.upper)): pair for pair in orders.pairs(record) if pair.source == "table"}
    found = orders.comparisons(record, rows)
    assert {frozenset(each.pair) for each in found} == set(pairs)
    for each in found:
        pair = pairs[frozenset(each.pair)]
        assert sorted([*each.compared, *each.left_out, *each.unreached]) == sorted(
            [*pair.below, *pair.above, *pair.level]
        )
        missed = {miss.time for miss in each.misses}
        assert missed <= {*pair.other, *pair.equal} & {*each.compared}
        assert missed == {*each.compared} - {*pair.same}


def test_differences_within_two_standard_errors_are_left_out_and_exceptions_have_their_numbers(orders):
    ours = {"a": [5.0, 4.0, 3.0, 2.0], "b": [6.0, 3.0, 3.0, 1.0]}
    models = {name: {"mean": {str(t): [error, None] for t, error in enumerate(row, 1)}} for name, row in ours.items()}
    # Differences of 1, and standard errors of the difference of 0.1, 0.1, 0.1 and 0.6; time 5 is none of ours.
    sems = 0.1, 0.1, 0.1, 0.6, 0.1
    rows = {
        name: [PublishedRow(t, base - t, sem / 2**0.5, 9) for t, sem in enumerate(sems, 1)]
        for name, base in (("a", 10.0), ("b", 11.0))
    }
    (found,) = orders.comparisons({"models": models}, rows)
    assert (found.compared, found.left_out, found.unreached) == ((1.0, 2.0, 3.0), (4.0,), (5.0,))
    assert found.misses == (
        orders.Miss(2.0, "a", "b", (4.0, 3.0), (8.0, 9.0)),
        orders.Miss(3.0, "a", "b", (3.0, 3.0), (7.0, 8.0)),
    )


def test_a_published_order_that_crosses_is_followed_time_by_time(orders):
    models = {"a": {"mean": {"1": [1.0, None], "2": [1.0, None]}}, "b": {"mean": {"1": [2.0, None], "2": [2.0, None]}}}
    rows = {
        "a": [PublishedRow(1, 3.0, 0.1, 9), PublishedRow(2, 5.0, 0.1, 9)],
        "b": [PublishedRow(1, 4.0, 0.1, 9), PublishedRow(2, 4.0, 0.1, 9)],
    }
    (found,) = orders.comparisons({"models": models}, rows)
    assert found.misses == (orders.Miss(2.0, "b", "a", (2.0, 1.0), (4.0, 5.0)),)


MADE = {
    "title": "A title",
    "name": "imbalance_nmnist_h",
    "headline": {"2": 5.0},
    "models": {
        "LSEL": {
            "mean": {"2": [5.0, 0.1]},
            "history": {"steps": [10, 20], "loss": [[2.0, 0.1], [1.0, 0.1]], "last_error": [[50.0, 1.0], [25.0, 1.0]]},
        },
        "LSIF": {
            "mean": {"2": [5.0, 0.1]},
            "history": {"steps": [10], "loss": [[None, None]], "last_error": [[60.0, None]]},
        },
    },
    "tuning": {
        "LSEL": {
            "command": "sooner reproduce x --tune 2",
            "date": "2026-11-19",
            "space": {"optimizer.lr": [0.1, 0.01]},
            "trials": [
                {"number": 0, "state": "complete", "values": {"optimizer.lr": 0.1}, "metric": 0.8, "seconds": 60.0},
                {"number": 1, "state": "complete", "values": {"optimizer.lr": 0.01}, "metric": 0.9, "seconds": 30.0},
                {"number": 2, "state": "pruned", "values": {"optimizer.lr": 0.1}, "metric": None, "seconds": 3.0},
            ],
            "published": {"optimizer.lr": 0.1},
            "settings_of_trials": {"training": {"iterations": 500, "batch_size": 20}},
            "seconds": 93.0,
            "mean": {"2": [4.5, 0.1]},
        }
    },
}


def test_the_page_shows_the_course_of_a_training_from_the_record_alone(results):
    lines = results.result_tables.during_training(MADE)
    assert "| model | step 10 | step 20 |" in lines
    assert "| LSEL | 2 (50.00) | 1 (25.00) |" in lines
    assert "| LSIF | overflow (60.00) |  |" in lines
    assert results.result_tables.during_training({"models": {"a": {}}}) == []


def test_the_page_shows_the_tuning_of_a_model_from_the_record_alone(results):
    lines = results.result_tables.tuning(MADE)
    assert lines[0].startswith(
        "Tuning of LSEL: `sooner reproduce x --tune 2`, 2026-11-19. 3 trials (2 complete, 1 pruned)"
    )
    assert lines[2:] == [
        "| trial | `optimizer.lr` | mean accuracy | minutes |",
        "| --- | ---: | ---: | ---: |",
        "| 1 | 0.01 | 0.9000 | 0.5 |",
        "| 0 | 0.1 | 0.8000 | 1.0 |",
        "| published choice | 0.1 | 0.8000 |  |",
        "",
        "Trained with the best of them, its error on the test set is 4.50 ± 0.10 at 2.",
        "",
    ]
    assert results.result_tables.tuning({}) == []


def test_the_course_of_a_training_is_drawn_from_the_record_alone(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results.result_figures, "FIGURES", tmp_path)
    results.result_figures.draw_training(MADE)
    assert (tmp_path / "imbalance_nmnist_h_training.png").stat().st_size > 10_000
    assert results.result_figures.training_figure(MADE)[0].endswith("(figures/imbalance_nmnist_h_training.png)")


@each_record
def test_the_p_values_follow_from_the_errors_of_the_trials(orders, name):
    record = RECORDS[name]
    found = orders.tested(record)
    if found is None:
        assert "statistics" not in record or not record["statistics"]
        return
    tested = [row for row in record["statistics"]["pairs"]["rows"] if row["first"]["phase"] == row["second"]["phase"]]
    assert {row[side]["model"] for row in tested for side in ("first", "second")} == set(found.models)
    for row in tested:
        first, second = row["first"], row["second"]
        if row["p"] is not None:
            phase = first["phase"] or next(iter(found.phases))
            assert orders.p_of(found, first["model"], second["model"], phase) == pytest.approx(row["p"], rel=1e-6)
