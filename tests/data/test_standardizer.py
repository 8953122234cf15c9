"""Standardising: the numbers of the training set alone, the same live and in a batch."""

import numpy as np
import pytest
import torch

from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument
from sooner.series import Series, with_mask

NAN = float("nan")
RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(1, 40, size=300)
CASES = [RANDOM.normal(3.0, 5.0, size=(2, length)) for length in LENGTHS]
UNEQUAL = Series.from_aeon(CASES, RANDOM.integers(0, 3, size=300))


def test_standardised_training_data_have_mean_zero_and_deviation_one():
    live = torch.arange(39) < UNEQUAL.lengths[:, None]
    x = Standardizer.fit(UNEQUAL).apply(UNEQUAL)
    assert x.observations.dtype == torch.float32
    values = x.observations[live].double()
    torch.testing.assert_close(values.mean(dim=0), torch.zeros(2, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.std(dim=0, correction=0), torch.ones(2, dtype=torch.float64), atol=1e-5, rtol=0)
    assert not x.observations[~live].any()


def test_standardising_never_looks_ahead_nor_at_the_other_part():
    rest, held = UNEQUAL.split(0.3, seed=0)
    standardizer = Standardizer.fit(rest)
    whole = standardizer.apply(held)
    cut = held.observations.clone()
    cut[:, 5:] = 1e6
    changed = standardizer.apply_step(cut)
    live = whole.lengths > 5
    assert torch.equal(changed[live, :5], whole.observations[live, :5])
    for time in range(5):
        step = standardizer.apply_step(held.observations[:, time])
        assert torch.equal(step[live], whole.observations[live, time])


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -3e-9])
def test_a_feature_that_never_changes_becomes_zero(value):
    series = Series.from_aeon(np.full((50, 1, 31), value), np.arange(50) % 2)
    standardizer = Standardizer.fit(series)
    assert standardizer.scale.tolist() == [1.0]
    assert standardizer.apply(series).observations.abs().max() < 1e-6


def test_large_offsets_do_not_swallow_the_signal():
    x = 1e9 + RANDOM.normal(size=(50, 1, 20))
    series = Series.from_aeon(x, np.arange(50) % 2)
    got = Standardizer.fit(series).apply(series).observations[..., 0].numpy()
    np.testing.assert_allclose(got, (x[:, 0] - x.mean()) / x.std(), atol=1e-5)


def test_missing_values_take_no_part_in_standardising():
    x = RANDOM.normal(4.0, 2.0, size=(40, 2, 9))
    x[RANDOM.random(x.shape) < 0.3] = NAN
    series = Series.from_aeon(x, np.arange(40) % 2, missing="mask")
    standardizer = Standardizer.fit(series)
    np.testing.assert_allclose(standardizer.mean, np.nanmean(x, axis=(0, 2)))
    np.testing.assert_allclose(standardizer.scale, np.nanstd(x, axis=(0, 2)))
    standard = standardizer.apply(series)
    values, mask = standard.observations[..., :2], standard.observations[..., 2:]
    assert torch.equal(mask, series.observations[..., 2:].float())
    assert not values[mask == 0].any()
    live = standardizer.apply_step(with_mask(x[:, :, 4]))
    assert torch.equal(live, standard.observations[:, 4])


def test_an_observation_of_another_shape_gets_this_sentence():
    with pytest.raises(InvalidArgument) as caught:
        Standardizer.fit(UNEQUAL).apply_step([1.0, 2.0, 3.0])
    assert str(caught.value) == (
        "`observations` must be of shape (..., 2), got shape (3,). It was fitted on observations of that shape."
    )
