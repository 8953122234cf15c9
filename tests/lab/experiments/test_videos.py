"""From small real videos, through features, to the record of a plan."""

import json
from dataclasses import replace

import av
import numpy as np
import pytest
import torch
from torch import nn

from small_plan import Heard
from sooner.data.sets.video import View, extract, load, split_lists
from sooner.errors import InvalidArgument
from sooner.lab.experiments import Work, read_plan, result_of, run
from sooner.lab.experiments.plan import DataPlan
from sooner.lab.experiments.run import stages_of
from sooner.lab.experiments.sets import Sets, Videos

PLAIN = View(short=None, crop=None, mean=(0, 0, 0), std=(1, 1, 1))
CLASSES = {
    "ucf101": ("Archery", "HandstandPushups", "YoYo"),
    "hmdb51": ("clap", "sword_exercise"),
}
TIMES = {"ucf101": 50, "hmdb51": 79}
PLAN = """
title = "Videos"
times = [1, 2, 10, {last}]
headline = "MSPRT-TANDEM"
headline_times = [2]

[data]
set = "{kind}"

[models.MSPRT-TANDEM]
model = {{ hidden = 8, order = 2 }}
optimizer.lr = 3e-2
training = {{ batch_size = 8, iterations = 40, validate_every = 20 }}

[models."NP test"]
scores_of = "MSPRT-TANDEM"
rule = "fixed_time"
"""


class Colour(nn.Module):
    """The mean red, green and blue of an image, times a weight."""

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, images):
        return self.weight * images.mean(dim=(2, 3))


def _film(path, frames, label):
    """A video that is red, green or blue by its class, a little otherwise in each frame."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for frame in range(frames):
            image = np.full((32, 32, 3), 40 + frame, dtype=np.uint8)
            image[..., label] = 200
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def _ucf_lists(folder):
    """Four groups of two videos for training, the last two of them for validation, and a video of each class for tests."""
    folder.mkdir(parents=True)
    names = CLASSES["ucf101"]
    folder.joinpath("classInd.txt").write_text("".join(f"{place} {name}\n" for place, name in enumerate(names, 1)))
    train = [f"{name}/v_{name}_g{group:02d}_c{clip:02d}.avi" for name in names for group in range(4) for clip in (1, 2)]
    folder.joinpath("trainlist01.txt").write_text("".join(f"{name} 1\n" for name in train))
    folder.joinpath("testlist01.txt").write_text("".join(f"{name}/v_{name}_g09_c01.avi\n" for name in names))


def _hmdb_lists(folder):
    folder.mkdir(parents=True)
    for name in CLASSES["hmdb51"]:
        lines = [f"film{film}_{name}_{scene}.avi 1" for film in range(3) for scene in (0, 1)]
        lines += [f"tested_{name}_0.avi 2"]
        folder.joinpath(f"{name}_test_split1.txt").write_text("\n".join(lines) + "\n")


def _extracted(folder, kind, weight=1.0):
    kept = folder / f"kept-{weight:g}"
    extract(
        kind,
        videos=folder / "videos",
        splits=folder / "splits",
        backbone=Colour(weight),
        folder=kept,
        view=PLAIN,
        workers=1,
    )
    return Videos(kept, folder / "splits")


@pytest.fixture(scope="module", params=["ucf101", "hmdb51"])
def videos(request, tmp_path_factory):
    """A set of videos, of which some are longer than a clip: its name, its folder and its features."""
    kind, folder = request.param, tmp_path_factory.mktemp(request.param)
    {"ucf101": _ucf_lists, "hmdb51": _hmdb_lists}[kind](folder / "splits")
    for place, video in enumerate(split_lists(kind, folder / "splits").videos):
        _film(folder / "videos" / video.name, TIMES[kind] + 3 if place % 5 == 0 else 6, video.label)
    return kind, folder, _extracted(folder, kind)


def _plan(folder, kind):
    path = folder / f"{kind}.toml"
    path.write_text(PLAN.format(kind=kind, last=TIMES[kind]), encoding="utf-8")
    return read_plan(path, "paper")


def test_videos_come_to_a_record(videos, tmp_path):
    kind, _, kept = videos
    heard = Heard()
    plan, work = _plan(tmp_path, kind), Work(tmp_path / "runs", seeds=2, videos=kept, observer=heard)
    stages = run(plan, work)
    trainings = [f"MSPRT-TANDEM, seed {seed}" for seed in (0, 1)]
    assert heard.labels == [label for name in trainings for label in (name, f"scores of {name}")]
    result = result_of(plan, stages, work.folder)
    record = json.loads(json.dumps(result.to_dict("", ""), allow_nan=False))
    test = load(kind, splits=kept.splits, features=kept.features).test.series()
    classes = len(CLASSES[kind])
    for outcome in (each for outcomes in result.outcomes.values() for each in outcomes):
        assert [row.asked for row in outcome.rows] == [1, 2, 10, TIMES[kind]]
        assert {row.series for row in outcome.rows} == {tuple(test.class_counts().tolist())}
    assert (record["data"]["set"], record["encoder"], record["encoder_minutes"]) == (kind, None, None)
    assert record["headline"]["2"] < 100 * (1 - 1 / classes)
    scores = np.load(stages.trials[0].scores.folder(work.folder) / "scores.npy")
    assert scores.shape == (len(test), TIMES[kind], classes)
    assert np.isfinite(scores).all()
    again = Heard()
    run(plan, replace(work, observer=again))
    assert again.labels == []


def test_series_are_the_clips_of_their_split(videos, tmp_path):
    kind, _, kept = videos
    sets = Sets(DataPlan(kind), kept, tmp_path / "clips")
    splits = load(kind, splits=kept.splits, features=kept.features)
    assert sets.classes == len(CLASSES[kind])
    for name in ("train", "validation", "test"):
        source, clips = sets.frames(name, masks="fixed", seed=0), getattr(splits, name).series()
        assert torch.equal(source.labels, clips.labels)
        assert torch.equal(source.observations, clips.observations)
        assert source.shape == (TIMES[kind], 3)


def test_the_first_so_many_clips_are_taken(videos, tmp_path):
    kind, _, kept = videos
    sets = Sets(DataPlan(kind, test=1), kept, tmp_path / "clips")
    whole = Sets(DataPlan(kind), kept, tmp_path / "whole").frames("test", masks="fixed", seed=0)
    some = sets.frames("test", masks="fixed", seed=0)
    assert len(some) == 1 < len(whole)
    assert torch.equal(some.observations, whole.observations[:1])
    assert len(Sets(DataPlan(kind, test=99), kept, tmp_path).frames("test", masks="", seed=0)) == len(whole)


def test_too_few_clips_for_all_classes_are_told(videos, tmp_path):
    kind, _, kept = videos
    plan = replace(_plan(tmp_path, kind), data=DataPlan(kind, train=2))
    with pytest.raises(InvalidArgument, match=r"^`labels` must be of all \d classes, got none of class 1"):
        run(plan, Work(tmp_path / "runs", seeds=1, videos=kept))


def test_other_features_are_other_stages(videos, tmp_path):
    kind, folder, kept = videos
    plan = _plan(tmp_path, kind)
    work = Work(tmp_path / "runs", seeds=1, videos=kept)
    other = replace(work, videos=_extracted(folder, kind, 2.0))
    one, same, two = (stages_of(plan, each).trials[0].training.digest for each in (work, work, other))
    assert one == same != two


def test_a_view_picks_its_features_and_is_no_other_stage(videos, tmp_path):
    kind, folder, kept = videos
    plan = _plan(tmp_path, kind)
    whole = replace(plan, data=DataPlan(kind, view="whole"))
    with pytest.raises(InvalidArgument) as caught:
        stages_of(whole, Work(tmp_path / "runs", seeds=1, videos=kept))
    assert str(caught.value) == (
        f"`features` must be made with the view 'whole', got others in {next(kept.features.iterdir()).name}. "
        "Make them with `sooner data features --view whole`."
    )
    both = folder / "kept-both"
    for view in (PLAIN, View(short=None, crop=None)):
        arguments = {"videos": folder / "videos", "splits": folder / "splits", "backbone": Colour(), "workers": 1}
        last = extract(kind, folder=both, view=view, **arguments)
    picked, named = (
        stages_of(each, Work(tmp_path / "runs", seeds=1, videos=Videos(place, kept.splits))).trials[0].training.digest
        for each, place in ((whole, both), (plan, last.folder))
    )
    assert picked == named


def test_features_that_lie_elsewhere_are_the_same_stages(videos, tmp_path):
    kind, _, kept = videos
    (tmp_path / "moved").symlink_to(kept.features)
    plan = _plan(tmp_path, kind)
    moved = Videos(tmp_path / "moved", kept.splits)
    digests = {
        stages_of(plan, Work(tmp_path / "runs", seeds=1, videos=each)).trials[0].scores.digest for each in (kept, moved)
    }
    assert len(digests) == 1
