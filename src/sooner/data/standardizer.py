"""Standardisation by the statistics of the training set, which is the same for live observations and batches."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_tensor, running
from sooner.series import Series
from sooner.types import ArrayLike, FloatArray


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Mean 0 and deviation 1 for each feature of the training set.

    Missing values (by the mask channels) are left out of the statistics and become 0, the mean; mask channels are unchanged.

    Args:
        mean: (*features) without the mask channels.
        scale: (*features), above 0; 1 for constant features.
        mask_channels: as in `Series`.
    """

    mean: FloatArray
    scale: FloatArray
    mask_channels: int = 0
    _tensors: tuple[Tensor, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Converted here, so that live series are not delayed.
        tensors = tuple(torch.as_tensor(array, dtype=torch.float64) for array in (self.mean, self.scale))
        object.__setattr__(self, "_tensors", tensors)

    @classmethod
    def fit(cls, series: Series) -> "Standardizer":
        """Measure the training series, in float64."""
        total = sum(weight.sum(dim=(0, 1)) for _, weight in _measured(series)).clamp(min=1)  # type: ignore[union-attr]
        mean = sum((value * weight).sum(dim=(0, 1)) for value, weight in _measured(series)) / total
        squares = sum((weight * (value - mean) ** 2).sum(dim=(0, 1)) for value, weight in _measured(series))
        deviation = (squares / total).sqrt()
        if not bool(deviation.isfinite().all()):
            got, remedy = "values so large that squares overflow", "Bring them to a smaller unit."
            raise InvalidArgument("observations", "of a finite deviation", got, remedy)
        # The deviation of a constant is a rounding error.
        scale = torch.where(deviation > 1e-12 * mean.abs(), deviation, torch.ones_like(deviation))
        return cls(mean.cpu().numpy(), scale.cpu().numpy(), series.mask_channels)

    def apply(self, series: Series) -> Series:
        """The same series, standardised, in float32; padding stays zero."""
        ready = self.apply_step(series.observations)
        if not series.of_equal_length:
            live = running(series.lengths, ready.shape[1])
            ready = ready.masked_fill(~live.reshape(*live.shape, *(1,) * (ready.ndim - 2)), 0.0)
        return replace(series, observations=ready)

    def apply_step(self, observations: ArrayLike) -> Tensor:
        """Live observations (..., *features), standardised, in float32."""
        x = as_tensor(observations, name="observations")
        shape = (*self.mean.shape[:-1], self.mean.shape[-1] + self.mask_channels) if self.mean.ndim else ()
        if tuple(x.shape[x.ndim - len(shape) :]) != shape:
            expected, got = f"of shape ({', '.join(('...', *map(str, shape)))})", f"shape {tuple(x.shape)}"
            raise InvalidArgument("observations", expected, got, "It was fitted on observations of that shape.")
        # In float64: float32 would round a large offset away, and differently live and in a batch.
        x = x.double()
        mean, scale = (tensor.to(x.device) for tensor in self._tensors)
        if not self.mask_channels:
            return ((x - mean) / scale).float()
        values, mask = x[..., : -self.mask_channels], x[..., -self.mask_channels :]
        return torch.cat([(values - mean) / scale * mask, mask], dim=-1).float()


def _measured(series: Series) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of values and weights (1 for observed), both (series, time, *features) in float64 without the mask channels."""
    masks, rows = series.mask_channels, max(1, 2**22 // max(1, series.observations[0].numel()))
    for chunk, lengths in zip(series.observations.split(rows), series.lengths.split(rows), strict=True):
        values = chunk[..., :-masks] if masks else chunk
        live = running(lengths, chunk.shape[1])
        weight = live.reshape(*live.shape, *(1,) * (chunk.ndim - 2)).expand(values.shape).double()
        yield values.double(), weight * chunk[..., -masks:] if masks else weight
