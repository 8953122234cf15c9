"""Histories: what a training went through, from its validations to the record, the table and the figure."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sooner.errors import InvalidArgument
from sooner.lab.experiments import result_of
from sooner.lab.experiments.history import HistoryPoint, from_record, mean_history, to_record
from sooner.lab.experiments.pages import course_of, write_pages
from sooner.report.comparison.training import write_training_figure


def _validations(*rows):
    return [
        dict(zip(("step", "metric", "loss", "last_error"), (step, 0.5, *rest), strict=True)) for step, *rest in rows
    ]


def test_means_are_over_seeds_at_the_steps_that_all_have():
    one, two = (
        _validations((10, 4.0, 0.5), (20, 2.0, 0.3)),
        _validations((10, 2.0, 0.1), (20, 1.0, 0.1), (30, 0.0, 0.0)),
    )
    first, second = mean_history([one, two])
    assert first == HistoryPoint(10, (3.0, 1.0), (pytest.approx(30.0), pytest.approx(20.0)))
    assert (second.step, second.loss) == (20, (1.5, 0.5))


def test_one_seed_has_no_standard_error_and_no_seed_no_history():
    ((step, loss, error),) = mean_history([_validations((10, 4.0, 0.5))])
    assert (step, loss[0], error[0]) == (10, 4.0, 50.0)
    assert math.isnan(loss[1])
    assert mean_history([]) == ()


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_step_at_which_a_loss_overflowed_has_no_mean_loss_but_an_error(loss):
    ((_, mean, error),) = mean_history([_validations((10, loss, 0.5)), _validations((10, 1.0, 0.5))])
    assert (mean, error) == (None, (50.0, 0.0))


def test_validations_of_versions_that_did_not_measure_the_error_have_none():
    before = [{"step": 10, "metric": 0.5, "loss": 1.0}]
    assert mean_history([before])[0].last_error is None


def test_the_record_is_strict_json_from_which_the_history_comes_back():
    points = mean_history([_validations((10, math.inf, 0.5), (20, 1.0, 0.25))])
    record = json.loads(json.dumps(to_record(points), allow_nan=False))
    assert record == {
        "steps": [10, 20],
        "loss": [[None, None], [1.0, None]],
        "last_error": [[50.0, None], [25.0, None]],
    }
    back = from_record(record)
    assert (back[0].loss, back[1].loss[0], back[1].last_error[0]) == (None, 1.0, 25.0)


@pytest.fixture
def asked(small):
    plan = replace(small.plan, history=("MSPRT-TANDEM", "pooling"))
    return result_of(plan, small.stages, small.work.folder)


def test_models_of_which_the_plan_asks_for_it_have_their_history_in_the_record(small, asked):
    models = asked.to_dict("", "")["models"]
    assert {name for name, model in models.items() if "history" in model} == {"MSPRT-TANDEM", "pooling"}
    found = models["MSPRT-TANDEM"]["history"]
    assert found["steps"] == [10, 20, 30]
    left = [
        json.loads((trial.training.folder(small.work.folder) / "record.json").read_text())["history"]
        for trial in small.stages.trials
        if trial.contender.name == "MSPRT-TANDEM"
    ]
    for index, (loss, error) in enumerate(zip(found["loss"], found["last_error"], strict=True)):
        assert loss[0] == pytest.approx(np.mean([seed[index]["loss"] for seed in left]), rel=1e-4)
        assert error[0] == pytest.approx(100 * np.mean([seed[index]["last_error"] for seed in left]), rel=1e-4)
        assert error[1] == pytest.approx(100 * np.std([seed[index]["last_error"] for seed in left]), rel=1e-2)
    assert not any("history" in model for model in small.result.to_dict("", "")["models"].values())


def test_stages_of_versions_that_kept_no_history_give_none(asked):
    before = {name: tuple(replace(each, history=()) for each in outcomes) for name, outcomes in asked.outcomes.items()}
    assert replace(asked, outcomes=before).history("pooling") == ()


def test_the_page_has_a_table_and_a_figure_of_the_trainings(small, asked, tmp_path):
    pages = write_pages(tmp_path, asked, small.stages, small.work.folder, None)
    table = pages.tables[-1]
    assert table.title == "During training"
    assert [row[0] for row in table.rows] == ["MSPRT-TANDEM", "", "", "pooling", ""]
    assert (tmp_path / "training.png").stat().st_size > 10_000
    write_pages(tmp_path / "without", small.result, small.stages, small.work.folder, None)
    assert not (tmp_path / "without" / "training.png").exists()


def test_a_course_starts_at_1_and_leaves_out_what_overflowed():
    points = mean_history([_validations((10, math.inf, 0.5), (20, 4.0, 0.25), (30, 1.0, 0.25))])
    losses, _ = course_of("a", points).relative
    assert np.isnan(losses[0])
    assert losses[1:].tolist() == [1.0, 0.25]


def test_a_figure_of_nothing_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^`courses` must be at least 1, got none"):
        write_training_figure(tmp_path / "x.png", "t", [])
