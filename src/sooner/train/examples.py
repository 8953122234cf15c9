"""What a model is trained on, and in which order it sees it.

The batch of step s is a pure function of (seed, s). So a run that was cut at any step goes on with the batches that an
unbroken one would have seen, and nothing about the order has to be saved.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_labels, as_lengths, as_tensor, as_weights, refuse_empty, running
from sooner.types import IntArray, Labels, Lengths, Observations

Counts = Float[Tensor, "rows classes"]


class Batch(NamedTuple):
    """Series with their labels, their lengths where they differ, and their places in the set they come from."""

    observations: Observations
    labels: Labels
    lengths: Lengths | None
    indices: Labels

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        lengths = None if self.lengths is None else self.lengths.to(device)
        return Batch(self.observations.to(device), self.labels.to(device), lengths, self.indices.to(device))


class Source(ABC):
    """Series with known classes, stored or made on the fly: what training and validation read."""

    labels: Tensor
    """(series,), classes counted from 0."""
    lengths: Tensor | None
    """(series,), or None where all series are as long as the set has time."""
    weights: Tensor | None
    """(series,), how often each is drawn in training compared with the others, or None for all alike."""

    shape: tuple[int, ...]
    """(time, *features) of a series."""

    @abstractmethod
    def observe(self, rows: Labels, epoch: int) -> Observations:
        """The series at these places, as the given epoch shows them."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: IntArray, epoch: int = 0) -> Batch:
        """The series at these places."""
        rows = torch.as_tensor(indices, device=self.labels.device)
        lengths = None if self.lengths is None else self.lengths[rows]
        return Batch(self.observe(rows, epoch), self.labels[rows], lengths, rows)

    def class_counts(self, classes: int) -> Counts:
        """The series of each class that still run at each time; one row if all run to the end. None may be absent."""
        if int(self.labels.max()) >= classes:
            index = int((self.labels >= classes).nonzero()[0, 0])
            got = f"{int(self.labels[index])} at index {index}"
            raise InvalidArgument("labels", f"in 0..{classes - 1}", got, f"The model has {classes} classes.")
        member = torch.nn.functional.one_hot(self.labels, classes).double()
        if self.weights is not None:
            member = member * (self.weights / self.weights.mean())[:, None]
        if not bool(member.any(dim=0).all()):
            absent = int(member.any(dim=0).logical_not().nonzero()[0, 0])
            remedy = "Nothing can be learned about the others: leave them out of the model."
            raise InvalidArgument("labels", f"of all {classes} classes", f"none of class {absent}", remedy)
        if self.lengths is None:
            return member.sum(dim=0, keepdim=True)
        return running(self.lengths, self.shape[0]).double().T @ member


@dataclass(frozen=True, eq=False)
class Examples(Source):
    """Stored series with known classes; arrays become tensors.

    Args:
        observations: (series, time, *features); floating ones must be finite within each length.
        labels: (series,), classes counted from 0.
        lengths: (series,); by default every series fills the tensor.
        weights: (series,), how often each is drawn in training compared with the others; by default all alike, each once
            in an epoch.
    """

    observations: Tensor
    labels: Tensor
    lengths: Tensor | None = None
    weights: Tensor | None = None
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        observations = as_tensor(self.observations, name="observations").detach()
        if observations.ndim < 2 or 0 in observations.shape[1:]:
            raise InvalidArgument(
                "observations",
                "of shape (series, time, *features)",
                f"shape {tuple(observations.shape)}",
                "Stack series of equal length, or pad them and give `lengths`.",
            )
        refuse_empty(observations, name="observations")
        lengths = as_lengths(self.lengths, observations, time=observations.shape[1])
        object.__setattr__(self, "observations", _finite(observations, lengths))
        object.__setattr__(self, "shape", tuple(observations.shape[1:]))
        object.__setattr__(self, "labels", _as_classes(self.labels, len(observations)))
        object.__setattr__(self, "lengths", None if self.lengths is None else lengths)
        if self.weights is not None:
            object.__setattr__(
                self, "weights", torch.as_tensor(as_weights(self.weights, len(observations), name="weights"))
            )

    def observe(self, rows: Labels, epoch: int) -> Observations:  # noqa: ARG002
        """The same in every epoch."""
        return self.observations[rows]


@dataclass(frozen=True, eq=False)
class Drawn(Source):
    """Series made on the fly, all of the same length, for example with other noise in every epoch.

    Args:
        labels: (series,), classes counted from 0.
        shape: (time, *features) of a series.
        draw: from places and the epoch, counted from 0, to (batch, time, *features); the same for the same.

    >>> noise = Drawn([0, 1], (3, 2), lambda rows, epoch: torch.full((len(rows), 3, 2), float(epoch)))
    >>> noise.take([1], epoch=4).observations[0, 0]
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
        object.__setattr__(self, "labels", _as_classes(labels, len(labels)))

    def observe(self, rows: Labels, epoch: int) -> Observations:
        """What the function makes of them."""
        return self.draw(rows, epoch)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The batches of steps start..stop-1, each epoch in an order of its own; of several workers, one's part of each batch.

    A batch is never short: what does not fill one at the end of an epoch is left for another epoch's order.
    """

    examples: Source
    batch_size: int
    seed: int
    start: int
    stop: int
    worker: int = 0
    workers: int = 1

    def __iter__(self) -> Iterator[Batch]:
        return (self.batch(step) for step in range(self.start, self.stop))

    def batch(self, step: int) -> Batch:
        """The batch of a step, or one's part of it."""
        indices = batch_indices(step, len(self.examples), self.batch_size, self.seed, self._weights)
        mine = part_of(indices, self.worker, self.workers)
        return self.examples.take(mine, epoch_of(step, len(self.examples), self.batch_size))

    @cached_property
    def _weights(self) -> tuple[float, ...] | None:
        return None if self.examples.weights is None else tuple(self.examples.weights.tolist())


@dataclass(frozen=True, eq=False)
class InOrder:
    """Every series once, as it stands; of several workers, every so many-th batch is one's own."""

    examples: Source
    batch_size: int
    worker: int = 0
    workers: int = 1

    def __iter__(self) -> Iterator[Batch]:
        for first in self._firsts:
            yield self.examples.take(np.arange(first, min(first + self.batch_size, len(self.examples))))

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def _firsts(self) -> range:
        return range(self.worker * self.batch_size, len(self.examples), self.workers * self.batch_size)


def batch_indices(
    step: int, series: int, batch_size: int, seed: int, weights: tuple[float, ...] | None = None
) -> IntArray:
    """Which series step `step` (from 0) reads.

    >>> [batch_indices(step, series=4, batch_size=2, seed=0).tolist() for step in (0, 1)]
    [[2, 0], [1, 3]]
    """
    place = step % max(series // batch_size, 1)
    order = _order(series, seed, epoch_of(step, series, batch_size), weights)
    return order[place * batch_size : (place + 1) * batch_size]


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


def _as_classes(labels: Tensor, series: int) -> Labels:
    # How many classes there are is the model's to say; here labels need only be whole and not negative.
    tensor = as_tensor(labels, name="labels")
    if tensor.numel() and int(tensor.min()) < 0:
        index = int(tensor.argmin())
        raise InvalidArgument("labels", "at least 0", f"{int(tensor[index])} at index {index}", "Classes count from 0.")
    classes = 1 + int(tensor.max()) if tensor.numel() else 1
    return as_labels(tensor, torch.empty(series, classes, device=tensor.device))


def _finite(observations: Observations, lengths: Lengths) -> Observations:
    """Refuse what is not finite within a length; beyond it zeros take its place: 0 * nan would reach the gradients."""
    if not observations.is_floating_point() or bool(torch.isfinite(observations.sum(dtype=torch.float32))):
        return observations
    flat = observations.reshape(*observations.shape[:2], -1)
    live = running(lengths, observations.shape[1])
    bad = ~torch.isfinite(flat).all(dim=2) & live
    if bool(bad.any()):
        series, time = bad.nonzero()[0].tolist()
        values = flat[series, time]
        raise InvalidArgument(
            "observations",
            "finite",
            f"{float(values[~torch.isfinite(values)][0])} at series {series}, time {time} (counted from 0)",
            "Fill missing values in, or shorten the series with `lengths`.",
        )
    return torch.where(live[..., None], flat, 0.0).reshape(observations.shape)
