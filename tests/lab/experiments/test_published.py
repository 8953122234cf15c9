"""The published numbers: complete, consistent with each other, and those that the comments of the plans mention."""

import itertools
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from sooner.errors import UnknownName
from sooner.lab.experiments.plan import find_plan, names, read_plan
from sooner.lab.experiments.published import published, published_p_values
from sooner.lab.statistics import AnovaCell

ERRORS = (
    "ablation_nmnist_100f",
    "dre_losses_nmnist_h",
    "lsel_vs_logistic_nmnist_100f",
    "sat_nmnist_100f",
    "sat_nmnist_h",
)
VIDEOS = ("sat_hmdb51", "sat_ucf101")
ENTRIES = {
    "ablation_nmnist_100f": 3,
    "lsel_vs_logistic_nmnist_100f": 6,
    "sat_hmdb51": 45,
    "sat_nmnist_100f": 45,
    "sat_nmnist_h": 45,
    "sat_ucf101": 45,
}
SMALLEST = {"ablation_nmnist_100f": 1e-9, "lsel_vs_logistic_nmnist_100f": 1e-9}
NOT_SIGNIFICANT = {
    "ablation_nmnist_100f": 0,
    "lsel_vs_logistic_nmnist_100f": 0,
    "sat_hmdb51": 12,
    "sat_nmnist_100f": 7,
    "sat_nmnist_h": 6,
    "sat_ucf101": 4,
}
# Stars as printed where p alone would give other ones.
ODD_STARS = {
    ("lsel_vs_logistic_nmnist_100f", "LSEL, late", "Logistic, late"): (2e-3, "*"),
    ("sat_ucf101", "LSTM-m, late", "LSTM-s, late"): (3e-3, "*"),
    ("sat_ucf101", "EARLIEST, early", "LSTM-m, early"): (6e-3, "*"),
    ("sat_hmdb51", "LSTM-s, late", "NP test, late"): (2e-2, "***"),
}
LISTED = {"AdamW": "adamw", "SGDW": "sgdw", "RMSprop": "rmsprop"}

each_test = pytest.mark.parametrize("name", ENTRIES)
each_search = pytest.mark.parametrize("name", [*ERRORS, *VIDEOS])


def cells(name):
    """The cells of a table of p-values, in its order."""
    entries = published_p_values(name)
    return list(dict.fromkeys([entries[0].column, *(entry.row for entry in entries)]))


def p_value(name, row, column):
    (found,) = [each for each in published_p_values(name) if (str(each.row), str(each.column)) == (row, column)]
    return found.p, found.stars


@cache
def published_searches():
    """How much each model was tuned and trained; "encoder" is the encoder of an experiment, where it was tuned.

    `tuning_trials` are trainings that looked for the best settings, `trials` those with the best settings (if the paper says
    how many), `grid` the values of each setting (if they are not the `search` of a plan).
    """
    return tomllib.loads((Path(__file__).parent / "searches.toml").read_text(encoding="utf-8"))


def tuned(name):
    """The searches of an experiment without that of its encoder."""
    return {model: search for model, search in published_searches()[name].items() if model != "encoder"}


@cache
def plan_and_comments(name):
    """The plan of a published experiment, and what stands in the comments of its file."""
    plans = {plan.published or plan.name: plan for plan in (read_plan(find_plan(each), "paper") for each in names())}
    lines = find_plan(plans[name].name).read_text(encoding="utf-8").splitlines()
    return plans[name], " ".join(line.removeprefix("# ") for line in lines if line.startswith("# "))


@each_test
def test_a_table_of_p_values_has_as_many_entries_as_the_paper(name):
    assert len(published_p_values(name)) == ENTRIES[name]


@each_test
def test_every_pair_of_cells_is_there_once(name):
    pairs = [frozenset((entry.row, entry.column)) for entry in published_p_values(name)]
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == {frozenset(pair) for pair in itertools.combinations(cells(name), 2)}


@each_test
def test_entries_stand_below_the_diagonal_and_row_by_row(name):
    found = [(entry.row, entry.column) for entry in published_p_values(name)]
    order = cells(name)
    assert found == [(row, column) for index, row in enumerate(order) for column in order[:index]]


@each_test
def test_every_model_is_tested_in_both_phases_or_there_is_none(name):
    phases = (None,) if name.startswith("ablation") else ("early", "late")
    models = dict.fromkeys(cell.model for cell in cells(name))
    assert cells(name) == [AnovaCell(model, phase) for model in models for phase in phases]


@each_test
def test_no_p_value_is_below_the_smallest_that_the_table_prints_nor_above_1(name):
    found = [entry.p for entry in published_p_values(name)]
    assert min(found) == SMALLEST.get(name, 1e-7)
    assert max(found) <= 1.0


@each_test
def test_an_entry_has_a_star_exactly_if_p_is_below_5_percent(name):
    entries = published_p_values(name)
    assert all(bool(entry.stars) == (entry.p < 0.05) for entry in entries)
    assert sum(not entry.stars for entry in entries) == NOT_SIGNIFICANT[name]


@each_test
def test_stars_are_those_of_p_but_for_the_four_that_were_printed_otherwise(name):
    odd = {}
    for entry in published_p_values(name):
        if entry.stars != "*" * sum(entry.p < level for level in (0.05, 0.01, 0.001)):
            odd[name, str(entry.row), str(entry.column)] = (entry.p, entry.stars)
    assert odd == {key: value for key, value in ODD_STARS.items() if key[0] == name}


@pytest.mark.parametrize(
    ("name", "row", "column", "entry"),
    [
        ("ablation_nmnist_100f", "TANDEM LSEL", "TANDEM LSEL+Mult", (1e-9, "***")),
        ("ablation_nmnist_100f", "TANDEM Mult", "TANDEM LSEL+Mult", (2e-7, "***")),
        ("lsel_vs_logistic_nmnist_100f", "Logistic, late", "Logistic, early", (1e-7, "***")),
        ("sat_nmnist_h", "LSTM-s, late", "MSPRT-TANDEM, late", (1e-7, "***")),
        ("sat_nmnist_h", "LSTM-m, late", "NP test, late", (1.0, "")),
        ("sat_nmnist_100f", "LSTM-s, late", "MSPRT-TANDEM, late", (1.0, "")),
        ("sat_nmnist_100f", "EARLIEST, late", "MSPRT-TANDEM, early", (7e-5, "***")),
        ("sat_ucf101", "NP test, late", "MSPRT-TANDEM, late", (1.0, "")),
        ("sat_ucf101", "EARLIEST, early", "LSTM-s, early", (0.1, "")),
        ("sat_hmdb51", "LSTM-s, late", "MSPRT-TANDEM, late", (2e-7, "***")),
        ("sat_hmdb51", "LSTM-m, late", "NP test, late", (1e-4, "***")),
        ("sat_hmdb51", "EARLIEST, late", "LSTM-m, late", (7e-7, "***")),
    ],
)
def test_entries_are_those_of_the_paper(name, row, column, entry):
    assert p_value(name, row, column) == entry


@each_test
def test_p_values_name_the_models_of_the_plan(name):
    plan, _ = plan_and_comments(name)
    models = {cell.model for cell in cells(name)}
    assert models - {"EARLIEST"} <= {each.published or each.name for each in plan.contenders}
    # One model in the test, two in the table of errors: each phase has the penalty that stops nearest to it.
    assert ("EARLIEST" in models) == any(each.name.startswith("EARLIEST") for each in plan.contenders)


@pytest.mark.parametrize("name", sorted({*ENTRIES} & {*ERRORS}))
def test_p_values_and_errors_are_of_the_same_models(name):
    tested = {cell.model for cell in cells(name)} - {"NP test"}  # whose errors are a figure only
    assert tested == {model.split()[0] if model.startswith("EARLIEST") else model for model in published(name)}


@each_search
def test_every_experiment_tells_how_often_its_models_were_tuned(name):
    assert all(search["tuning_trials"] >= 1 for search in published_searches()[name].values())


def test_searches_are_those_of_the_published_experiments():
    assert set(published_searches()) == {*ERRORS, *VIDEOS}


@pytest.mark.parametrize("name", ERRORS)
def test_trials_are_those_of_the_errors(name):
    errors = {model: {row.trials for row in rows} for model, rows in published(name).items()}
    assert {model: {search.get("trials")} for model, search in tuned(name).items()} == errors


@pytest.mark.parametrize("name", VIDEOS)
def test_the_paper_does_not_say_how_often_models_of_videos_were_trained(name):
    assert {search.get("trials") for search in published_searches()[name].values()} == {None}


@each_search
def test_the_models_that_were_tuned_can_be_tuned_by_the_plan(name):
    plan, _ = plan_and_comments(name)
    searched = {each.published or each.name for each in plan.contenders if each.search is not None}
    assert set(tuned(name)) <= searched


@each_search
def test_only_encoders_have_their_grid_here(name):
    assert all(not search.get("grid", {}) for search in tuned(name).values())
    assert ("encoder" in published_searches()[name]) == name.startswith("sat_nmnist")


@pytest.mark.parametrize(("name", "trials", "points"), [("sat_nmnist_h", 96, 45), ("sat_nmnist_100f", 7, 54)])
def test_the_encoder_of_the_plan_lies_in_its_published_grid(name, trials, points):
    search, plan = published_searches()[name]["encoder"], plan_and_comments(name)[0]
    assert (search["tuning_trials"], len([*itertools.product(*search["grid"].values())])) == (trials, points)
    for key, values in search.get("grid", {}).items():
        section, setting = key.split(".")
        assert getattr(getattr(plan.encoder.settings, section), setting) in values


@each_search
def test_the_plan_s_comment_has_the_number_of_tuning_trials(name):
    (said,) = re.findall(r"The paper has (\d+) trials of tuning for each (?:model|loss)", plan_and_comments(name)[1])
    assert {search["tuning_trials"] for search in tuned(name).values()} == {int(said)}


@pytest.mark.parametrize("name", VIDEOS)
def test_the_plan_s_comment_says_that_the_number_of_trainings_is_not_given(name):
    assert "the number of trainings is not given" in plan_and_comments(name)[1]


@pytest.mark.parametrize("name", ERRORS)
def test_the_plan_s_comment_has_the_number_of_trainings_of_every_model(name):
    pattern = r"The paper has .*?, and (\d+) trainings(?: \((.*?)\))?; here"
    ((usual, exceptions),) = re.findall(pattern, plan_and_comments(name)[1])
    trials = dict.fromkeys(tuned(name), int(usual))
    for models, numbers in (each.split(": ") for each in exceptions.split("; ") if each):
        # "EARLIEST: 50 and 45" is of two models, in their order; "LLLR, logistic and LSEL: 80" is one number for three.
        named = [each.lower() for each in re.split(r", | and ", models)]
        meant = [model for model in trials if model.lower().split()[0] in named]
        values = [int(value) for value in numbers.split(" and ")]
        assert len(values) in (1, len(meant))
        trials.update(zip(meant, values * (len(meant) // len(values)), strict=True))
    assert trials == {model: search.get("trials") for model, search in tuned(name).items()}


@pytest.mark.parametrize("name", ["sat_nmnist_h", "sat_nmnist_100f"])
def test_the_plan_s_comment_has_the_grid_of_the_encoder(name):
    pattern = r"The paper found its settings in (\d+) trials of tuning: lr (.*?); weight decay (.*?); (.*?)\. "
    ((trials, rates, decays, optimizers),) = re.findall(pattern, plan_and_comments(name)[1])
    search = published_searches()[name]["encoder"]
    assert search["tuning_trials"] == int(trials)
    assert search.get("grid", {}) == {
        "optimizer.name": [LISTED[each] for each in optimizers.split(", ")],
        "optimizer.lr": [float(each) for each in rates.split(", ")],
        "optimizer.weight_decay": [float(each) for each in decays.split(", ")],
    }


def test_an_unknown_table_of_p_values_is_refused_by_the_names_that_there_are():
    with pytest.raises(UnknownName, match=r"'ablation_nmnist_100f', .* Did you mean 'sat_ucf101'\?"):
        published_p_values("sat_ucf")


def test_tables_of_p_values_are_no_tables_of_errors():
    with pytest.raises(UnknownName) as caught:
        published("p_values_sat_nmnist_h")
    assert all(repr(name) in str(caught.value) for name in ERRORS)
    assert "'p_values_sat_ucf101'" not in str(caught.value)


def test_losses_on_nmnist_h_were_not_tested():
    with pytest.raises(UnknownName):
        published_p_values("dre_losses_nmnist_h")
