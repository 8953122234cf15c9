"""The exact curve against one decision run for each of its thresholds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner.errors import InvalidArgument
from sooner.evaluate import balanced_error, choose_rule, hitting_times, sat_curve, stopping_curve
from sooner.rules import MSPRT, FixedTime, LogOdds, ProbabilityThreshold, leader
from sooner.scores import margin


@st.composite
def cases(draw):
    batch, time, classes = draw(st.integers(1, 8)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    seed, coarse = draw(st.integers(0, 10_000)), draw(st.booleans())
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(batch, time, classes, generator=generator, dtype=torch.float64).cumsum(dim=1)
    scores = scores.round() if coarse else scores
    labels = torch.randint(classes, (batch,), generator=generator)
    return scores, labels, torch.randint(1, time + 1, (batch,), generator=generator)


def _assert_exact(curve, rule, scores, labels, lengths):
    assert (np.diff(curve.thresholds) > 0).all()
    assert (np.diff(curve.mean_times) >= 0).all()
    thresholds = curve.thresholds
    if rule in (LogOdds, ProbabilityThreshold):
        # An exponential may differ in its last bit between one call and another, so these are tried inside each interval.
        keep = np.flatnonzero(np.diff(thresholds[:-1], prepend=-np.inf) > 1e-9)
        thresholds = np.where(np.isin(np.arange(len(thresholds)), keep), thresholds - 1e-10, np.nan)
    for j, threshold in enumerate(thresholds):
        if np.isnan(threshold):
            continue
        decisions = rule.at(threshold).decide(scores, lengths)
        times = hitting_times(decisions)
        assert curve.mean_times[j] == pytest.approx(times.mean)
        assert curve.errors[j] == balanced_error(decisions, labels)
        assert curve.error_rates[j] == (decisions.labels != labels.numpy()).mean()
        assert curve.forced[j] == pytest.approx(times.forced)
        full = np.full(len(labels), scores.shape[1]) if lengths is None else lengths.numpy()
        assert curve.earliness[j] == pytest.approx((decisions.times / full).mean())


@given(cases(), st.sampled_from([MSPRT, LogOdds, ProbabilityThreshold, FixedTime]))
def test_every_point_is_what_the_rule_gives_at_its_threshold(case, rule):
    scores, labels, lengths = case
    _assert_exact(sat_curve(scores, labels, lengths=lengths, rule=rule), rule, scores, labels, lengths)


@given(cases())
def test_between_two_thresholds_nothing_happens(case):
    scores, labels, lengths = case
    curve = sat_curve(scores, labels, lengths=lengths)
    between = (curve.thresholds[:-2] + curve.thresholds[1:-1]) / 2
    for j, threshold in enumerate(between, start=1):
        decisions = MSPRT(threshold).decide(scores, lengths)
        assert curve.mean_times[j] == pytest.approx(hitting_times(decisions).mean)
        assert curve.errors[j] == pytest.approx(balanced_error(decisions, labels), abs=1e-12)


def test_curve_is_exact_for_float32_scores_too():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 10, 5, generator=generator).cumsum(dim=1)
    labels = torch.arange(40) % 5
    _assert_exact(sat_curve(scores, labels), MSPRT, scores, labels, None)


def test_thresholds_are_compared_as_they_are_not_as_the_scores_are_stored():
    """In float32 the margin 0.7 lies below the number 0.7, and in bfloat16 the margin 1 lies below 1.003."""
    scores = torch.tensor([[[0.7, 0.0], [9.0, 0.0]]])
    assert MSPRT(0.7).decide(scores).times == [2]
    assert MSPRT(np.full((2, 2), 0.7)).decide(scores).times == [2]
    assert MSPRT(1.003).decide(torch.tensor([[[1.0, 0.0], [9.0, 0.0]]]).bfloat16()).times == [2]


def test_an_error_that_is_attained_can_be_asked_for():
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(57, 12, 3, generator=generator, dtype=torch.float64).cumsum(dim=1)
        labels = torch.randint(3, (57,), generator=generator)
        attained = balanced_error(MSPRT(2.0).decide(scores), labels)
        assert balanced_error(choose_rule(MSPRT, scores, labels, max_error=attained).decide(scores), labels) <= attained
        mean = hitting_times(MSPRT(2.0).decide(scores)).mean
        assert hitting_times(choose_rule(MSPRT, scores, labels, max_mean_time=mean).decide(scores)).mean == mean


def test_any_statistic_can_be_swept():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(30, 7, 3, generator=generator, dtype=torch.float64)
    labels = torch.arange(30) % 3
    lengths = torch.randint(1, 8, (30,), generator=generator)
    own = stopping_curve(margin(scores), leader(scores), labels, lengths=lengths, classes=3)
    ours = sat_curve(scores, labels, lengths=lengths)
    for name in ("thresholds", "mean_times", "errors", "forced"):
        np.testing.assert_array_equal(getattr(own, name), getattr(ours, name))


@pytest.mark.parametrize(
    ("statistic", "labels", "said"),
    [
        ([[0.0, np.inf], [0.0, 1.0]], [0, 1], "`statistic` must be finite, got inf at series 0, time 1"),
        ([[0.0, np.nan], [0.0, 1.0]], [0, 1], "`statistic` must be free of NaN, got NaN."),
        (np.zeros((2, 0)), [0, 1], "`statistic` must be of shape (batch, time) with at least 1 observation"),
        (np.zeros((0, 2)), [], "`statistic` must be a batch of at least 1 series"),
        ([[0.0, 1.0], [0.0, 1.0]], [0, 3], "`labels` must be in 0..2, got 3 at index 1. The scores have 3 classes"),
        ([[0.0, 1.0], [0.0, 1.0]], [0], "`labels` must be of shape (batch,) = (2,), got shape (1,)."),
    ],
)
def test_a_statistic_that_cannot_be_swept_is_refused(statistic, labels, said):
    predictions = np.zeros(np.shape(statistic), dtype=np.int64)
    with pytest.raises(InvalidArgument) as caught:
        stopping_curve(statistic, predictions, labels, classes=3)
    assert str(caught.value).startswith(said)


def test_padding_of_a_statistic_is_never_looked_at_unless_it_is_no_number():
    curve = stopping_curve([[1.0, np.inf], [2.0, 3.0]], [[0, 0], [1, 1]], [0, 1], lengths=[1, 2], classes=2)
    assert curve.thresholds.tolist() == [1.0, 2.0, 3.0, np.inf]


def test_curve_ends_at_the_end_of_every_series():
    scores = torch.zeros(3, 5, 2)
    curve = sat_curve(scores, [0, 1, 1], lengths=[2, 3, 4])
    assert curve.thresholds[-1] == np.inf
    assert curve.mean_times[-1] == 3.0
    assert curve.forced[-1] == 1.0


def test_absent_classes_are_left_out_and_said():
    scores = torch.tensor([[[5.0, 0.0, 0.0]], [[0.0, 0.0, 5.0]]])
    curve = sat_curve(scores, [0, 0])
    assert curve.absent == (1, 2)
    assert curve.errors[0] == 0.5


def test_error_at_interpolates_and_is_blank_before_the_first_point():
    scores = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]])
    curve = sat_curve(scores, [0, 1])  # (1, 0.5), (1.5, 0), (2, 0), ...
    assert curve.error_at(1.25) == pytest.approx(0.25)
    assert np.isnan(curve.error_at(0.9))
    np.testing.assert_allclose(curve.error_at([1.0, 1.5, 2.0, 7.0]), [0.5, 0.0, 0.0, 0.0])


def test_a_curve_draws_itself():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    curve = sat_curve(torch.zeros(2, 3, 2), [0, 1])
    assert curve.plot(axes, label="test") is axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 100 * curve.errors)
