"""What a model is trained on, and in which order it sees it.

The batch of step s is a pure function of (seed, s). So a run that was cut at any step goes on with the batches that an
unbroken one would have seen, and nothing about the order has to be saved.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_labels, as_tensor, refuse_empty, running
from sooner.types import IntArray, Labels, Lengths, Observations

Counts = Float[Tensor, "rows classes"]


class Minibatch(NamedTuple):
    """Series with their labels, their lengths where they differ, and their indices in the set they come from."""

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
    """What training and validation read: a `Series`, or `Drawn` ones, which are made on the fly."""

    @property
    def labels(self) -> Labels:
        """(series,), class indices."""

    @property
    def lengths(self) -> Lengths | None:
        """(series,), or None where all series have the same length."""

    @property
    def weights(self) -> Tensor | None:
        """(series,), how often each is drawn in training compared with the others; None draws each once in an epoch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(time, *features) of the set."""

    def observe(self, rows: Labels, epoch: int) -> Observations:
        """The observations of these series, as the given epoch shows them."""

    def __len__(self) -> int: ...


def class_counts(source: Source, classes: int) -> Counts:
    """The series of each class that still run at each time; one row if all run to the end. None may be absent."""
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
    """The lengths, or None where every series is as long as the set has time: models need no mask then."""
    lengths = source.lengths
    return None if lengths is None or bool((lengths == source.shape[0]).all()) else lengths


@dataclass(frozen=True, eq=False)
class Drawn:
    """Series made on the fly, all of the same length, for example with other noise in every epoch.

    Args:
        labels: (series,), classes counted from 0.
        shape: (time, *features) of a series.
        draw: from indices and the epoch, counted from 0, to (batch, time, *features); the same for the same.

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
            raise InvalidArgument(
                "labels", "of shape (series,)", f"shape {tuple(labels.shape)}", "Give one for each series."
            )
        refuse_empty(labels, name="labels")
        if not self.shape or min(self.shape) < 1:
            remedy = "It is the shape of one series."
            raise InvalidArgument("shape", "(time, *features), each at least 1", self.shape, remedy)
        object.__setattr__(self, "labels", _as_classes(labels))

    def __len__(self) -> int:
        return len(self.labels)

    def observe(self, rows: Labels, epoch: int) -> Observations:
        """What the function makes of them."""
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
    """The batch of each step, each epoch in an order of its own; `worker` reads its part of each batch.

    A batch is never short: what does not fill one at the end of an epoch is left for another epoch's order.
    """

    seed: int
    worker: int = 0
    workers: int = 1

    def batch(self, step: int) -> Minibatch:
        """The batch of a step, or the worker's part of it."""
        indices = batch_indices(step, len(self.source), self.batch_size, self.seed, self._weights)
        mine = part_of(indices, self.worker, self.workers)
        return self.take(mine, epoch_of(step, len(self.source), self.batch_size))

    @cached_property
    def _weights(self) -> tuple[float, ...] | None:
        return None if self.source.weights is None else tuple(self.source.weights.tolist())


@dataclass(frozen=True, eq=False)
class InOrder(_Batches):
    """Every series once, as it stands; worker i of n reads every n-th batch."""

    worker: int = 0
    workers: int = 1

    def __iter__(self) -> Iterator[Minibatch]:
        for first in self._firsts:
            yield self.take(np.arange(first, min(first + self.batch_size, len(self.source))))

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def _firsts(self) -> range:
        return range(self.worker * self.batch_size, len(self.source), self.workers * self.batch_size)


def batch_indices(
    step: int, series: int, batch_size: int, seed: int, weights: tuple[float, ...] | None = None
) -> IntArray:
    """Which series step `step` (from 0) reads.

    >>> [batch_indices(step, series=4, batch_size=2, seed=0).tolist() for step in (0, 1)]
    [[2, 0], [1, 3]]
    """
    position = step % max(series // batch_size, 1)
    order = _order(series, seed, epoch_of(step, series, batch_size), weights)
    return order[position * batch_size : (position + 1) * batch_size]


def part_of(indices: IntArray, worker: int, workers: int) -> IntArray:
    """What one worker reads of a batch; the parts are as equal as can be, and together they are the batch.

    >>> [part_of(np.arange(5), worker, 2).tolist() for worker in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(indices, workers)[worker]


def epoch_of(step: int, series: int, batch_size: int) -> int:
    """The epoch, from 0, that step `step` (from 0) belongs to."""
    return step // max(series // batch_size, 1)


@lru_cache(maxsize=2)
def _order(series: int, seed: int, epoch: int, weights: tuple[float, ...] | None) -> IntArray:
    random = np.random.default_rng([seed, epoch])
    if weights is None:
        return random.permutation(series)
    return random.choice(series, series, p=np.asarray(weights) / sum(weights))


def _as_classes(labels: Tensor) -> Labels:
    # How many classes there are is the model's to say; here labels need only be whole and not negative.
    if labels.numel() and int(labels.min()) < 0:
        index = int(labels.argmin())
        raise InvalidArgument("labels", "at least 0", f"{int(labels[index])} at index {index}", "Classes count from 0.")
    return as_labels(labels, torch.empty(len(labels), 1 + int(labels.max()), device=labels.device))
