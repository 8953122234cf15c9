"""The model's own halting probability as a rule like every other."""

import numpy as np
import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.evaluate import choose_rule, sat_curve, stopping_curve
from sooner.evaluate.achieved import achieved
from sooner.models import Earliest
from sooner.rules import MSPRT, Halting, Patience
from sooner.rules.described import description, rule_described

SCORES = torch.tensor([[[0.0, 1.0], [3.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [4.0, 0.0], [0.0, 1.0]]])
HALTING = torch.tensor([[0.1, 0.5, 0.2], [0.5, 0.3, 0.9]])


@pytest.mark.parametrize(
    ("threshold", "labels", "times", "crossed"),
    [
        (0.0, [1, 1], [1, 1], [True, True]),
        (0.5, [0, 1], [2, 1], [True, True]),  # a tie with the threshold stops
        (0.6, [0, 1], [3, 3], [False, True]),
        (1.0, [0, 1], [3, 3], [False, False]),
        (np.inf, [0, 1], [3, 3], [False, False]),
    ],
)
def test_it_stops_at_the_first_probability_that_reaches_the_threshold(threshold, labels, times, crossed):
    decisions = Halting(threshold).decide(SCORES, halting=HALTING)
    assert decisions.labels.tolist() == labels
    assert decisions.times.tolist() == times
    assert decisions.crossed.tolist() == crossed


def test_patience_waits_for_it_to_last():
    halting = [[0.6, 0.2, 0.7], [0.6, 0.6, 0.6]]
    scores = SCORES.clone()
    scores[1, 1] = torch.tensor([0.0, 1.0])
    assert Patience(2, Halting(0.5)).decide(scores, halting=halting).times.tolist() == [3, 2]


def test_its_curve_is_that_of_the_statistic():
    generator = torch.Generator().manual_seed(0)
    scores, halting = torch.randn(40, 9, 3, generator=generator), torch.rand(40, 9, generator=generator)
    labels, lengths = torch.arange(40) % 3, torch.randint(1, 10, (40,), generator=generator)
    curve = sat_curve(scores, labels, lengths=lengths, rule=Halting, halting=halting)
    assert curve == stopping_curve(halting, scores.argmax(dim=2), labels, lengths=lengths, classes=3)
    for place in range(0, len(curve), 7):
        rule = Halting.at(float(curve.thresholds[place]))
        reached = achieved(rule, scores, labels, lengths=lengths, halting=halting)
        assert (reached.error, reached.mean_time) == pytest.approx((curve.errors[place], curve.mean_times[place]))
    chosen = choose_rule(Halting, scores, labels, lengths=lengths, max_mean_time=2.5, halting=halting)
    assert isinstance(chosen, Halting)
    assert achieved(chosen, scores, labels, lengths=lengths, halting=halting).mean_time <= 2.5


def test_a_model_gives_it_beside_its_scores():
    model = next(Earliest.examples()).eval()
    x = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores, halting = model.scores_and_halting(x)
        assert torch.equal(halting, model(x).halting)
        assert torch.equal(scores, model.scores(x))


def test_it_can_be_written_down_and_read_back():
    rule = Patience(2, Halting(0.5))
    assert rule_described(description(rule)) == rule


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Halting(0.5).decide(SCORES),
        lambda: Halting(0.5).step(Halting(0.5).init(2), SCORES[:, 0]),
        lambda: Halting.statistic(SCORES),
        lambda: Patience(2, Halting(0.5)).decide(SCORES),
        lambda: sat_curve(SCORES, [0, 1], rule=Halting),
        lambda: achieved(Halting(0.5), SCORES, [0, 1]),
    ],
)
def test_without_the_statistic_it_says_what_is_missing(refused):
    with pytest.raises(InvalidArgument) as error:
        refused()
    assert str(error.value) == (
        "`halting` must be the model's own halting statistic, got None. "
        "Only a model that says when to stop, such as EARLIEST, has one."
    )


@pytest.mark.parametrize(
    ("halting", "said"),
    [
        (HALTING[:, :2], r"`halting` must be of shape \(batch, time\) = \(2, 3\), got shape \(2, 2\)\."),
        (HALTING + 1, r"`halting` must be in 0\.\.1, got 1\.1"),
        (HALTING * torch.nan, r"`halting` must be in 0\.\.1, got nan\."),
    ],
)
def test_what_is_no_probability_for_each_time_is_refused(halting, said):
    with pytest.raises(InvalidArgument, match=said):
        Halting(0.5).decide(SCORES, halting=halting)


def test_rules_that_read_scores_alone_ignore_it():
    assert MSPRT(2.0).decide(SCORES, halting=HALTING) == MSPRT(2.0).decide(SCORES)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, -np.inf, np.nan, "half"])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(InvalidArgument, match="`threshold` must be"):
        Halting(threshold)
