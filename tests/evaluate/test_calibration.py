import json

import numpy as np
import pytest
from sklearn.metrics import log_loss as reference_log_loss

from sooner.errors import InvalidArgument
from sooner.evaluate import expected_calibration_error, log_loss, reliability

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet([0.5] * 4, 200)
LABELS = RNG.integers(0, 4, 200)


def test_the_calibration_error_is_that_of_its_definition():
    best, right = SHARES.max(axis=1), SHARES.argmax(axis=1) == LABELS
    gaps = []
    for low in np.arange(10) / 10:
        here = (best >= low) & (best < low + 0.1)
        gaps.append(abs(best[here].sum() - right[here].sum()))
    assert expected_calibration_error(SHARES, LABELS, bins=10) == pytest.approx(sum(gaps) / 200)


def test_log_loss_is_that_of_scikit_learn():
    assert log_loss(SHARES, LABELS) == pytest.approx(reference_log_loss(LABELS, SHARES))
    assert reliability(SHARES, LABELS).log_loss == log_loss(SHARES, LABELS)


def test_every_series_is_in_one_bin_whose_edges_hold_its_mean_confidence():
    found = reliability(SHARES, LABELS, bins=7)
    filled = found.counts > 0
    assert found.counts.sum() == 200
    assert (found.confidence >= found.edges[:-1])[filled].all()
    assert (found.confidence <= found.edges[1:])[filled].all()
    assert ((found.low <= found.accuracy) & (found.accuracy <= found.high))[filled].all()


def test_labels_drawn_from_the_probabilities_have_a_small_error():
    shares = RNG.dirichlet([0.5] * 3, 20_000)
    drawn = (RNG.random(20_000)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    assert expected_calibration_error(shares, drawn) < 0.01


def test_a_certain_probability_lies_in_the_last_bin():
    assert reliability([[1.0, 0.0]], [0], bins=4).counts.tolist() == [0, 0, 0, 1]


def test_a_true_class_of_probability_zero_has_an_infinite_loss():
    assert log_loss([[1.0, 0.0]], [1]) == np.inf


def test_empty_bins_are_none_in_json():
    found = json.loads(json.dumps(reliability([[0.9, 0.1]], [0], bins=2).to_dict()))
    assert found["accuracy"] == [None, 1.0]
    assert found["error"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("shares", "labels"),
    [([[0.5, 0.6]], [0]), ([[1.5, -0.5]], [0]), ([0.5, 0.5], [0]), ([[0.5, 0.5]], [2]), ([[0.5, 0.5]], [0, 1])],
)
def test_what_is_no_probability_or_no_label_is_refused(shares, labels):
    with pytest.raises(InvalidArgument):
        reliability(shares, labels)
