"""The record: what users bring becomes one finite tensor, or one clear sentence."""

import numpy as np
import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.series import Series, with_mask
from sooner.series.arrays import read_aeon

NAN = float("nan")
RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(1, 40, size=300)
CASES = [RANDOM.normal(3.0, 5.0, size=(2, length)) for length in LENGTHS]
NAMES = np.array(["cat", "ant", "bee"])[RANDOM.integers(0, 3, size=300)]
GROUPS = RANDOM.integers(0, 30, size=300)
UNEQUAL = Series.from_aeon(CASES, NAMES, groups=GROUPS)


def _ragged(series):
    return [x[:length].tolist() for x, length in zip(series.observations, series.lengths, strict=True)]


def test_unequal_series_keep_their_lengths_values_and_names():
    assert UNEQUAL.observations.shape == (300, 39, 2)
    assert UNEQUAL.lengths.tolist() == LENGTHS.tolist()
    assert UNEQUAL.classes.tolist() == ["ant", "bee", "cat"]
    assert UNEQUAL.names(UNEQUAL.labels).tolist() == NAMES.tolist()
    assert _ragged(UNEQUAL) == [case.T.tolist() for case in CASES]
    beyond = torch.arange(39) >= UNEQUAL.lengths[:, None]
    assert not UNEQUAL.observations[beyond].any()


def test_every_layout_of_the_same_data_is_the_same_record():
    x = RANDOM.normal(size=(6, 3, 5))
    y = [1, 0, 1, 0, 2, 2]
    layouts = [
        Series.from_aeon(x, y),
        Series.from_aeon(list(x), y),
        Series.from_aeon(torch.from_numpy(x), torch.tensor(y)),
        Series.from_aeon(x.tolist(), y),
        Series.from_arrays(x.transpose(0, 2, 1), y),
    ]
    for series in layouts:
        assert torch.equal(series.observations, torch.from_numpy(x).transpose(1, 2))
        assert series.lengths.tolist() == [5] * 6
        assert series.labels.tolist() == y
        assert series.features == (3,)


def test_a_table_is_one_channel():
    x = RANDOM.normal(size=(4, 7))
    for series in (
        Series.from_aeon(x, list("abab")),
        Series.from_aeon(list(x), list("abab")),
        Series.from_arrays(x, list("abab")),
    ):
        assert series.observations.shape == (4, 7, 1)
        assert torch.equal(series.observations[..., 0], torch.from_numpy(x))


def test_cases_of_different_types_lose_nothing():
    series = Series.from_aeon([np.array([[True, False]]), [[1, 2]], np.array([[0.5]], dtype=np.float32)], [0, 1, 0])
    assert _ragged(series) == [[[1.0], [0.0]], [[1.0], [2.0]], [[0.5]]]


def test_images_and_bytes_stay_what_they_are():
    frames = torch.randint(0, 255, (4, 3, 8, 8), dtype=torch.uint8)
    series = Series.from_arrays(frames, [0, 1, 0, 1], lengths=[3, 2, 1, 3])
    assert series.observations.dtype == torch.uint8
    assert series.features == (8, 8)
    assert not series.observations[1, 2:].any()
    assert torch.equal(series.observations[0], frames[0])


@pytest.mark.parametrize("y", [[True, False], [2.5, -1.0], ["b", "a"], [10, 7], np.array(["x", "aa"], dtype=object)])
def test_labels_of_any_type_keep_their_names(y):
    series = Series.from_aeon(np.zeros((2, 1, 3)), y)
    assert series.labels.tolist() == [1, 0]
    assert series.names([1, 0]).tolist() == np.asarray(y).tolist()


def test_given_classes_keep_their_order_and_may_be_absent():
    series = Series.from_aeon(np.zeros((2, 1, 3)), ["b", "c"], classes=["c", "b", "a"])
    assert series.labels.tolist() == [1, 0]
    assert series.class_counts().tolist() == [1, 1, 0]


def test_padding_may_hold_anything():
    x = torch.ones(2, 3, 1)
    x[1, 1:] = NAN
    series = Series.from_arrays(x, [0, 1], lengths=[3, 1])
    assert series.observations[1].flatten().tolist() == [1.0, 0.0, 0.0]


def test_take_keeps_order_and_is_as_long_as_the_longest():
    part = UNEQUAL.take([7, 3, 7])
    assert _ragged(part) == [_ragged(UNEQUAL)[place] for place in (7, 3, 7)]
    assert part.observations.shape[1] == max(LENGTHS[7], LENGTHS[3])
    assert part.groups.tolist() == GROUPS[[7, 3, 7]].tolist()
    assert part.classes.tolist() == UNEQUAL.classes.tolist()


def test_a_split_takes_its_share_of_every_class_and_loses_nobody():
    rest, held = UNEQUAL.split(0.25, seed=0)
    assert len(rest) + len(held) == 300
    np.testing.assert_allclose(held.class_counts(), 0.25 * UNEQUAL.class_counts(), atol=0.51)
    assert sorted(_ragged(rest) + _ragged(held)) == sorted(_ragged(UNEQUAL))
    assert _ragged(UNEQUAL.split(0.25, seed=0)[1]) == _ragged(held)
    assert _ragged(UNEQUAL.split(0.25, seed=1)[1]) != _ragged(held)


def test_small_classes_are_on_both_sides_and_single_series_stay():
    series = Series.from_aeon(np.zeros((5, 1, 2)), ["a", "a", "b", "b", "c"])
    rest, held = series.split(0.01, seed=0)
    assert rest.class_counts().tolist() == [1, 1, 1]
    assert held.class_counts().tolist() == [1, 1, 0]


def test_a_split_by_group_tears_no_group():
    rest, held = UNEQUAL.split_by_group(0.3, seed=0)
    assert not set(rest.groups) & set(held.groups)
    assert len(rest) + len(held) == 300
    assert abs(len(held) - 90) <= np.bincount(GROUPS).max()
    assert set(UNEQUAL.split_by_group(0.3, seed=1)[1].groups) != set(held.groups)


def test_batches_hold_everyone_once_and_need_little_padding():
    batches = list(UNEQUAL.batches(16, seed=0))
    assert sorted(len(batch) for batch in batches) == [12] + [16] * 18
    assert sorted(series for batch in batches for series in _ragged(batch)) == sorted(_ragged(UNEQUAL))
    padded = sum(batch.observations.shape[0] * batch.observations.shape[1] for batch in batches)
    assert padded < 1.1 * LENGTHS.sum() < 39 * 300
    order = [batch.observations.shape[1] for batch in batches]
    assert order != sorted(order)


def test_batches_of_equal_lengths_are_a_shuffle_that_the_seed_decides():
    series = Series.from_aeon(np.arange(100.0)[:, None, None], np.arange(100) % 2)
    first, again, other = (np.concatenate(series.batch_indices(10, seed)) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert sorted(first) == list(range(100))


def test_missing_values_become_zero_beside_a_mask():
    x = [np.array([[1.0, NAN, 3.0], [NAN, 5.0, 6.0]]), np.array([[7.0], [8.0]])]
    series = Series.from_aeon(x, [0, 1], missing="mask")
    assert series.observations.tolist() == [
        [[1, 0, 1, 0], [0, 5, 0, 1], [3, 6, 1, 1]],
        [[7, 8, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert series.mask_channels == 2
    assert torch.equal(with_mask(x[0].T), series.observations[0])


def test_unlabelled_data_are_read_alike():
    observations, lengths = read_aeon(CASES)
    assert torch.equal(observations, UNEQUAL.observations)
    assert torch.equal(lengths, UNEQUAL.lengths)


HOLE = np.zeros((3, 2, 4))
HOLE[1, 0, 2] = NAN
INFINITE = HOLE.copy()
INFINITE[2, 1, 3] = np.inf
ZEROS = np.zeros((3, 2, 4))
ABA = ["a", "b", "a"]

MESSAGES = {
    "a missing value": (
        lambda: Series.from_aeon(HOLE, ABA),
        "`X` must be finite, got nan at series 1, time 2, channel 0 (counted from 0). Fill missing values in, or pass "
        'missing="mask"; unequal lengths need no padding with NaN.',
    ),
    "infinity under a mask": (
        lambda: Series.from_aeon(INFINITE, ABA, missing="mask"),
        "`X` must be finite, got inf at series 2, time 3, channel 1 (counted from 0). "
        "An infinite value is not a missing value: check it.",
    ),
    "a missing pixel": (
        lambda: Series.from_arrays(HOLE[..., None], ABA, missing="mask"),
        '`observations` must be of shape (series, time, channels) with missing="mask", got shape (3, 2, 4, 1). '
        "A mask belongs to a channel; flatten images to channels.",
    ),
    "another word for missing": (
        lambda: Series.from_aeon(HOLE, ABA, missing="masks"),
        "`missing` must be one of 'mask', 'refuse', got 'masks'. Did you mean 'mask'?",
    ),
    "mixed channel counts": (
        lambda: Series.from_aeon([np.zeros((2, 4)), np.zeros((3, 4))], [0, 1]),
        "`X` must be of one number of channels, got 2 channel(s) in series 0 and 3 in series 1. Each series is "
        "(n_channels, n_timepoints); give them the same channels in the same order.",
    ),
    "one class": (
        lambda: Series.from_aeon(ZEROS, ["a"] * 3),
        "`labels` must be of at least 2 classes, got only ['a']. With one class there is nothing to decide.",
    ),
    "no series in a list": (
        lambda: Series.from_aeon([], []),
        "`X` must be at least 1 series, got none. Check the program that read the data.",
    ),
    "no series in an array": (
        lambda: Series.from_aeon(ZEROS[:0], []),
        "`X` must be a batch of at least 1 series, got an empty batch. Skip empty batches before the call.",
    ),
    "an empty series": (
        lambda: Series.from_aeon([np.zeros((2, 4)), np.zeros((2, 0))], [0, 1]),
        "`X[1]` must be of shape (n_channels, n_timepoints) with at least 1 of each, got shape (2, 0). Drop empty series.",
    ),
    "words for numbers": (
        lambda: Series.from_aeon([["up", "down"], ["down", "up"]], [0, 1]),
        "`X[0]` must be an array of numbers, all rows of one length, got a list. "
        "Pass a torch tensor or a NumPy array of a numeric type.",
    ),
    "four axes": (
        lambda: Series.from_aeon(ZEROS[None], [0]),
        "`X` must be of shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), got shape (1, 3, 2, 4). "
        "Series of unequal lengths come as a list of (n_channels, n_timepoints).",
    ),
    "complex numbers": (
        lambda: Series.from_aeon(ZEROS * 1j, ABA),
        "`X` must be of real numbers, got dtype torch.complex128. Take the real part, or its absolute value.",
    ),
    "complex numbers in a list": (
        lambda: Series.from_aeon([np.zeros((1, 2)), np.zeros((1, 2)) * 1j], [0, 1]),
        "`X` must be of real numbers, got dtype torch.complex128. Take the real part, or its absolute value.",
    ),
    "too few labels": (
        lambda: Series.from_aeon(ZEROS, ["a", "b"]),
        "`labels` must be of shape (3,), got shape (2,). Give one for each series.",
    ),
    "an unlabelled series": (
        lambda: Series.from_aeon(ZEROS, ["a", None, "b"]),
        "`labels` must be known for every series, got None at index 1. Drop the series, or name its class.",
    ),
    "a label that is no number": (
        lambda: Series.from_aeon(ZEROS, [0.0, 1.0, NAN]),
        "`labels` must be known for every series, got nan at index 2. Drop the series, or name its class.",
    ),
    "labels of two types": (
        lambda: Series.from_aeon(ZEROS, np.array(["a", 1, "b"], dtype=object)),
        "`labels` must be of one type, got int and str. Turn them all into text.",
    ),
    "a label that training never saw": (
        lambda: Series.from_aeon(ZEROS, ["a", "b", "z"], classes=["a", "b"]),
        "`labels` must be among the classes ['a', 'b'], got 'z' at index 2. Drop it, or add it to the classes.",
    ),
    "a class named twice": (
        lambda: Series.from_arrays(torch.zeros(1, 2), ["a"], classes=["a", "a"]),
        "`classes` must be different names in one row, got ['a', 'a']. Give each class once.",
    ),
    "a group too few": (
        lambda: Series.from_aeon(ZEROS, ABA, groups=[1, 2]),
        "`groups` must be of shape (3,), got shape (2,). Give one for each series.",
    ),
    "groups that nobody gave": (
        lambda: Series.from_aeon(ZEROS, ABA).split_by_group(0.5, 0),
        "`groups` must be known for a split by group, got None. Give one group for each series, for example the person "
        "or the machine it comes from.",
    ),
    "one group": (
        lambda: Series.from_aeon(ZEROS, ABA, groups=[7, 7, 7]).split_by_group(0.5, 0),
        "`groups` must be at least 2 different ones, got 1. Give one group for each series, for example the person "
        "or the machine it comes from.",
    ),
    "a share of everything": (
        lambda: UNEQUAL.split(1.0, 0),
        "`share` must be between 0 and 1, ends left out, got 1.0. It is a fraction of the series: 0.2 means 20%.",
    ),
    "nothing to split": (
        lambda: Series.from_aeon(ZEROS, ["a", "b", "c"]).split(0.5, 0),
        "`labels` must be those of at least 2 series of one class to be split, got 3 series of 3 different classes. "
        "Bring more series of each class.",
    ),
    "a mask for places": (
        lambda: UNEQUAL.take(np.ones(300, dtype=bool)),
        "`indices` must be at least 1 whole number, got shape (300,), dtype bool. "
        "Turn a mask into indices: np.flatnonzero(mask).",
    ),
    "a place beyond the end": (
        lambda: UNEQUAL.take([0, 300]),
        "`indices` must be in 0..299, got 300 at index 1. There are 300 series.",
    ),
    "a batch of nobody": (
        lambda: UNEQUAL.batch_indices(0, 0),
        "`size` must be at least 1, got 0.0. It is the number of series in a batch.",
    ),
    "groups of two types": (
        lambda: Series.from_aeon(ZEROS, ABA, groups=np.array(["a", 1, None], dtype=object)).split_by_group(0.5, 0),
        "`groups` must be of one type, got NoneType and int and str. Turn them all into text.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message
