"""The series of a plan: which of them, with which masks."""

from pathlib import Path

import pytest
import torch

from sooner.data.sets.mnist import LabelledImages, Mnist
from sooner.errors import InvalidArgument
from sooner.lab.experiments import sets
from sooner.lab.experiments.plan import DataPlan
from sooner.lab.experiments.sets import SPLITS, Sets, Videos
from sooner.train import Drawn


def _part(size, shift):
    # No pixel is 255, so whatever is 255 in a frame is hidden. The tenth digit is a stranger to no other.
    images = ((torch.arange(size)[:, None] + torch.arange(784) + shift) % 255).to(torch.uint8)
    return LabelledImages(images.reshape(size, 28, 28), (torch.arange(size) * 7 + shift) % 10)


@pytest.fixture(autouse=True)
def digits(monkeypatch):
    """100 series of each class to train on, 20 for validation, 10 for tests."""
    made = Mnist(_part(1000, 0), _part(200, 1), _part(100, 2))
    monkeypatch.setattr(sets, "_digits", lambda: made)
    return made


def _frames(split="train", *, masks="fixed", seed=0, kind="nmnist-h", **changes):
    return Sets(DataPlan(kind, **changes)).frames(split, masks=masks, seed=seed)


def _counts(source):
    return torch.bincount(source.labels, minlength=10).tolist()


# --- masks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masks", ["fixed", "redrawn"])
@pytest.mark.parametrize("kind", ["nmnist", "nmnist-h", "nmnist-100f"])
def test_the_three_splits_share_no_masks(kind, masks):
    shown = []
    for split in SPLITS:
        frames = _frames(split, kind=kind, masks=masks).observe(torch.arange(50), 0)
        shown.append((frames != 255).flatten(2)[:, 9])
    assert len(torch.unique(torch.cat(shown), dim=0)) == 150


def test_fixed_masks_are_the_same_in_every_epoch_and_for_every_seed():
    rows = torch.arange(20)
    once = _frames().observe(rows, 0)
    assert torch.equal(_frames().observe(rows, 3), once)
    assert torch.equal(_frames(seed=5).observe(rows, 3), once)


def test_redrawn_masks_are_others_in_every_epoch_and_for_every_seed_and_the_same_for_the_same():
    rows = torch.arange(20)

    def drawn(seed, epoch):
        return _frames(masks="redrawn", seed=seed).observe(rows, epoch)

    variants = [drawn(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    masks = torch.cat([(frames != 255).flatten(2)[:, 9] for frames in variants])
    assert len(torch.unique(masks, dim=0)) == 20 * 6
    assert torch.equal(drawn(1, 2), variants[5])


def test_frames_show_the_images_of_their_split_as_bytes(digits):
    for split in SPLITS:
        source = _frames(split)
        frames = source.observe(torch.arange(30), 0)
        images = getattr(digits, split).images[:30, None].expand_as(frames)
        assert isinstance(source, Drawn)
        assert source.shape == (20, 28, 28)
        assert bool(((frames == images) | (frames == 255)).all())
        assert torch.equal(source.labels, getattr(digits, split).labels)


@pytest.mark.parametrize(("kind", "time"), [("nmnist", 20), ("nmnist-h", 20), ("nmnist-100f", 100)])
def test_every_set_has_its_time_and_ten_classes(kind, time):
    source = _frames(kind=kind)
    assert source.shape == (time, 28, 28)
    assert source.observe(torch.arange(2), 0).shape == (2, time, 28, 28)
    assert Sets(DataPlan(kind)).classes == 10


# --- which series -------------------------------------------------------------------------------------------------------


def test_the_first_so_many_series_are_taken(digits):
    plan = {"train": 300, "validation": 50, "test": 30}
    for split in SPLITS:
        source = _frames(split, **plan)
        assert len(source) == plan[split]
        assert torch.equal(source.labels, getattr(digits, split).labels[: plan[split]])
        rows = torch.arange(20)
        whole = _frames(split).observe(rows, 0)
        assert torch.equal(source.observe(rows, 0), whole)


def test_more_than_there_are_is_all_there_are():
    assert len(_frames(train=10**6)) == 1000


def test_equal_frequencies_leave_the_set_as_it_is():
    assert _counts(_frames()) == [100] * 10


def test_tenfold_frequencies_fall_tenfold_in_training_and_validation_and_leave_the_test_set_alone():
    expected = [100 * 10 ** (-k / 9) for k in range(10)]
    train, validation, test = (_counts(_frames(split, frequencies="tenfold")) for split in SPLITS)
    assert (train[0], train[9]) == (100, 10)
    assert all(abs(count - share) <= 0.5 for count, share in zip(train, expected, strict=True))
    assert (validation[0], validation[9]) == (20, 2)
    assert all(abs(count - share / 5) <= 0.5 for count, share in zip(validation, expected, strict=True))
    assert test == [10] * 10


def test_tenfold_thins_out_what_a_plan_takes_and_leaves_each_class_at_least_one(digits):
    source = _frames(frequencies="tenfold", train=300)
    assert _counts(source)[:2] == [30, round(30 * 10 ** (-1 / 9))]
    assert _counts(source)[9] == 3
    assert min(_counts(_frames(frequencies="tenfold", train=30))) == 1
    # The images still belong to their labels, in the order of the set.
    kept = [row for row in range(300) if digits.train.labels[row] == 9][:3]
    rows = (source.labels == 9).nonzero()[:, 0]
    frames = source.observe(rows, 0)
    assert bool(((frames == digits.train.images[kept][:, None]) | (frames == 255)).all())


def test_what_the_series_depend_on_is_their_identity():
    plans = [
        DataPlan("nmnist-h"),
        DataPlan("nmnist"),
        DataPlan("nmnist-h", "tenfold"),
        DataPlan("nmnist-h", train=5),
        DataPlan("nmnist-h", validation=5),
        DataPlan("nmnist-h", test=5),
    ]
    told = [str(Sets(plan, work=Path("here")).identity) for plan in plans]
    assert len(set(told)) == len(plans)
    assert str(Sets(plans[0], work=Path("there")).identity) == told[0]


# --- videos -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ucf101", "hmdb51"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda found: found.classes,
        lambda found: found.identity,
        lambda found: found.frames("train", masks="fixed", seed=0),
    ],
    ids=["classes", "identity", "frames"],
)
def test_videos_without_features_are_told_the_way(kind, ask):
    with pytest.raises(InvalidArgument) as caught:
        ask(Sets(DataPlan(kind)))
    assert str(caught.value) == (
        f"`features` must be the features of {kind}, got nothing. Make them with `sooner data features`, then name their "
        "folder and that of the split files."
    )


def test_videos_whose_split_files_are_not_there_are_told_so(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^`splits` must be a folder"):
        Sets(DataPlan("ucf101"), Videos(tmp_path / "features", tmp_path / "splits")).identity  # noqa: B018
