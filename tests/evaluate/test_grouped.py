"""Limits where series come in groups: against their definition, by drawing, and through every door that takes groups."""

import numpy as np
import pytest
from scipy import stats

from sooner.errors import InvalidArgument
from sooner.evaluate import achieved, balanced_limits, class_errors, group_limits, group_mean_limits
from sooner.evaluate.group_intervals import group_counts
from sooner.rules import MSPRT


def drawn(random, groups, error, alike, *, nested, size=10):
    """Wrong decisions of series in groups that each have an error of their own; classes within groups, or across them."""
    spread = (1 - alike) / alike
    own = random.beta(error * spread, (1 - error) * spread, groups)
    members = np.repeat(np.arange(groups), size)
    labels = members % 2 if nested else random.integers(0, 2, len(members))
    return random.random(len(members)) < own[members], labels, members


def limits_of(wrong, labels, members):
    counts = group_counts(labels, members, classes=2)
    return group_limits(group_counts(labels, members, classes=2, weights=wrong), counts)


@pytest.mark.parametrize("groups", [8, 20, 60])
@pytest.mark.parametrize("nested", [False, True])
def test_limits_hold_the_true_error_about_as_often_as_they_say(groups, nested):
    random, held, plain = np.random.default_rng(groups), [], []
    for _ in range(150):
        wrong, labels, members = drawn(random, groups, 0.2, 0.5, nested=nested)
        low, high = limits_of(wrong, labels, members)
        held.append(low <= 0.2 <= high)
        low, high = balanced_limits(np.bincount(labels, wrong), np.bincount(labels))
        plain.append(low <= 0.2 <= high)
    assert np.mean(held) > 0.9
    assert np.mean(plain) < 0.8  # what they were worth as if all series were independent


def test_limits_of_a_mean_hold_it_about_as_often_as_they_say():
    random, held = np.random.default_rng(0), []
    for _ in range(300):
        members = np.repeat(np.arange(12), random.integers(1, 20, 12))
        values = 10 + random.normal(size=12)[members] * 3 + random.normal(size=len(members))
        low, high = group_mean_limits(values, members)
        held.append(low <= 10 <= high)
    assert 0.9 < np.mean(held) < 0.99


def test_the_size_that_counts_is_that_of_the_jackknife():
    random = np.random.default_rng(1)
    wrong, labels, members = drawn(random, 6, 0.3, 0.5, nested=False, size=8)
    error = class_errors(wrong, np.zeros(48, dtype=bool)).balanced  # so `predicted` differs where wrong
    means = np.array([wrong[labels == k].mean() for k in (0, 1)])
    without = [
        np.mean([wrong[(labels == k) & (members != group)].mean() for k in (0, 1)]) - means.mean() for group in range(6)
    ]
    variance = 5 / 6 * np.sum(np.square(without))
    share = np.array(
        [np.mean([(labels[members == g] == k).sum() / (labels == k).sum() for k in (0, 1)]) for g in range(6)]
    )
    freedom = 1 / np.sum(share**2) - 1
    p = means.mean()
    size = p * (1 - p) / variance * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, freedom)) ** 2
    expected = (
        stats.beta.ppf(0.025, p * size, size - p * size + 1),
        stats.beta.ppf(0.975, p * size + 1, size - p * size),
    )
    assert limits_of(wrong, labels, members) == pytest.approx(expected)
    assert error == pytest.approx(wrong.mean())


def test_groups_that_never_differ_count_as_one_series_each():
    counts = np.full((7, 2), 50)
    low, high = group_limits(np.zeros((7, 2)), counts)
    assert low == 0
    assert high == pytest.approx(balanced_limits([0, 0], [7, 7]).high)
    assert high > 3 * balanced_limits([0, 0], [350, 350]).high


def test_limits_are_never_better_than_those_of_independent_series_would_be():
    wrong = np.tile([[1], [1], [1], [1]], (1, 1))  # exactly one of ten in every group: less spread than chance has
    low, high = group_limits(wrong, np.full((4, 1), 10))
    assert low < stats.binomtest(4, 40).proportion_ci(0.95, "exact").low
    assert high > stats.binomtest(4, 40).proportion_ci(0.95, "exact").high


def test_a_class_without_an_error_is_not_known_exactly_because_another_has_some():
    counts = np.zeros((1010, 2))
    counts[:10, 0] = counts[10:, 1] = 1  # each series its own group
    wrong = np.zeros((1010, 2))
    wrong[10:20, 1] = 1
    expected = balanced_limits([0, 10], [10, 1000])
    assert group_limits(wrong, counts).high == pytest.approx(expected.high, abs=2e-4)
    assert group_limits(counts - wrong, counts).low == pytest.approx(1 - expected.high, abs=2e-4)


@pytest.mark.parametrize(
    ("groups", "errors", "size", "alike"),
    [((10, 500), (0.1, 0.02), 1, None), ((20, 200), (0.05, 0.05), 1, None), ((10, 100), (0.05, 0.05), 10, 0.5)],
)
def test_limits_hold_the_true_error_where_a_class_has_few_groups(groups, errors, size, alike):
    random, held = np.random.default_rng(0), []
    labels, each = np.repeat([0, 1], groups), np.repeat(errors, groups)
    spread = None if alike is None else (1 - alike) / alike
    for _ in range(150):
        own = each if spread is None else random.beta(each * spread, (1 - each) * spread)
        wrong = random.binomial(size, own)[:, None] * np.eye(2)[labels]
        low, high = group_limits(wrong, size * np.eye(2)[labels])
        held.append(low <= np.mean(errors) <= high)
    assert np.mean(held) > 0.93


@pytest.mark.parametrize("groups", [3, 8, 20])
def test_errors_never_make_the_upper_limit_better_than_none_does(groups):
    counts = np.full((groups, 2), 50)
    even = np.arange(51)[:, None, None] * np.ones((groups, 2))  # so many wrong in each group and class
    low, high = group_limits(even, counts)
    assert (np.diff(high) >= 0).all()
    assert (np.diff(low) >= 0).all()
    one = np.zeros((groups, 2))
    one[0, 0] = 1
    assert group_limits(one, counts).high >= high[0]
    assert group_limits(counts - one, counts).low <= low[-1]
    assert low + high[::-1] == pytest.approx(np.ones(51))  # right and wrong change places


def test_limits_of_many_points_are_those_of_each():
    random = np.random.default_rng(5)
    wrong, counts = random.integers(0, 3, (6, 5, 2)), np.full((5, 2), 2)
    wrong[:3, :, 0] = 0
    low, high = group_limits(wrong, counts)
    assert np.transpose([low, high]) == pytest.approx(np.array([group_limits(each, counts) for each in wrong]))


def test_of_one_group_nothing_is_known_nor_of_a_class_in_one_group():
    assert group_limits([[3, 1]], [[10, 10]]) == (0.0, 1.0)
    low, high = group_mean_limits([1.0, 2.0], np.array([0, 0]))
    assert (low, high) == (-np.inf, np.inf)
    alone = group_limits([[1, 2], [2, 0], [0, 0]], [[9, 9], [9, 0], [9, 0]])
    assert alone.high - alone.low > 0.5  # the second class may be anywhere


def test_names_and_order_of_groups_do_not_matter():
    random = np.random.default_rng(3)
    wrong, labels, members = drawn(random, 9, 0.3, 0.3, nested=False)
    scores = np.zeros((90, 1, 2))
    scores[np.arange(90), 0, np.where(wrong, 1 - labels, labels)] = 1.0
    found = achieved(MSPRT(0.0), scores, labels, groups=members)
    order = random.permutation(90)
    names = np.array(list("ihgfedcba"))[members]
    other = achieved(MSPRT(0.0), scores[order], labels[order], groups=names[order])
    assert (other.error_low, other.error_high) == pytest.approx((found.error_low, found.error_high))
    assert (found.error_low, found.error_high) == pytest.approx(limits_of(wrong, labels, members))
    assert found.groups == 9
    assert "on 90 series in 9 groups, limits by group" in str(found)
    assert achieved(MSPRT(0.0), scores, labels).groups is None


def test_times_forced_decisions_and_classes_have_limits_by_group_too():
    random = np.random.default_rng(4)
    members = np.repeat(np.arange(10), 20)
    labels = np.arange(200) % 2
    late = random.integers(0, 8, 10)[members]  # the series of a group are decided at one time
    scores = np.zeros((200, 8, 2))
    scores[np.arange(8) >= late[:, None], 0] = 5.0
    alone, together = (achieved(MSPRT(1.0), scores, labels, groups=groups) for groups in (None, members))
    assert together.mean_time == alone.mean_time
    assert together.mean_time_high - together.mean_time_low > 3 * (alone.mean_time_high - alone.mean_time_low)
    narrow, wide = (class_errors(np.zeros(200), labels, groups=groups) for groups in (None, members))
    assert wide.balanced == narrow.balanced == 0.5
    assert (wide.high - wide.low > 3 * (narrow.high - narrow.low)).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], r"`groups` must be of shape \(3,\), got shape \(2,\)"),
        (np.array([1, "a", 2], dtype=object), r"`groups` must be of one type, got int and str"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, message):
    with pytest.raises(InvalidArgument, match=message):
        class_errors([0, 1, 1], [0, 1, 0], groups=groups)
    with pytest.raises(InvalidArgument, match=r"`counts` must be of shape \(groups, classes\) = \(2, 2\)"):
        group_limits([[0, 0], [0, 0]], [[0, 0], [0, 0]])
