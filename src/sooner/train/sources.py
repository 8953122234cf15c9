"""Training data and the order in which they are read.

The batch of step s is a pure function of (seed, s), so a resumed run reads the same batches as an uninterrupted one, and the
order need not be saved.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_labels, as_tensor, refuse_empty, running
from sooner.types import FloatArray, IntArray, Labels, Lengths, Observations

Counts = Float[Tensor, "rows classes"]


class Minibatch(NamedTuple):
    """Series with labels, lengths (None if all are equal), and their indices in the source."""

    observations: Observations
    labels: Labels
    lengths: Lengths | None
    indices: Labels

    def to(self, device: torch.device) -> "Minibatch":
        """The batch on a device."""
        lengths = None if self.lengths is None else self.lengths.to(device)
        return Minibatch(self.observations.to(device), self.labels.to(device), lengths, self.indices.to(device))


@runtime_checkable
class Source(Protocol):
    """Data for training and validation: a `Series`, or series `Drawn` on the fly."""

    @property
    def labels(self) -> Labels:
        """(series,), class indices."""

    @property
    def lengths(self) -> Lengths | None:
        """(series,), or None if all series have the same length."""

    @property
    def weights(self) -> Tensor | None:
        """(series,), relative frequency of each in training; None draws each once per epoch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(time, *features)."""

    def observe(self, rows: Labels, epoch: int) -> Observations:
        """The observations of these series in an epoch."""

    def __len__(self) -> int: ...


def class_counts(source: Source, classes: int) -> Counts:
    """Number of series of each class that still run at each time; one row if all lengths are equal. No class may be absent."""
    labels, lengths = source.labels, lengths_of(source)
    if int(labels.max()) >= classes:
        index = int((labels >= classes).nonzero()[0, 0])
        got = f"{int(labels[index])} at index {index}"
        raise InvalidArgument("labels", f"in 0..{classes - 1}", got, f"The model has {classes} classes.")
    member = torch.nn.functional.one_hot(labels, classes).double()
    if source.weights is not None:
        member = member * (source.weights / source.weights.mean())[:, None]
    if not bool(member.any(dim=0).all()):
        absent = int(member.any(dim=0).logical_not().nonzero()[0, 0])
        remedy = "Nothing can be learned about the others: leave them out of the model."
        raise InvalidArgument("labels", f"of all {classes} classes", f"none of class {absent}", remedy)
    if lengths is None:
        return member.sum(dim=0, keepdim=True)
    return running(lengths, source.shape[0]).double().T @ member


def lengths_of(source: Source) -> Lengths | None:
    """The lengths, or None if all series have the full length, so that models need no mask."""
    lengths = source.lengths
    return None if lengths is None or bool((lengths == source.shape[0]).all()) else lengths


@dataclass(frozen=True, eq=False)
class Drawn:
    """Series of one length that are made on the fly, for example with new noise in every epoch.

    Args:
        labels: (series,), classes counted from 0.
        shape: (time, *features) of a series.
        draw: a deterministic function of row indices and the epoch (from 0) that returns (batch, time, *features).

    >>> noise = Drawn([0, 1], (3, 2), lambda rows, epoch: torch.full((len(rows), 3, 2), float(epoch)))
    >>> noise.observe(torch.tensor([1]), epoch=4)[0, 0]
    tensor([4., 4.])
    """

    labels: Tensor
    shape: tuple[int, ...]
    draw: Callable[[Labels, int], Observations]
    lengths: None = field(init=False, default=None)
    weights: None = field(init=False, default=None)

    def __post_init__(self) -> None:
        labels = as_tensor(self.labels, name="labels")
        if labels.ndim != 1:
            got = f"shape {tuple(labels.shape)}"
            raise InvalidArgument("labels", "of shape (series,)", got, "Give one for each series.")
        refuse_empty(labels, name="labels")
        if int(labels.min()) < 0:
            index = int(labels.argmin())
            got = f"{int(labels[index])} at index {index}"
            raise InvalidArgument("labels", "at least 0", got, "Classes count from 0.")
        if not self.shape or min(self.shape) < 1:
            remedy = "It is the shape of one series."
            raise InvalidArgument("shape", "(time, *features), each at least 1", self.shape, remedy)
        # The number of classes is checked later, with the model.
        like = torch.empty(len(labels), 1 + int(labels.max()), device=labels.device)
        object.__setattr__(self, "labels", as_labels(labels, like))

    def __len__(self) -> int:
        return len(self.labels)

    def observe(self, rows: Labels, epoch: int) -> Observations:
        """Call the function."""
        return self.draw(rows, epoch)


@dataclass(frozen=True, eq=False)
class _Batches:
    """Batches of a source for one of several workers."""

    source: Source
    batch_size: int

    @cached_property
    def _lengths(self) -> Lengths | None:
        return lengths_of(self.source)

    def take(self, indices: IntArray, epoch: int = 0) -> Minibatch:
        """The series at these indices."""
        rows = torch.as_tensor(indices, device=self.source.labels.device)
        lengths = None if self._lengths is None else self._lengths[rows]
        return Minibatch(self.source.observe(rows, epoch), self.source.labels[rows], lengths, rows)


@dataclass(frozen=True, eq=False)
class Shuffled(_Batches):
    """The batch of each step, in a new order every epoch; `worker` reads its share of each batch.

    Every batch is full: the remainder at the end of an epoch is dropped.
    """

    seed: int
    worker: int = 0
    workers: int = 1
    crop: int | None = None
    whole_every: int | None = None

    def batch(self, step: int) -> Minibatch:
        """The worker's share of the batch of a step."""
        indices = batch_indices(step, len(self.source), self.batch_size, self.seed, self._weights)
        own = worker_share(indices, self.worker, self.workers)
        batch = self.take(own, epoch_of(step, len(self.source), self.batch_size))
        whole = self.whole_every is not None and (step + 1) % self.whole_every == 0
        if self.crop is None or self.crop >= self.source.shape[0] or whole:
            return batch
        shares = np.random.default_rng([self.seed, step]).random(len(indices))
        return cropped(batch, self.crop, worker_share(shares, self.worker, self.workers))

    @cached_property
    def _weights(self) -> tuple[float, ...] | None:
        return None if self.source.weights is None else tuple(self.source.weights.tolist())


@dataclass(frozen=True, eq=False)
class InOrder(_Batches):
    """Every series once, in order; worker i of n reads every n-th batch."""

    worker: int = 0
    workers: int = 1

    def __iter__(self) -> Iterator[Minibatch]:
        for start in self._starts:
            yield self.take(np.arange(start, min(start + self.batch_size, len(self.source))))

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def _starts(self) -> range:
        return range(self.worker * self.batch_size, len(self.source), self.workers * self.batch_size)


def cropped(batch: Minibatch, size: int, shares: FloatArray) -> Minibatch:
    """`size` consecutive observations of each series; its share, in 0..1, says from where between the first and the last start.

    A series that is not longer is read whole.

    >>> batch = Minibatch(torch.arange(10.0).reshape(2, 5), torch.tensor([0, 1]), None, torch.tensor([0, 1]))
    >>> cropped(batch, 2, np.array([0.0, 0.99])).observations.tolist()
    [[0.0, 1.0], [8.0, 9.0]]
    """
    observations, lengths = batch.observations, batch.lengths
    ends = torch.full((len(observations),), observations.shape[1]) if lengths is None else lengths
    starts = (torch.from_numpy(shares).to(ends.device) * ((ends - size).clamp(min=0) + 1)).long()
    times = starts[:, None] + torch.arange(size, device=ends.device)
    rows = torch.arange(len(ends), device=ends.device)[:, None]
    return batch._replace(
        observations=observations[rows, times], lengths=None if lengths is None else lengths.clamp(max=size)
    )


def batch_indices(
    step: int, series: int, batch_size: int, seed: int, weights: tuple[float, ...] | None = None
) -> IntArray:
    """Indices of the series in the batch of a step (from 0).

    >>> [batch_indices(step, series=4, batch_size=2, seed=0).tolist() for step in (0, 1)]
    [[2, 0], [1, 3]]
    """
    position = step % max(series // batch_size, 1)
    order = _order(series, seed, epoch_of(step, series, batch_size), weights)
    return order[position * batch_size : (position + 1) * batch_size]


def worker_share(batch: npt.NDArray[Any], worker: int, workers: int) -> npt.NDArray[Any]:
    """A worker's share of a batch: contiguous, disjoint from the others, and equal in size up to one.

    >>> [worker_share(np.arange(5), worker, 2).tolist() for worker in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(batch, workers)[worker]


def epoch_of(step: int, series: int, batch_size: int) -> int:
    """The epoch (from 0) of a step (from 0)."""
    return step // max(series // batch_size, 1)


@lru_cache(maxsize=2)
def _order(series: int, seed: int, epoch: int, weights: tuple[float, ...] | None) -> IntArray:
    random = np.random.default_rng([seed, epoch])
    if weights is None:
        return random.permutation(series)
    return random.choice(series, series, p=np.asarray(weights) / sum(weights))
