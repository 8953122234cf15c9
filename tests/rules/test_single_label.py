"""The rule that stops when one label, or none, is left."""

import numpy as np
import pytest

from sooner.errors import InvalidArgument
from sooner.evaluate import achieved
from sooner.rules import SingleLabel
from sooner.rules.described import description, rule_described

SCORES = np.array([[[0.0, 1.0], [0.0, 3.0], [9.0, 0.0]], [[0.0, 1.0], [0.5, 0.0], [0.0, 0.5]]])


def test_it_names_the_label_that_is_left_and_a_series_without_one_is_forced():
    decisions = SingleLabel(2.0, 2).decide(SCORES)
    assert decisions.labels.tolist() == [1, 1]
    assert decisions.times.tolist() == [2, 3]
    assert decisions.crossed.tolist() == [True, False]


def test_a_class_that_left_does_not_come_back_and_an_empty_set_names_no_class():
    scores = np.array([[[0.0, 0.0, -1.0], [9.0, 8.0, 0.0], [0.0, 9.0, 9.0], [0.0, 0.0, 9.0]]])
    assert SingleLabel(2.0, 3).decide(scores[:, :2]).crossed.tolist() == [False]
    empty = SingleLabel(2.0, 3).decide(scores[:, [0, 1, 3]])
    assert (empty.labels.tolist(), empty.times.tolist(), empty.crossed.tolist()) == ([-1], [3], [True])
    left = SingleLabel(2.0, 3).decide(scores)  # class 2 leads with class 1 at time 3, but left at time 2
    assert (left.labels.tolist(), left.times.tolist()) == ([1], [3])


def test_no_class_is_a_wrong_decision():
    found = achieved(SingleLabel(-1.5, 2), SCORES[:, :1], [1, 0])
    assert found.error_rate == 1.0
    assert found.forced == 0.0


def test_infinity_excludes_no_class():
    assert not SingleLabel(np.inf, 2).decide(SCORES).crossed.any()


@pytest.mark.parametrize("rule", [SingleLabel(2.5, 3), SingleLabel(np.inf, 2), SingleLabel(-1, 4)], ids=str)
def test_it_is_written_down_and_read_back(rule):
    assert rule_described(description(rule)) == rule


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.nan, 2), r"`limit` must be a number, got nan"),
        (("high", 2), r"`limit` must be a number, got 'high'"),
        ((1.0, 1), r"`classes` must be at least 2, got 1"),
    ],
)
def test_other_arguments_get_one_sentence(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        SingleLabel(*arguments)


def test_scores_of_other_classes_get_one_sentence():
    with pytest.raises(InvalidArgument, match="`scores` must be of 3 classes, as the rule is, got 2 classes"):
        SingleLabel(1.0, 3).decide(SCORES)
