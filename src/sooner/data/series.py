"""The one record that the rest of the code takes: observations, their lengths, and labels with their own names.

Whatever a user brings is turned here into one tensor (series, time, *features) that is finite everywhere and zero beyond
each length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import (
    as_between,
    as_entries,
    as_labels,
    as_lengths,
    as_seed,
    as_tensor,
    as_whole,
    refuse_empty,
    running,
)
from sooner.types import ArrayLike, IntArray, Lengths, Observations

Missing: TypeAlias = Literal["refuse", "mask"]
Names: TypeAlias = npt.NDArray[Any]

_POOL = 32  # batches; series are sorted by length within pools of so many, so that batches differ between seeds


@dataclass(frozen=True, eq=False)
class Series:
    """Labelled series of their own lengths; `from_aeon` and `from_arrays` read what users have.

    Args:
        observations: (series, time, *features), finite within each length; what lies beyond becomes zero.
        labels: (series,), places in `classes`.
        classes: (classes,), the names of the classes, of any type.
        lengths: (series,); by default every series fills the tensor.
        groups: (series,), who or what a series comes from, of any type; groups are not torn by `split_by_group`.
        mask_channels: how many of the last channels say whether a value was observed (1) or missing (0).
    """

    observations: Tensor
    labels: Tensor
    classes: Names
    lengths: Tensor = None  # type: ignore[assignment]  # None is taken and becomes a tensor
    groups: Names | None = None
    mask_channels: int = 0

    def __post_init__(self) -> None:
        observations = _as_observations(self.observations, name="observations")
        classes = _as_names(self.classes, name="classes")
        lengths = as_lengths(self.lengths, observations, time=observations.shape[1])
        object.__setattr__(self, "observations", _padded(observations, lengths, name="observations"))
        object.__setattr__(self, "classes", classes)
        object.__setattr__(
            self, "labels", as_labels(self.labels, observations.new_empty(len(observations), len(classes)))
        )
        object.__setattr__(self, "lengths", lengths)
        if self.groups is not None:
            object.__setattr__(self, "groups", _one_each(self.groups, len(observations), name="groups"))

    @classmethod
    def from_aeon(
        cls,
        X: Any,  # noqa: N803  (what every time-series library calls it)
        y: Any,
        *,
        groups: Any = None,
        classes: Any = None,
        missing: Missing = "refuse",
    ) -> "Series":
        """Read arrays in aeon's layout, where time is the last axis.

        Args:
            X: (n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), or a list of (n_channels, n_timepoints_i).
            y: (n_cases,), labels of any type.
            groups: (n_cases,), of any type.
            classes: the names of the classes, for data that may lack some of them; by default those in `y`, sorted.
            missing: "mask" puts 0 for NaN and adds a channel of 1 (observed) and 0 (missing) for each channel.

        >>> series = Series.from_aeon([[[1.0, 2.0, 3.0]], [[4.0]]], ["up", "down"])
        >>> series.observations.shape, series.lengths.tolist(), series.names(series.labels).tolist()
        (torch.Size([2, 3, 1]), [3, 1], ['up', 'down'])
        """
        observations, lengths = read_aeon(X, missing=missing)
        return _labelled(observations, lengths, y, groups=groups, classes=classes, missing=missing)

    @classmethod
    def from_arrays(
        cls,
        observations: ArrayLike,
        labels: Any,
        *,
        lengths: ArrayLike | None = None,
        groups: Any = None,
        classes: Any = None,
        missing: Missing = "refuse",
    ) -> "Series":
        """Read an array where time is the second axis: (series, time, *features), or (series, time) for one channel.

        The other arguments are those of `from_aeon`; `labels` may be of any type.
        """
        tensor = as_tensor(observations, name="observations")
        tensor = _as_observations(tensor[..., None] if tensor.ndim == 2 else tensor, name="observations")
        checked = as_lengths(lengths, tensor, time=tensor.shape[1])
        tensor = _treated(tensor, checked, missing, name="observations")
        return _labelled(tensor, checked, labels, groups=groups, classes=classes, missing=missing)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def features(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return tuple(self.observations.shape[2:])

    def names(self, labels: ArrayLike) -> Names:
        """The names of these class indices."""
        names: Names = self.classes[np.asarray(labels)]
        return names

    def class_counts(self) -> IntArray:
        """(classes,): how many series each class has."""
        return np.bincount(self.labels.cpu().numpy(), minlength=len(self.classes))

    def take(self, indices: ArrayLike) -> "Series":
        """The series at these places, in this order; the tensor is as long as the longest of them."""
        places = _as_places(indices, len(self))
        rows = torch.as_tensor(places, device=self.labels.device)
        lengths = self.lengths[rows]
        observations = self.observations[:, : int(lengths.max())][rows]
        groups = None if self.groups is None else self.groups[places]
        return replace(self, observations=observations, labels=self.labels[rows], lengths=lengths, groups=groups)

    def split(self, share: float, seed: int) -> tuple["Series", "Series"]:
        """The rest, and `share` of each class; a class of at least 2 series is on both sides, a single one in the rest."""
        share = _as_share(share)
        random = np.random.default_rng(as_seed(seed))
        labels = self.labels.cpu().numpy()
        held = np.zeros(len(self), dtype=np.bool_)
        for label, count in enumerate(self.class_counts()):
            chosen = min(max(round(share * count), 1), max(count - 1, 0))
            held[random.permutation(np.flatnonzero(labels == label))[:chosen]] = True
        if not held.any():
            got = f"{len(self)} series of {len(self)} different classes"
            expected, remedy = "those of at least 2 series of one class to be split", "Bring more series of each class."
            raise InvalidArgument("labels", expected, got, remedy)
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))

    def split_by_group(self, share: float, seed: int) -> tuple["Series", "Series"]:
        """The rest, and whole groups that hold as near to `share` of the series as their random order allows."""
        share, members = _as_share(share), self.group_places()
        sizes = np.bincount(members)
        order = np.random.default_rng(as_seed(seed)).permutation(len(sizes))
        reached = np.cumsum(sizes[order])[:-1]
        held = np.isin(members, order[: 1 + int(np.abs(reached - share * len(self)).argmin())])
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))

    def group_places(self) -> IntArray:
        """(series,): the group of each series as a number; there must be at least 2 of them."""
        remedy = "Give one group for each series, for example the person or the machine it comes from."
        if self.groups is None:
            raise InvalidArgument("groups", "known for a split by group", "None", remedy)
        try:
            members = np.unique(self.groups, return_inverse=True)[1]
        except TypeError:
            raise _of_many_types(self.groups, name="groups") from None
        if members.max() < 1:
            raise InvalidArgument("groups", "at least 2 different ones", "1", remedy)
        return members

    def batch_indices(self, size: int, seed: int) -> list[IntArray]:
        """The places of `batches`: every series once, at most `size` together, similar lengths together."""
        size = as_whole(size, name="size", low=1, remedy="It is the number of series in a batch.")
        random = np.random.default_rng(as_seed(seed))
        order, lengths = random.permutation(len(self)), self.lengths.cpu().numpy()
        pools = [order[first : first + _POOL * size] for first in range(0, len(order), _POOL * size)]
        by_length = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
        cut = [pool[first : first + size] for pool in by_length for first in range(0, len(pool), size)]
        return [cut[place] for place in random.permutation(len(cut))]

    def batches(self, size: int, seed: int) -> Iterator["Series"]:
        """Every series once, in batches of at most `size` that need little padding; another seed, another order."""
        for places in self.batch_indices(size, seed):
            yield self.take(places)


def read_aeon(X: Any, *, missing: Missing = "refuse") -> tuple[Observations, Lengths]:  # noqa: N803
    """Observations (n_cases, time, channels) and lengths from aeon's layout, as `Series.from_aeon`, for unlabelled data."""
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object):
        observations, lengths = _stacked([_as_case(case, place) for place, case in enumerate(X)])
    else:
        tensor = as_tensor(X, name="X")
        if tensor.ndim not in (2, 3):
            expected = "of shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)"
            remedy = "Series of unequal lengths come as a list of (n_channels, n_timepoints)."
            raise InvalidArgument("X", expected, f"shape {tuple(tensor.shape)}", remedy)
        tensor = tensor[:, None] if tensor.ndim == 2 else tensor
        observations = _as_observations(tensor.transpose(1, 2).contiguous(), name="X")
        lengths = as_lengths(None, observations, time=observations.shape[1])
    return _treated(observations, lengths, missing, name="X"), lengths


def with_mask(observations: ArrayLike) -> Tensor:
    """(..., channels) with NaN for what is missing -> (..., 2 channels): zeros there, then 1 where observed and 0 else.

    >>> with_mask([[5.0, float("nan")]]).tolist()
    [[5.0, 0.0, 1.0, 0.0]]
    """
    x = as_tensor(observations, name="observations")
    x = x if x.is_floating_point() else x.double()
    missing = x.isnan()
    return torch.cat([x.masked_fill(missing, 0.0), (~missing).to(x.dtype)], dim=-1)


def _labelled(x: Tensor, lengths: Lengths, labels: Any, *, groups: Any, classes: Any, missing: Missing) -> Series:
    """The record, once labels are places among the classes."""
    names = _one_each(labels, len(x), name="labels")
    known = _as_names(_sorted(names) if classes is None else classes, name="labels" if classes is None else "classes")
    where = {name: place for place, name in enumerate(known.tolist())}
    places = [where.get(name, -1) for name in names.tolist()]
    if -1 in places:
        strange = places.index(-1)
        got = f"{names.tolist()[strange]!r} at index {strange}"
        raise InvalidArgument(
            "labels", f"among the classes {known.tolist()}", got, "Drop it, or add it to the classes."
        )
    masks = x.shape[-1] // 2 if missing == "mask" else 0
    return Series(x, torch.tensor(places), known, lengths, groups, masks)


def _as_case(case: Any, place: int) -> Tensor:
    """One series (time, channels) from (n_channels, n_timepoints) or (n_timepoints,)."""
    tensor = as_tensor(case, name=f"X[{place}]")
    if tensor.ndim not in (1, 2) or 0 in tensor.shape:
        expected = "of shape (n_channels, n_timepoints) with at least 1 of each"
        raise InvalidArgument(f"X[{place}]", expected, f"shape {tuple(tensor.shape)}", "Drop empty series.")
    return tensor[:, None] if tensor.ndim == 1 else tensor.T


def _stacked(cases: Sequence[Tensor]) -> tuple[Observations, Lengths]:
    """Cases of their own lengths in one tensor, zeros beyond each."""
    if not cases:
        raise InvalidArgument("X", "at least 1 series", "none", "Look at what read it.")
    channels = [case.shape[1] for case in cases]
    for place, count in enumerate(channels):
        if count != channels[0]:
            got = f"{channels[0]} channel(s) in series 0 and {count} in series {place}"
            remedy = "Each series is (n_channels, n_timepoints); give them the same channels in the same order."
            raise InvalidArgument("X", "of one number of channels", got, remedy)
    numbers = [_as_numbers(case, name="X") for case in cases]
    dtype = reduce(torch.promote_types, {case.dtype for case in numbers})
    stacked = torch.nn.utils.rnn.pad_sequence([case.to(dtype) for case in numbers], batch_first=True)
    return _as_observations(stacked, name="X"), torch.tensor([len(case) for case in cases])


def _as_numbers(tensor: Tensor, *, name: str) -> Tensor:
    """Floats and bytes as they are, yes and no as bytes, other whole numbers as float64 (exact up to 2^53)."""
    if tensor.is_complex():
        remedy = "Take the real part, or its absolute value."
        raise InvalidArgument(name, "of real numbers", f"dtype {tensor.dtype}", remedy)
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    return tensor if tensor.is_floating_point() or tensor.dtype == torch.uint8 else tensor.double()


def _as_observations(value: ArrayLike, *, name: str) -> Observations:
    tensor = as_tensor(value, name=name).detach()
    if tensor.ndim < 2 or 0 in tensor.shape[1:]:
        expected, got = "of shape (series, time, *features) with at least 1 observation", f"shape {tuple(tensor.shape)}"
        raise InvalidArgument(name, expected, got, "Drop empty series.")
    refuse_empty(tensor, name=name)
    return _as_numbers(tensor, name=name)


def _padded(observations: Observations, lengths: Lengths, *, name: str, remedy: str = "Fill it in.") -> Observations:
    """Zeros beyond each length; what is not finite within one is refused by series, time and channel."""
    live = running(lengths, observations.shape[1])
    live = live.reshape(*live.shape, *(1,) * (observations.ndim - 2))
    if not bool(live.all()):
        observations = torch.where(live, observations, torch.zeros((), dtype=observations.dtype))
    # The sum is finite only if all of them are, and much cheaper than looking at every entry.
    if not observations.is_floating_point() or bool(observations.sum(dtype=torch.float32).isfinite()):
        return observations
    bad = (~observations.isfinite()).nonzero()
    if len(bad):
        series, time, *channel = bad[0].tolist()
        place = f", channel {', '.join(map(str, channel))}" if channel else ""
        got = f"{float(observations[tuple(bad[0])])} at series {series}, time {time}{place} (counted from 0)"
        raise InvalidArgument(name, "finite", got, remedy)
    return observations


def _treated(observations: Observations, lengths: Lengths, missing: Missing, *, name: str) -> Tensor:
    """Padded with zeros and finite, with mask channels if they are asked for."""
    if missing not in ("refuse", "mask"):
        raise UnknownName("missing", missing, ("refuse", "mask"))
    if missing == "refuse":
        remedy = 'Fill missing values in, or pass missing="mask"; unequal lengths need no padding with NaN.'
        return _padded(observations, lengths, name=name, remedy=remedy)
    if observations.ndim != 3:
        got = f"shape {tuple(observations.shape)}"
        remedy = "A mask belongs to a channel; flatten images to channels."
        raise InvalidArgument(name, 'of shape (series, time, channels) with missing="mask"', got, remedy)
    return _padded(with_mask(observations), lengths, name=name, remedy="Infinite is not missing: look there.")


def _one_each(value: Any, series: int, *, name: str) -> Names:
    """(series,): one name of any type for each series."""
    names = as_entries(value, name=name)
    if names.shape != (series,):
        remedy = "Give one for each series."
        raise InvalidArgument(name, f"of shape ({series},)", f"shape {names.shape}", remedy)
    return names


def _sorted(names: Names) -> Names:
    """The different labels in ascending order; none of them missing."""
    gaps = [place for place, name in enumerate(names.tolist()) if name is None or name != name]
    if gaps:
        got = f"{names.tolist()[gaps[0]]} at index {gaps[0]}"
        raise InvalidArgument("labels", "known for every series", got, "Drop the series, or name its class.")
    try:
        return np.unique(names)
    except TypeError:
        raise _of_many_types(names, name="labels") from None


def _of_many_types(names: Names, *, name: str) -> InvalidArgument:
    """What to say where names cannot be put into an order."""
    kinds = sorted({type(one).__name__ for one in names.tolist()})
    return InvalidArgument(name, "of one type", " and ".join(kinds), "Turn them all into text.")


def _as_names(value: Any, *, name: str) -> Names:
    """At least two different names, in the order given."""
    names = as_entries(value, name=name)
    if names.ndim != 1 or len(set(names.tolist())) != len(names):
        raise InvalidArgument(name, "different names in one row", f"{names.tolist()}", "Give each class once.")
    if len(names) < 2:
        remedy = "With one class there is nothing to decide."
        raise InvalidArgument(name, "of at least 2 classes", f"only {names.tolist()}", remedy)
    return names


def _as_places(indices: ArrayLike, series: int) -> IntArray:
    places = as_tensor(indices, name="indices").detach().cpu().numpy()
    if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
        got = f"shape {places.shape}, dtype {places.dtype}"
        raise InvalidArgument(
            "indices", "at least 1 whole number", got, "Turn a mask into places: np.flatnonzero(mask)."
        )
    outside = np.flatnonzero((places < 0) | (places >= series))
    if len(outside):
        got = f"{places[outside[0]]} at index {outside[0]}"
        raise InvalidArgument("indices", f"in 0..{series - 1}", got, f"There are {series} series.")
    return places.astype(np.int64)


def _as_share(share: float) -> float:
    return as_between(share, name="share", low=0.0, high=1.0, remedy="It is a fraction of the series: 0.2 means 20 %.")
