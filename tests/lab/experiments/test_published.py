"""The published numbers: complete, consistent with each other, and those of the paper as they were typed here once more."""

import itertools
from functools import cache

import pytest

from sooner.errors import UnknownName
from sooner.lab.experiments.plan_file import find_plan, names, read_plan
from sooner.lab.experiments.published import published, published_p_values, published_searches
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
each_test = pytest.mark.parametrize("name", ENTRIES)
each_search = pytest.mark.parametrize("name", [*ERRORS, *VIDEOS])


def cells(name):
    """The cells of a table of p-values, in its order."""
    entries = published_p_values(name)
    return list(dict.fromkeys([entries[0].column, *(entry.row for entry in entries)]))


def tuned(name):
    """The searches of an experiment without that of its encoder."""
    return {model: search for model, search in published_searches(name).items() if model != "encoder"}


@cache
def plan_of(name):
    """The plan of a published experiment."""
    plans = {plan.published or plan.name: plan for plan in (read_plan(find_plan(each), "paper") for each in names())}
    return plans[name]


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


# The six tables of the paper, typed row by row: 7 is ***1E-07, 9 is ***1E-09, 1 is 1.0, and the others stand as printed.
PRINTED = {
    "ablation_nmnist_100f": "9 / ***2E-07 9",
    "lsel_vs_logistic_nmnist_100f": "7 / 9 9 / 9 *2E-3 9",
    "sat_nmnist_h": "7 / 7 7 / 7 7 7 / 7 7 1 7 / 7 7 7 1 7 / 7 7 1 7 1 7 / 7 7 7 1 7 1 7 / 7 7 7 7 7 7 7 7 / 7 7 7 7 7 7 7 7 7",
    "sat_nmnist_100f": "7 / 7 7 / 7 1 7 / 7 7 7 7 / 7 1 7 1 7 / 7 7 7 7 1 7 / 7 1 7 1 7 1 7 / 7 7 7 7 7 7 7 7 "
    "/ ***7E-05 7 7 7 7 7 7 7 7",
    "sat_ucf101": "7 / 1 7 / 7 1 7 / 7 7 7 7 / 7 7 7 7 7 / 7 7 7 7 1 7 / 7 7 7 7 7 *3E-03 7 / 7 7 7 7 1E-01 7 *6E-03 7 "
    "/ 7 7 7 7 7 7 7 7 7",
    "sat_hmdb51": "7 / 1 7 / 7 0.2 7 / 1 7 1 7 / 7 ***2E-07 7 ***2E-02 7 / 1 7 1 7 1 7 / 7 7 7 ***1E-04 7 1 7 / 1 7 1 7 1 7 1 7 "
    "/ 7 7 7 7 7 7 7 ***7E-07 7",
}


@each_test
def test_a_table_of_p_values_is_that_of_the_paper_entry_by_entry(name):
    words = {"7": "***1E-07", "9": "***1E-09", "1": "1.0"}
    printed = [[words.get(each, each) for each in row.split()] for row in PRINTED[name].split(" / ")]
    assert [len(row) for row in printed] == list(range(1, len(printed) + 1))
    entries = [(float(each.lstrip("*")), "*" * each.count("*")) for row in printed for each in row]
    assert [(entry.p, entry.stars) for entry in published_p_values(name)] == entries


@each_test
def test_p_values_name_the_models_of_the_plan(name):
    plan = plan_of(name)
    models = {cell.model for cell in cells(name)}
    assert models - {"EARLIEST"} <= {each.published or each.name for each in plan.contenders}
    # One model in the test, two in the table of errors: each phase has the penalty that stops nearest to it.
    assert ("EARLIEST" in models) == any(each.name.startswith("EARLIEST") for each in plan.contenders)


@pytest.mark.parametrize("name", sorted({*ENTRIES} & {*ERRORS}))
def test_p_values_and_errors_are_of_the_same_models(name):
    tested = {cell.model for cell in cells(name)} - {"NP test"}  # whose errors are a figure only
    assert tested == {model.split()[0] if model.startswith("EARLIEST") else model for model in published(name)}


# The appendix, typed independently of the tables: tuning trials of each model, then trials, in the order of the models.
APPENDIX = {
    "sat_nmnist_h": (500, (300, 300, 300, 50, 45)),
    "sat_nmnist_100f": (200, (150, 150, 150, 50, 60)),
    "sat_ucf101": (100, (None,) * 5),
    "sat_hmdb51": (100, (None,) * 5),
    "dre_losses_nmnist_h": (150, (40, 40, 60, 40, 80, 80, 80)),
    "lsel_vs_logistic_nmnist_100f": (300, (150, 150)),
    "ablation_nmnist_100f": (200, (150, 150, 150)),
}
ADAM, RMSPROP, MOMENTUM = "adamw", "rmsprop", "sgdw"
TWO, THREE = {ADAM, RMSPROP}, {ADAM, RMSPROP, MOMENTUM}
DECAYS = {1e-3, 1e-4, 1e-5}
ENCODERS = {
    "sat_nmnist_h": (96, {1e-2, 5e-3, 1e-3, 5e-4, 1e-4}),
    "sat_nmnist_100f": (7, {1e-2, 5e-3, 1e-3, 5e-4, 1e-4, 1e-5}),
}
TANDEM = {1e-2, 1e-3, 1e-4}, DECAYS, TWO
RANKED = {1e-2, 1e-3, 1e-4, 1e-5}, DECAYS, TWO
EARLIEST = {1e-1, 1e-2, 1e-3, 1e-4, 1e-5}, DECAYS, TWO
VIDEO = {1e-3, 1e-4, 1e-5}, DECAYS, TWO
RATIO = {1e-3, 1e-4, 1e-5, 1e-6}, {1e-2, 1e-3, 1e-4, 1e-5}, THREE
# Learning rates, weight decays and optimizers of each model; then its order, the weight of its loss (gamma), and beta.
FEW, MANY, RANKS = {0.1, 1, 10, 100}, {0.1, 1, 10, 100, 1000}, {0.01, 0.1, 1, 10, 100}
BETAS = {0.99, 0.999, 0.9999, 0.99999, 1.0}
GRIDS = {
    "sat_nmnist_h": {
        "MSPRT-TANDEM": (*TANDEM, {0, 1, 5, 10, 15, 19}, MANY, None),
        "LSTM-s": (*RANKED, None, RANKS, None),
        "LSTM-m": (*RANKED, None, RANKS, None),
        "EARLIEST 1e-2": (*EARLIEST, None, None, None),
        "EARLIEST 1e2": (*EARLIEST, None, None, None),
    },
    "sat_nmnist_100f": {
        "MSPRT-TANDEM": (*TANDEM, {0, 25, 50, 75, 99}, MANY, None),
        "LSTM-s": (*RANKED, None, RANKS, None),
        "LSTM-m": (*RANKED, None, RANKS, None),
        "EARLIEST 1e-2": (*EARLIEST, None, None, None),
        "EARLIEST 1e-4": (*EARLIEST, None, None, None),
    },
    "sat_ucf101": {
        "MSPRT-TANDEM": (*VIDEO, {0, 10, 25, 40, 49}, FEW, BETAS),
        "LSTM-s": (*RANKED, None, RANKS, None),
        "LSTM-m": (*RANKED, None, RANKS, None),
        "EARLIEST 1e-1": (*EARLIEST, None, None, None),
        "EARLIEST 1e-10": (*EARLIEST, None, None, None),
    },
    "sat_hmdb51": {
        "MSPRT-TANDEM": (*VIDEO, {0, 10, 40, 60, 78}, FEW, BETAS),
        "LSTM-s": (RANKED[0], DECAYS, {RMSPROP}, None, RANKS, None),
        "LSTM-m": (*RANKED, None, RANKS, None),
        "EARLIEST 1e-1": (*EARLIEST, None, None, None),
        "EARLIEST 1e-10": (*EARLIEST, None, None, None),
    },
    "dre_losses_nmnist_h": {
        name: (*RATIO, None, {1e-4, 1e-3, 1e-2, 1, 10} if name in ("LSIFwC", "BARR") else None, None)
        for name in ("LSIF", "LSIFwC", "DSKL", "BARR", "LLLR", "Logistic", "LSEL")
    },
    "lsel_vs_logistic_nmnist_100f": {name: (*TANDEM, {0, 25, 50, 75, 99}, MANY, None) for name in ("LSEL", "Logistic")},
    "ablation_nmnist_100f": {
        "TANDEM LSEL+Mult": (*TANDEM, {0, 25, 50, 75, 99}, MANY, None),
        "TANDEM LSEL": (*TANDEM, {0, 25, 50, 75, 99}, MANY, None),
        "TANDEM Mult": (*TANDEM, {0, 25, 50, 75, 99}, None, None),
    },
}
# Published gammas belong to other losses than ours: to costs that sum to 1 over the classes, and to constraints that are summed
# over a batch of 500.
SCALES = {"sat_ucf101": 1 / 101, "sat_hmdb51": 1 / 51, "dre_losses_nmnist_h": 500}


@each_search
def test_tuning_trials_and_trials_are_those_of_the_paper(name):
    tuning_trials, trials = APPENDIX[name]
    found = tuned(name)
    assert {search.tuning_trials for search in found.values()} == {tuning_trials}
    assert tuple(search.trials for search in found.values()) == trials
    assert all(search.grid == {} for search in found.values())


@pytest.mark.parametrize("name", ERRORS)
def test_every_row_of_an_error_table_has_the_number_of_trials_of_its_model(name):
    for model, rows in published(name).items():
        assert {row.trials for row in rows} == {published_searches(name)[model].trials}


@each_search
def test_only_the_two_encoders_that_were_tuned_have_their_grid_here(name):
    encoder = published_searches(name).get("encoder")
    assert (encoder is not None) == (name in ENCODERS)
    if encoder is not None:
        trials, rates = ENCODERS[name]
        assert (encoder.tuning_trials, encoder.trials) == (trials, None)
        assert {key: set(values) for key, values in encoder.grid.items()} == {
            "optimizer.lr": rates,
            "optimizer.weight_decay": DECAYS,
            "optimizer.name": THREE,
        }
        settings = plan_of(name).encoder.settings
        for key, values in encoder.grid.items():
            section, setting = key.split(".")
            assert getattr(getattr(settings, section), setting) in values


@each_search
def test_grids_of_models_in_the_plans_are_those_of_the_paper(name):
    contenders = {each.published or each.name: each for each in plan_of(name).contenders}
    assert set(GRIDS[name]) == set(tuned(name))
    for model, (rates, decays, optimizers, orders, gammas, betas) in GRIDS[name].items():
        axes = {key: axis.values for key, axis in contenders[model].search.axes.items()}
        assert set(axes.pop("optimizer.lr")) == rates
        assert set(axes.pop("optimizer.weight_decay")) == decays
        assert set(axes.pop("optimizer.name")) == optimizers
        assert set(axes.pop("model.order", ())) == (orders or set())
        assert set(axes.pop("loss.beta", ())) == (betas or set())
        found = [value for key in list(axes) for value in sorted(axes.pop(key))]
        scale = SCALES.get(name, 1) if not model.startswith("LSTM") else 1
        assert found == pytest.approx([scale * gamma for gamma in sorted(gammas or ())], rel=0.011)


def test_an_unknown_experiment_is_refused_by_the_names_that_there_are():
    with pytest.raises(UnknownName, match=r"'ablation_nmnist_100f', .* Did you mean 'sat_ucf101'\?"):
        published_searches("sat_ucf")


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
