"""The set that needs no download."""

import torch

from sooner.data import digits
from sooner.series import Series

PARTS = digits.load()


def test_three_parts_hold_every_digit_once_and_in_equal_shares():
    assert all(isinstance(part, Series) for part in PARTS)
    assert sum(map(len, PARTS)) == 1797
    for part, share in zip(PARTS, (0.6, 0.2, 0.2), strict=True):
        assert part.observations.shape[1:] == (16, 64)
        assert part.observations.dtype == torch.float32
        counts = part.class_counts()
        assert counts.min() > 0.95 * share * 174
        assert counts.max() < 1.05 * share * 183
    last = torch.cat([part.observations[:, -1] for part in PARTS])
    assert len(torch.unique(last, dim=0)) == 1797


def test_frame_t_shows_at_most_four_t_pixels_and_keeps_them():
    x = PARTS.train.observations
    # A shown pixel of middle grey looks like a hidden one, so numbers are upper bounds until all are shown.
    shown = x != digits.HIDDEN
    assert bool((shown.sum(dim=2) <= 4 * torch.arange(1, 17)).all())
    assert bool((shown[:, 1:] >= shown[:, :-1]).all())
    assert bool(((x == x[:, -1:]) | (x == digits.HIDDEN)).all())
    never_grey = (x[:, -1] != digits.HIDDEN).all(dim=1)
    assert bool((shown[never_grey].sum(dim=2) == 4 * torch.arange(1, 17)).all())


def test_the_last_frame_is_the_image_of_scikit_learn_from_paper_to_ink():
    from sklearn.datasets import load_digits

    images = torch.from_numpy(load_digits().data).float() / 8 - 1
    last = torch.cat([part.observations[:, -1] for part in PARTS])
    assert torch.equal(torch.unique(last, dim=0), torch.unique(images, dim=0))
    assert (float(last.min()), float(last.max())) == (-1.0, 1.0)


def test_a_seed_decides_masks_and_parts():
    again, other = digits.load(), digits.load(seed=1)
    assert torch.equal(again.train.observations, PARTS.train.observations)
    assert not torch.equal(other.train.observations, PARTS.train.observations)
    assert [len(part) for part in other] == [len(part) for part in PARTS]


def test_the_parts_are_learnable_from_the_last_frame():
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(3).fit(PARTS.train.observations[:, -1], PARTS.train.labels)
    assert model.score(PARTS.test.observations[:, -1], PARTS.test.labels) > 0.95
    assert model.score(PARTS.test.observations[:, 0], PARTS.test.labels) < 0.5
