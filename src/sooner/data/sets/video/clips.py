"""Clips of T frames: how a video is cut, and series of the features that were kept.

A longer video gives consecutive clips and one more of its last T frames, a shorter one begins anew until T is reached. A clip
is a list of indices into the features of its video, so frames that clips share are computed and kept once; they are copied
when a series is made.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from sooner.data.sets.video.features import Features, Number, Progress, Vectors, extract_features
from sooner.data.sets.video.frames import View
from sooner.data.sets.video.lists import VIDEO_SETS, Kind, Video, split_lists, video_places
from sooner.errors import InvalidArgument
from sooner.inputs import as_tensor, as_whole
from sooner.series import Series
from sooner.storage import whole_file
from sooner.types import ArrayLike, IntArray


def clip_indices(frames: int, time: int) -> IntArray:
    """(clips, time): the frames, counted from 0, of each clip of a video.

    >>> clip_indices(5, 2).tolist()
    [[0, 1], [2, 3], [3, 4]]
    >>> clip_indices(2, 5).tolist()
    [[0, 1, 0, 1, 0]]
    """
    frames = as_whole(frames, name="frames", low=1, remedy="A video without frames has no clips.")
    time = as_whole(time, name="time", low=1, remedy="It is the number of frames in a clip.")
    # A video shorter than a clip starts at 0 and wraps around; in any other one nothing wraps.
    starts = np.minimum(np.arange(0, frames, time), max(frames - time, 0))
    indices: IntArray = (starts[:, None] + np.arange(time)) % frames
    return indices


@dataclass(frozen=True, eq=False)
class Clips:
    """The clips of one split, an index into kept features; nothing is read before it is asked for.

    Args:
        features: what is kept.
        videos: those of the split, all of them with features.
        classes: the names of the classes.
        time: T.
    """

    features: Features
    videos: tuple[Video, ...]
    classes: tuple[str, ...]
    time: int

    def __len__(self) -> int:
        return len(self._owners[0])

    @property
    def nbytes(self) -> int:
        """The memory that `series()` takes; a clip of 50 vectors of 2048 float16 is 205 kB, and UCF101 has some 50,000."""
        return len(self) * self.time * self.features.width * np.dtype(self.features.dtype).itemsize

    def series(self, indices: ArrayLike | None = None) -> Series:
        """A copy in memory of all clips, or of those at these places; `nbytes` says how much all of them take."""
        places = np.arange(len(self)) if indices is None else self._places(indices)
        array = np.empty((len(places), self.time, self.features.width), self.features.dtype)
        self._fill(array, places)
        return self._labelled(array, places)

    def series_in_file(self, path: str | os.PathLike[str]) -> Series:
        """All clips in a .npy file that is mapped into memory: what is indexed is read, so it may exceed the memory.

        The file appears under its name when it is complete, and replaces what was there.
        """
        target, places = Path(path), np.arange(len(self))
        shape = (len(self), self.time, self.features.width)
        with whole_file(target) as part:
            array = np.lib.format.open_memmap(part, mode="w+", dtype=np.dtype(self.features.dtype), shape=shape)
            self._fill(array, places)
            array.flush()
        return self.series_of_file(target)

    def series_of_file(self, path: str | os.PathLike[str]) -> Series:
        """All clips from a file that `series_in_file` has written for the same clips."""
        return self._labelled(np.lib.format.open_memmap(path, mode="c"), np.arange(len(self)))

    def parts(self, size: int) -> Iterator[Series]:
        """All clips in their order, at most `size` in memory at a time."""
        size = as_whole(size, name="size", low=1, remedy="It is the number of clips in memory.")
        for start in range(0, len(self), size):
            yield self.series(np.arange(start, min(start + size, len(self))))

    @cached_property
    def _owners(self) -> tuple[IntArray, IntArray]:
        """(clips,) twice: the place of each clip's video, and the clip's number within it."""
        counts = np.array([-(-self.features.frames[video.name] // self.time) for video in self.videos], dtype=np.int64)
        owners = np.repeat(np.arange(len(counts)), counts)
        return owners, np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]

    def _places(self, indices: ArrayLike) -> IntArray:
        places = as_tensor(indices, name="indices").cpu().numpy()
        remedy = f"There are {len(self)} clips."
        if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
            got = f"shape {places.shape}, dtype {places.dtype}"
            raise InvalidArgument("indices", "at least 1 whole number", got, remedy)
        outside = np.flatnonzero((places < 0) | (places >= len(self)))
        if len(outside):
            got = f"{places[outside[0]]} at index {outside[0]}"
            raise InvalidArgument("indices", f"in 0..{len(self) - 1}", got, remedy)
        return places.astype(np.int64)

    def _fill(self, array: Vectors, places: IntArray) -> None:
        """Put the clips at these places into the rows of the array; every video is opened once."""
        owners, numbers = (part[places] for part in self._owners)
        order = np.argsort(owners, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1):
            if len(rows):
                vectors = self.features.of(self.videos[owners[rows[0]]].name)
                array[rows] = vectors[clip_indices(len(vectors), self.time)[numbers[rows]]]

    def _labelled(self, array: Vectors, places: IntArray) -> Series:
        videos = [self.videos[owner] for owner in self._owners[0][places]]
        labels = torch.tensor([video.label for video in videos], dtype=torch.int64)
        groups = np.array([video.group for video in videos])
        lengths = torch.full((len(array),), array.shape[1])
        return Series(torch.from_numpy(array), lengths, labels, np.array(self.classes), groups=groups)


class VideoSplits(NamedTuple):
    """The clips of each split, and (video, reason) of the listed videos that have no features."""

    train: Clips
    validation: Clips
    test: Clips
    failed: tuple[tuple[str, str], ...]


def extract(
    kind: Kind,
    *,
    videos: str | os.PathLike[str],
    splits: str | os.PathLike[str],
    backbone: nn.Module,
    folder: str | os.PathLike[str],
    split: int = 1,
    view: View | None = None,
    dtype: Number = "float16",
    rows: int = 64,
    workers: int = 4,
    progress: Progress | None = None,
) -> Features:
    """Keep the features of every frame of the videos that the split files name; what is there already is not made again.

    Args:
        kind: which set.
        videos: the folder that holds a folder of videos for each class.
        splits: the folder of the official split files.
        backbone: from normalised images to vectors, for example from `sooner.models.image.backbones.backbone_from_file`.
        folder: where features are kept, those of each backbone in a folder of their own.
        split: the official split: 1, 2 or 3.
        view, dtype, rows, workers, progress: as in `extract_features`.
    """
    places = video_places(kind, videos, split_lists(kind, splits, split))
    return extract_features(
        places, backbone, folder, view=view, dtype=dtype, rows=rows, workers=workers, progress=progress
    )


def load(
    kind: Kind,
    *,
    splits: str | os.PathLike[str],
    features: str | os.PathLike[str],
    split: int = 1,
    time: int | None = None,
    view: View | None = None,
) -> VideoSplits:
    """The clips of the three splits, from features that were kept; the videos are not needed any more.

    Args:
        kind: which set.
        splits: the folder of the official split files.
        features: the folder that `extract` was given, or that of one backbone in it.
        split: the official split: 1, 2 or 3.
        time: T; by default that of the set.
        view: the one that the features must have been made with; by default any.
    """
    lists, kept = split_lists(kind, splits, split), Features.open(features, view)
    time = VIDEO_SETS[kind].time if time is None else as_whole(time, name="time", low=1, remedy="It counts frames.")
    train, validation, test = (
        Clips(kept, tuple(video for video in videos if video.name in kept.frames), lists.classes, time)
        for videos in (lists.train, lists.validation, lists.test)
    )
    trained = {video.label for video in train.videos}
    for label, name in enumerate(lists.classes):
        if label not in trained:
            got = f"none to train class {name!r} in {kept.folder}"
            remedy = "Run the extraction to its end, or take the class out of the split files."
            raise InvalidArgument("features", "of videos of every class", got, remedy)
    reasons = dict(kept.failed)
    lacking = [video.name for video in lists.videos if video.name not in kept.frames]
    failed = tuple((name, reasons.get(name, "its features were never asked for")) for name in lacking)
    return VideoSplits(train, validation, test, failed)
