import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sooner.errors import InvalidArgument, UnknownName
from sooner.lab.statistics import AnovaCell, Trials, one_way_anova, p_values, tukey_kramer, two_way_anova

PHASES = ("early", "late")


def grouped(groups):
    """Trials of {model: errors}."""
    models = [model for model, errors in groups.items() for _ in errors]
    return Trials(models, [error for errors in groups.values() for error in errors])


def crossed(counts, *, seed=0, shift=0.0):
    """Trials of three models in two phases; counts[i][j] of them for model i in phase j."""
    rng = np.random.default_rng(seed)
    names = [(f"M{i}", PHASES[j]) for i, row in enumerate(counts) for j, n in enumerate(row) for _ in range(n)]
    means = {name: rng.normal() for name in sorted(set(names))}
    errors = [shift + means[name] + rng.normal() for name in names]
    order = rng.permutation(len(names))
    return Trials([names[i][0] for i in order], [errors[i] for i in order], [names[i][1] for i in order])


def cell_errors(trials, model, phase):
    zipped = zip(trials.models, trials.phases, trials.errors, strict=True)
    return np.array([error for m, p, error in zipped if (m, p) == (model, phase)])


UNEQUAL = {"A": [3.1, 2.7, 3.6], "B": [4.0, 4.4, 3.9, 4.7, 4.1], "C": [2.5, 3.2]}
COUNTS = [[3, 2], [6, 4], [2, 5]]


# One-way


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 7, 3), (1, 5, 2), (3, 3)])
def test_one_way_is_that_of_scipy(sizes):
    rng = np.random.default_rng(sum(sizes))
    groups = {f"M{i}": rng.normal(i / 2, 1, size=n) for i, n in enumerate(sizes)}
    row = one_way_anova(grouped(groups))["model"]
    expected = stats.f_oneway(*groups.values())
    assert row.f == pytest.approx(expected.statistic, rel=1e-9)
    assert row.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert row.degrees_of_freedom == len(sizes) - 1


def test_one_way_sums_of_squares_add_up_to_the_total():
    trials = grouped(UNEQUAL)
    table = one_way_anova(trials)
    errors = np.array(trials.errors)
    assert sum(row.sum_of_squares for row in table.rows) == pytest.approx(np.sum((errors - errors.mean()) ** 2))
    assert [row.source for row in table.rows] == ["model", "residual"]
    assert table["residual"].degrees_of_freedom == 7
    assert table["residual"].f is None
    assert table["residual"].p is None


def test_of_two_models_the_anova_is_the_square_of_a_t_test():
    pair = {"A": UNEQUAL["A"], "B": UNEQUAL["B"]}
    expected = stats.ttest_ind(*pair.values())
    row = one_way_anova(grouped(pair))["model"]
    assert row.f == pytest.approx(expected.statistic**2)
    assert row.p == pytest.approx(expected.pvalue)


# Two-way


def balanced_by_hand(values):
    """Sums of squares of values[model, phase, trial], from the textbook."""
    models, phases, trials = values.shape
    grand, cells = values.mean(), values.mean(axis=2)
    by_model, by_phase = cells.mean(axis=1), cells.mean(axis=0)
    both = cells - by_model[:, None] - by_phase[None, :] + grand
    return {
        "model": (phases * trials * np.sum((by_model - grand) ** 2), models - 1),
        "phase": (models * trials * np.sum((by_phase - grand) ** 2), phases - 1),
        "model x phase": (trials * np.sum(both**2), (models - 1) * (phases - 1)),
        "residual": (np.sum((values - cells[..., None]) ** 2), models * phases * (trials - 1)),
    }


def test_balanced_two_way_is_that_of_the_textbook():
    trials = crossed([[4, 4], [4, 4], [4, 4]])
    values = np.array([[cell_errors(trials, f"M{i}", phase) for phase in PHASES] for i in range(3)])
    expected, table = balanced_by_hand(values), two_way_anova(trials)
    assert [row.source for row in table.rows] == list(expected)
    noise = expected["residual"][0] / expected["residual"][1]
    for row in table.rows:
        squares, degrees = expected[row.source]
        assert row.sum_of_squares == pytest.approx(squares, rel=1e-9)
        assert row.degrees_of_freedom == degrees
        if row.source != "residual":
            assert row.f == pytest.approx(squares / degrees / noise, rel=1e-9)
            assert row.p == pytest.approx(stats.f.sf(squares / degrees / noise, degrees, 18), rel=1e-9)


def residual_of(errors, design):
    return np.sum((errors - design @ np.linalg.lstsq(design, errors, rcond=None)[0]) ** 2)


@pytest.mark.parametrize("counts", [COUNTS, [[2, 2], [9, 9], [4, 4]], [[1, 1], [1, 1], [1, 2]]])
def test_unequal_numbers_give_what_the_full_model_loses_without_the_effect(counts):
    trials = crossed(counts, seed=3)
    errors = np.array(trials.errors)
    code = {"M0": (1, 0), "M1": (0, 1), "M2": (-1, -1)}
    model = np.array([code[name] for name in trials.models], dtype=float)
    phase = np.array([[1.0] if name == "early" else [-1.0] for name in trials.phases])
    parts = {"model": model, "phase": phase, "model x phase": model * phase}
    ones = np.ones((len(errors), 1))
    full = residual_of(errors, np.hstack([ones, *parts.values()]))
    table = two_way_anova(trials)
    assert table["residual"].sum_of_squares == pytest.approx(full, rel=1e-8)
    for source in parts:
        without = residual_of(errors, np.hstack([ones, *(part for name, part in parts.items() if name != source)]))
        assert table[source].sum_of_squares == pytest.approx(without - full, rel=1e-8)


def test_the_main_effect_of_two_phases_compares_plain_means_of_the_cells():
    # A contrast of cell means c has the sum of squares (sum c m)^2 / sum(c^2 / n), whatever the numbers of trials.
    trials = crossed(COUNTS, seed=5)
    cells = {(i, phase): cell_errors(trials, f"M{i}", phase) for i in range(3) for phase in PHASES}
    sign = {"early": 1 / 3, "late": -1 / 3}
    contrast = sum(sign[phase] * errors.mean() for (_, phase), errors in cells.items())
    spread = sum(sign[phase] ** 2 / len(errors) for (_, phase), errors in cells.items())
    assert two_way_anova(trials)["phase"].sum_of_squares == pytest.approx(contrast**2 / spread, rel=1e-9)


def test_unequal_numbers_give_type_three_of_statsmodels_and_not_type_two():
    import pandas
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    trials = crossed(COUNTS, seed=7)
    columns = {"error": trials.errors, "model": trials.models, "phase": trials.phases}
    fit = ols("error ~ C(model, Sum) * C(phase, Sum)", pandas.DataFrame(columns)).fit()
    names = ["C(model, Sum)", "C(phase, Sum)", "C(model, Sum):C(phase, Sum)"]
    rows = two_way_anova(trials).rows
    for column, ours in {"sum_sq": "sum_of_squares", "F": "f", "PR(>F)": "p"}.items():
        expected = anova_lm(fit, typ=3).loc[names, column]
        np.testing.assert_allclose([getattr(row, ours) for row in rows[:3]], expected, rtol=1e-8)
    second = anova_lm(fit, typ=2).loc["C(phase, Sum)", "sum_sq"]
    assert rows[1].sum_of_squares != pytest.approx(second, rel=1e-3)


# Tukey-Kramer


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 7, 3, 5)])
def test_pairs_are_those_of_scipy(sizes):
    rng = np.random.default_rng(len(sizes))
    groups = {f"M{i}": rng.normal(i, 1, size=n) for i, n in enumerate(sizes)}
    table, expected = tukey_kramer(grouped(groups), confidence=0.9), stats.tukey_hsd(*groups.values())
    limits = expected.confidence_interval(0.9)
    assert len(table.rows) == math.comb(len(sizes), 2)
    for row in table.rows:
        at = int(row.first.model[1:]), int(row.second.model[1:])
        assert row.difference == pytest.approx(expected.statistic[at])
        assert row.p == pytest.approx(expected.pvalue[at], rel=1e-6)
        assert (row.low, row.high) == pytest.approx((limits.low[at], limits.high[at]), rel=1e-6)


def test_with_phases_the_pairs_are_those_of_all_cells():
    trials = crossed(COUNTS, seed=2)
    table = tukey_kramer(trials)
    expected = stats.tukey_hsd(*(cell_errors(trials, cell.model, cell.phase) for cell in table.cells))
    first = expected.pvalue[np.triu_indices(6, 1)]
    np.testing.assert_allclose([row.p for row in table.rows], first, rtol=1e-6)
    assert set(table.cells) == {AnovaCell(f"M{i}", phase) for i in range(3) for phase in PHASES}
    assert table.degrees_of_freedom == two_way_anova(trials)["residual"].degrees_of_freedom
    assert table.residual_variance == pytest.approx(two_way_anova(trials)["residual"].sum_of_squares / 16)


@pytest.mark.parametrize("gap", [0.0, 1.0, 1e2, 1e4, 1e8])
@pytest.mark.parametrize("sizes", [(2, 1), (2, 2), (5, 3), (20, 30)])
def test_of_two_models_p_is_that_of_a_t_test_however_small(sizes, gap):
    # scipy's integral gives zero here where p is 9e-5 with one degree of freedom.
    rng = np.random.default_rng(1)
    groups = {"A": rng.normal(size=sizes[0]), "B": gap + rng.normal(size=sizes[1])}
    variance = sum(np.sum((errors - errors.mean()) ** 2) for errors in groups.values()) / (sum(sizes) - 2)
    t = (groups["B"].mean() - groups["A"].mean()) / math.sqrt(variance * (1 / sizes[0] + 1 / sizes[1]))
    (row,) = tukey_kramer(grouped(groups)).rows
    assert row.p == pytest.approx(2 * stats.t.sf(abs(t), sum(sizes) - 2), rel=1e-6, abs=0)


def test_far_models_keep_a_p_above_zero_and_below_the_bound_of_bonferroni():
    trials = grouped({"A": [0.0, 0.1, 0.2], "B": [50.0, 50.1, 50.3], "C": [9.0, 9.1, 9.2]})
    table = tukey_kramer(trials)
    for row in table.rows:
        error = math.sqrt(table.residual_variance * (2 / 3))
        alone = 2 * stats.t.sf(abs(row.difference) / error, 6)
        assert 0 < alone <= row.p <= 3 * alone * (1 + 1e-9)


def test_one_model_may_be_compared_with_itself_across_phases():
    trials = Trials(["A"] * 5, [5.0, 6.0, 2.0, 2.5, 3.0], ["early"] * 2 + ["late"] * 3)
    (row,) = tukey_kramer(trials).rows
    assert (str(row.first), str(row.second), row.difference) == ("A, early", "A, late", 3.0)
    assert row.p == pytest.approx(stats.ttest_ind([5.0, 6.0], [2.0, 2.5, 3.0]).pvalue, rel=1e-6)


def test_more_confidence_makes_wider_limits_and_leaves_p_alone():
    low, high = (tukey_kramer(grouped(UNEQUAL), confidence=level) for level in (0.5, 0.99))
    for narrow, wide in zip(low.rows, high.rows, strict=True):
        assert wide.low < narrow.low < narrow.difference < narrow.high < wide.high
        assert wide.p == narrow.p


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_a_pair_differs_at_a_level_exactly_where_its_limits_leave_out_zero(level):
    rows = tukey_kramer(grouped(UNEQUAL), confidence=level).rows
    assert [row.p < 1 - level for row in rows] == [row.low > 0 or row.high < 0 for row in rows]
    assert len({row.p < 1 - level for row in rows}) == 2


def test_the_triangle_has_the_published_shape():
    trials = crossed([[3, 3], [3, 3], [3, 3]])
    pairs = tukey_kramer(trials)
    table = p_values(pairs)
    assert table.rows == pairs.cells[1:]
    assert table.columns == pairs.cells[:-1]
    assert [len(row) for row in table.p] == [1, 2, 3, 4, 5]
    for row in pairs.rows:
        assert table.p[table.rows.index(row.second)][table.columns.index(row.first)] == row.p


def test_stars_follow_the_published_levels():
    table = p_values(tukey_kramer(grouped(UNEQUAL)))
    ladder = (0.9, 0.2, 0.0949, 0.05, 0.0499, 0.01, 0.0099, 0.001, 0.00099, 1.2e-7, None)
    shown = type(table)(table.rows, table.columns, (ladder,)).starred()[0]
    assert shown == (
        *("0.9", "0.2", "9E-02", "5E-02", "*5E-02", "*1E-02", "**1E-02", "**1E-03", "***1E-03", "***1E-07", "-"),
    )


# Invariances


@given(shift=st.floats(-1e3, 1e3), scale=st.floats(1e-3, 1e3))
@settings(max_examples=5)
def test_neither_an_offset_nor_a_unit_changes_a_p(shift, scale):
    trials = crossed(COUNTS, seed=4)
    moved = Trials(trials.models, shift + scale * np.array(trials.errors), trials.phases)
    before, after = two_way_anova(trials), two_way_anova(moved)
    assert [row.p for row in after.rows[:3]] == pytest.approx([row.p for row in before.rows[:3]], rel=1e-6)
    pair, same = (tukey_kramer(some.at("late")).rows for some in (trials, moved))
    assert [row.p for row in same] == pytest.approx([row.p for row in pair], rel=1e-6, abs=1e-9)


def test_a_large_common_offset_takes_no_digits():
    trials = crossed(COUNTS, seed=4)
    errors = np.round(np.array(trials.errors) * 1024) / 1024  # so that adding the offset rounds nothing
    near, far = (Trials(trials.models, errors + offset, trials.phases) for offset in (0.0, 2.0**32))
    assert [row.p for row in two_way_anova(far).rows] == [row.p for row in two_way_anova(near).rows]
    assert tukey_kramer(far.at("late")).rows == tukey_kramer(near.at("late")).rows


@given(order=st.permutations(range(22)))
@settings(max_examples=5)
def test_the_order_of_trials_changes_no_number(order):
    trials = crossed(COUNTS, seed=4)
    mixed = Trials(*([column[i] for i in order] for column in (trials.models, trials.errors, trials.phases)))
    before, after = two_way_anova(trials), two_way_anova(mixed)
    for row in before.rows[:3]:
        assert after[row.source].p == pytest.approx(row.p, rel=1e-9)
    p = {frozenset((row.first, row.second)): row.p for row in tukey_kramer(trials.at("early")).rows}
    for row in tukey_kramer(mixed.at("early")).rows:
        assert p[frozenset((row.first, row.second))] == pytest.approx(row.p, rel=1e-6)


def test_relabelling_models_relabels_pairs_and_leaves_the_anova_alone():
    trials = crossed(COUNTS, seed=6)
    names = {"M0": "zebra", "M1": "ant", "M2": "mole"}  # sorted otherwise than before
    other = Trials([names[name] for name in trials.models], trials.errors, trials.phases)
    assert two_way_anova(other) == two_way_anova(trials)
    for row, renamed in zip(tukey_kramer(trials).rows, tukey_kramer(other).rows, strict=True):
        assert renamed.first == (names[row.first.model], row.first.phase)
        assert renamed.second == (names[row.second.model], row.second.phase)
        assert (renamed.difference, renamed.p) == (row.difference, row.p)


def test_exchanging_the_factors_exchanges_their_rows():
    trials = crossed(COUNTS, seed=8)
    table, swapped = two_way_anova(trials), two_way_anova(Trials(trials.phases, trials.errors, trials.models))
    for mine, theirs in {"model": "phase", "phase": "model", "model x phase": "model x phase"}.items():
        assert swapped[theirs].sum_of_squares == pytest.approx(table[mine].sum_of_squares, rel=1e-9)


def test_p_is_uniform_where_models_do_not_differ():
    rng = np.random.default_rng(0)
    p = [
        one_way_anova(grouped({name: rng.normal(size=n) for name, n in zip("ABC", (3, 6, 4), strict=True)}))
        for _ in range(300)
    ]
    assert stats.kstest([table["model"].p for table in p], "uniform").pvalue > 0.01


# Edges


def test_without_any_spread_within_cells_there_is_no_p():
    trials = Trials(["A", "A", "B", "B"] * 2, [1, 2, 4, 9, 1, 2, 4, 9], PHASES * 4)
    table = two_way_anova(trials)
    assert [row.p for row in table.rows] == [None] * 4
    assert [row.f for row in table.rows] == [None] * 4
    assert [row.sum_of_squares for row in table.rows] == pytest.approx([50.0, 18.0, 8.0, 0.0])
    assert table["residual"].sum_of_squares == 0.0
    pairs = tukey_kramer(trials)
    assert [row.difference for row in pairs.rows] == [-1.0, -3.0, -8.0, -2.0, -7.0, -5.0]
    assert {(row.low, row.high, row.p) for row in pairs.rows} == {(None, None, None)}
    assert pairs.residual_variance == 0.0
    assert p_values(pairs).starred()[0] == ("-",)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_identical_errors_have_no_variation_at_all(value):
    table = one_way_anova(Trials(["A", "A", "A", "B", "B"], [value] * 5))
    assert [row.sum_of_squares for row in table.rows] == [0.0, 0.0]
    assert table["model"].p is None


def test_a_spread_of_rounding_alone_is_none():
    trials = grouped({"A": [0.3, 0.1 + 0.2], "B": [0.7, 0.7]})
    assert len(set(trials.errors)) == 3
    assert one_way_anova(trials)["model"].p is None
    assert tukey_kramer(trials).rows[0].p is None


def test_records_become_json_and_come_back():
    trials = crossed(COUNTS)
    pairs = tukey_kramer(trials)
    constant = Trials(["A", "A", "B", "B"], [1, 1, 2, 2])
    for record in (two_way_anova(trials), pairs, one_way_anova(constant), tukey_kramer(constant)):
        plain = record.to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert two_way_anova(trials).to_dict()["sums_of_squares"] == "type III"
    assert pairs.to_dict()["rows"][0]["first"] == {"model": trials.cells[0].model, "phase": trials.cells[0].phase}
    assert tukey_kramer(constant).to_dict()["rows"] == [
        {
            "first": {"model": "A", "phase": None},
            "second": {"model": "B", "phase": None},
            "difference": -1.0,
            "low": None,
            "high": None,
            "p": None,
        }
    ]


def test_trials_are_plain_values_whatever_they_came_as():
    trials = Trials(np.array(["A", "B"]), np.array([1, 2]), iter(["x", "x"]))
    assert trials == Trials(("A", "B"), (1.0, 2.0), ("x", "x"))
    assert repr(trials) == "Trials(models=('A', 'B'), errors=(1.0, 2.0), phases=('x', 'x'))"
    assert len(trials) == 2


AABB = ["A", "A", "B", "B"]
TWICE = Trials(AABB * 2, range(8), PHASES * 4)

MESSAGES = {
    "one trial for each cell, two-way": (
        lambda: two_way_anova(Trials(AABB, [1, 2, 3, 4], PHASES * 2)),
        "`trials` must be more than one for some of the 4 cells, got one for each. "
        "Add seeds: without a spread within cells no difference can be judged.",
    ),
    "one trial for each model, pairs": (
        lambda: tukey_kramer(Trials(["A", "B"], [1, 2])),
        "`trials` must be more than one for some of the 2 cells, got one for each. "
        "Add seeds: without a spread within cells no difference can be judged.",
    ),
    "one model, one-way": (
        lambda: one_way_anova(Trials(["A", "A"], [1, 2])),
        "`trials` must be of at least 2 models, got 1. There is nothing to compare it with.",
    ),
    "one model, two-way": (
        lambda: two_way_anova(Trials(["A"] * 4, [1, 2, 3, 4], PHASES * 2)),
        "`trials` must be of at least 2 models, got 1. There is nothing to compare it with.",
    ),
    "one model, pairs": (
        lambda: tukey_kramer(Trials(["A", "A"], [1, 2])),
        "`trials` must be of at least 2 models, got 1. There is nothing to compare it with.",
    ),
    "no phases": (
        lambda: two_way_anova(Trials(AABB, [1, 2, 3, 4])),
        "`trials` must be of at least 2 phases, got 0. With one phase use `one_way_anova`, without naming the phase.",
    ),
    "one phase": (
        lambda: two_way_anova(Trials(AABB, [1, 2, 3, 4], ["early"] * 4)),
        "`trials` must be of at least 2 phases, got 1. With one phase use `one_way_anova`, without naming the phase.",
    ),
    "phases, one-way": (
        lambda: one_way_anova(TWICE),
        "`trials` must be of one phase without a name, got phases early, late. Pick one: `.at('early')`.",
    ),
    "a missing cell": (
        lambda: Trials(["A", "A", "B"], [1, 2, 3], ["early", "late", "early"]),
        "`trials` must be there for every model in every phase, got none of 'B' in 'late'. "
        "Add them, leave the model out, or compare one phase.",
    ),
    "fewer models than errors": (
        lambda: Trials(["A", "B"], [1, 2, 3]),
        "`models` must be as many as the errors, 3, got 2. Give one name for each trial, repeated as needed.",
    ),
    "more phases than errors": (
        lambda: Trials(["A", "B"], [1, 2], PHASES * 2),
        "`phases` must be as many as the errors, 2, got 4. Give one name for each trial, repeated as needed.",
    ),
    "one word for all models": (
        lambda: Trials("AB", [1, 2]),
        "`models` must be as many as the errors, 2, got 1. Give one name for each trial, repeated as needed.",
    ),
    "numbers for models": (
        lambda: Trials([0, 1], [1, 2]),
        "`models` must be names, got 0. Write each of them as a string.",
    ),
    "NaN": (
        lambda: Trials(AABB, [1, 2, math.nan, 4]),
        "`errors` must be finite, got nan at index 2. "
        "Leave out a trial that failed, with its names: numbers of trials may differ.",
    ),
    "infinity": (
        lambda: Trials(AABB, [1, -math.inf, 3, 4]),
        "`errors` must be finite, got -inf at index 1. "
        "Leave out a trial that failed, with its names: numbers of trials may differ.",
    ),
    "a table of errors": (
        lambda: Trials(AABB, [[1, 2], [3, 4]]),
        "`errors` must be one number for each of at least 1 trial, got shape (2, 2). Give them in long form.",
    ),
    "nothing": (
        lambda: Trials([], []),
        "`errors` must be one number for each of at least 1 trial, got shape (0,). Give them in long form.",
    ),
    "certainty": (
        lambda: tukey_kramer(TWICE, confidence=1.0),
        "`confidence` must be between 0 and 1, ends left out, got 1.0. "
        "It is the probability that all limits hold at once.",
    ),
    "a phase of trials without phases": (
        lambda: TWICE.at("late").at("early"),
        "`trials` must be of named phases, got one phase without a name. Name them in `phases`.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_one_clear_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_unknown_names_get_the_nearest_one():
    with pytest.raises(UnknownName, match="Did you mean 'late'"):
        TWICE.at("lat")
    with pytest.raises(UnknownName, match="Did you mean 'model'"):
        two_way_anova(TWICE)["models"]
