"""The records decide as the rule does, at any threshold, and their sums along the curve are those of the decisions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner.report import Evaluation
from sooner.report.payload import pack
from sooner.report.records import Records
from sooner.rules import MSPRT, FixedTime, LogOdds, ProbabilityThreshold


@st.composite
def evaluations(draw):
    batch, time, classes = draw(st.integers(1, 8)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    scores = torch.randn(batch, time, classes, generator=generator, dtype=torch.float64).cumsum(dim=1)
    scores = scores.round() if draw(st.booleans()) else scores
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    rule = draw(st.sampled_from([MSPRT, LogOdds, ProbabilityThreshold, FixedTime]))
    return Evaluation(scores, torch.randint(classes, (batch,), generator=generator), 1.0, lengths=lengths, rule=rule)


def _thresholds(evaluation):
    """Points of the curve; where an exponential may be rounded otherwise, just below them, if there is room."""
    thresholds = evaluation.curve.thresholds
    if evaluation.rule in (LogOdds, ProbabilityThreshold):
        room = np.diff(thresholds[:-1], prepend=-np.inf) > 1e-9
        return np.append(thresholds[:-1][room] - 1e-10, np.inf)
    return thresholds


@given(evaluations())
def test_records_decide_as_the_rule_does(evaluation):
    records = Records.of(evaluation)
    for threshold in _thresholds(evaluation):
        decisions = evaluation.rule.at(float(threshold)).decide(evaluation.scores, evaluation.lengths)
        assert records.decide(threshold) == decisions


@given(evaluations())
def test_sums_along_the_curve_are_those_of_the_decisions(evaluation):
    records, classes = Records.of(evaluation), evaluation.scores.shape[2]
    thresholds = evaluation.curve.thresholds
    wrong = records.wrong_along(thresholds, classes=classes)
    times = records.along(thresholds, np.zeros_like(records.times), records.times, size=1)
    for j, threshold in enumerate(thresholds):
        decisions = records.decide(threshold)
        expected = np.bincount(records.truths, decisions.labels != records.truths, minlength=classes)
        np.testing.assert_array_equal(wrong[j], expected)
        assert times[j, 0] == decisions.times.sum()


@given(evaluations(), st.data())
def test_some_of_the_records_decide_as_all_of_them_do(evaluation, data):
    records = Records.of(evaluation)
    some = np.array(data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1)))
    for threshold in evaluation.curve.thresholds:
        part, whole = records.take(some).decide(threshold), records.decide(threshold)
        np.testing.assert_array_equal(part.labels, whole.labels[some])
        np.testing.assert_array_equal(part.times, whole.times[some])
        np.testing.assert_array_equal(part.crossed, whole.crossed[some])


@pytest.mark.parametrize(
    ("array", "kind", "size"),
    [
        (np.array([0, 255]), "u1", 2),
        (np.array([0, 256]), "u2", 4),
        (np.array([70_000]), "u4", 4),
        (np.array([2**40 + 1]), "f8", 8),
        (np.array([0.5, np.inf]), "f4", 8),
        (np.array([0.1]), "f8", 8),
        (np.zeros(0, dtype=np.int64), "u1", 0),
    ],
)
def test_arrays_are_packed_into_the_least_bytes_that_hold_them_exactly(array, kind, size):
    import base64

    packed = pack(array)
    data = base64.b64decode(packed["data"])
    assert (packed["type"], len(data)) == (kind, size)
    np.testing.assert_array_equal(np.frombuffer(data, dtype=f"<{kind}"), array)
