"""UCF101 and HMDB51 in small: real videos and split files in the layout of both, whole and damaged."""

import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sooner.bfloat16 import Support
from sooner.data.sets.video import VIDEO_SETS, Features, View, clip_indices, extract, load, read_frames, split_lists
from sooner.data.sets.video.features import extract_features, fingerprint
from sooner.data.sets.video.lists import video_files
from sooner.errors import InvalidArgument, UnknownName
from sooner.models.image.backbones import ResNet50, backbone_from_file

SMALL = View(short=32, crop=24)
PLAIN = View(short=None, crop=None, mean=(0, 0, 0), std=(1, 1, 1))


def _brightness(frame):
    """Gray values that tell the frames of a video apart after compression, too."""
    return 16 + 11 * frame % 220


def _film(path, frames, *, size=(64, 48), codec="mpeg4", colour=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.bit_rate = 4_000_000
        for frame in range(frames):
            image = np.full((size[1], size[0], 3), _brightness(frame) if colour is None else colour, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


class Colour(nn.Module):
    """The mean red, green and blue of an image, times a weight; counts its calls."""

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.calls = 0
        self.rows = []

    def forward(self, images):
        self.calls += 1
        self.rows.append(len(images))
        return self.weight * images.mean(dim=(2, 3))


# --- clips --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "clips"),
    [
        (1, [[0, 0, 0, 0]]),
        (3, [[0, 1, 2, 0]]),
        (4, [[0, 1, 2, 3]]),
        (5, [[0, 1, 2, 3], [1, 2, 3, 4]]),
        (8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (10, [[0, 1, 2, 3], [4, 5, 6, 7], [6, 7, 8, 9]]),
    ],
)
def test_short_videos_begin_anew_and_long_ones_end_with_their_last_frames(frames, clips):
    assert clip_indices(frames, 4).tolist() == clips


@given(frames=st.integers(1, 400), time=st.integers(1, 100))
def test_clips_are_consecutive_and_every_frame_is_in_one(frames, time):
    clips = clip_indices(frames, time)
    assert clips.shape == (-(-frames // time), time)
    assert set(clips.flatten().tolist()) == set(range(frames))
    assert ((np.diff(clips, axis=1) - 1) % frames == 0).all()
    assert frames < time or clips[-1, -1] == frames - 1


@pytest.mark.parametrize(("frames", "time", "name"), [(0, 4, "frames"), (4, 0, "time"), (4, 2.5, "time")])
def test_clips_of_nothing_are_refused(frames, time, name):
    with pytest.raises(InvalidArgument, match=rf"^`{name}` must be"):
        clip_indices(frames, time)


# --- lists --------------------------------------------------------------------------------------------------------------

UCF_CLASSES = ("Archery", "HandstandPushups", "Yo Yo")


def _ucf_lists(folder, groups=(8, 9, 10, 11), split=1, end="\r\n"):
    """Three classes, two videos a group for training, one test video each; blanks and Windows line ends as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    indices = "".join(f"{number} {name} {end}" for number, name in enumerate(UCF_CLASSES, start=1))
    folder.joinpath("classInd.txt").write_bytes(b"\xef\xbb\xbf" + indices.encode() + end.encode())
    train = [
        f"{name}/v_{name}_g{group:02d}_c{clip:02d}.avi {number}"
        for number, name in enumerate(UCF_CLASSES, start=1)
        for group in groups
        for clip in (1, 2)
    ]
    folder.joinpath(f"trainlist0{split}.txt").write_bytes(("".join(line + end for line in train)).encode())
    test = "".join(f"{name}/v_{name}_g01_c01.avi{end}" for name in UCF_CLASSES)
    folder.joinpath(f"testlist0{split}.txt").write_bytes(test.encode())
    return folder


HMDB_NAMES = {
    "clap": ["#20_Rhythm", "Applause_[HD]_(2)", "Zoe & Al; 100%"],
    "sword_exercise": ["sword_exercise_sword_exercise", "it's!!!", "ünï"],
}


def _hmdb_lists(folder, sources=None, split=1):
    folder.mkdir(parents=True, exist_ok=True)
    for name, films in (sources or HMDB_NAMES).items():
        lines = [f"{film}_{name}_f_cm_np1_fr_med_{scene}.avi 1 " for film in films for scene in (0, 1)]
        lines += [f"unused_{name}_f_cm_np1_fr_med_0.avi 0 ", f"tested_{name}_f_cm_np1_fr_med_0.avi 2 "]
        folder.joinpath(f"{name}_test_split{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder.joinpath("._clap_test_split1.txt").write_bytes(b"\x00\x05\x16\x07")
    return folder


def test_the_published_sizes_are_known():
    assert {kind: (known.time, known.classes) for kind, known in VIDEO_SETS.items()} == {
        "ucf101": (50, 101),
        "hmdb51": (79, 51),
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("below", ["", "ucfTrainTestlist"])
def test_ucf101_sets_the_last_two_groups_of_each_class_aside(tmp_path, end, below):
    _ucf_lists(tmp_path / below, end=end)
    lists = split_lists("ucf101", tmp_path)
    assert lists.classes == UCF_CLASSES
    assert len(lists.train) == len(lists.validation) == 12
    assert {video.group.split("/")[1] for video in lists.train} == {"g08", "g09"}
    assert {video.group.split("/")[1] for video in lists.validation} == {"g10", "g11"}
    assert [video.name for video in lists.test] == [f"{name}/v_{name}_g01_c01.avi" for name in UCF_CLASSES]
    assert all(video.name.startswith(UCF_CLASSES[video.label] + "/") for video in lists.videos)


def test_groups_follow_their_numbers_and_a_single_group_stays_in_training(tmp_path):
    assert {v.group[-3:] for v in split_lists("ucf101", _ucf_lists(tmp_path / "a", groups=(3, 7))).validation} == {
        "g07"
    }
    lists = split_lists("ucf101", _ucf_lists(tmp_path / "b", groups=(3,)))
    assert (len(lists.train), lists.validation) == (6, ())


def test_other_official_splits_are_read_from_their_own_files(tmp_path):
    _ucf_lists(tmp_path)
    _ucf_lists(tmp_path, groups=(2, 3, 4), split=2)
    assert {video.group[-3:] for video in split_lists("ucf101", tmp_path, 2).videos} == {"g01", "g02", "g03", "g04"}
    with pytest.raises(InvalidArgument, match=r"^`splits` must be a folder with trainlist03\.txt, got "):
        split_lists("ucf101", tmp_path, 3)


def test_hmdb51_takes_the_marked_videos_whatever_their_names(tmp_path):
    lists = split_lists("hmdb51", _hmdb_lists(tmp_path))
    assert lists.classes == ("clap", "sword_exercise")
    assert {video.name for video in lists.train} == {
        f"{name}/{film}_{name}_f_cm_np1_fr_med_{scene}.avi"
        for name, films in HMDB_NAMES.items()
        for film in sorted(films)[:2]
        for scene in (0, 1)
    }
    assert {video.group for video in lists.validation} == {"clap/Zoe & Al; 100%", "sword_exercise/ünï"}
    assert "sword_exercise/sword_exercise_sword_exercise" in {video.group for video in lists.train}
    assert [video.name for video in lists.test] == [
        "clap/tested_clap_f_cm_np1_fr_med_0.avi",
        "sword_exercise/tested_sword_exercise_f_cm_np1_fr_med_0.avi",
    ]


def test_hmdb51_sets_a_tenth_of_the_sources_of_each_class_aside(tmp_path):
    sources = {
        name: [f"film{number:02d}" for number in range(count)] for name, count in (("a", 35), ("b", 10), ("c", 2))
    }
    lists = split_lists("hmdb51", _hmdb_lists(tmp_path, sources))
    held = [sorted({v.group for v in lists.validation if v.label == label}) for label in range(3)]
    assert held == [["a/film32", "a/film33", "a/film34"], ["b/film09"], ["c/film01"]]
    assert {video.group for video in lists.train}.isdisjoint(video.group for video in lists.validation)
    assert len(lists.train) + len(lists.validation) == 2 * 47


def _changed(name, old, new):
    def change(folder):
        file = folder / name
        file.write_text(file.read_text(encoding="utf-8-sig").replace(old, new), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        (
            "ucf101",
            lambda f: f.joinpath("classInd.txt").unlink(),
            "a folder with classInd.txt, got {f}, which has none. Give",
        ),
        (
            "ucf101",
            lambda f: f.joinpath("testlist01.txt").write_text(" \r\n"),
            "a folder with videos listed in testlist01.txt, got an empty file. Unpack the official file again.",
        ),
        (
            "ucf101",
            _changed("classInd.txt", "2 Hand", "two Hand"),
            "lines such as '1 ApplyEyeMakeup' in classInd.txt, got 'two HandstandPushups' at line 2. Unpack",
        ),
        (
            "ucf101",
            _changed("classInd.txt", "2 Hand", f"{'2' * 5000} Hand"),
            f"lines such as '1 ApplyEyeMakeup' in classInd.txt, got '{'2' * 5000} HandstandPushups' at line 2. Unpack",
        ),
        (
            "ucf101",
            _changed("testlist01.txt", "v_Archery_g01_c01.avi", "archery"),
            "lines such as 'Archery/v_Archery_g01_c01.avi', got 'Archery/archery' at line 1 of testlist01.txt. Unpack",
        ),
        (
            "ucf101",
            _changed("classInd.txt", "3 Yo Yo", ""),
            "lists of the classes in classInd.txt, got 'Yo Yo' at line 17 of trainlist01.txt. Add it there.",
        ),
        (
            "ucf101",
            _changed("classInd.txt", "3 Yo Yo", "3 Yo Yo\n4 Zumba"),
            "lists with training videos of every class, got none of 'Zumba'. Take the class out of",
        ),
        (
            "ucf101",
            _changed("testlist01.txt", "g01", "g08"),
            "lists that name each video once, got 'Archery/v_Archery_g08_c01.avi' twice. "
            "A model must not be tested on a video that it was trained on.",
        ),
        (
            "hmdb51",
            _changed("clap_test_split1.txt", ".avi 2", ".avi 3"),
            "lines of a video and 0, 1 or 2, got 'tested_clap_f_cm_np1_fr_med_0.avi 3' at line 8 of clap_test_split1.txt. Un",
        ),
        (
            "hmdb51",
            lambda f: [file.unlink() for file in f.glob("[!.]*_split1.txt")],
            "a folder with files such as 'clap_test_split1.txt', got {f}, which has none. Give",
        ),
    ],
)
def test_lists_that_do_not_fit_are_refused_by_their_place(tmp_path, kind, change, sentence):
    folder = {"ucf101": _ucf_lists, "hmdb51": _hmdb_lists}[kind](tmp_path)
    change(folder)
    with pytest.raises(InvalidArgument) as caught:
        split_lists(kind, folder)
    assert str(caught.value).startswith(f"`splits` must be {sentence.format(f=folder)}")


def test_unknown_sets_splits_and_folders_are_refused(tmp_path):
    with pytest.raises(UnknownName, match=r"^`kind` must be one of 'hmdb51', 'ucf101', got 'ucf11'"):
        split_lists("ucf11", tmp_path)
    with pytest.raises(InvalidArgument, match=r"^`split` must be 1, 2 or 3, got 4"):
        split_lists("ucf101", tmp_path, 4)
    with pytest.raises(
        InvalidArgument, match=r"^`splits` must be a folder of split files, got .*no, which is no folder"
    ):
        split_lists("ucf101", tmp_path / "no")


def _touched(folder, names):
    for name in names:
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).touch()


@pytest.mark.parametrize("below", ["", "UCF-101"])
def test_videos_are_found_in_the_folder_or_where_the_archive_puts_them(tmp_path, below):
    lists = split_lists("ucf101", _ucf_lists(tmp_path / "lists"))
    _touched(tmp_path / "videos" / below, (video.name.replace("HandstandP", "HandStandP") for video in lists.videos))
    places = video_files("ucf101", tmp_path / "videos", lists)
    assert set(places) == {video.name for video in lists.videos}
    assert all(path.is_file() for path in places.values())


def test_a_folder_without_the_videos_of_a_class_is_refused_by_its_name(tmp_path):
    lists = split_lists("ucf101", _ucf_lists(tmp_path / "lists"))
    _touched(tmp_path / "videos", (video.name for video in lists.videos if video.label != 1))
    with pytest.raises(InvalidArgument) as caught:
        video_files("ucf101", tmp_path / "videos", lists)
    assert str(caught.value) == (
        f"`videos` must be a folder with videos of every class, got {tmp_path / 'videos'} with none of the listed videos of "
        "class 'HandstandPushups'. Give the folder that holds 'Archery' and the others, or shorten the split files."
    )
    with pytest.raises(InvalidArgument, match=r"with none of the listed videos of class 'Archery'\. Give the folder"):
        video_files("ucf101", tmp_path / "lists", lists)
    with pytest.raises(InvalidArgument, match=r"^`videos` must be a folder of videos, got .*no, which is no folder\."):
        video_files("ucf101", tmp_path / "no", lists)


# --- frames -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.avi", "b.mp4", "c.mkv", "#20_[x] (y)&!%d;: -).avi"])
def test_every_frame_comes_once_and_in_order(tmp_path, name):
    parts = list(read_frames(_film(tmp_path / name, 23), view=PLAIN, rows=10))
    assert [part.shape for part in parts] == [(10, 3, 48, 64), (10, 3, 48, 64), (3, 3, 48, 64)]
    seen = torch.cat(parts).double().mean(dim=(1, 2, 3))
    assert torch.cat(parts).dtype == torch.uint8
    assert seen.tolist() == pytest.approx([_brightness(frame) for frame in range(23)], abs=3)


def test_a_colon_in_a_name_is_no_protocol(tmp_path, monkeypatch):
    _film(tmp_path / "we:ird.avi", 3)
    monkeypatch.chdir(tmp_path)
    assert sum(map(len, read_frames("we:ird.avi", view=SMALL))) == 3


def test_colours_are_red_green_and_blue(tmp_path):
    (part,) = read_frames(_film(tmp_path / "red.avi", 2, colour=(250, 120, 10)), view=PLAIN)
    assert part[1].double().mean(dim=(1, 2)).tolist() == pytest.approx([250, 120, 10], abs=6)


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (View(), (224, 224)),
        (SMALL, (24, 24)),
        (View(short=32, crop=None), (32, 42)),
        (View(short=None, crop=48), (48, 48)),
    ],
)
def test_a_view_scales_the_short_side_and_cuts_the_middle(tmp_path, view, shape):
    (part,) = read_frames(_film(tmp_path / "a.avi", 2), view=view)
    assert part.shape == (2, 3, *shape)


def test_the_middle_of_a_frame_is_what_is_left(tmp_path):
    across = np.broadcast_to(3 * np.arange(64)[None, :, None] + 30, (48, 64, 3))
    down = np.broadcast_to(4 * np.arange(48)[:, None, None] + 30, (48, 64, 3))
    view = View(short=None, crop=24)
    (part,) = read_frames(_film(tmp_path / "across.avi", 1, colour=across), view=view)
    assert part[0].double().mean(dim=(0, 1)).tolist() == pytest.approx((3 * np.arange(20, 44) + 30).tolist(), abs=4)
    (part,) = read_frames(_film(tmp_path / "down.avi", 1, colour=down), view=view)
    assert part[0].double().mean(dim=(0, 2)).tolist() == pytest.approx((4 * np.arange(12, 36) + 30).tolist(), abs=4)


def test_a_view_normalises_as_torchvision_does():
    frames = torch.arange(3 * 4, dtype=torch.uint8).reshape(1, 3, 2, 2) * 20
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = (frames.double() / 255 - mean.double()[:, None, None]) / std.double()[:, None, None]
    torch.testing.assert_close(View().show(frames), expected.float())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"short": 0}, "`short` must be at least 1"),
        ({"short": 200}, "`crop` must be at most `short`, 200, got 224. It is cut out of the frame."),
        ({"std": (1, 0, 1)}, "`std` must be 3 finite numbers above 0, got (1.0, 0.0, 1.0)."),
        ({"mean": (0.5,)}, "`mean` must be 3 finite numbers, got (0.5,)."),
    ],
)
def test_a_view_of_nothing_is_refused(arguments, sentence):
    with pytest.raises(InvalidArgument) as caught:
        View(**arguments)
    assert str(caught.value).startswith(sentence)


def _cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def _drop(path, frame):
    """Empty a chunk of an AVI file and mend its sizes: the way in which encoders leave out a frame that does not change."""
    content = path.read_bytes()
    movi = content.index(b"movi")
    place = movi + 4
    for _ in range(frame):
        size = struct.unpack("<I", content[place + 4 : place + 8])[0]
        place += 8 + size + size % 2
    size = struct.unpack("<I", content[place + 4 : place + 8])[0]
    gone = size + size % 2
    index = content.index(b"idx1", movi) - gone
    mended = bytearray(content[: place + 4] + bytes(4) + content[place + 8 + gone :])
    for at, less in ((4, gone), (movi - 4, gone)):
        mended[at : at + 4] = struct.pack("<I", struct.unpack("<I", mended[at : at + 4])[0] - less)
    for entry in range(frame, struct.unpack("<I", mended[index + 4 : index + 8])[0] // 16):
        at = index + 8 + 16 * entry + 8
        offset, length = struct.unpack("<II", mended[at : at + 8])
        mended[at : at + 8] = struct.pack("<II", offset - gone * (entry > frame), length * (entry > frame))
    path.write_bytes(mended)


def _silence(path):
    with av.open(str(path), "w", format="avi") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), dtype=np.int16), format="s16", layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())


DAMAGES = {
    "missing": (Path.unlink, "it is not there"),
    "empty": (lambda path: path.write_bytes(b""), "it cannot be decoded ("),
    "noise": (lambda path: path.write_bytes(np.random.default_rng(0).bytes(9000)), "it cannot be decoded ("),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "it cannot be decoded ("),
    "half": (lambda path: _cut(path, 0.6), "it is truncated: "),
    "nearly whole": (lambda path: _cut(path, 0.9), "it is truncated: "),
    "without pictures": (_silence, "it has no video stream"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_video_is_named_with_the_reason(tmp_path, damage):
    path = _film(tmp_path / "a.avi", 60)
    spoil, reason = DAMAGES[damage]
    spoil(path)
    with pytest.raises(InvalidArgument) as caught:
        list(read_frames(path, view=SMALL))
    assert str(caught.value).startswith(f"`video` must be a whole video, got {str(path)!r}: {reason}")


def test_a_truncated_video_tells_how_much_of_it_is_left(tmp_path):
    path = _film(tmp_path / "a.avi", 60)
    _cut(path, 0.9)
    with pytest.raises(InvalidArgument) as caught:
        list(read_frames(path, view=SMALL))
    left = int(str(caught.value).split("truncated: ")[1].split()[0])
    assert 30 < left < 60
    assert "of the 60 frames that its header declares. Copy it again, or leave it out." in str(caught.value)


def test_a_video_with_left_out_frames_or_a_lost_index_is_whole(tmp_path):
    path = _film(tmp_path / "a.avi", 60)
    _drop(path, 30)
    assert sum(map(len, read_frames(path, view=SMALL))) == 59
    lost = _film(tmp_path / "b.avi", 60)
    _cut(lost, 0.98)
    assert sum(map(len, read_frames(lost, view=SMALL))) == 60


def test_frames_smaller_than_the_crop_are_a_fault_of_the_video(tmp_path):
    path = _film(tmp_path / "a.avi", 3)
    with pytest.raises(InvalidArgument, match=r"its frames of 64 x 48 pixels are smaller than the crop of 100\."):
        list(read_frames(path, view=View(short=None, crop=100)))


def test_without_pyav_the_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    sentence = '`videos` must be decoded by PyAV, got no package `av`. Install it: pip install "sooner[video]".'
    for call in (
        lambda: list(read_frames(tmp_path / "a.avi")),
        lambda: extract_features({"a": tmp_path / "a.avi"}, Colour(), tmp_path),
    ):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert str(caught.value) == sentence


# --- features -----------------------------------------------------------------------------------------------------------

COUNTS = {"A/one.avi": 5, "A/two [x].avi": 12, "B/three.avi": 30, "B/four.avi": 1}


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    return {name: _film(folder / name, count) for name, count in COUNTS.items()}


def _extracted(films, folder, backbone=None, **arguments):
    return extract_features(films, backbone or Colour(), folder, **{"view": SMALL, "dtype": "float32", **arguments})


def test_features_are_what_the_backbone_makes_of_each_frame(films, tmp_path):
    backbone = Colour(2.0)
    kept = _extracted(films, tmp_path, backbone, rows=8)
    assert (kept.width, kept.dtype, dict(kept.frames), kept.failed) == (3, "float32", COUNTS, ())
    for name, path in films.items():
        expected = torch.cat([2 * SMALL.show(part).mean(dim=(2, 3)) for part in read_frames(path, view=SMALL, rows=8)])
        vectors = kept.of(name)
        assert isinstance(vectors, np.memmap)
        np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-6)
    assert max(backbone.rows) == 8
    assert sum(backbone.rows) == sum(COUNTS.values()) + 2


def test_the_manifest_says_what_made_them_and_the_folder_holds_nothing_else(films, tmp_path):
    backbone = Colour()
    kept = _extracted(films, tmp_path, backbone, dtype="float16")
    said = json.loads((kept.folder / "manifest.json").read_text())
    assert said["architecture"] == "Colour"
    assert said["backbone"] == fingerprint(backbone)
    assert said["view"] == {"short": 32, "crop": 24, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    assert (said["dtype"], said["width"], said["videos"], said["failed"]) == ("float16", 3, COUNTS, {})
    files = {path.relative_to(kept.folder).as_posix() for path in kept.folder.rglob("*") if path.is_file()}
    assert files == {"manifest.json", *(f"{name}.npy" for name in COUNTS)}
    assert kept.of("A/one.avi").dtype == np.float16
    assert Features.open(tmp_path) == Features.open(kept.folder) == kept


@pytest.mark.parametrize("workers", [2, 5])
def test_any_number_of_workers_makes_the_same_bytes(films, tmp_path, workers):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.BatchNorm2d(16), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    alone = _extracted(films, tmp_path / "alone", backbone, workers=1, rows=7)
    together = _extracted(films, tmp_path / "together", backbone, workers=workers, rows=7)
    for name in COUNTS:
        assert alone.of(name).tobytes() == together.of(name).tobytes()


def test_the_backbone_serves_one_worker_at_a_time_and_remembers_no_gradients(films, tmp_path):
    inside, seen = threading.Lock(), set()

    def alone(images):
        assert inside.acquire(blocking=False)
        seen.add(threading.get_ident())
        time.sleep(0.01)
        inside.release()
        assert not torch.is_grad_enabled()
        return images.mean(dim=(2, 3))

    _extracted(films, tmp_path, Odd(alone), rows=2, workers=4)
    assert len(seen) > 2


def test_what_is_kept_is_not_made_again(films, tmp_path):
    first, second = Colour(), Colour()
    kept = _extracted(dict(list(films.items())[:2]), tmp_path, first)
    told = []
    again = _extracted(films, tmp_path, second, progress=lambda *said: told.append(said))
    assert again.folder == kept.folder
    assert sum(second.rows) == 30 + 1 + 2
    assert told[0] == ("", 2, 4)
    assert sorted(name for name, _, _ in told[1:]) == ["B/four.avi", "B/three.avi"]
    assert [(done, total) for _, done, total in told] == [(2, 4), (3, 4), (4, 4)]
    third = Colour()
    assert _extracted(films, tmp_path, third) == again
    assert third.rows == [2]


def test_an_interrupted_run_keeps_what_was_done(films, tmp_path):
    def interrupt(_video, done, _total):
        if done == 2:
            raise KeyboardInterrupt

    def slow(images):
        seen.append(len(images))
        time.sleep(0.005)
        return images.mean(dim=(2, 3))

    seen, threads = [], threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        _extracted(films, tmp_path, Odd(slow), progress=interrupt, workers=1, rows=1)
    assert sum(seen) < 2 + 5 + 12 + 30  # the third one was let go
    (cache,) = tmp_path.iterdir()
    done = json.loads((cache / "manifest.json").read_text())["videos"]
    assert list(done) == list(COUNTS)[:2]
    assert threading.active_count() == threads
    seen.clear()
    assert dict(_extracted(films, tmp_path, Odd(slow)).frames) == COUNTS
    assert sum(seen) == 2 + 30 + 1


def test_a_killed_run_leaves_only_whole_files(films, tmp_path):
    """The backbone kills its process on its way through the third video, while the features of that one are half done."""
    program = f"""
        import os, signal
        from pathlib import Path
        import torch
        from sooner.data.sets.video.features import extract_features
        from sooner.data.sets.video.frames import View
        class Colour(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.tensor(1.0))
                self.calls = 0
            def forward(self, images):
                self.calls += 1
                if self.calls == 6:
                    os.kill(os.getpid(), signal.SIGKILL)
                return self.weight * images.mean(dim=(2, 3))
        films = {{name: Path(path) for name, path in {[(name, str(path)) for name, path in films.items()]!r}}}
        view = View(short=32, crop=24)
        extract_features(films, Colour(), {str(tmp_path)!r}, view=view, dtype="float32", rows=8, workers=1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    (cache,) = tmp_path.iterdir()
    assert sorted(path.name for path in cache.rglob("*.npy")) == ["one.avi.npy", "two [x].avi.npy"]
    with pytest.raises(
        InvalidArgument, match=r"^`features` must be a folder with one cache of features, got .* holds none\."
    ):
        Features.open(tmp_path)
    backbone = Colour()
    kept = _extracted(films, tmp_path, backbone, rows=8)
    assert kept.folder == cache
    assert dict(kept.frames) == COUNTS
    assert sum(backbone.rows) == 30 + 1 + 2


def test_half_written_files_do_not_count_and_old_ones_are_swept(films, tmp_path):
    kept = _extracted(films, tmp_path)
    old, young = kept.folder / ".parts" / ".1-1.part", kept.folder / ".parts" / ".2-2.part"
    for part in (old, young):
        part.write_bytes(b"\x93NUMPY")
    os.utime(old, (0, 0))
    whole = (kept.folder / "B/three.avi.npy").read_bytes()
    (kept.folder / "B/three.avi.npy").write_bytes(whole[:-100])
    backbone = Colour()
    _extracted(films, tmp_path, backbone)
    assert sum(backbone.rows) == 30 + 2
    assert (kept.folder / "B/three.avi.npy").read_bytes() == whole
    assert (old.exists(), young.exists()) == (False, True)


def test_another_backbone_view_or_number_type_has_a_folder_of_its_own(films, tmp_path):
    some = {"A/one.avi": films["A/one.avi"]}
    torch.manual_seed(0)
    folders = {
        _extracted(some, tmp_path).folder,
        _extracted(some, tmp_path, Colour(1.5)).folder,
        _extracted(some, tmp_path, dtype="float16").folder,
        _extracted(some, tmp_path, view=View(short=32, crop=20)).folder,
        _extracted(some, tmp_path, nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten())).folder,
        _extracted(some, tmp_path, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())).folder,
    }
    assert len(folders) == 6
    with pytest.raises(InvalidArgument, match=r"got .*, which holds 6\. Give one of them: Colour-"):
        Features.open(tmp_path)


def test_a_fingerprint_is_that_of_weights_buffers_and_shape():
    def network(change=None):
        torch.manual_seed(0)
        made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(torch.bfloat16)
        if change:
            change(made)
        return made

    def touch_buffer(made):
        made[1].running_mean[2] = 1.0

    def touch_weight(made):
        made[0].weight.data[0, 0, 0, 0] = 3.0

    changed = (touch_buffer, touch_weight, lambda made: made.append(nn.Flatten()), lambda made: made.float())
    prints = {fingerprint(network(change)) for change in (None, *changed)}
    assert len(prints) == 5
    assert fingerprint(network()) in prints
    assert fingerprint(network().train()) == fingerprint(network().eval())


def test_a_bfloat16_backbone_is_refused_where_the_cpu_traps(films, tmp_path, monkeypatch):
    monkeypatch.setattr("sooner.bfloat16.probe.bfloat16_support", lambda: Support(False, "was killed by SIGILL"))
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).bfloat16()
    with pytest.raises(InvalidArgument, match="`backbone` must be in float32 on this CPU, got weights in bfloat16"):
        _extracted(films, tmp_path, backbone)


def test_code_of_a_program_is_in_its_fingerprint():
    one, other = (
        torch.fx.symbolic_trace(function) for function in (lambda x: x.mean(dim=(2, 3)), lambda x: x.amax(dim=(2, 3)))
    )
    assert fingerprint(one) != fingerprint(other)


def test_backbones_from_files_serve_and_are_known_again(films, tmp_path):
    torch.manual_seed(0)
    small = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    networks = {"weights": ResNet50().eval(), "program": small, "script": small}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("rows")},)
        program = torch.export.export(small, (torch.zeros(2, 3, 24, 24),), dynamic_shapes=shapes)
        torch.save(networks["weights"].state_dict(), tmp_path / "weights")
        torch.export.save(program, tmp_path / "program")
        torch.jit.save(torch.jit.script(small), tmp_path / "script")
    (part,) = read_frames(films["A/one.avi"], view=SMALL)
    prints = []
    for name, network in networks.items():
        kept = _extracted({"A/one.avi": films["A/one.avi"]}, tmp_path / "kept", backbone_from_file(tmp_path / name))
        with torch.no_grad():
            expected = network(SMALL.show(part))
        np.testing.assert_allclose(kept.of("A/one.avi"), expected.numpy(), rtol=1e-4, atol=1e-5)
        prints.append(json.loads((kept.folder / "manifest.json").read_text())["backbone"])
    assert [fingerprint(backbone_from_file(tmp_path / name)) for name in networks] == prints
    assert len(set(prints)) == 3


def test_the_backbone_is_left_as_it_was_found(films, tmp_path):
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    backbone[1].eval()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    _extracted(films, tmp_path, backbone)
    assert [module.training for module in backbone] == [True, False, True, True, True]
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_damaged_videos_are_told_at_the_end_and_tried_again(films, tmp_path):
    spoiled = {f"C/{name}.avi": _film(tmp_path / f"{name}.avi", 60) for name in DAMAGES}
    for name, (spoil, _) in DAMAGES.items():
        spoil(tmp_path / f"{name}.avi")
    kept = _extracted({**spoiled, **films}, tmp_path / "cache")
    assert dict(kept.frames) == COUNTS
    assert {name for name, _ in kept.failed} == set(spoiled)
    for name, reason in kept.failed:
        assert reason.startswith(DAMAGES[name[2:-4]][1])
    assert Features.open(tmp_path / "cache").failed == kept.failed
    (tmp_path / "a folder.avi").rmdir()
    for name in DAMAGES:
        _film(tmp_path / f"{name}.avi", 7)
    mended = _extracted({**spoiled, **films}, tmp_path / "cache")
    assert mended.failed == Features.open(tmp_path / "cache").failed == ()
    assert dict(mended.frames) == COUNTS | dict.fromkeys(spoiled, 7)


def test_a_video_that_broke_after_its_features_were_lost_is_not_counted_any_more(tmp_path):
    film = {"a.avi": _film(tmp_path / "a.avi", 7)}
    kept = _extracted(film, tmp_path)
    (kept.folder / "a.avi.npy").unlink()
    film["a.avi"].unlink()
    again = _extracted(film, tmp_path)
    assert (dict(again.frames), again.failed) == ({}, (("a.avi", "it is not there"),))


def test_runs_over_parts_of_a_set_add_up(films, tmp_path):
    for name, path in films.items():
        kept = _extracted({name: path}, tmp_path)
    assert dict(kept.frames) == COUNTS


def test_a_full_disk_is_not_blamed_on_a_video(films, tmp_path, monkeypatch):
    def full(_file, _array, **_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left on device"):
        _extracted(films, tmp_path)
    assert list(tmp_path.glob("*/.parts/*")) == []


class Odd(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, images):
        return self.make(images)


@pytest.mark.parametrize(
    ("make", "dtype", "sentence"),
    [
        (
            lambda x: x,
            "float32",
            "a module from images (rows, 3, 24, 24) to vectors (rows, width), got an output of shape",
        ),
        (
            lambda x: x.mean(),
            "float32",
            "a module from images (rows, 3, 24, 24) to vectors (rows, width), got an output of",
        ),
        (
            lambda x: x @ torch.ones(3, 3),
            "float32",
            "a module from images (rows, 3, 24, 24) to vectors (rows, width), got Run",
        ),
        (
            lambda x: x.mean(dim=(2, 3)) * 0 + 1e6,
            "float16",
            "one whose vectors are finite in float16, got 1000000.0 for frame 0 of 'A/one.avi'. Pass dtype=\"float32\"",
        ),
        (
            lambda x: x.mean(dim=(2, 3)) / 0 if len(x) == 5 else x.mean(dim=(2, 3)),
            "float32",
            "one whose vectors are finite in float32, got -inf for frame 0 of 'A/one.avi'. Pass",
        ),
    ],
)
def test_what_is_no_backbone_is_refused(films, tmp_path, make, dtype, sentence):
    with pytest.raises(InvalidArgument) as caught:
        _extracted({"A/one.avi": films["A/one.avi"]}, tmp_path, Odd(make), dtype=dtype)
    assert str(caught.value).startswith(f"`backbone` must be {sentence}")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"dtype": "float8"}, "`dtype` must be one of 'float16', 'float32', got 'float8'."),
        ({"rows": 0}, "`rows` must be at least 1, got 0.0."),
        ({"workers": 0}, "`workers` must be at least 1, got 0.0."),
    ],
)
def test_arguments_out_of_range_are_refused(films, tmp_path, arguments, sentence):
    with pytest.raises(InvalidArgument) as caught:
        _extracted(films, tmp_path, **arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", ["../up.avi", "/root.avi", ""])
def test_names_that_lead_out_of_the_cache_are_refused(films, tmp_path, name):
    with pytest.raises(InvalidArgument, match=r"^`videos` must be named by a path below their folder, got "):
        _extracted({name: films["A/one.avi"]}, tmp_path / "cache")
    assert not (tmp_path / "up.avi.npy").exists()


def test_a_damaged_manifest_is_told_with_the_way_out(films, tmp_path):
    kept = _extracted(films, tmp_path)
    (kept.folder / "manifest.json").write_text("{}")
    with pytest.raises(
        InvalidArgument, match=r"Remove that file and run the extraction again: features that are there are"
    ):
        Features.open(tmp_path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"width": 3, "dtype": "float32", "view": {}, "videos": [], "failed": {}}']
)
def test_a_manifest_of_something_else_is_told_too(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InvalidArgument, match=r"which cannot be read \((Recursion|Type)Error"):
        Features.open(tmp_path)


@pytest.mark.parametrize("other", [b"(3, 1)", b"((((1 ", b"(3, 99999999999999999999)"])
def test_features_of_another_shape_than_the_manifest_says_are_not_taken(tmp_path, other):
    kept = Features(tmp_path, 2, "float32", {"a": 3})
    np.save(tmp_path / "a.npy", np.ones((3, 2), dtype=np.float32))
    assert kept.of("a").shape == (3, 2)
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(3, 2), }".ljust(len(other) + 3), other + b", }"))
    damaged = (tmp_path / "a.npy").read_bytes()
    for wrong in (damaged, content[:8] + b"\x20" + content[9:]):  # the second states another length of its header
        (tmp_path / "a.npy").write_bytes(wrong)
        _refuses_features(kept)


def _refuses_features(kept):
    with pytest.raises(InvalidArgument, match=r"one with features, got 'a', whose file in .* cannot be read"):
        kept.of("a")


# --- both sets, from end to end -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ucf(tmp_path_factory):
    """Archery has short videos, HandstandPushups exact ones, Yo Yo long ones, for T = 6."""
    folder = tmp_path_factory.mktemp("ucf")
    lists = split_lists("ucf101", _ucf_lists(folder / "splits"))
    for video in lists.videos:
        _film(folder / "videos" / "UCF-101" / video.name, (4, 6, 15)[video.label])
    extract(
        "ucf101",
        videos=folder / "videos",
        splits=folder / "splits",
        backbone=Colour(),
        folder=folder / "kept",
        view=PLAIN,
    )
    return folder


def test_ucf101_goes_from_videos_to_series(ucf):
    splits = load("ucf101", splits=ucf / "splits", features=ucf / "kept", time=6)
    assert splits.failed == ()
    assert [len(part) for part in splits[:3]] == [4 * (1 + 1 + 3)] * 2 + [5]
    series = splits.train.series()
    assert series.observations.shape == (20, 6, 3)
    assert series.observations.dtype == torch.float16
    assert series.classes.tolist() == list(UCF_CLASSES)
    assert series.class_counts().tolist() == [4, 4, 12]
    assert set(series.groups.tolist()) == {f"{name}/g{group:02d}" for name in UCF_CLASSES for group in (8, 9)}
    frames = [clip_indices(count, 6) for count in (4, 6, 15) for _ in range(4)]
    expected = np.concatenate([_brightness(indices) / 255 for indices in frames])
    np.testing.assert_allclose(series.observations.float().mean(dim=2), expected, atol=0.015)


def test_the_published_time_of_a_set_is_taken_unless_another_is_given(ucf):
    splits = load("ucf101", splits=ucf / "splits", features=ucf / "kept")
    assert splits.test.series().observations.shape == (3, 50, 3)
    with pytest.raises(InvalidArgument, match=r"^`time` must be at least 1, got 0"):
        load("ucf101", splits=ucf / "splits", features=ucf / "kept", time=0)


def test_clips_in_a_file_in_parts_and_in_any_order_are_the_same(ucf, tmp_path):
    clips = load("ucf101", splits=ucf / "splits", features=ucf / "kept", time=6).train
    whole = clips.series()
    assert clips.nbytes == whole.observations.numpy().nbytes
    mapped = clips.series_in_file(tmp_path / "train.npy")
    assert torch.equal(mapped.observations, whole.observations)
    assert mapped.observations.data_ptr() != whole.observations.data_ptr()
    assert np.array_equal(np.load(tmp_path / "train.npy", mmap_mode="r"), whole.observations.numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["train.npy"]
    parts = list(clips.parts(7))
    assert [len(part) for part in parts] == [7, 7, 6]
    assert torch.equal(torch.cat([part.observations for part in parts]), whole.observations)
    assert torch.cat([part.labels for part in parts]).tolist() == mapped.labels.tolist() == whole.labels.tolist()
    some = clips.series([19, 0, 10, 19])
    assert torch.equal(some.observations, whole.observations[[19, 0, 10, 19]])
    assert some.groups.tolist() == whole.groups[[19, 0, 10, 19]].tolist()


@pytest.mark.parametrize(
    ("indices", "sentence"),
    [
        ([20], "`indices` must be in 0..19, got 20 at index 0. There are 20 clips."),
        ([0, -1], "`indices` must be in 0..19, got -1 at index 1. There are 20 clips."),
        (
            [0.5],
            "`indices` must be at least 1 whole number, got shape (1,), dtype float64. "
            "Turn a mask into indices: np.flatnonzero(mask).",
        ),
    ],
)
def test_clips_that_are_not_there_are_refused(ucf, indices, sentence):
    clips = load("ucf101", splits=ucf / "splits", features=ucf / "kept", time=6).train
    with pytest.raises(InvalidArgument) as caught:
        clips.series(indices)
    assert str(caught.value) == sentence


def test_hmdb51_goes_from_videos_to_series_and_names_what_is_broken(tmp_path):
    lists = split_lists("hmdb51", _hmdb_lists(tmp_path / "splits"))
    for place, video in enumerate(lists.videos):
        _film(tmp_path / "videos" / video.name, 4 + place)
    broken, gone = lists.train[0].name, lists.test[1].name
    (tmp_path / "videos" / broken).write_bytes(b"RIFF")
    (tmp_path / "videos" / gone).unlink()
    kept = extract(
        "hmdb51", videos=tmp_path / "videos", splits=tmp_path / "splits", backbone=Colour(), folder=tmp_path, view=SMALL
    )
    assert {name: reason.split(" (")[0] for name, reason in kept.failed} == {
        broken: "it cannot be decoded",
        gone: "it is not there",
    }
    splits = load("hmdb51", splits=tmp_path / "splits", features=kept.folder)
    assert splits.failed == kept.failed
    assert [len(part) for part in splits[:3]] == [7, 4, 1]
    assert splits.train.series().observations.shape == (7, 79, 3)
    assert splits.train.time == 79
    assert set(splits.validation.series().groups.tolist()) == {"clap/Zoe & Al; 100%", "sword_exercise/ünï"}


def test_features_that_were_never_made_are_told(ucf, tmp_path):
    lists = split_lists("ucf101", ucf / "splits")
    places = video_files("ucf101", ucf / "videos", lists)
    some = {video.name: places[video.name] for video in lists.train}
    extract_features(some, Colour(), tmp_path / "kept", view=PLAIN)
    splits = load("ucf101", splits=ucf / "splits", features=tmp_path / "kept")
    assert {name for name, _ in splits.failed} == {video.name for video in (*lists.validation, *lists.test)}
    assert {reason for _, reason in splits.failed} == {"its features were never asked for"}
    one_class = {video.name: places[video.name] for video in lists.train if video.label == 0}
    extract_features(one_class, Colour(), tmp_path / "one", view=PLAIN)
    with pytest.raises(InvalidArgument) as caught:
        load("ucf101", splits=ucf / "splits", features=tmp_path / "one")
    assert str(caught.value).startswith(
        "`features` must be of videos of every class, got none to train class 'HandstandPushups' in "
    )


def test_a_video_whose_features_vanished_is_named(ucf, tmp_path):
    lists = split_lists("ucf101", ucf / "splits")
    kept = extract_features(video_files("ucf101", ucf / "videos", lists), Colour(), tmp_path, view=PLAIN)
    (kept.folder / f"{lists.train[0].name}.npy").unlink()
    clips = load("ucf101", splits=ucf / "splits", features=tmp_path).train
    with pytest.raises(
        InvalidArgument, match=r"^`video` must be one with features, got 'Archery/v_Archery_g08_c01\.avi'"
    ):
        clips.series()
