"""Feature maps of the pooling model: how an observation becomes a map, and how maps are accumulated.

========== ==========================================================================
symbol     meaning
========== ==========================================================================
m(t)       (channels, height, width), the map of observation t: affine in it, or a table
A(t)       max of m(1..t), or the sum of sigmoid(g(u)) m(u) over u = 1..t
========== ==========================================================================
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import embedding, glu

from sooner.errors import InvalidArgument

FrameSeries = Shaped[Tensor, "batch time channels height width"]
Maps = Float[Tensor, "rows depth height width"]
MapSeries = Float[Tensor, "batch moments depth height width"]
Segments = Int[Tensor, "batch time"]

VALUES = 256
"""The values of an 8-bit pixel."""


class Accumulation(ABC):
    """The accumulation of maps: commutative and associative, with a neutral element."""

    parts: int
    """Number of channels of the stem's output per channel of the map."""
    neutral: float
    reduce: str
    """The name of the reduction for `torch.scatter_reduce`."""

    @staticmethod
    @abstractmethod
    def contribution(raw: Tensor) -> Tensor:
        """The contribution of a stem's output, with channels on axis 1, to the map."""

    @staticmethod
    @abstractmethod
    def repeated(value: Tensor, counts: Tensor) -> Tensor:
        """The same contribution accumulated `counts` times, 0 included."""

    @staticmethod
    @abstractmethod
    def combine(one: Tensor, other: Tensor) -> Tensor:
        """The combination of two accumulated maps."""

    @staticmethod
    @abstractmethod
    def cumulate(maps: Tensor) -> Tensor:
        """All accumulated maps along axis 1."""

    @staticmethod
    @abstractmethod
    def read(maps: Tensor) -> Tensor:
        """The input of the classifier from an accumulated map."""


class Maximum(Accumulation):
    """A(t) = max of m(1..t): a pixel that is not shown changes nothing, and one that is shown twice counts once."""

    parts, neutral, reduce = 1, -torch.inf, "amax"

    @staticmethod
    def contribution(raw: Tensor) -> Tensor:
        """The output itself."""
        return raw

    @staticmethod
    def repeated(value: Tensor, counts: Tensor) -> Tensor:
        """The value wherever it came at all."""
        return torch.where(counts > 0, value, -torch.inf)

    @staticmethod
    def combine(one: Tensor, other: Tensor) -> Tensor:
        """The larger."""
        return torch.maximum(one, other)

    @staticmethod
    def cumulate(maps: Tensor) -> Tensor:
        """Running maxima."""
        return maps.cummax(dim=1).values

    @staticmethod
    def read(maps: Tensor) -> Tensor:
        """The map itself."""
        return maps


class GatedSum(Accumulation):
    """A(t) = sum of sigmoid(g(u)) m(u): evidence adds up, and a learned gate suppresses pixels that are not shown."""

    parts, neutral, reduce = 2, 0.0, "sum"

    @staticmethod
    def contribution(raw: Tensor) -> Tensor:
        """One half of the output, times the sigmoid of the other."""
        return glu(raw, dim=1)

    @staticmethod
    def repeated(value: Tensor, counts: Tensor) -> Tensor:
        """The value times the count."""
        return value * counts

    @staticmethod
    def combine(one: Tensor, other: Tensor) -> Tensor:
        """The sum."""
        return one + other

    @staticmethod
    def cumulate(maps: Tensor) -> Tensor:
        """Running sums."""
        return maps.cumsum(dim=1)

    @staticmethod
    def read(maps: Tensor) -> Tensor:
        """asinh of the map minus its mean over pixels: linear for small values, logarithmic for large ones.

        The mean, for example of t blank frames, would otherwise soon be larger than the differences.
        """
        return torch.asinh(maps - maps.mean(dim=(-2, -1), keepdim=True))


ACCUMULATIONS: Mapping[str, Accumulation] = {"max": Maximum(), "sum": GatedSum()}


class Stem(nn.Module, ABC):
    """A map from frames to feature maps.

    Args:
        width: number of channels of a feature map.
        how: the accumulation of the feature maps.
    """

    def __init__(self, width: int, how: Accumulation) -> None:
        super().__init__()
        self.width = width
        self.how = how

    @abstractmethod
    def forward(self, frames: Shaped[Tensor, "rows channels height width"]) -> Maps:
        """The contribution of each frame."""

    @abstractmethod
    def accumulate(self, frames: FrameSeries, segments: Segments, moments: int) -> MapSeries:
        """The frames of each segment 0..moments-1 accumulated, but not yet across segments; frames beyond are not read."""


class ConvolutionStem(Stem):
    """m(t) by one 3x3 convolution; the maximum, or the gate, is what is not linear. 8-bit pixels are read as x/127.5 - 1."""

    def __init__(self, channels: int, width: int, how: Accumulation) -> None:
        super().__init__(width, how)
        self.convolution = nn.Conv2d(channels, how.parts * width, 3, padding=1)

    def forward(self, frames: Shaped[Tensor, "rows channels height width"]) -> Maps:
        """The contribution of each frame."""
        pixels = frames.to(self.convolution.weight.dtype)
        pixels = pixels / 127.5 - 1 if frames.dtype == torch.uint8 else pixels
        return self.how.contribution(self.convolution(pixels))

    def accumulate(self, frames: FrameSeries, segments: Segments, moments: int) -> MapSeries:
        """One map per frame, then one per segment."""
        series, time = (segments < moments).nonzero(as_tuple=True)
        maps = self(frames[series, time])
        empty = maps.new_full((len(frames) * moments, maps[0].numel()), self.how.neutral)
        target = (series * moments + segments[series, time])[:, None].expand(-1, empty.shape[1])
        reduced: Tensor = empty.scatter_reduce(0, target, maps.flatten(1), self.how.reduce)
        return reduced.view(len(frames), moments, *maps.shape[1:])


class Embedding(Stem):
    """m(t) by a learned embedding of the 8-bit values round(127.5 (x + 1)), one for each channel of the frame.

    An embedding distinguishes 254 from 255 as easily as black from white, which a small convolution does not; this matters if
    255 means "not shown". Values outside of -1..1 are clipped; frames of type uint8 are used unchanged. The embedding is
    initialised with random slopes and a little noise: with noise alone, the first hundred steps learn far less.
    """

    def __init__(self, channels: int, width: int, how: Accumulation) -> None:
        super().__init__(channels * width, how)
        levels = torch.linspace(-1, 1, VALUES).repeat(channels)[:, None]
        slopes = torch.randn(how.parts * width)
        self.table = nn.Parameter(levels * slopes + 0.1 * torch.randn(len(levels), len(slopes)))

    def forward(self, frames: Shaped[Tensor, "rows channels height width"]) -> Maps:
        """The contribution of each frame."""
        first = torch.arange(frames.shape[1], device=frames.device)[:, None, None] * VALUES
        # Not by indexing: the way back through `embedding` takes a tenth of the time.
        return _channels_first(embedding(as_bytes(frames).long() + first, self.how.contribution(self.table)))

    def accumulate(self, frames: FrameSeries, segments: Segments, moments: int) -> MapSeries:
        """One look-up for each pixel that differs from the commonest level; pixels at that level are only counted.

        So the cost depends on the number of shown pixels, for example 15 of 784, not on the size of the frames.
        """
        batch, _, *shape = frames.shape
        levels = as_bytes(frames).flatten(2)
        sites = levels.shape[2]
        commonest = levels[:, 0].flatten().bincount(minlength=VALUES).argmax()
        series, time, site = ((levels != commonest) & (segments < moments)[..., None]).nonzero(as_tuple=True)
        target = (series * moments + segments[series, time]) * sites + site
        frames_in = (segments[..., None] == torch.arange(moments, device=segments.device)).sum(dim=1)
        others_in = target.bincount(minlength=batch * moments * sites).view(batch, moments, sites)
        table = self.how.contribution(self.table)
        first = torch.arange(shape[0], device=table.device).repeat_interleave(sites // shape[0]) * VALUES
        common = self.how.repeated(table[commonest + first], (frames_in[..., None] - others_in)[..., None])
        seen = table[levels[series, time, site].long() + first[site]]
        reduced = common.flatten(0, 2).scatter_reduce(0, target[:, None].expand_as(seen), seen, self.how.reduce)
        maps = _channels_first(reduced.view(batch * moments, *shape, -1))
        return maps.view(batch, moments, *maps.shape[1:])


class Pixels(Stem):
    """m(t) = -x(t), without parameters: with the maximum, the smallest value of each pixel so far.

    If 255 means "not shown", this is the union of the shown pixels, the sufficient statistic: a reference for the learned stems.
    8-bit pixels are read as x/127.5 - 1.
    """

    one: Tensor

    def __init__(self, channels: int, width: int, how: Accumulation) -> None:  # noqa: ARG002
        super().__init__(channels, how)
        self.register_buffer("one", torch.ones(()), persistent=False)  # which knows the type of numbers, and the device
        if how.parts != 1:
            raise InvalidArgument("stem", "one that can be gated, for a sum", "'pixels'", 'Accumulate by "max".')

    def forward(self, frames: Shaped[Tensor, "rows channels height width"]) -> Maps:
        """The contribution of each frame."""
        pixels = frames.to(self.one.dtype)
        return -(pixels / 127.5 - 1 if frames.dtype == torch.uint8 else pixels)

    def accumulate(self, frames: FrameSeries, segments: Segments, moments: int) -> MapSeries:
        """The smallest value of each pixel within a segment."""
        segments = segments.clamp_max(moments)
        sites = frames.flatten(2)
        target = segments[..., None].expand_as(sites)
        highest = self.forward(sites.flatten(0, 1)[..., None, None])[..., 0, 0].view(sites.shape)
        empty = highest.new_full((len(frames), moments + 1, sites.shape[2]), self.how.neutral)
        reduced = empty.scatter_reduce(1, target, highest, self.how.reduce)[:, :moments]
        return reduced.view(len(frames), moments, *frames.shape[2:])


STEMS: Mapping[str, type[ConvolutionStem] | type[Embedding] | type[Pixels]] = {
    "convolution": ConvolutionStem,
    "embedding": Embedding,
    "pixels": Pixels,
}


def as_bytes(frames: Tensor) -> Tensor:
    """The 8-bit values of frames that hold them as they are, or as x/127.5 - 1; others are rounded and clipped."""
    return frames if frames.dtype == torch.uint8 else ((frames + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def _channels_first(maps: Float[Tensor, "rows channels height width parts"]) -> Maps:
    return maps.permute(0, 1, 4, 2, 3).flatten(1, 2)
