"""Checks on users' arrays: observations become one tensor that is finite everywhere, names become arrays of any type."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.inputs import as_codes, as_entries, as_lengths, as_tensor, refuse_empty, running
from sooner.types import ArrayLike, Labels, Lengths, Observations

Missing: TypeAlias = Literal["refuse", "mask"]
Names: TypeAlias = npt.NDArray[Any]


def read_aeon(X: Any, *, missing: Missing = "refuse") -> tuple[Observations, Lengths]:  # noqa: N803
    """Observations (n_cases, time, channels) and lengths from aeon's layout."""
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object):
        observations, lengths = _stacked([_as_case(case, f"X[{index}]") for index, case in enumerate(X)])
    else:
        tensor = as_tensor(X, name="X")
        if tensor.ndim not in (2, 3):
            expected = "of shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)"
            remedy = "Series of unequal lengths come as a list of (n_channels, n_timepoints)."
            raise InvalidArgument("X", expected, f"shape {tuple(tensor.shape)}", remedy)
        tensor = tensor[:, None] if tensor.ndim == 2 else tensor
        observations = _as_observations(tensor.transpose(1, 2).contiguous(), name="X")
        lengths = as_lengths(None, observations, time=observations.shape[1])
    return _without_missing(observations, lengths, missing, name="X"), lengths


def read_arrays(
    observations: ArrayLike, lengths: ArrayLike | None, *, missing: Missing = "refuse"
) -> tuple[Observations, Lengths]:
    """The same from (series, time, *features), or (series, time) for one channel."""
    tensor = as_tensor(observations, name="observations")
    tensor = _as_observations(tensor[..., None] if tensor.ndim == 2 else tensor, name="observations")
    checked = as_lengths(lengths, tensor, time=tensor.shape[1])
    return _without_missing(tensor, checked, missing, name="observations"), checked


def with_mask(observations: ArrayLike) -> Tensor:
    """(..., channels) with NaN for missing values -> (..., 2 channels): 0 for missing values, then 1 for observed, 0 for missing.

    >>> with_mask([[5.0, float("nan")]]).tolist()
    [[5.0, 0.0, 1.0, 0.0]]
    """
    x = as_tensor(observations, name="observations")
    x = x if x.is_floating_point() else x.double()
    missing = x.isnan()
    return torch.cat([x.masked_fill(missing, 0.0), (~missing).to(x.dtype)], dim=-1)


def read_labels(labels: Any, classes: Any, series: int) -> tuple[Labels, Names]:
    """Labels of any type as class indices, and the class names: those given, or all labels, sorted."""
    names = as_series_names(labels, series, name="labels")
    known = as_names(
        _classes_of(names) if classes is None else classes, name="labels" if classes is None else "classes"
    )
    index_of = {name: index for index, name in enumerate(known.tolist())}
    indices = [index_of.get(name, -1) for name in names.tolist()]
    if -1 in indices:
        unknown = indices.index(-1)
        expected, got = f"among the classes {known.tolist()}", f"{names.tolist()[unknown]!r} at index {unknown}"
        raise InvalidArgument("labels", expected, got, "Drop it, or add it to the classes.")
    return torch.tensor(indices), known


def as_series_names(value: Any, series: int, *, name: str) -> Names:
    """(series,): one name of any type for each series."""
    names = as_entries(value, name=name)
    if names.shape != (series,):
        raise InvalidArgument(name, f"of shape ({series},)", f"shape {names.shape}", "Give one for each series.")
    return names


def as_names(value: Any, *, name: str) -> Names:
    """At least two different names, in the order given."""
    names = as_entries(value, name=name)
    if names.ndim != 1 or len(set(names.tolist())) != len(names):
        raise InvalidArgument(name, "different names in one row", f"{names.tolist()}", "Give each class once.")
    if len(names) < 2:
        remedy = "With one class there is nothing to decide."
        raise InvalidArgument(name, "of at least 2 classes", f"only {names.tolist()}", remedy)
    return names


def as_ids(value: Any, series: int) -> Names:
    """(series,): different IDs, numbers or text."""
    ids = np.asarray(value)
    if ids.shape != (series,) or len(np.unique(ids)) != series:
        got = f"{len(np.unique(ids))} in shape {ids.shape}"
        raise InvalidArgument("ids", f"{series} different ones", got, "Give each series one.")
    return ids


def as_channel_names(value: Any, count: int) -> tuple[str, ...]:
    """One name for each channel."""
    names = tuple(map(str, np.ravel(value)))
    if len(names) != count or len(set(names)) != count:
        raise InvalidArgument("channels", f"{count} different names", f"{len(set(names))}", "Give each channel one.")
    return names


def _as_case(case: Any, name: str) -> Tensor:
    """One series (time, channels) from (n_channels, n_timepoints) or (n_timepoints,)."""
    tensor = as_tensor(case, name=name)
    if tensor.ndim not in (1, 2) or 0 in tensor.shape:
        expected = "of shape (n_channels, n_timepoints) with at least 1 of each"
        raise InvalidArgument(name, expected, f"shape {tuple(tensor.shape)}", "Drop empty series.")
    return tensor[:, None] if tensor.ndim == 1 else tensor.T


def _stacked(cases: Sequence[Tensor]) -> tuple[Observations, Lengths]:
    """Cases of different lengths in one tensor, padded with zeros."""
    if not cases:
        raise InvalidArgument("X", "at least 1 series", "none", "Check the program that read the data.")
    channels = [case.shape[1] for case in cases]
    for index, count in enumerate(channels):
        if count != channels[0]:
            got = f"{channels[0]} channel(s) in series 0 and {count} in series {index}"
            remedy = "Each series is (n_channels, n_timepoints); give them the same channels in the same order."
            raise InvalidArgument("X", "of one number of channels", got, remedy)
    numbers = [_as_numbers(case, name="X") for case in cases]
    dtype = reduce(torch.promote_types, {case.dtype for case in numbers})
    stacked = torch.nn.utils.rnn.pad_sequence([case.to(dtype) for case in numbers], batch_first=True)
    return stacked.detach(), torch.tensor([len(case) for case in cases])


def _as_numbers(tensor: Tensor, *, name: str) -> Tensor:
    """Floats and bytes unchanged, booleans as bytes, other integers as float64 (exact up to 2^53)."""
    if tensor.is_complex():
        remedy = "Take the real part, or its absolute value."
        raise InvalidArgument(name, "of real numbers", f"dtype {tensor.dtype}", remedy)
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    return tensor if tensor.is_floating_point() or tensor.dtype == torch.uint8 else tensor.double()


def _as_observations(tensor: Tensor, *, name: str) -> Observations:
    if tensor.ndim < 2 or 0 in tensor.shape[1:]:
        expected, got = "of shape (series, time, *features) with at least 1 observation", f"shape {tuple(tensor.shape)}"
        flat = "Stack series of equal length, or pad them and give `lengths`."
        raise InvalidArgument(name, expected, got, flat if tensor.ndim < 2 else "Drop empty series.")
    refuse_empty(tensor, name=name)
    return _as_numbers(tensor.detach(), name=name)


def _without_missing(observations: Observations, lengths: Lengths, missing: Missing, *, name: str) -> Tensor:
    """Observations without NaN, padded with zeros; with mask channels if they are asked for."""
    refuse_unknown("missing", missing, get_args(Missing))
    if missing == "refuse":
        remedy = 'Fill missing values in, or pass missing="mask"; unequal lengths need no padding with NaN.'
        return _padded(observations, lengths, name=name, remedy=remedy)
    if observations.ndim != 3:
        expected, got = 'of shape (series, time, channels) with missing="mask"', f"shape {tuple(observations.shape)}"
        raise InvalidArgument(name, expected, got, "A mask belongs to a channel; flatten images to channels.")
    remedy = "An infinite value is not a missing value: check it."
    return _padded(with_mask(observations), lengths, name=name, remedy=remedy)


def _padded(observations: Observations, lengths: Lengths, *, name: str, remedy: str) -> Observations:
    """Zeros beyond each length; a value within it that is not finite is refused by series, time and channel."""
    live = running(lengths, observations.shape[1])
    live = live.reshape(*live.shape, *(1,) * (observations.ndim - 2))
    if not bool(live.all()):
        observations = torch.where(live, observations, torch.zeros((), dtype=observations.dtype))
    # The sum is finite only if all values are, and much cheaper than a test of every value.
    if not observations.is_floating_point() or bool(observations.sum(dtype=torch.float32).isfinite()):
        return observations
    bad = (~observations.isfinite()).nonzero()
    if len(bad):
        series, time, *channel = bad[0].tolist()
        where = f", channel {', '.join(map(str, channel))}" if channel else ""
        got = f"{float(observations[tuple(bad[0])])} at series {series}, time {time}{where} (counted from 0)"
        raise InvalidArgument(name, "finite", got, remedy)
    return observations


def _classes_of(labels: Names) -> Names:
    """The different labels in ascending order; a missing label is refused."""
    missing = [index for index, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        got = f"{labels.tolist()[missing[0]]} at index {missing[0]}"
        raise InvalidArgument("labels", "known for every series", got, "Drop the series, or name its class.")
    return as_codes(labels, name="labels")[0]
