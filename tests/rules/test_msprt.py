"""MSPRT against a brute-force reading of its definition."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner.errors import InvalidArgument
from sooner.evaluate import sat_curve
from sooner.rules import MSPRT, FixedTime, LogOdds, Patience, ProbabilityThreshold


def _brute_force(scores, lengths, threshold):
    """Loops over series, times and classes; threshold[l][k] is what s_k - s_l must reach."""
    _, _, classes = scores.shape
    decisions = []
    for series, length in zip(scores.tolist(), lengths.tolist(), strict=True):
        for t, s in enumerate(series[:length], start=1):
            winners = [
                k
                for k in range(classes)
                if all(s[k] - s[l] >= threshold[l][k] for l in range(classes) if l != k)  # noqa: E741
            ]
            if winners:
                decisions.append((winners[0], t, True))
                break
        else:
            last = series[length - 1]
            decisions.append((last.index(max(last)), length, False))
    return decisions


@st.composite
def cases(draw):
    """Scores on a coarse grid, so that ties are everywhere; thresholds from the same grid, zero among them."""
    batch, time, classes = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(2, 4))
    grid = st.integers(-4, 4).map(lambda x: x / 2)
    flat = draw(st.lists(grid, min_size=batch * time * classes, max_size=batch * time * classes))
    lengths = draw(st.lists(st.integers(1, time), min_size=batch, max_size=batch))
    thresholds = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), min_size=classes**2, max_size=classes**2))
    scores = torch.tensor(flat, dtype=torch.float64).reshape(batch, time, classes)
    return scores, torch.tensor(lengths), np.reshape(thresholds, (classes, classes))


def _as_tuples(decisions):
    return list(zip(decisions.labels.tolist(), decisions.times.tolist(), decisions.crossed.tolist(), strict=True))


@given(cases())
def test_matrix_thresholds_decide_as_brute_force_does(case):
    scores, lengths, threshold = case
    assert _as_tuples(MSPRT(threshold).decide(scores, lengths)) == _brute_force(scores, lengths, threshold)


@given(cases(), st.sampled_from([0.0, 0.5, 1.0, 1.5, np.inf]))
def test_one_threshold_decides_as_brute_force_and_as_a_constant_matrix_do(case, threshold):
    scores, lengths, matrix = case
    constant = np.full_like(matrix, threshold)
    expected = _brute_force(scores, lengths, constant)
    assert _as_tuples(MSPRT(threshold).decide(scores, lengths)) == expected
    assert _as_tuples(MSPRT(constant).decide(scores, lengths)) == expected


def test_diagonal_of_a_threshold_matrix_is_ignored():
    matrix = np.array([[np.nan, 1.0], [2.0, -7.0]])
    assert MSPRT(matrix) == MSPRT([[0.0, 1.0], [2.0, 0.0]])


def test_lowest_index_wins_among_tied_classes_that_fire():
    scores = torch.tensor([[[1.0, 1.0, 1.0]]])
    never_first = [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]]
    assert _as_tuples(MSPRT(0.0).decide(scores)) == [(0, 1, True)]
    assert _as_tuples(MSPRT(never_first).decide(scores)) == [(1, 1, True)]


def test_an_empty_batch_gives_empty_decisions():
    for rule in (MSPRT(1.0), MSPRT(np.ones((3, 3))), LogOdds(0.0), FixedTime(2), Patience(2)):
        decisions = rule.decide(torch.zeros(0, 4, 3))
        assert len(decisions) == 0
        assert decisions.labels.dtype == decisions.times.dtype == np.int64


def test_rules_are_values():
    assert MSPRT(1) == MSPRT(1.0) != MSPRT(2.0)
    assert len({MSPRT(np.eye(3)), MSPRT(np.zeros((3, 3))), MSPRT(0.0)}) == 2
    with pytest.raises(AttributeError):
        MSPRT(1.0).threshold = 2.0
    with pytest.raises(ValueError, match="read-only"):
        MSPRT(np.ones((2, 2))).threshold[0, 1] = -1.0


def test_probability_threshold_is_log_odds_in_other_units():
    scores = torch.randn(50, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(dim=1)
    for alpha in (0.3, 0.05):
        by_odds = LogOdds.for_error(alpha).decide(scores)
        by_probability = ProbabilityThreshold(1 - alpha).decide(scores)
        assert _as_tuples(by_odds) == _as_tuples(by_probability)


def test_fixed_time_forces_series_that_end_before_it():
    scores = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]]).expand(2, -1, -1)
    assert _as_tuples(FixedTime(3).decide(scores, [3, 1])) == [(1, 3, True), (0, 1, False)]
    assert _as_tuples(FixedTime(float("inf")).decide(scores, [3, 1])) == [(1, 3, False), (0, 1, False)]


def test_patience_wants_the_same_class_in_a_row():
    leads = torch.tensor([0, 1, 1, 0, 0, 0])
    scores = torch.nn.functional.one_hot(leads, 2).double()[None]
    assert _as_tuples(Patience(1).decide(scores)) == [(0, 1, True)]
    assert _as_tuples(Patience(2).decide(scores)) == [(1, 3, True)]
    assert _as_tuples(Patience(3).decide(scores)) == [(0, 6, True)]
    assert _as_tuples(Patience(4).decide(scores)) == [(0, 6, False)]
    assert _as_tuples(Patience(2, MSPRT(2.0)).decide(scores)) == [(0, 6, False)]


@pytest.mark.parametrize("rule", [MSPRT(1.0), MSPRT(np.ones((3, 3))), LogOdds(0.5), ProbabilityThreshold(0.7)])
def test_scores_in_bfloat16_are_decided_live_as_in_a_batch_and_on_the_curve(rule):
    scores = torch.randn(200, 5, 3, generator=torch.Generator().manual_seed(0)).mul(3).bfloat16()
    stored = rule.decide(scores)
    state, times = rule.init(200), np.zeros(200, dtype=np.int64)
    for t in range(5):
        state, fired, _ = rule.step(state, scores[:, t])
        times[(times == 0) & (fired.numpy() | (t == 4))] = t + 1
    assert stored.times.tolist() == times.tolist()
    if isinstance(rule, MSPRT) and np.ndim(rule.threshold) == 0:
        curve = sat_curve(scores, torch.arange(200) % 3)
        for index in range(0, len(curve.thresholds), 37):
            assert MSPRT(curve.thresholds[index]).decide(scores).times.mean() == pytest.approx(curve.mean_times[index])


def test_a_curve_without_labels_is_refused_with_a_sentence():
    with pytest.raises(InvalidArgument) as caught:
        sat_curve(torch.zeros(2, 3, 2), None)
    assert str(caught.value) == "`labels` must be known for every series, got None. Give one for each series."
