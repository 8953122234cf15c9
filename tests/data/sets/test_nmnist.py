"""The three sets: what each frame shows, and that a number decides it alone."""

import hashlib

import numpy as np
import pytest
import torch

from sooner.data.sets.nmnist import Nmnist, draws, random_orders, stream_keys
from sooner.errors import InvalidArgument

KINDS = ("nmnist", "nmnist-h", "nmnist-100f")
# No pixel is 255, so whatever is 255 in a frame is hidden.
IMAGES = torch.from_numpy((np.arange(40 * 784) * 7919 % 255).astype(np.uint8).reshape(40, 28, 28))
LABELS = torch.arange(40) % 10


def _set(kind="nmnist-h", **changes):
    return Nmnist(IMAGES, LABELS, kind=kind, **changes)


def _shown(frames):
    return (frames != 255).flatten(2)


@pytest.mark.parametrize(("kind", "pixels"), [("nmnist", 40), ("nmnist-h", 10)])
def test_frame_t_shows_exactly_so_many_pixels_and_all_that_came_before(kind, pixels):
    frames, labels = _set(kind).batch(range(40))
    shown = _shown(frames)
    assert frames.shape == (40, 20, 28, 28)
    assert labels.tolist() == LABELS.tolist()
    expected = [min(pixels * t, 784) for t in range(1, 21)]
    assert shown.sum(dim=2).tolist() == [expected] * 40
    assert bool((shown[:, 1:] >= shown[:, :-1]).all())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shown_is_the_image_and_the_rest_is_255(kind):
    frames, _ = _set(kind).batch(range(40))
    image = IMAGES[:, None].expand_as(frames)
    assert bool(((frames == image) | (frames == 255)).all())


@pytest.mark.parametrize("kind", KINDS)
def test_floats_are_the_bytes_scaled_to_minus_one_to_one(kind):
    whole, _ = _set(kind).batch([3, 4])
    scaled, _ = _set(kind).batch([3, 4], dtype="float32")
    assert scaled.dtype == torch.float32
    assert torch.equal(scaled, whole.float() / 127.5 - 1)
    assert float(scaled.max()) == 1.0


def test_frames_of_100f_show_fifteen_draws_with_replacement():
    digits = Nmnist(
        torch.zeros(300, 28, 28, dtype=torch.uint8), torch.zeros(300, dtype=torch.int64), kind="nmnist-100f"
    )
    counts = _shown(digits.batch(range(300))[0]).sum(dim=2).double()
    assert counts.shape == (300, 100)
    assert int(counts.max()) == 15
    # The number of different ones among 15 draws from 784, its mean and its variance, in closed form.
    miss, both = (783 / 784) ** 15, (782 / 784) ** 15
    mean, variance = 784 * (1 - miss), 784 * miss * (1 - miss) + 784 * 783 * (both - miss**2)
    assert float(counts.mean()) == pytest.approx(mean, abs=5 * (variance / counts.numel()) ** 0.5)
    assert float(counts.var()) == pytest.approx(variance, rel=0.1)


def test_frames_of_100f_are_independent_and_every_pixel_is_as_likely():
    digits = Nmnist(
        torch.zeros(300, 28, 28, dtype=torch.uint8), torch.zeros(300, dtype=torch.int64), kind="nmnist-100f"
    )
    shown = _shown(digits.batch(range(300))[0]).double()
    chance = 1 - (783 / 784) ** 15
    expected = 30_000 * chance
    chi2 = float(((shown.sum(dim=(0, 1)) - expected) ** 2 / (expected * (1 - chance))).sum())
    assert 784 - 5 * (2 * 784) ** 0.5 < chi2 < 784 + 5 * (2 * 784) ** 0.5
    overlap = float((shown[:, 1:] * shown[:, :-1]).sum(dim=2).mean())
    assert overlap == pytest.approx(784 * chance**2, rel=0.05)


def test_orders_are_permutations_in_which_every_place_is_as_likely():
    orders = random_orders(stream_keys((9,), np.arange(20_000)), 10)
    assert (np.sort(orders, axis=1) == np.arange(10)).all()
    table = np.stack([(orders == item).sum(axis=0) for item in range(10)])
    assert ((table - 2000) ** 2 / 1800).sum() < 81 + 5 * (2 * 81) ** 0.5


def _mixed(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


def test_orders_and_draws_are_those_of_whole_numbers_without_numpy():
    keys = stream_keys((3, 2**62), np.arange(5))
    golden, stream = 0x9E3779B97F4A7C15, 0
    for part in (3, 2**62):
        stream = _mixed(((stream ^ part) + golden) % 2**64)
    for index, order, drawn in zip(range(5), random_orders(keys, 784), draws(keys, 30, 784), strict=True):
        key = _mixed(stream ^ _mixed(index + 1))
        words = [_mixed((key + (j + 1) * golden) % 2**64) for j in range(784)]
        assert sorted(range(784), key=lambda j, words=words: (words[j] >> 10, j)) == order.tolist()
        assert [(word >> 32) * 784 >> 32 for word in words[:30]] == drawn.tolist()


def test_draws_stay_in_range():
    drawn = draws(stream_keys((9,), np.arange(100)), 50, 7)
    assert set(np.unique(drawn)) == set(range(7))


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("nmnist", "9a69144cfe3eaba9fbc6e43cb973b325eb5dd52461c67c63e0c26d8766d9b50b"),
        ("nmnist-h", "dc77b1939f3bac3c9bf0b1cc5ad90981c093bf76c6907d50274626aa5681b757"),
        ("nmnist-100f", "9aa3fea5270754387db196fa58a1afc9d745eff1e0acfcefee323c4f19154479"),
    ],
)
def test_every_machine_makes_the_same_bytes(kind, digest):
    frames, _ = _set(kind, split="validation", seed=5).batch([0, 7, 39], epoch=2)
    assert hashlib.sha256(frames.numpy().tobytes()).hexdigest() == digest


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_alone_is_what_it_is_in_a_batch(kind):
    digits = _set(kind, seed=3)
    together, _ = digits.batch([5, 31, 5, 2], epoch=1)
    for row, index in enumerate((5, 31, 5, 2)):
        alone, labels = digits.batch([index], epoch=1)
        assert torch.equal(alone[0], together[row])
        assert labels.tolist() == [index % 10]


def test_masks_differ_between_sets_splits_seeds_epochs_and_images():
    variants = [
        _set(split=split, seed=seed).batch(range(40), epoch=epoch)[0]
        for split in ("train", "validation", "test")
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    masks = torch.cat([_shown(frames)[:, 9] for frames in variants])
    assert len(torch.unique(masks, dim=0)) == len(masks) == 40 * 12
    # Masks of 100 in 784 that know nothing of each other share 12.8 pixels.
    overlaps = masks.double() @ masks.double().T
    overlaps.fill_diagonal_(0)
    assert float(overlaps.max()) < 40
    first_of_h = _shown(_set("nmnist-h").batch([0])[0])[0, 3]
    first_of_nmnist = _shown(_set("nmnist").batch([0])[0])[0, 0]
    assert not torch.equal(first_of_h, first_of_nmnist)


def test_nobody_gets_an_empty_frame_of_the_wrong_shape():
    frames, labels = _set().batch(torch.zeros(0, dtype=torch.int64))
    assert frames.shape == (0, 20, 28, 28)
    assert labels.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _set("nmnist-x"), "`kind` must be one of 'nmnist', 'nmnist-100f', 'nmnist-h', got 'nmnist-x'"),
        (lambda: _set(split="dev"), "`split` must be one of 'test', 'train', 'validation', got 'dev'"),
        (
            lambda: Nmnist(IMAGES.float(), LABELS),
            "`images` must be uint8 of shape (series, 28, 28), got shape (40, 28, 28)",
        ),
        (lambda: Nmnist(IMAGES, LABELS[:3]), "`labels` must be of shape (batch,) = (40,), got shape (3,)"),
        (lambda: _set().batch([40]), "`indices` must be in 0..39, got 40 at index 0. There are 40 series."),
        (lambda: _set().batch([-1]), "`indices` must be in 0..39, got -1"),
        (
            lambda: _set().batch([0.5]),
            "`indices` must be whole numbers, got shape (1,), dtype float64. Turn a mask into indices",
        ),
        (lambda: _set().batch([0], epoch=-1), "`epoch` must be at least 0"),
        (lambda: _set().batch([0], dtype="float16"), "`dtype` must be one of 'float32', 'uint8', got 'float16'"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value).startswith(message)
