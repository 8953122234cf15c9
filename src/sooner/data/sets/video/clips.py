"""Clips of T frames of videos, and series of their features.

A video of more than T frames is divided into consecutive clips, the last of which has its last T frames; a shorter one is
repeated. A clip is a list of indices into the features of its video, so features of shared frames are computed once.
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
from sooner.data.sets.video.lists import VIDEO_SETS, Video, VideoSetName, split_lists, video_files
from sooner.errors import InvalidArgument
from sooner.inputs import as_indices, as_whole
from sooner.series import Series
from sooner.storage import whole_file
from sooner.types import ArrayLike, IntArray


def clip_indices(frames: int, time: int) -> IntArray:
    """(clips, time): the frame indices of each clip of a video.

    >>> clip_indices(5, 2).tolist()
    [[0, 1], [2, 3], [3, 4]]
    >>> clip_indices(2, 5).tolist()
    [[0, 1, 0, 1, 0]]
    """
    frames = as_whole(frames, name="frames", low=1, remedy="A video without frames has no clips.")
    time = as_whole(time, name="time", low=1, remedy="It is the number of frames in a clip.")
    # Only a video shorter than a clip wraps around.
    starts = np.minimum(np.arange(0, frames, time), max(frames - time, 0))
    indices: IntArray = (starts[:, None] + np.arange(time)) % frames
    return indices


@dataclass(frozen=True, eq=False)
class Clips:
    """The clips of one split; features are read when a series is asked for."""

    features: Features
    videos: tuple[Video, ...]  # of the split, with features
    classes: tuple[str, ...]
    time: int  # T, the number of frames of a clip

    def __len__(self) -> int:
        return len(self._owners[0])

    @property
    def nbytes(self) -> int:
        """The bytes of `series()`: 205 kB for a clip of 50 vectors of 2048 float16, and UCF101 has some 50,000 clips."""
        return len(self) * self.time * self.features.width * np.dtype(self.features.dtype).itemsize

    def series(self, indices: ArrayLike | None = None) -> Series:
        """A copy in memory of all clips (`nbytes` bytes), or of those at these indices."""
        chosen = np.arange(len(self)) if indices is None else as_indices(indices, len(self), what="clips")
        array = np.empty((len(chosen), self.time, self.features.width), self.features.dtype)
        self._fill(array, chosen)
        return self._labelled(array, chosen)

    def series_in_file(self, path: str | os.PathLike[str]) -> Series:
        """All clips in a new memory-mapped .npy file, which may be larger than the memory."""
        shape = (len(self), self.time, self.features.width)
        with whole_file(Path(path)) as temporary:
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.dtype(self.features.dtype), shape=shape)
            self._fill(array, np.arange(len(self)))
            array.flush()
        return self.series_of_file(path)

    def series_of_file(self, path: str | os.PathLike[str]) -> Series:
        """All clips from a file of `series_in_file`."""
        return self._labelled(np.lib.format.open_memmap(path, mode="c"), np.arange(len(self)))

    def parts(self, size: int) -> Iterator[Series]:
        """Iterate over all clips in order, at most `size` in memory at a time."""
        size = as_whole(size, name="size", low=1, remedy="It is the number of clips in memory.")
        for start in range(0, len(self), size):
            yield self.series(np.arange(start, min(start + size, len(self))))

    @cached_property
    def _owners(self) -> tuple[IntArray, IntArray]:
        """(clips,) twice: the index of each clip's video, and the clip's number within it."""
        counts = np.array([-(-self.features.frames[video.name] // self.time) for video in self.videos], dtype=np.int64)
        owners = np.repeat(np.arange(len(counts)), counts)
        return owners, np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]

    def _fill(self, array: Vectors, chosen: IntArray) -> None:
        """Write the chosen clips into the rows of the array; every video is opened once."""
        owners, numbers = (column[chosen] for column in self._owners)
        order = np.argsort(owners, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1):
            if len(rows):
                vectors = self.features.of(self.videos[owners[rows[0]]].name)
                array[rows] = vectors[clip_indices(len(vectors), self.time)[numbers[rows]]]

    def _labelled(self, array: Vectors, chosen: IntArray) -> Series:
        videos = [self.videos[owner] for owner in self._owners[0][chosen]]
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
    kind: VideoSetName,
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
    """Compute and store the features of every frame of the listed videos, except for those stored before.

    Args:
        kind: the name of the set.
        videos: the folder with a folder of videos for each class.
        splits: the folder of the official split files.
        backbone: from normalised images to vectors, for example from `sooner.models.image.backbones.backbone_from_file`.
        folder: the folder of the features, with a subfolder for each backbone and view.
        split: the official split: 1, 2 or 3.
        view, dtype, rows, workers, progress: as in `extract_features`.
    """
    files = video_files(kind, videos, split_lists(kind, splits, split))
    return extract_features(
        files, backbone, folder, view=view, dtype=dtype, rows=rows, workers=workers, progress=progress
    )


def load(
    kind: VideoSetName,
    *,
    splits: str | os.PathLike[str],
    features: str | os.PathLike[str],
    split: int = 1,
    time: int | None = None,
    view: View | None = None,
) -> VideoSplits:
    """The clips of the three splits, from stored features.

    Args:
        kind: the name of the set.
        splits: the folder of the official split files.
        features: the `folder` of `extract`, or the subfolder of one backbone and view.
        split: the official split: 1, 2 or 3.
        time: T; by default that of the set.
        view: the view of the features; by default any.
    """
    lists, stored = split_lists(kind, splits, split), Features.open(features, view)
    time = VIDEO_SETS[kind].time if time is None else as_whole(time, name="time", low=1, remedy="It counts frames.")
    train, validation, test = (
        Clips(stored, tuple(video for video in videos if video.name in stored.frames), lists.classes, time)
        for videos in (lists.train, lists.validation, lists.test)
    )
    trained = {video.label for video in train.videos}
    for label, name in enumerate(lists.classes):
        if label not in trained:
            got = f"none to train class {name!r} in {stored.folder}"
            remedy = "Run the extraction to its end, or take the class out of the split files."
            raise InvalidArgument("features", "of videos of every class", got, remedy)
    reasons = dict(stored.failed)
    missing = [video.name for video in lists.videos if video.name not in stored.frames]
    failed = tuple((name, reasons.get(name, "its features were never asked for")) for name in missing)
    return VideoSplits(train, validation, test, failed)
