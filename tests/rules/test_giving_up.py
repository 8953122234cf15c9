"""The rule that gives hopeless series up; its laws are tried with those of all rules."""

import numpy as np
import pytest

from sooner.checks import check_rule
from sooner.errors import InvalidArgument
from sooner.evaluate import achieved
from sooner.rules import MSPRT, FixedTime, GiveUp, Halting, NotBefore, Patience, SingleLabel
from sooner.rules.base import NO_CLASS
from sooner.rules.described import description, rule_described


def walks(series=200, time=9, classes=3, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(series, time, classes)).cumsum(axis=1), random.integers(1, time + 1, series)


def margins_at(scores, at):
    best = np.sort(scores[:, at - 1], axis=1)
    return best[:, -1] - best[:, -2]


@pytest.mark.parametrize("inner", [MSPRT(2.5), Patience(3), NotBefore(MSPRT(1.0), 5), FixedTime(6)], ids=str)
@pytest.mark.parametrize("at", [1, 4, 9])
def test_it_is_the_inner_rule_but_for_open_series_with_a_small_margin(inner, at):
    scores, lengths = walks()
    plain, decided = inner.decide(scores, lengths), GiveUp(inner, at, 0.8).decide(scores, lengths)
    # A series that the end of its data would force at `at` is still open when it is read.
    still_open = (plain.times > at) | ((plain.times == at) & ~plain.crossed)
    hopeless = still_open & (margins_at(scores, at) < 0.8)
    np.testing.assert_array_equal(decided.labels, np.where(hopeless, NO_CLASS, plain.labels))
    np.testing.assert_array_equal(decided.times, np.where(hopeless, at, plain.times))
    np.testing.assert_array_equal(decided.crossed, hopeless | plain.crossed)
    if at == 4:
        assert 0 < hopeless.sum() < still_open.sum()


def test_zero_gives_nothing_up_and_infinity_everything_that_is_open():
    scores, lengths = walks()
    assert GiveUp(MSPRT(2.5), 4, 0.0).decide(scores, lengths) == MSPRT(2.5).decide(scores, lengths)
    everything = GiveUp(MSPRT(2.5), 4, np.inf).decide(scores, lengths)
    assert everything.times.max() == 4
    assert (everything.labels[(everything.times == 4) & (lengths >= 4)] == NO_CLASS).any()


def test_a_margin_of_exactly_the_limit_goes_on_and_the_inner_rule_comes_first():
    scores = np.array([[[0.0, 0.5], [0.0, 9.0]]])
    assert GiveUp(MSPRT(2.0), 1, 0.5).decide(scores).labels.tolist() == [1]
    assert GiveUp(MSPRT(2.0), 1, np.nextafter(0.5, 1)).decide(scores).labels.tolist() == [NO_CLASS]
    assert GiveUp(MSPRT(0.5), 1, np.inf).decide(scores).labels.tolist() == [1]


def test_no_label_counts_as_an_error_and_is_not_among_the_answered():
    scores, _ = walks()
    truths = np.arange(200) % 3
    rule = GiveUp(MSPRT(2.5), 4, 0.8)
    labels, found = rule.decide(scores).labels, achieved(rule, scores, truths)
    answered = labels != NO_CLASS
    assert found.answered == answered.mean() < 1
    assert found.answered_error == (labels != truths)[answered].mean()
    assert found.error_rate == (labels != truths).mean() > found.answered_error
    assert f"answered {found.answered:.1%} with an error of {found.answered_error:.2%} among them" in str(found)
    assert "answered" not in str(achieved(MSPRT(2.5), scores, truths))
    none = achieved(GiveUp(MSPRT(np.inf), 1, np.inf), scores, truths)
    assert none.answered == 0.0
    assert np.isnan(none.answered_error)


@pytest.mark.parametrize(
    "rule",
    [GiveUp(Halting(0.6), 3, 0.5), GiveUp(SingleLabel(1.0, 4), 2, 1.0), GiveUp(GiveUp(MSPRT(2.0), 4, 0.5), 2, 0.25)],
    ids=str,
)
def test_it_obeys_the_laws_around_any_rule(rule):
    check_rule(rule)


@pytest.mark.parametrize("rule", [GiveUp(Patience(2), 3, 0.5), GiveUp(MSPRT(1.0), 2, np.inf)], ids=str)
def test_it_is_written_down_and_read_back(rule):
    assert rule_described(description(rule)) == rule


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2.0, 3, 0.5), r"`rule` must be a rule, for example MSPRT\(2.0\), got 2.0"),
        ((MSPRT(1.0), 0, 0.5), r"`at` must be at least 1, got 0"),
        ((MSPRT(1.0), 3, -0.5), r"`below` must be at least 0, got -0.5"),
        ((MSPRT(1.0), 3, np.nan), r"`below` must be at least 0, got nan"),
    ],
)
def test_other_arguments_get_one_sentence(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        GiveUp(*arguments)
