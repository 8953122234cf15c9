"""The pooling model, for many noisy views of one object: a convolutional classifier of the maximum of feature maps over time.

Only the order of the views is lost, which carries no information if they are independent given the object.

========== ==========================================================================
symbol     meaning
========== ==========================================================================
m(t)       (channels, height, width), the map of observation t: affine in it, or a table
A(t)       max of m(1..t), pixel by pixel
z(t)       classifier(A(t)), the logits after observation t
========== ==========================================================================
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_lengths, as_tensor, as_whole, running, without_padding
from sooner.models.base import LiveStep, Model
from sooner.models.image.convolutions import convolutions, halved, image_shape
from sooner.models.image.maps import STEMS, FrameSeries, Maps, MapSeries
from sooner.types import ArrayLike, Lengths, LiveState, Observations, Windows

Times = Int[Tensor, "batch times"]

_EARLINESS = 1.5
"""Above 1, early times are sampled more often in training, because they differ more from one to the next."""
_GRID = 4
"""Maximum height and width of the input of the last layer."""
_ROWS = 256
"""Number of maps that the classifier reads at once: more would not fit into the cache."""


class Pooling(Model):
    """The maximum of the feature maps of the observations, pixel by pixel, and a convolutional classifier of it.

    The model has full memory and ignores order: permuting earlier observations changes only rounding errors. A live series
    keeps one map. It is trained through `logits_at`, at a few times of each series, because neighbouring times are similar.

    Args:
        features: (height, width) or (channels, height, width).
        classes: K.
        stem: "convolution", "embedding" or "pixels", see `ConvolutionStem`, `Embedding` and `Pixels`.
        channels: channels of the map; with "embedding", per channel of an observation.
        widths: the channels of the classifier's stages; each one halves height and width.
        reader: how its layers halve height and width: "strided", or "pooled", which sees more and takes longer.
        moments: number of times of each series that a training step reads.
        log_prior: (classes,), subtracted once; by default nothing is.

    >>> model = Pooling((28, 28), 10, stem="embedding")
    >>> model(torch.zeros(2, 5, 28, 28)).logits.shape
    torch.Size([2, 1, 5, 10])
    """

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        stem: str = "convolution",
        channels: int = 8,
        widths: tuple[int, ...] = (48, 96, 128),
        reader: str = "strided",
        moments: int = 4,
        log_prior: ArrayLike | None = None,
    ) -> None:
        super().__init__(features, classes, log_prior=log_prior)
        self.frame = image_shape(self.features)
        if stem not in STEMS:
            raise UnknownName("stem", stem, STEMS)
        self.moments = as_whole(moments, name="moments", low=1, remedy="It counts times of a series.")
        width = as_whole(channels, name="channels", low=1, remedy="It is the number of channels of the map.")
        self.stem = STEMS[stem](self.frame[0], width)
        self.map = (self.stem.width, *self.frame[1:])
        self.classifier = _classifier(self.map, widths, self.classes, reader)

    @classmethod
    def examples(cls) -> Iterator["Pooling"]:
        """All stems, on gray and on coloured frames."""
        yield cls((6, 6), 3, channels=4, widths=(8,))
        yield cls((2, 5, 6), 3, channels=4, widths=(8, 8), reader="pooled")
        yield cls((2, 5, 6), 3, stem="embedding", channels=4, widths=(8,), log_prior=[-1.0, -2.0, -0.5])
        yield cls((6, 6), 4, stem="embedding", channels=4, widths=(8, 8))
        yield cls((6, 6), 3, stem="pixels", widths=(8,))

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """The logits after each observation: one window as long as the batch. Zero beyond a series' own length."""
        frames, ends = self._frames(observations, lengths)
        # A few series at a time: the maps of many would leave the processor's cache.
        series = len(frames) if self.training else max(1, _ROWS // frames.shape[1])
        chunks = zip(frames.split(series), ends.split(series), strict=True)
        return Windows(torch.cat([self._logits(*chunk) for chunk in chunks])[:, None])

    def logits_at(
        self, observations: Observations, times: ArrayLike, lengths: Lengths | None = None
    ) -> Float[Tensor, "batch times classes"]:
        """The logits that `forward` gives at some times only, at the cost of those: what training needs.

        Args:
            observations: (batch, time, *features).
            times: (batch, times), or (times,) for all series alike; from 1 to the series' own length, in any order.
            lengths: (batch,).
        """
        frames, ends = self._frames(observations, lengths)
        ascending, order = _as_times(times, ends).sort(dim=1)
        maps = self._maps_at(frames, ascending).flatten(0, 1)
        logits = self._classify(maps, torch.arange(len(maps), device=maps.device)).view(*ascending.shape, -1)
        return logits.gather(1, order.argsort(dim=1)[..., None].expand_as(logits))

    def training_windows(self, observations: Observations, lengths: Lengths | None) -> tuple[Windows, Lengths | None]:
        """Logits at a few random times of each series, early ones more often."""
        ends = as_lengths(lengths, observations, time=observations.shape[1])
        chance = torch.rand(len(ends), self.moments, device=ends.device)
        times = (ends[:, None] * chance.pow(_EARLINESS)).long().add(1).minimum(ends[:, None])
        return Windows(self.logits_at(observations, times.sort(dim=1).values, lengths)[:, None]), None

    def init(self, streams: int) -> LiveState:
        """Maps of series without observations."""
        return (next(self.parameters()).new_full((streams, *self.map), -torch.inf),)

    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Update the map of each live series, and classify it."""
        observation = self.admit_step(state, observation)
        maps = torch.maximum(state[0], self.stem(observation.reshape(-1, *self.frame)))
        logits = self._read(maps)
        return LiveStep((maps,), logits if self.log_prior is None else logits - self.log_prior)

    def _frames(self, observations: Observations, lengths: Lengths | None) -> tuple[FrameSeries, Lengths]:
        self.check_observations(observations, leading=2)
        time = observations.shape[1]
        ends = as_lengths(lengths, observations, time=time)
        flat = observations.flatten(2)
        if flat.is_floating_point():  # an embedding would read a missing value as some level, so it is refused here
            flat = without_padding(flat, running(ends, time), name="observations")
        return flat.reshape(-1, time, *self.frame), ends

    def _logits(self, frames: FrameSeries, ends: Lengths) -> Float[Tensor, "batch time classes"]:
        """The logits after each observation."""
        live = running(ends, frames.shape[1])
        times = torch.arange(1, frames.shape[1] + 1, device=ends.device)
        maps = self._maps_at(frames, torch.minimum(times, ends[:, None]))
        return self._classify(maps.flatten(0, 1), live.flatten().nonzero()[:, 0]).view(*live.shape, -1)

    def _maps_at(self, frames: FrameSeries, times: Times) -> MapSeries:
        """A(t) at ascending times: the maxima between neighbouring times, then their running maxima."""
        all_times = torch.arange(1, frames.shape[1] + 1, device=times.device).expand(len(frames), -1)
        segments = torch.searchsorted(times.contiguous(), all_times.contiguous())
        return self.stem.maxima(frames, segments, times.shape[1]).cummax(dim=1).values

    def _classify(self, maps: Maps, rows: Int[Tensor, " live"]) -> Float[Tensor, "rows classes"]:
        """The logits of the live rows; those of others are zero."""
        # In training, batch norm is computed over all of them at once.
        logits = [self._read(maps[chunk]) for chunk in rows.split(len(rows) if self.training else _ROWS)]
        return maps.new_zeros(len(maps), self.classes).index_copy(0, rows, torch.cat(logits))

    def _read(self, maps: Maps) -> Float[Tensor, "rows classes"]:
        # On a CPU, convolutions and pooling are nearly twice as fast with the channels last.
        return self.classifier(maps.contiguous(memory_format=torch.channels_last))  # type: ignore[no-any-return]


def _classifier(shape: tuple[int, ...], widths: tuple[int, ...], classes: int, reader: str) -> nn.Sequential:
    """Convolutions, then one linear layer on a grid of at most 4x4."""
    # Batch norm, not the norm of a single map: over all channels that one learned nothing from sparse frames, and channel by
    # channel it would hide how much a map shows, on which the confidence depends.
    layers = convolutions(shape[0], widths, reader)
    height, width = (halved(size, len(widths)) for size in shape[1:])
    grid = (min(height, _GRID), min(width, _GRID))
    if grid != (height, width):  # it takes time even if it changes nothing
        layers.append(nn.AdaptiveAvgPool2d(grid))
    leaving = widths[-1] if widths else shape[0]
    return layers.extend([nn.Flatten(), nn.Linear(leaving * grid[0] * grid[1], classes)])


def _as_times(value: ArrayLike, ends: Lengths) -> Times:
    times = as_tensor(value, name="times").to(ends.device)
    if times.ndim == 1:
        times = times.expand(len(ends), -1)
    if times.ndim != 2 or len(times) != len(ends) or times.shape[1] == 0:
        expected, got = f"of shape (batch, times) = ({len(ends)}, ...)", f"shape {tuple(times.shape)}"
        raise InvalidArgument("times", expected, got, "Give at least one time for each series.")
    if times.is_floating_point() or times.is_complex() or times.dtype == torch.bool:
        raise InvalidArgument("times", "whole numbers", f"dtype {times.dtype}", "Convert them to int64.")
    outside = (times < 1) | (times > ends[:, None])
    if bool(outside.any()):
        series, column = outside.nonzero()[0].tolist()
        expected = f"in 1..{int(ends[series])}, the length of series {series}"
        raise InvalidArgument("times", expected, int(times[series, column]), "Times count observations from 1.")
    return times.long()
