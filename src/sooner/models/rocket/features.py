"""Features of a growing series at constant cost per observation: counts of convolutions.

======== ====================================================================================================
symbol   meaning
======== ====================================================================================================
w_k      one of the 84 kernels of length 9 with three weights 2 and six weights -1 (MiniRocket's)
d        a dilation: the kernel reads x(t), x(t-d), ..., x(t-8d); zeros precede the first observation
u        the sum of a few channels, chosen at random for each kernel and dilation
b        a threshold, a quantile of the kernel's output on the training series
n(t)     number of times up to t at which the output exceeded b; n(t) / t is the feature
======== ====================================================================================================

The kernels are those of Dempster, Schmidt and Webb, "MiniRocket" (2021), in a causal form, so that features are updated, not
recomputed for every prefix. Further features of each channel are the mean, standard deviation, minimum, maximum, mean step and
newest value.

Observations are first rounded to a grid of integers. So all sums are exact in any order, a live series has exactly the counts
of the same series in a batch, and thresholds lie halfway between integers.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sooner.types import Lengths, LiveState

TAPS, KERNELS = 9, 84
GRID, LIMIT = 2048, 32
"""Grid steps per unit, and the largest value: 12 * 9 * LIMIT * GRID < 2^24, so float32 holds every convolution exactly."""
MOST_CHANNELS = 9
STATISTICS = 6
_SAMPLE = 2000
_GOLDEN = (5**0.5 + 1) / 2
_CHUNK = 2**24  # numbers of a convolution computed at once

Features = Float[Tensor, "rows features"]
Flat = Float[Tensor, "rows time channels"]


class _Live(NamedTuple):
    """The newest observations on the grid (oldest first), counts, sums (of values, squares and steps), extremes, and age."""

    newest: Tensor
    counts: Tensor
    sums: Tensor
    highest: Tensor
    lowest: Tensor
    age: Tensor


class RunningFeatures(nn.Module):
    """The map from the first t observations to features, for any t, in batch or live.

    Args:
        channels: number of channels, standardised.
        dilations: d, ascending.
        thresholds: number of thresholds per kernel and dilation.
    """

    mixes: Tensor
    limits: Tensor
    kernels: Tensor
    tap_indices: Tensor
    filters: Tensor

    def __init__(self, channels: int, dilations: Sequence[int], *, thresholds: int = 4) -> None:
        super().__init__()
        self.channels, self.dilations = channels, tuple(dilations)
        kernels = [[2.0 if tap in triple else -1.0 for tap in range(TAPS)] for triple in combinations(range(TAPS), 3)]
        self.register_buffer("kernels", torch.tensor(kernels), persistent=False)
        self.register_buffer("mixes", torch.zeros(len(self.dilations), KERNELS, channels))
        self.register_buffer("limits", torch.zeros(len(self.dilations), KERNELS, thresholds))
        back = torch.arange(TAPS - 1, -1, -1)
        self.register_buffer("tap_indices", self.reach - torch.tensor(self.dilations)[:, None] * back, persistent=False)
        self.register_buffer("filters", self._filters(), persistent=False)

    @property
    def counted(self) -> int:
        """Number of features that are counts."""
        return self.limits.numel()

    @property
    def width(self) -> int:
        """Number of features."""
        return self.counted + STATISTICS * self.channels

    @property
    def reach(self) -> int:
        """Number of observations before the newest one that the kernels read."""
        return (TAPS - 1) * self.dilations[-1]

    def fit(self, series: Flat, lengths: Lengths, *, seed: int) -> None:
        """Sample the channels of each kernel, and take thresholds from its output on these series."""
        random = np.random.default_rng(seed)
        most = min(self.channels, MOST_CHANNELS)
        for mix in self.mixes.flatten(0, 1):
            # The number of channels is log-uniform, so that single channels are frequent.
            size = int(2 ** random.uniform(0, np.log2(most + 1)))
            mix[torch.as_tensor(random.choice(self.channels, size, replace=False))] = 1.0
        self.filters = self._filters()
        rows, times = np.nonzero(np.arange(series.shape[1]) < lengths.cpu().numpy()[:, None])
        chosen = random.choice(len(rows), min(len(rows), _SAMPLE), replace=False)
        values = torch.cat([self._at(series, rows[chunk], times[chunk]) for chunk in np.array_split(chosen, 8)])
        # Quantiles spread over 0..1 by multiples of the golden ratio, as MiniRocket's are.
        ranks = (torch.arange(1, self.limits.numel() + 1, dtype=torch.float64) * _GOLDEN % 1).view(self.limits.shape)
        order = (ranks * (len(values) - 1)).long().permute(2, 0, 1)
        self.limits.copy_((values.sort(dim=0).values.gather(0, order) + 0.5).permute(1, 2, 0))

    def at(
        self, series: Flat, times: Sequence[int], watch: Callable[[int, int], None] | None = None
    ) -> Float[Tensor, "rows times features"]:
        """The features after each of these ascending times; those beyond the length of a series are meaningless.

        `watch` is called with the number of finished series and their total number.
        """
        features: list[Tensor] = []
        for chunk in series.split(self.rows_at_once(series.shape[1])):
            features.append(torch.stack(list(self.along(chunk, times)), dim=1))
            if watch is not None:
                watch(sum(map(len, features)), len(series))
        return torch.cat(features)

    def rows_at_once(self, time: int) -> int:
        """Number of series of length `time` that fit into memory at once."""
        return max(1, _CHUNK // (time * len(self.dilations) * KERNELS))

    def init(self, streams: int) -> LiveState:
        """The state of new live series."""
        shape = (streams, self.channels)
        return _Live(
            torch.zeros(streams, self.reach, self.channels),
            torch.zeros(streams, self.counted, dtype=torch.int32),
            torch.zeros(streams, 3, self.channels, dtype=torch.float64),
            torch.full(shape, -torch.inf),
            torch.full(shape, torch.inf),
            torch.zeros(streams, dtype=torch.int64),
        )

    def step(self, state: LiveState, observation: Float[Tensor, "streams channels"]) -> LiveState:
        """Add one observation of each series."""
        live, x = _Live(*state), _on_grid(observation)
        window = torch.cat([live.newest, x[:, None]], dim=1)
        taps = window.index_select(1, self.tap_indices.flatten()).view(x.shape[0], len(self.dilations), -1)
        exceeded = torch.bmm(taps.transpose(0, 1), self.filters).transpose(0, 1)[..., None] > self.limits
        value = x.double()
        change = (value - window[:, -2]).abs() * (live.age > 0)[:, None]  # the first observation has no step before it
        sums = live.sums + torch.stack([value, value * value, change], dim=1)
        highest, lowest = torch.maximum(live.highest, x), torch.minimum(live.lowest, x)
        return _Live(window[:, 1:], live.counts + exceeded.flatten(1), sums, highest, lowest, live.age + 1)

    def of(self, state: LiveState) -> Features:
        """The features of live series."""
        live = _Live(*state)
        return _joined(live.counts, live.sums, live.highest, live.lowest, live.newest[:, -1], live.age[:, None])

    def along(self, series: Flat, times: Sequence[int]) -> Iterator[Features]:
        """The features of a chunk of series at ascending times, one time after the other."""
        grid = _on_grid(series)
        steps = torch.cat([torch.zeros_like(grid[:, :1]), (grid[:, 1:] - grid[:, :-1]).abs()], dim=1).double()
        sums = torch.stack([grid.double(), grid.double() ** 2, steps], dim=2).cumsum(dim=1)
        highest, lowest = grid.cummax(dim=1).values, grid.cummin(dim=1).values
        counts = torch.zeros(len(series), self.counted, dtype=torch.int32)
        outputs = self._convolved(grid)
        for start, stop in pairwise([0, *times]):
            for output in outputs[start:stop]:
                counts += (output[..., None] > self.limits).flatten(1)
            last, age = stop - 1, torch.full((1, 1), stop)
            yield _joined(counts, sums[:, last], highest[:, last], lowest[:, last], grid[:, last], age)

    def _convolved(self, grid: Flat) -> Float[Tensor, "time rows dilations kernels"]:
        """Every kernel at every time."""
        time = grid.shape[1]
        padded = nn.functional.pad(grid, (0, 0, self.reach, 0))
        out = grid.new_empty(time, len(grid), len(self.dilations), KERNELS)
        for index, dilation in enumerate(self.dilations):
            mixed = (padded[:, self.reach - (TAPS - 1) * dilation :] @ self.mixes[index].T).transpose(0, 1)
            taps = (self.kernels[:, tap] * mixed[tap * dilation :][:time] for tap in range(TAPS))
            out[:, :, index] = sum(taps)
        return out

    def _at(self, series: Flat, rows: np.ndarray, times: np.ndarray) -> Float[Tensor, "samples dilations kernels"]:
        """Every kernel at some times of some series."""
        padded = nn.functional.pad(_on_grid(series), (0, 0, self.reach, 0))
        taps = torch.as_tensor(times)[:, None, None] + self.tap_indices
        inputs = padded[torch.as_tensor(rows)[:, None, None], taps]
        return torch.bmm(inputs.flatten(2).transpose(0, 1), self.filters).transpose(0, 1)

    def _filters(self) -> Float[Tensor, "dilations inputs kernels"]:
        """One matrix for each dilation, over the nine taps of all channels."""
        return torch.einsum("kj,dkc->djck", self.kernels, self.mixes).flatten(1, 2).contiguous()

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.filters = self._filters()


def dilations_for(longest: int) -> tuple[int, ...]:
    """Powers of 2 whose kernels reach over at most about twice the longest series.

    >>> dilations_for(29)
    (1, 2, 4)
    """
    return tuple(d for d in (1, 2, 4, 8, 16, 32) if d == 1 or 4 * d < longest)


def _on_grid(x: Tensor) -> Tensor:
    return (x.float() * GRID).round().clamp(-LIMIT * GRID, LIMIT * GRID)


def _joined(counts: Tensor, sums: Tensor, highest: Tensor, lowest: Tensor, newest: Tensor, age: Tensor) -> Features:
    """Counts as shares, then six statistics of each channel, in units of the observations."""
    mean, square, moved = (sums / age[..., None]).unbind(dim=1)
    deviation = (square - mean**2).clamp_min(0).sqrt()
    statistics = torch.cat([mean, deviation, moved, highest, lowest, newest], dim=1) / GRID
    return torch.cat([(counts / age).float(), statistics.float()], dim=1)
