"""What bad input gets: one clear sentence, word for word."""

import math

import numpy as np
import pytest
import torch

from sooner import data, evaluate, losses, rules, scores
from sooner.errors import InvalidArgument, SoonerError
from sooner.losses import costs
from sooner.rules import MSPRT, bounds

S = torch.zeros(2, 3, 4)
Y = torch.tensor([0, 1])
NAN = S.clone()
NAN[1, 2, 0] = math.nan
INF = S.clone()
INF[0, 1, 3] = -math.inf

MESSAGES = {
    "two axes of scores": (
        lambda: losses.lsel(torch.zeros(2, 4), Y),
        "`scores` must be of shape (batch, time, classes), got shape (2, 4). It needs 3 axes; add or drop one of length 1.",
    ),
    "NaN scores in a loss": (
        lambda: losses.lsel(NAN, Y),
        "`scores` must be finite, got nan at series 1, time 2 (counted from 0). "
        "Check it for a missing value, an overflow or a diverged training.",
    ),
    "infinite scores in a rule": (
        lambda: MSPRT(1.0).decide(INF),
        "`scores` must be finite, got -inf at series 0, time 1 (counted from 0). "
        "Check it for a missing value, an overflow or a diverged training.",
    ),
    "NaN scores in a curve": (
        lambda: evaluate.sat_curve(NAN, Y),
        "`scores` must be finite, got nan at series 1, time 2 (counted from 0). "
        "Check it for a missing value, an overflow or a diverged training.",
    ),
    "label beyond the classes": (
        lambda: losses.logistic(S, torch.tensor([0, 4])),
        "`labels` must be in 0..3, got 4 at index 1. The scores have 4 classes, counted from 0.",
    ),
    "negative label": (
        lambda: evaluate.sat_curve(S, [-1, 0]),
        "`labels` must be in 0..3, got -1 at index 0. The scores have 4 classes, counted from 0.",
    ),
    "labels of another length": (
        lambda: losses.dskl(S, torch.tensor([0, 1, 2])),
        "`labels` must be of shape (batch,) = (2,), got shape (3,). Give one class index for each series.",
    ),
    "labels that are not whole": (
        lambda: losses.lsel(S, torch.tensor([0.0, 1.0])),
        "`labels` must be whole numbers, got dtype torch.float32. Convert them to int64.",
    ),
    "words for scores": (
        lambda: MSPRT(1.0).decide("abc"),
        "`scores` must be an array of numbers, all rows of one length, got a str. "
        "Pass a torch tensor or a NumPy array of a numeric type.",
    ),
    "negative threshold": (
        lambda: MSPRT(-1.0),
        "`threshold` must be at least 0, got -1.0. Below zero a class could win while another one leads.",
    ),
    "NaN threshold": (
        lambda: MSPRT(math.nan),
        "`threshold` must be at least 0, got nan. Below zero a class could win while another one leads.",
    ),
    "negative threshold in a matrix": (
        lambda: MSPRT([[0.0, 1.0], [-2.0, 0.0]]),
        "`threshold` must be at least 0 everywhere, got an entry of -2.0. Below zero a class could win while another one leads.",
    ),
    "vector of thresholds": (
        lambda: MSPRT([1.0, 2.0]),
        "`threshold` must be a number or a K x K matrix, got shape (2,). K is the number of classes.",
    ),
    "matrix for another number of classes": (
        lambda: MSPRT(np.ones((3, 3))).decide(S),
        "`scores` must be of 3 classes, as the threshold matrix is, got 4 classes. "
        "Give a matrix with one row and one column for each class.",
    ),
    "unknown loss": (
        lambda: losses.loss_named("lsell"),
        f"`loss` must be one of {', '.join(map(repr, sorted(losses.LOSSES)))}, got 'lsell'. Did you mean 'lsel'?",
    ),
    "unknown rule": (
        lambda: rules.rule_named("zzz"),
        "`rule` must be one of 'fixed_time', 'give_up', 'halting', 'log_odds', 'msprt', 'not_before', 'patience', "
        "'probability_threshold', 'single_label', got 'zzz'. "
        "No close match.",
    ),
    "one class": (
        lambda: losses.lsel(torch.zeros(2, 3, 1), torch.tensor([0, 0])),
        "`scores` must be of shape (batch, time, classes) with at least 2 classes, got 1 class(es). "
        "With one class there is nothing to decide.",
    ),
    "empty batch in a loss": (
        lambda: losses.lsel(torch.zeros(0, 3, 4), torch.zeros(0).long()),
        "`scores` must be a batch of at least 1 series, got an empty batch. Skip empty batches before the call.",
    ),
    "empty batch in the multiplet loss": (
        lambda: losses.multiplet(torch.zeros(0, 2, 3, 4), torch.zeros(0).long()),
        "`logits` must be a batch of at least 1 series, got an empty batch. Skip empty batches before the call.",
    ),
    "empty batch in a curve": (
        lambda: evaluate.sat_curve(torch.zeros(0, 3, 4), torch.zeros(0).long()),
        "`scores` must be a batch of at least 1 series, got an empty batch. Skip empty batches before the call.",
    ),
    "series without observations": (
        lambda: MSPRT(1.0).decide(torch.zeros(2, 0, 4)),
        "`scores` must be of shape (batch, time, classes) with at least 1 observation, got shape (2, 0, 4). Drop empty series.",
    ),
    "length beyond the tensor": (
        lambda: MSPRT(1.0).decide(S, [3, 4]),
        "`lengths` must be in 1..3, got 4 at index 1. The tensor holds 3 observation(s) a series.",
    ),
    "three axes of logits": (
        lambda: scores.m_tandem(S),
        "`logits` must be of shape (batch, window, position, classes), got shape (2, 3, 4). "
        "It needs 4 axes; add or drop one of length 1.",
    ),
    "prior for another number of classes": (
        lambda: scores.m_tandem(S[None], log_prior=[0.0, 0.0]),
        "`log_prior` must be of shape (classes,) = (4,), got shape (2,). Give the log of one prior probability for each class.",
    ),
    "class counts that miss a class": (
        lambda: losses.lsel(S, Y, class_counts=[5, 0, 1, 1]),
        "`class_counts` must be at least 1 for every class in `labels`, as long as one of its series runs, got 0 for class 1. "
        "Count the labels of the whole training set.",
    ),
    "costs of another shape": (
        lambda: losses.lscel(S, Y, costs=[1.0, 1.0]),
        "`costs` must be of shape (4, 4), got shape (2,). Give one cost for each pair of classes.",
    ),
    "negative gamma": (
        lambda: losses.barr(S, Y, gamma=-0.5),
        "`gamma` must be at least 0, got -0.5. A negative weight would reward a broken constraint.",
    ),
    "beta beyond one": (
        lambda: costs.effective_number([3, 4], beta=1.5),
        "`beta` must be in 0..1, got 1.5. 0 weighs classes alike, 1 by inverse frequency.",
    ),
    "certainty as a target": (
        lambda: bounds.for_class_errors(0.0, classes=3),
        "`alpha` must be above 0 and at most 1, got 0.0. It bounds a probability of error.",
    ),
    "infinite cost": (
        lambda: losses.lscel(S, Y, costs=torch.full((4, 4), math.inf)),
        "`costs` must be finite, got an entry of inf. Give one cost for each pair of classes.",
    ),
    "infinite gamma": (
        lambda: losses.barr(S, Y, gamma=math.inf),
        "`gamma` must be finite, got inf. A negative weight would reward a broken constraint.",
    ),
    "indifference as a target": (
        lambda: rules.LogOdds.for_error(1.0),
        "`alpha` must be between 0 and 1, ends left out, got 1.0. It is a probability of error.",
    ),
    "name in capitals": (
        lambda: rules.rule_named("MSPRT"),
        "`rule` must be one of 'fixed_time', 'give_up', 'halting', 'log_odds', 'msprt', 'not_before', 'patience', "
        "'probability_threshold', 'single_label', got 'MSPRT'. "
        "Did you mean 'msprt'?",
    ),
    "rule that has no threshold to sweep": (
        lambda: evaluate.sat_curve(S, Y, rule=rules.Patience),
        "`rule` must be a class of threshold rules, for example MSPRT, got <class 'sooner.rules.timed.Patience'>. "
        "Only a threshold can be swept.",
    ),
    "patience with a name for a rule": (
        lambda: rules.Patience(2, "msprt"),
        "`rule` must be a rule, for example MSPRT(2.0), got 'msprt'. Make one of it first.",
    ),
    "vector of thresholds for bounds": (
        lambda: bounds.error_bounds([1.0, 2.0], classes=2),
        "`threshold` must be of shape (2, 2), got shape (2,). Give a number or one entry for each pair of classes.",
    ),
    "observations of another process": (
        lambda: data.AR1((0.1, 0.9)).scores(torch.zeros(1, 3, 2)),
        "`observations` must be of shape (batch, time, 1) with at least 1 observation, got shape (1, 3, 2). "
        "That is what `sample` draws.",
    ),
    "seed that is none": (
        lambda: data.AR1((0.1, 0.9)).sample(1, 1, seed=1.5),
        "`seed` must be a whole number, got 1.5. It is a whole number; the same one gives the same draws.",
    ),
    "statistic with a hole": (
        lambda: evaluate.stopping_curve(NAN[..., 0], S[..., 0].long(), Y, classes=4),
        "`statistic` must be free of NaN, got NaN. Check for a missing value or a diverged training.",
    ),
    "times for decisions": (
        lambda: evaluate.hitting_times([1, 2]),
        "`decisions` must be Decisions, got a list. Take what a rule's `decide` gives; `mean_time` also reads plain times.",
    ),
    "complex threshold": (
        lambda: MSPRT(np.full((2, 2), 1j)),
        "`threshold` must be of real numbers, got dtype torch.complex128. Take the real part, or its absolute value.",
    ),
    "time zero": (
        lambda: rules.FixedTime(0),
        "`time` must be at least 1, got 0.0. Times count observations from 1.",
    ),
    "half a patience": (
        lambda: rules.Patience(1.5),
        "`count` must be a whole number, got 1.5. It is the number of agreeing observations in a row.",
    ),
    "probability in percent": (
        lambda: rules.ProbabilityThreshold(95),
        "`probability` must be in 0..1, got 95.0. The leader's posterior is compared with it.",
    ),
    "two targets": (
        lambda: evaluate.choose_rule(MSPRT, S, Y, max_error=0.1, max_mean_time=3),
        "`max_error` must be the one target, or else max_mean_time or cost_of_waiting, "
        "got ['max_error', 'max_mean_time']. Give exactly one.",
    ),
    "error in percent": (
        lambda: evaluate.choose_rule(MSPRT, S, Y, max_error=2),
        "`max_error` must be in 0..1, got 2.0. It is a fraction: 0.02 means 2%.",
    ),
    "predictions of another length": (
        lambda: evaluate.balanced_error([0, 1], [0, 1, 1]),
        "`labels` must be of the shape of the predictions (2,), one axis, got shape (3,). "
        "Give one true label for each prediction.",
    ),
    "error over nobody": (
        lambda: evaluate.balanced_error([], []),
        "`labels` must be of at least 1 series, got an empty batch. The error of an empty batch is undefined.",
    ),
    "covariance that is none": (
        lambda: data.Gaussian([[0.0], [1.0]], [[-1.0]]),
        "`covariance` must be symmetric and positive definite, of shape (1, 1), got [[-1.0]]. "
        "Use the sample covariance of independent channels, or the identity.",
    ),
    "unit root": (
        lambda: data.AR1((0.0, 1.0)),
        "`coefficients` must be at least 2 numbers between -1 and 1, got [0.0, 1.0]. Others are not stationary.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_every_loss_refuses_what_it_cannot_mean(name):
    loss = losses.SCORE_LOSSES[name]
    for bad in (NAN, INF, S[0], S[:0], S[..., :1]):
        with pytest.raises(InvalidArgument, match=r"^`(scores|labels)` must be"):
            loss(bad, Y[: len(bad)])
    with pytest.raises(InvalidArgument, match=r"^`labels` must be in"):
        loss(S, Y + 4)


def test_one_family_catches_everything_and_stays_a_value_error():
    with pytest.raises(SoonerError):
        MSPRT(-1.0)
    with pytest.raises(ValueError, match="threshold"):
        MSPRT(-1.0)
