"""The public face: names that other code relies on, and the command line as a person meets it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import sooner
from sooner.cli import app, main

PUBLIC = {
    "scores": "m_tandem m_tandem_oblivion margin ratio_matrix log_odds",
    "losses": "lsel modified_lsel cost_sensitive_lsel lscel nga_lsel logistic modified_logistic c_logistic logistic_c lsif "
    "lsif_halved lsifwc dskl barr lllr multiplet ranking_score ranking_margin costs LOSSES SCORE_LOSSES loss_named",
    "rules": "MSPRT LogOdds FixedTime ProbabilityThreshold Patience Rule ThresholdRule Step leader bounds RULES rule_named",
    "evaluate": "sat_curve stopping_curve balanced_error mean_time hitting_times class_errors choose_rule earliness "
    "average_cost harmonic_mean mean_accuracy over_seeds least_threshold_for_error greatest_threshold_for_time "
    "threshold_of_least_cost",
    "data": "Gaussian AR1 HiddenOnset Process Sample Series Standardizer Nmnist mnist digits",
    "types": "Decisions SATCurve Windows",
    "errors": "SoonerError InvalidArgument UnknownName UnreachableTarget LawBroken TrainingDiverged NoTrialFinished "
    "SecondBackward FetchFailed",
    "checks": "check_rule check_rule_law rules RULE_LAWS check_model check_model_law models MODEL_LAWS",
    "models": "Model LiveStep Recurrent Pooling PrefixScorer Rocket Earliest FrameClassifier ResidualNetwork Dense build_model "
    "encode_to_file features_from_file encoder_named",
    "settings": "Settings read_settings settings_from_dict changed to_dict write_toml",
}


@pytest.mark.parametrize("room", PUBLIC)
def test_public_names_stay(room):
    module = getattr(sooner, room)
    assert [name for name in PUBLIC[room].split() if not hasattr(module, name)] == []


def test_demo_meets_every_target_and_beats_the_fixed_time(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--json", "--series", "3000", "--out", str(tmp_path)])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["rows"]
    assert [row["target"] for row in rows] == [0.3, 0.1, 0.03, 0.01, 0.001]
    assert all(row["error"] < row["target"] for row in rows)
    assert all(row["fixed_time"] > 1.5 * row["mean_time"] for row in rows)
    assert (tmp_path / "speed_accuracy.png").read_bytes()[:4] == b"\x89PNG"


def test_demo_prints_a_table_that_fits_a_terminal(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--series", "200", "--out", str(tmp_path)], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "fixed" in result.stdout
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_demo_gives_the_fixed_time_test_its_due(tmp_path):
    """With few series both tests come down to no error at all, and the time for that is printed."""
    result = CliRunner().invoke(app, ["demo", "--series", "100", "--json", "--out", str(tmp_path)])
    rows = json.loads(result.stdout)["rows"]
    assert rows[-1]["error"] == 0.0
    assert all(row["fixed_time"] > row["mean_time"] for row in rows)


def test_files_in_the_way_get_a_sentence_too(tmp_path, capsys, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr("sys.argv", ["sooner", "demo", "--series", "100", "--out", str(tmp_path / "taken")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "error: [Errno 17] File exists" in capsys.readouterr().err


def test_bad_options_end_with_exit_code_two():
    assert CliRunner().invoke(app, ["demo", "--series", "3"]).exit_code == 2
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


def test_what_sooner_raises_becomes_one_sentence(monkeypatch, capsys):
    def refuse():
        sooner.rules.MSPRT(-1)

    monkeypatch.setattr("sooner.cli.app", refuse)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        said == "error: `threshold` must be at least 0, got -1.0. Below zero a class could win while another one leads."
    )


def test_version_is_said_by_the_command_itself():
    said = subprocess.run([sys.executable, "-m", "sooner", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("sooner 0.")
