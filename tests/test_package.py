"""The public face: names that other code relies on, and the command line as a person meets it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import sooner
from sooner.cli import app, main
from sooner.cli.verbs import SHORT

PUBLIC = {
    "scores": "m_tandem m_tandem_oblivion margin ratio_matrix log_odds log_odds_against",
    "losses": "lsel modified_lsel cost_sensitive_lsel lscel nga_lsel logistic modified_logistic c_logistic logistic_c lsif "
    "lsif_clipped lsif_halved lsifwc dskl barr lllr multiplet ranking_score ranking_margin costs LOSSES SCORE_LOSSES loss_named",
    "rules": "MSPRT LogOdds FixedTime ProbabilityThreshold Halting Patience NotBefore SingleLabel GiveUp Rule ThresholdRule "
    "Step leader bounds RULES rule_named",
    "evaluate": "sat_curve stopping_curve balanced_error mean_time hitting_times class_errors choose_rule earliness "
    "average_cost harmonic_mean mean_accuracy over_seeds least_threshold_for_error greatest_threshold_for_time "
    "threshold_of_least_cost threshold_of_least_average_cost achieved Achieved Limits balanced_limits exact_limits "
    "certify_giving_up certified_giving_up "
    "certify certified_threshold Promise RISKS default_threshold group_limits group_mean_limits menu_of Menu Offer "
    "coverage_limit label_sets LabelSets Watch Alarm",
    "data": "Gaussian AR1 HiddenOnset Process Sample Series Standardizer Nmnist mnist digits video archives read Columns "
    "read_table read_observations table_parts observation_parts",
    "types": "Decisions SATCurve Windows",
    "errors": "SoonerError InvalidArgument UnknownName UnreachableTarget NotCertified LawBroken TrainingDiverged NoTrialFinished "
    "SecondBackward FetchFailed UnreadableFile FilesFailed UnreachableCluster OtherVersion",
    "checks": "check_rule check_rule_law rules RULE_LAWS check_model check_model_law models MODEL_LAWS",
    "models": "Model LiveStep Recurrent Pooling PrefixScorer Rocket Earliest FrameClassifier ResidualNetwork Dense build_model "
    "encode_to_file features_from_file encoder_named ResNet50 backbone_from_file",
    "stream": "Fleet Stream Decision decisions_of AtEnd",
    "report": "Evaluation Report write_report report_page speed_accuracy",
    "settings": "Settings read_settings settings_from_dict changed to_dict write_toml",
}


FACE = "fit predict decide scores predict_proba score speed_accuracy choose_threshold threshold stream save"


def test_the_face_stays():
    assert [name for name in FACE.split() if not hasattr(sooner.EarlyClassifier, name)] == []
    assert callable(sooner.load)


@pytest.mark.parametrize("room", PUBLIC)
def test_public_names_stay(room):
    module = getattr(sooner, room)
    assert [name for name in PUBLIC[room].split() if not hasattr(module, name)] == []


def test_bad_options_end_with_exit_code_two():
    assert CliRunner().invoke(app, ["demo", "--max-epochs", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


def test_what_sooner_raises_becomes_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sooner"])
    monkeypatch.setattr(type(app), "__call__", lambda _: sooner.rules.MSPRT(-1))
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


def test_importing_the_package_loads_nothing_until_a_name_is_used():
    program = "import sys, sooner; print([name for name in ('torch', 'sklearn', 'pyarrow') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_the_names_that_are_loaded_late_are_those_that_type_checkers_see():
    tree = ast.parse(Path(sooner.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert sorted(alias.asname for line in block.body for alias in line.names) == sorted(sooner.__all__)
    assert [name for name in sooner.__all__ if not hasattr(sooner, name)] == []
    with pytest.raises(AttributeError, match="module 'sooner' has no attribute 'estimate'"):
        sooner.estimate  # noqa: B018


def test_the_list_of_verbs_has_the_first_line_of_each_and_imports_none_of_them():
    for name, text in SHORT.items():
        assert " ".join(typer.main.get_command(app).commands[name].help.partition("\n\n")[0].split()) == text
    program = (
        "import sys; from sooner.cli import app; app(['--help'], standalone_mode=False); print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "False"
    assert "reproduce" in said.stdout
