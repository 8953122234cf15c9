"""One scale for all features, measured on the training set alone.

Nothing here looks at a series' own future: what standardises a series was measured before, so a live observation gets the
same numbers as one in a batch.
"""

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
    """Mean 0 and deviation 1 for each feature, by the statistics of the training set alone; causal by construction.

    Missing values (mask channels) are left out of the statistics and become 0, the mean; mask channels stay as they are.

    Args:
        mean: (*features) without the mask channels.
        scale: (*features), above 0; 1 where a feature never changes.
        mask_channels: as in `Series`.
    """

    mean: FloatArray
    scale: FloatArray
    mask_channels: int = 0
    _parts: tuple[Tensor, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Ready as tensors: a live series must not wait for it.
        parts = tuple(torch.as_tensor(part, dtype=torch.float64) for part in (self.mean, self.scale))
        object.__setattr__(self, "_parts", parts)

    @classmethod
    def fit(cls, series: Series) -> "Standardizer":
        """Measure every observation within the lengths of the training series, in float64, a part at a time."""
        total = sum(weight.sum(dim=(0, 1)) for _, weight in _measured(series)).clamp(min=1)  # type: ignore[union-attr]
        mean = sum((value * weight).sum(dim=(0, 1)) for value, weight in _measured(series)) / total
        squares = sum((weight * (value - mean) ** 2).sum(dim=(0, 1)) for value, weight in _measured(series))
        deviation = (squares / total).sqrt()
        if not bool(deviation.isfinite().all()):
            remedy = "Bring them to a smaller unit."
            raise InvalidArgument(
                "observations", "of a finite deviation", "values so large that squares overflow", remedy
            )
        # What rounding leaves of a constant is no scale.
        scale = torch.where(deviation > 1e-12 * mean.abs(), deviation, torch.ones_like(deviation))
        return cls(mean.cpu().numpy(), scale.cpu().numpy(), series.mask_channels)

    def apply(self, series: Series) -> Series:
        """The same series, standardised, float32; padding stays zero."""
        ready = self.apply_step(series.observations)
        if not series.of_equal_length:
            live = running(series.lengths, ready.shape[1])
            ready = ready.masked_fill(~live.reshape(*live.shape, *(1,) * (ready.ndim - 2)), 0.0)
        return replace(series, observations=ready)

    def apply_step(self, observations: ArrayLike) -> Tensor:
        """What has just arrived, (..., *features), standardised, float32: the same numbers as in a batch."""
        x = as_tensor(observations, name="observations")
        shape = (*self.mean.shape[:-1], self.mean.shape[-1] + self.mask_channels) if self.mean.ndim else ()
        if tuple(x.shape[x.ndim - len(shape) :]) != shape:
            expected, got = f"of shape ({', '.join(('...', *map(str, shape)))})", f"shape {tuple(x.shape)}"
            raise InvalidArgument("observations", expected, got, "It was fitted on observations of that shape.")
        # In float64 whatever comes in: a large offset would be rounded away otherwise, and not alike live and in a batch.
        x = x.double()
        mean, scale = (part.to(x.device) for part in self._parts)
        if not self.mask_channels:
            return ((x - mean) / scale).float()
        values, mask = x[..., : -self.mask_channels], x[..., -self.mask_channels :]
        return torch.cat([(values - mean) / scale * mask, mask], dim=-1).float()


def _measured(series: Series) -> Iterator[tuple[Tensor, Tensor]]:
    """Values and weights (1 where observed), both (part, time, *features) in float64 without the mask channels."""
    masks, rows = series.mask_channels, max(1, 2**22 // max(1, series.observations[0].numel()))
    for part, lengths in zip(series.observations.split(rows), series.lengths.split(rows), strict=True):
        values = part[..., :-masks] if masks else part
        live = running(lengths, part.shape[1])
        weight = live.reshape(*live.shape, *(1,) * (part.ndim - 2)).expand(values.shape).double()
        yield values.double(), weight * part[..., -masks:] if masks else weight
