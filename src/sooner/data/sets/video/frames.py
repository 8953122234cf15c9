"""The frames of a video, decoded by PyAV and scaled for a backbone; a damaged video gives a `Fault`, not an exception."""

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.extras import optional
from sooner.inputs import as_whole

Frames = UInt8[Tensor, "rows 3 tall wide"]
Images = Float[Tensor, "rows 3 tall wide"]
Picture: TypeAlias = npt.NDArray[np.uint8]

_DROPPED = 0.05  # share of the declared frames that a whole file may lack: encoders drop frames that do not change


@dataclass(frozen=True)
class View:
    """The input of a backbone: a frame scaled to a short side, cropped to the central square, and normalised.

    The default is that of torchvision's networks; `VIEWS` are the named views.

    Args:
        short: pixels of the shorter side after scaling; None for no scaling.
        crop: pixels of the square; None for no cropping.
        mean, std: of red, green and blue, where pixels are 0..1.
    """

    short: int | None = 256
    crop: int | None = 224
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        for name in ("short", "crop"):
            if getattr(self, name) is not None:
                pixels = as_whole(getattr(self, name), name=name, low=1, remedy="It counts pixels.")
                object.__setattr__(self, name, pixels)
        if self.short is not None and self.crop is not None and self.short < self.crop:
            raise InvalidArgument("crop", f"at most `short`, {self.short}", self.crop, "It is cut out of the frame.")
        for name in ("mean", "std"):
            numbers = tuple(map(float, getattr(self, name)))
            if len(numbers) != 3 or not np.isfinite(numbers).all() or (name == "std" and min(numbers) <= 0):
                expected = "3 finite numbers" + (" above 0" if name == "std" else "")
                raise InvalidArgument(name, expected, numbers, "There is one for red, green and blue.")
            object.__setattr__(self, name, numbers)

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of a frame after scaling.

        >>> View().size(240, 320)
        (256, 341)
        """
        if self.short is None:
            return height, width
        least = max(1, min(height, width))
        return self.short * height // least, self.short * width // least

    def show(self, frames: Frames) -> Images:
        """The float32 input of the backbone: (frames / 255 - mean) / std."""
        mean, std = (torch.tensor(numbers, device=frames.device)[:, None, None] for numbers in (self.mean, self.std))
        return frames.float().div_(255.0).sub_(mean).div_(std)


VIEWS: Mapping[str, View] = {"crop": View(), "whole": View(short=None, crop=None)}
"""Views by name: "crop" is that of torchvision's networks; "whole" neither scales nor crops, as in the paper's features of
UCF101 and HMDB51 (240 x 320 pixels)."""


def view_named(name: str) -> View:
    """The view with this name.

    >>> view_named("whole").size(240, 320)
    (240, 320)
    """
    refuse_unknown("view", name, VIEWS)
    return VIEWS[name]


class Fault(NamedTuple):
    """The reason why a video cannot be used."""

    reason: str


def read_frames(video: str | os.PathLike[str], *, view: View | None = None, rows: int = 64) -> Iterator[Frames]:
    """Read a video in chunks of at most `rows` frames: bytes of red, green and blue, scaled and cropped by the view."""
    rows = as_whole(rows, name="rows", low=1, remedy="It is the number of frames that come at once.")
    for frames in decoded(Path(video), View() if view is None else view, rows):
        if isinstance(frames, Fault):
            got = f"{os.fspath(video)!r}: {frames.reason}"
            raise InvalidArgument("video", "a whole video", got, "Copy it again, or leave it out.")
        yield frames


def decoded(path: Path, view: View, rows: int) -> Iterator[Frames | Fault]:
    """All frames in order, at most `rows` at a time; a fault comes last."""
    av = pyav()
    pending: list[Picture] = []
    packets, damaged, shown = 0, False, False
    try:
        # Absolute, because FFmpeg reads text before a colon as a protocol.
        with av.open(str(path.absolute())) as container:
            if not container.streams.video:
                yield Fault("it has no video stream")
                return
            stream, painter = container.streams.video[0], av.video.reformatter.VideoReformatter()
            stream.codec_context.thread_count = 1  # the workers are the threads
            height, width = view.size(stream.height, stream.width)
            if min(height, width) < (view.crop or 1):
                yield Fault(f"its frames of {width} x {height} pixels are smaller than the crop of {view.crop or 1}")
                return
            top, left = (round((size - (view.crop or size)) / 2) for size in (height, width))
            region = np.s_[top : top + (view.crop or height), left : left + (view.crop or width)]
            for packet in container.demux(stream):
                packets, damaged = packets + (packet.size > 0), damaged or packet.is_corrupt
                for frame in packet.decode():
                    frame = painter.reformat(frame, width, height, "rgb24", interpolation="BILINEAR")
                    pending.append(frame.to_ndarray()[region])
                    if len(pending) == rows:
                        yield _stacked(pending)
                        pending, shown = [], True
            declared = stream.frames
    except av.error.FFmpegError as error:
        yield Fault(f"it cannot be decoded ({error.strerror})" if path.exists() else "it is not there")
        return
    if pending:
        yield _stacked(pending)
    if not shown and not pending:
        yield Fault("it has no frames")
    # Packets and not frames: some codecs pack two frames into one packet and leave the next one empty.
    elif packets < declared and (damaged or _is_cut(path) or packets < (1 - _DROPPED) * declared):
        yield Fault(f"it is truncated: {packets} of the {declared} frames that its header declares")


def _stacked(images: list[Picture]) -> Frames:
    # The channels stay innermost in memory, which makes convolutions faster.
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)


def _is_cut(path: Path) -> bool:
    """Whether an AVI file is shorter than its header says."""
    with path.open("rb") as file:
        head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF":
        return False
    return path.stat().st_size < struct.unpack("<I", head[4:8])[0] + 8  # type: ignore[no-any-return]


def pyav() -> Any:
    """PyAV, or an error that names the extra."""
    with optional("videos", "decoded by PyAV"):
        import av
    return av
