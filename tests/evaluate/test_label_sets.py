"""Label sets: their coverage on an exact process, at every time and at decisions, and what they are made of."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from sooner.data import Gaussian
from sooner.errors import InvalidArgument
from sooner.evaluate import coverage_limit, label_sets
from sooner.rules import MSPRT, SingleLabel
from sooner.scores import log_odds_against

TRIALS, CALIBRATION, TIME, COVERAGE = 1500, 19, 12, 0.9


@pytest.fixture(scope="module")
def trials():
    """Independent trials: 19 calibration series and a new one each, with exact scores."""
    process = Gaussian.equidistant(3, 0.7)
    x, y = process.sample(TRIALS * (CALIBRATION + 1), TIME, seed=0)
    shape = (TRIALS, CALIBRATION + 1)
    return process.scores(x).reshape(*shape, TIME, 3), y.reshape(shape)


@pytest.fixture(scope="module")
def sets_of_new(trials):
    """Scores, labels, limits and label sets of the new series."""
    scores, labels = trials
    limits = [coverage_limit(s, y, coverage=COVERAGE) for s, y in zip(scores[:, :-1], labels[:, :-1], strict=True)]
    members = np.stack([label_sets(s, q).members[0] for s, q in zip(scores[:, -1:], limits, strict=True)])
    return scores[:, -1], labels[:, -1].numpy(), limits, members


def covered(members, labels):
    return np.take_along_axis(members, labels[:, None, None], axis=2)[:, :, 0]


def test_at_every_time_the_true_label_is_in_the_set_as_often_as_promised(sets_of_new):
    _, labels, _, members = sets_of_new
    counts = covered(members, labels).sum(axis=0)
    assert (np.diff(counts) <= 0).all()
    assert (counts >= binom.ppf(0.001, TRIALS, COVERAGE)).all()
    # 18 of 20 exchangeable values are at most the 18th of 19: at the end the coverage is exactly 90%.
    assert counts[-1] <= binom.ppf(0.999, TRIALS, COVERAGE)


@pytest.mark.parametrize("rule", [None, MSPRT(1.5)], ids=["single label", "msprt"])
def test_at_the_decision_of_any_rule_the_coverage_holds(sets_of_new, rule):
    scores, labels, limits, members = sets_of_new
    singles = zip(scores[:, None], limits, strict=True)
    times = rule.decide(scores).times if rule else np.array([SingleLabel(q, 3).decide(s).times[0] for s, q in singles])
    assert 1 < times.mean() < TIME
    count = covered(members, labels)[np.arange(TRIALS), times - 1].sum()
    assert count >= binom.ppf(0.001, TRIALS, COVERAGE)


@given(st.integers(0, 10**6), st.floats(-2, 4), st.integers(2, 6))
def test_sets_are_nested_and_grow_with_the_limit(seed, limit, classes):
    random = np.random.default_rng(seed)
    scores, lengths = random.normal(size=(4, 7, classes)).cumsum(axis=1), random.integers(1, 8, 4)
    small, large = (label_sets(scores, q, lengths=lengths).members for q in (limit, limit + 1))
    assert not (small[:, 1:] & ~small[:, :-1]).any()
    assert not (small & ~large).any()
    assert label_sets(scores, math.inf).members.all()
    for row, length in zip(small, lengths, strict=True):
        assert (row[length - 1 :] == row[length - 1]).all()


@given(st.integers(0, 10**6), st.floats(-1, 3))
def test_the_rule_of_a_single_label_reads_the_same_sets(seed, limit):
    random = np.random.default_rng(seed)
    scores, lengths = random.normal(size=(6, 9, 4)).cumsum(axis=1), random.integers(1, 10, 6)
    sets, decisions = label_sets(scores, limit, lengths=lengths), SingleLabel(limit, 4).decide(scores, lengths)
    for row, (label, time) in enumerate(zip(decisions.labels, decisions.times, strict=True)):
        sizes = sets.sizes[row, : lengths[row]]
        assert decisions.crossed[row] == (sizes[-1] <= 1)
        if decisions.crossed[row]:
            assert time == np.argmax(sizes <= 1) + 1
            assert sets.at(int(time))[row] == (() if label == -1 else (label,))


def test_log_odds_against_classes_are_what_the_formula_says():
    scores = 5 * torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.stack(
        [torch.cat([scores[:, :k], scores[:, k + 1 :]], dim=1).logsumexp(dim=1) - scores[:, k] for k in range(6)], dim=1
    )
    torch.testing.assert_close(log_odds_against(scores), expected)
    far = log_odds_against([[0.0, 1e6, -1e6], [0.0, 0.0, -1e6]])
    torch.testing.assert_close(far, torch.tensor([[1e6, -1e6, 2e6], [0.0, 0.0, 1e6 + math.log(2)]]).double())


def test_the_limit_is_the_order_statistic_of_the_formula():
    scores = np.zeros((9, 2, 2))
    scores[:, 0, 1] = np.arange(9)  # E_i = i, at the first of two times
    labels = np.zeros(9, dtype=int)
    assert [coverage_limit(scores, labels, coverage=c) for c in (0.1, 0.5, 0.7, 0.9)] == [0.0, 4.0, 6.0, 8.0]
    assert coverage_limit(scores, labels, coverage=0.91) == math.inf
    assert coverage_limit(scores, labels, coverage=0.01) == 0.0


def test_padding_is_never_read():
    scores, lengths = np.random.default_rng(0).normal(size=(30, 5, 3)), np.arange(30) % 5 + 1
    labels = np.arange(30) % 3
    padded = np.where(np.arange(5)[:, None] < lengths[:, None, None], scores, np.nan)
    assert coverage_limit(padded, labels, lengths=lengths) == coverage_limit(scores, labels, lengths=lengths)
    sets, plain = (label_sets(values, 0.5, lengths=lengths) for values in (padded, scores))
    assert np.array_equal(sets.members, plain.members)


def test_one_series_of_each_group_counts():
    scores = np.zeros((60, 1, 2))
    scores[:, 0, 1] = np.arange(60)
    labels, groups = np.zeros(60, dtype=int), np.repeat(np.arange(20), 3)
    limits = {coverage_limit(scores, labels, groups=groups, seed=seed) for seed in range(20)}
    # The 19th of 20 groups has the series 54 to 56; each of them is drawn by some seed.
    assert limits == {54.0, 55.0, 56.0}
    assert coverage_limit(scores, labels, groups=groups) == coverage_limit(scores, labels, groups=groups)
    assert coverage_limit(scores[:24], labels[:24], groups=groups[:24]) == math.inf  # 8 groups


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, 90])
def test_a_coverage_outside_of_0_and_1_gets_one_sentence(coverage):
    with pytest.raises(InvalidArgument, match=r"`coverage` must be between 0 and 1.*0\.9 means 90%"):
        coverage_limit(np.zeros((9, 1, 2)), np.zeros(9, dtype=int), coverage=coverage)


def test_sets_are_read_by_name_and_time():
    sets = label_sets([[[0.0, 1.0, 0.0], [0.0, 3.0, 1.0]]] * 2, 1.5, classes=["calm", "rain", "storm"])
    assert sets.at([1, 2]) == [("calm", "rain", "storm"), ("rain",)]
    assert sets.last == [("rain",)] * 2
    with pytest.raises(InvalidArgument, match=r"`time` must be whole numbers in 1\.\.2, got \[0\]"):
        sets.at(0)
    with pytest.raises(InvalidArgument, match="`classes` must be 3 names, got 2"):
        label_sets([[[0.0, 1.0, 0.0]]], 1.5, classes=["calm", "rain"])
