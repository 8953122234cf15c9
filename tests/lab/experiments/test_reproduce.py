"""`sooner reproduce`: the verb over the small plan, whose stages are done already."""

import json
import shlex

import pytest
from typer.testing import CliRunner

import small_plan
from sooner.cli import app, main
from sooner.lab.experiments import names
from sooner.lab.experiments.pages import write_pages


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture(scope="module")
def plan_file(small):
    return next(small.work.folder.parent.glob("*.toml"))


def test_without_a_name_it_lists_the_plans_there_are():
    listed = run("--json")
    assert json.loads(listed)["experiments"] == names()
    assert all(name in run() for name in names())


def test_it_writes_a_record_and_a_page_from_stages_that_are_done(small, plan_file, tmp_path):
    printed = json.loads(run(plan_file, "--work", small.work.folder, "--out", tmp_path, "--seeds", 2, "--json"))
    record = json.loads((tmp_path / f"{small.plan.name}.json").read_text())
    assert printed["headline"] == record["headline"] == small.result.headline()
    assert record["command"].endswith("--profile cpu --seeds 2")
    assert record["left_out"] == {}
    assert record["statistics"]["anova"]["rows"]
    page = (tmp_path / small.plan.name / "comparison.html").read_text()
    assert small.plan.title in page
    assert (tmp_path / small.plan.name / "curves.png").stat().st_size > 10_000


def test_a_record_of_some_models_names_them_in_its_command_and_says_what_is_left_out(small, plan_file, tmp_path):
    work = tmp_path / "runs"
    work.mkdir()
    pooled = {trial.training.digest for trial in small.stages.trials if trial.contender.name == "pooling"}
    pooled |= {trial.scores.digest for trial in small.stages.trials if trial.contender.name == "pooling"}
    for stage in small.stages.in_order:
        if stage.digest not in pooled:
            stage.folder(work).symlink_to(stage.folder(small.work.folder))
    run(plan_file, "--work", work, "--out", tmp_path, "--seeds", 2, "--only", "EARLIEST 1e-2", "-q")
    record = json.loads((tmp_path / f"{small.plan.name}.json").read_text())
    assert list(record["models"]) == ["MSPRT-TANDEM", "NP test", "EARLIEST 1e-2"]  # done before, by another command
    assert shlex.split(record["command"])[-6:] == [
        *("--only", "MSPRT-TANDEM"),
        *("--only", "NP test"),
        *("--only", "EARLIEST 1e-2"),
    ]
    assert record["left_out"] == {"pooling": [0, 1]}


def test_one_command_makes_a_model_s_row_from_nothing_and_trains_only_what_it_needs(plan_file, tmp_path):
    work = tmp_path / "runs"
    run(plan_file, "--work", work, "--out", tmp_path, "--seeds", 1, "--only", "MSPRT-TANDEM", "-q")
    done = [json.loads(path.read_text())["label"] for path in work.glob("*/done.json")]
    assert sorted(done) == sorted(small_plan.STAGES[:6])  # encoder, features, training, scores
    assert len(list(work.iterdir())) == 6
    record = json.loads((tmp_path / "small.json").read_text())
    assert list(record["rows"]) == ["MSPRT-TANDEM", "NP test"]  # which share their scores


def test_its_tables_name_ours_and_the_published_ones(small, plan_file, tmp_path):
    printed = run(plan_file, "--work", small.work.folder, "--out", tmp_path, "--seeds", 2, "-q")
    assert "published, 300" in printed
    assert "11.99" in printed
    assert "p-values of the Tukey-Kramer test" in printed
    assert "EARLIEST 1e-2 (sampled)" in printed


def test_a_model_that_was_not_run_stands_in_the_table_with_its_published_numbers(small, tmp_path):
    table = write_pages(tmp_path, small.result, small.stages, small.work.folder, None).tables[0]
    assert ("LSTM-s", "published, 300", "46.68", "20.51") in table.rows


def test_sampled_points_stand_beside_the_published_ones_on_the_page(small, tmp_path):
    pages = write_pages(tmp_path, small.result, small.stages, small.work.folder, None)
    point = small.result.sampled("EARLIEST 1e-2")
    (table,) = [each for each in pages.tables if each.title == "Sampled halting times"]
    said = [f"{mean:.2f} ± {sem:.2f}" for mean, sem in (point.mean_time, point.error)]
    assert table.rows == (("EARLIEST 1e-2 (sampled)", "ours, 2", *said), ("", "published, 50", "13.41", "3.16"))
    assert pages.page.read_text().count("EARLIEST 1e-2 (sampled)") >= 2  # the point and its row


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sat_nmnist_g"], "Did you mean 'sat_nmnist_h'?"),
        (["sat_nmnist_h", "--profile", "gpu"], "`--profile` must be one of 'cpu', 'paper', got 'gpu'."),
        (["sat_ucf101", "--features", "here"], "`--features` must be given together with --splits"),
        (["nowhere.toml"], "nowhere.toml"),
        (["sat_ucf101"], "Make them with `sooner data features`"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(monkeypatch, capsys, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["sooner", "reproduce", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert caught.value.code == 2
    assert "Traceback" not in said
    assert sentence in said
