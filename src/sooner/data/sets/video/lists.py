"""The official lists of the splits of UCF101 and HMDB51.

====== ======= == ===========================================================================================
set    classes  T validation: the last groups of each class of the train list; a group was filmed at once
====== ======= == ===========================================================================================
ucf101     101 50 the last 2 of its g-numbers
hmdb51      51 79 the last tenth of its sources in the order of their names, rounded down, at least 1
====== ======= == ===========================================================================================

So a group is never split, as in the official lists. Names may contain blanks and brackets; lines may end in blanks or CRLF.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sooner.errors import InvalidArgument, refuse_unknown

VideoSetName: TypeAlias = Literal["ucf101", "hmdb51"]


class Video(NamedTuple):
    """A line of a list: `class/file`, the class index, and the group that was filmed together."""

    name: str
    label: int
    group: str


class SplitLists(NamedTuple):
    """The names of the classes, and the videos of each split."""

    classes: tuple[str, ...]
    train: tuple[Video, ...]
    validation: tuple[Video, ...]
    test: tuple[Video, ...]

    @property
    def videos(self) -> tuple[Video, ...]:
        """The videos of all splits."""
        return (*self.train, *self.validation, *self.test)


@dataclass(frozen=True)
class VideoSet:
    """A data set of videos."""

    time: int  # T, the number of frames of a clip
    classes: int  # of the whole set
    listing: str  # a string in the names of all split files
    folders: tuple[str, ...]  # in the published archives
    read: Callable[[Path, int], SplitLists]  # reads the lists of an official split, without validation, from a folder
    validation_groups: Callable[[int], int]  # the number of groups for validation, from that of the class


def split_lists(kind: VideoSetName, folder: str | os.PathLike[str], split: int = 1) -> SplitLists:
    """The official lists in a folder of split files, with some groups of the train list for validation.

    A class of a single group has no validation.

    Args:
        kind: the name of the set.
        folder: the folder of the split files, or its parent.
        split: the official split: 1, 2 or 3.
    """
    refuse_unknown("kind", kind, VIDEO_SETS)
    if split not in (1, 2, 3):
        raise InvalidArgument("split", "1, 2 or 3", repr(split), "There are three official splits.")
    known = VIDEO_SETS[kind]
    folders = _folders(
        known, folder, "splits", "split files", "Give the folder that the archive of split files was unpacked to."
    )
    home = next((home for home in folders if any(known.listing in file.name for file in home.iterdir())), folders[0])
    classes, listed, _, test = known.read(home, split)
    for name, count in Counter(video.name for video in (*listed, *test)).items():
        if count > 1:
            remedy = "A model must not be tested on a video that it was trained on."
            raise InvalidArgument("splits", "lists that name each video once", f"{name!r} twice", remedy)
    held_out: set[str] = set()
    for label, name in enumerate(classes):
        groups = sorted({video.group for video in listed if video.label == label})
        if not groups:
            remedy = "Take the class out of the split files, or list videos for it."
            raise InvalidArgument("splits", "lists with training videos of every class", f"none of {name!r}", remedy)
        held_out.update(groups[max(1, len(groups) - known.validation_groups(len(groups))) :])
    train = tuple(video for video in listed if video.group not in held_out)
    return SplitLists(classes, train, tuple(video for video in listed if video.group in held_out), test)


def video_files(kind: VideoSetName, folder: str | os.PathLike[str], lists: SplitLists) -> dict[str, Path]:
    """The file of each listed video, which may be missing.

    A name in other capitals matches if no exact name does, because copies of the sets differ in them.

    Args:
        kind: the name of the set.
        folder: the folder with a folder of videos for each class, or its parent.
        lists: of the videos.
    """
    wanted = {name.casefold() for name in lists.classes}
    remedy = "Give the folder that holds a folder of videos for each class."
    folders = {
        home: [path for path in home.iterdir() if path.name.casefold() in wanted and path.is_dir()]
        for home in _folders(VIDEO_SETS[kind], folder, "videos", "videos", remedy)
    }
    home = max(folders, key=lambda home: len(folders[home]))
    exact = {f"{below.name}/{file.name}": file for below in folders[home] for file in below.iterdir()}
    similar = {name.casefold(): file for name, file in exact.items()}
    present = {video.label for video in lists.videos if video.name.casefold() in similar}
    for label, name in enumerate(lists.classes):
        if label not in present:
            got = f"{home} with none of the listed videos of class {name!r}"
            remedy = f"Give the folder that holds {lists.classes[0]!r} and the others, or shorten the split files."
            raise InvalidArgument("videos", "a folder with videos of every class", got, remedy)
    return {
        video.name: exact.get(video.name) or similar.get(video.name.casefold()) or home / video.name
        for video in lists.videos
    }


def _folders(known: VideoSet, folder: str | os.PathLike[str], argument: str, content: str, remedy: str) -> list[Path]:
    """The folder, and those folders of the published archives that are in it."""
    root = Path(folder)
    folders = [path for path in (root, *(root / name for name in known.folders)) if path.is_dir()]
    if not folders:
        raise InvalidArgument(argument, f"a folder of {content}", f"{root}, which is no folder", remedy)
    return folders


def _read_ucf101(folder: Path, split: int) -> SplitLists:
    """`classInd.txt` numbers the classes; `trainlist01.txt` and `testlist01.txt` name videos by class and file."""
    numbered: dict[int, str] = {}
    for line, text in _lines(folder / "classInd.txt"):
        number, _, name = text.partition(" ")
        if re.fullmatch("[0-9]{1,9}", number) is None or not name.strip():
            expected, got = "lines such as '1 ApplyEyeMakeup' in classInd.txt", f"{text!r} at line {line}"
            raise InvalidArgument("splits", expected, got, "Unpack the official file again.")
        numbered[int(number)] = name.strip()
    classes = tuple(numbered[number] for number in sorted(numbered))
    train, test = (
        tuple(_ucf101_video(text, f"line {line} of {name}", classes) for line, text in _lines(folder / name))
        for name in (f"trainlist0{split}.txt", f"testlist0{split}.txt")
    )
    return SplitLists(classes, train, (), test)


def _ucf101_video(text: str, where: str, classes: Sequence[str]) -> Video:
    name = re.sub(r"(\.\w+)\s+\d+$", r"\1", text)  # the train list ends in the number of the class
    folder, _, file = name.rpartition("/")
    group = re.search(r"_g([0-9]{1,9})_c\d+\.\w+$", file)
    if group is None:
        expected, remedy = "lines such as 'Archery/v_Archery_g01_c01.avi'", "Unpack the official file again."
        raise InvalidArgument("splits", expected, f"{text!r} at {where}", remedy)
    for label, known in enumerate(classes):
        if known.casefold() == folder.casefold():
            return Video(name, label, f"{known}/g{int(group[1]):02d}")
    raise InvalidArgument("splits", "lists of the classes in classInd.txt", f"{folder!r} at {where}", "Add it there.")


def _read_hmdb51(folder: Path, split: int) -> SplitLists:
    """A file for each class: a video and 1 (train), 2 (test) or 0 (neither) in each line."""
    end = f"_test_split{split}.txt"
    names = (file.name for file in folder.iterdir())
    classes = tuple(sorted(name.removesuffix(end) for name in names if name.endswith(end) and name[0] != "."))
    if not classes:
        remedy = "Give the folder that the archive of split files was unpacked to."
        raise InvalidArgument("splits", f"a folder with files such as 'clap{end}'", f"{folder}, which has none", remedy)
    marked: dict[str, list[Video]] = {"0": [], "1": [], "2": []}
    for label, name in enumerate(classes):
        for line, text in _lines(folder / f"{name}{end}"):
            file, *mark = text.rsplit(maxsplit=1)
            if len(mark) != 1 or mark[0] not in marked:
                got, remedy = f"{text!r} at line {line} of {name}{end}", "Unpack the official file again."
                raise InvalidArgument("splits", "lines of a video and 0, 1 or 2", got, remedy)
            # The name of the film comes before the class; all its scenes are one group.
            source = file.rpartition(f"_{name}_")[0] or file
            marked[mark[0]].append(Video(f"{name}/{file}", label, f"{name}/{source}"))
    return SplitLists(classes, tuple(marked["1"]), (), tuple(marked["2"]))


VIDEO_SETS: Mapping[str, VideoSet] = {
    "ucf101": VideoSet(50, 101, "trainlist", ("UCF-101", "ucfTrainTestlist"), _read_ucf101, lambda _groups: 2),
    "hmdb51": VideoSet(
        79,
        51,
        "_test_split",
        ("hmdb51_org", "HMDB51", "testTrainMulti_7030_splits"),
        _read_hmdb51,
        lambda groups: max(1, groups // 10),
    ),
}


def _lines(file: Path) -> list[tuple[int, str]]:
    """(number from 1, stripped text) of the lines that are not blank."""
    if not file.is_file():
        remedy = "Give the folder that the archive of split files was unpacked to."
        raise InvalidArgument("splits", f"a folder with {file.name}", f"{file.parent}, which has none", remedy)
    # Names that are not UTF-8 are read as by the file system.
    text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        remedy = "Unpack the official file again."
        raise InvalidArgument("splits", f"a folder with videos listed in {file.name}", "an empty file", remedy)
    return lines
