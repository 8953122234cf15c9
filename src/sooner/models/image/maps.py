"""Feature maps of the pooling model: the map of an observation, and the maximum of the maps of many.

========== ==========================================================================
symbol     meaning
========== ==========================================================================
m(t)       (channels, height, width), the map of observation t: affine in it, or a table
A(t)       max of m(1..t), pixel by pixel
========== ==========================================================================
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import embedding

Frames = Shaped[Tensor, "rows channels height width"]
FrameSeries = Shaped[Tensor, "batch time channels height width"]
Maps = Float[Tensor, "rows depth height width"]
MapSeries = Float[Tensor, "batch times depth height width"]
Segments = Int[Tensor, "batch time"]

VALUES = 256
"""The values of an 8-bit pixel."""


class Stem(nn.Module, ABC):
    """A map from frames to feature maps of `width` channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @abstractmethod
    def forward(self, frames: Frames) -> Maps:
        """m(t) of each frame."""

    @abstractmethod
    def maxima(self, frames: FrameSeries, segments: Segments, count: int) -> MapSeries:
        """The maximum of m(t) over each segment 0..count-1 of the times, -inf for an empty one; later frames are not read."""


class ConvolutionStem(Stem):
    """m(t) by one 3x3 convolution; only the maximum is not linear. 8-bit pixels are read as x/127.5 - 1."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(width)
        self.convolution = nn.Conv2d(channels, width, 3, padding=1)

    def forward(self, frames: Frames) -> Maps:
        """The convolution of each frame."""
        maps: Tensor = self.convolution(as_floats(frames, self.convolution.weight.dtype))
        return maps

    def maxima(self, frames: FrameSeries, segments: Segments, count: int) -> MapSeries:
        """The maxima of maps that are computed for each frame."""
        series, time = (segments < count).nonzero(as_tuple=True)
        maps = self(frames[series, time])
        empty = maps.new_full((len(frames) * count, maps[0].numel()), -torch.inf)
        target = (series * count + segments[series, time])[:, None].expand(-1, empty.shape[1])
        reduced: Tensor = empty.scatter_reduce(0, target, maps.flatten(1), "amax")
        return reduced.view(len(frames), count, *maps.shape[1:])


class Embedding(Stem):
    """m(t) by a learned embedding of the 8-bit values round(127.5 (x + 1)), one for each channel of the frame.

    An embedding distinguishes 254 from 255 as easily as black from white, which a small convolution does not; this matters if
    255 means "not shown". Values outside of -1..1 are clipped; frames of type uint8 are used unchanged. The embedding is
    initialised with random slopes and a little noise: with noise alone, the first hundred steps learn far less.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(channels * width)
        levels = torch.linspace(-1, 1, VALUES).repeat(channels)[:, None]
        slopes = torch.randn(width)
        self.table = nn.Parameter(levels * slopes + 0.1 * torch.randn(len(levels), width))

    def forward(self, frames: Frames) -> Maps:
        """The embedding of each pixel."""
        first = torch.arange(frames.shape[1], device=frames.device)[:, None, None] * VALUES
        # Not by indexing: the backward pass of `embedding` takes a tenth of the time.
        return _channels_first(embedding(as_bytes(frames).long() + first, self.table))

    def maxima(self, frames: FrameSeries, segments: Segments, count: int) -> MapSeries:
        """The maxima, with one look-up for each pixel that differs from the commonest level; others are only counted.

        So the cost depends on the number of shown pixels, for example 15 of 784, not on the size of the frames.
        """
        batch, _, *shape = frames.shape
        levels = as_bytes(frames).flatten(2)
        pixels = levels.shape[2]
        commonest = levels[:, 0].flatten().bincount(minlength=VALUES).argmax()
        series, time, pixel = ((levels != commonest) & (segments < count)[..., None]).nonzero(as_tuple=True)
        target = (series * count + segments[series, time]) * pixels + pixel
        length = (segments[..., None] == torch.arange(count, device=segments.device)).sum(dim=1)
        others = target.bincount(minlength=batch * count * pixels).view(batch, count, pixels)
        first = torch.arange(shape[0], device=self.table.device).repeat_interleave(pixels // shape[0]) * VALUES
        occurs = (length[..., None] > others)[..., None]
        common = torch.where(occurs, self.table[commonest + first], -torch.inf).flatten(0, 2)
        shown = self.table[levels[series, time, pixel].long() + first[pixel]]
        reduced = common.scatter_reduce(0, target[:, None].expand_as(shown), shown, "amax")
        maps = _channels_first(reduced.view(batch * count, *shape, -1))
        return maps.view(batch, count, *maps.shape[1:])


class Pixels(Stem):
    """m(t) = -x(t), without parameters: the maximum is minus the smallest value of each pixel so far.

    If 255 means "not shown", this is the union of the shown pixels, the sufficient statistic: a reference for the learned stems.
    8-bit pixels are read as x/127.5 - 1.
    """

    one: Tensor

    def __init__(self, channels: int, width: int) -> None:  # noqa: ARG002
        super().__init__(channels)
        self.register_buffer("one", torch.ones(()), persistent=False)  # it has the dtype and the device

    def forward(self, frames: Frames) -> Maps:
        """Minus the pixels of each frame."""
        return -as_floats(frames, self.one.dtype)

    def maxima(self, frames: FrameSeries, segments: Segments, count: int) -> MapSeries:
        """The maxima of the negative pixels."""
        values = -as_floats(frames, self.one.dtype).flatten(2)
        target = segments.clamp_max(count)[..., None].expand_as(values)
        empty = values.new_full((len(frames), count + 1, values.shape[2]), -torch.inf)
        reduced = empty.scatter_reduce(1, target, values, "amax")[:, :count]
        return reduced.view(len(frames), count, *frames.shape[2:])


STEMS: dict[str, type[ConvolutionStem] | type[Embedding] | type[Pixels]] = {
    "convolution": ConvolutionStem,
    "embedding": Embedding,
    "pixels": Pixels,
}


def as_floats(frames: Tensor, dtype: torch.dtype) -> Tensor:
    """Frames in that dtype; 8-bit values as x/127.5 - 1."""
    return frames.to(dtype) / 127.5 - 1 if frames.dtype == torch.uint8 else frames.to(dtype)


def as_bytes(frames: Tensor) -> Tensor:
    """The 8-bit values of frames that hold them unchanged or as x/127.5 - 1; others are rounded and clipped."""
    return frames if frames.dtype == torch.uint8 else ((frames + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def _channels_first(maps: Float[Tensor, "rows channels height width vector"]) -> Maps:
    return maps.permute(0, 1, 4, 2, 3).flatten(1, 2)
