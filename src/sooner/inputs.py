"""Checks of users' input: every function returns a checked value, or raises an error of one sentence.

Padding beyond the length of a series is never checked, so it may contain anything.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.types import ArrayLike, FloatArray, IntArray, Labels, Lengths, Scores, Statistic, WindowLogits

_SCORE_AXES = "(batch, time, classes)"
_LOGIT_AXES = "(batch, window, position, classes)"


def as_tensor(value: ArrayLike, *, name: str) -> Tensor:
    """A numeric tensor; a tensor is returned unchanged, with its gradient and its device."""
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_meta:
            got = "one without values" if value.is_meta else f"layout {value.layout}"
            raise InvalidArgument(name, "a dense tensor", got, "Convert it first: tensor.to_dense().")
        return value
    _refuse_masked(value, name=name)
    if isinstance(value, list | tuple) and value and all(isinstance(row, Tensor) for row in value):
        value = np.stack([row.detach().cpu().numpy() for row in value if isinstance(row, Tensor)])
    try:
        # A copy if torch cannot use the memory: reversed, of another byte order, or read-only.
        array = np.asarray(value)
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable))
        return torch.as_tensor(array.reshape(np.shape(value)))
    except (TypeError, ValueError, RuntimeError):
        expected, remedy = (
            "an array of numbers, all rows of one length",
            "Pass a torch tensor or a NumPy array of a numeric type.",
        )
        raise InvalidArgument(name, expected, f"a {type(value).__name__}", remedy) from None


def as_real_tensor(value: ArrayLike, *, name: str) -> Tensor:
    """As `as_tensor`, of real numbers."""
    tensor = as_tensor(value, name=name)
    if tensor.is_complex():
        remedy = "Take the real part, or its absolute value."
        raise InvalidArgument(name, "of real numbers", f"dtype {tensor.dtype}", remedy)
    return tensor


def as_entries(value: object, *, name: str) -> npt.NDArray[Any]:
    """An array of names or numbers of any type."""
    _refuse_masked(value, name=name)
    try:
        if isinstance(value, Tensor):
            tensor = as_tensor(value, name=name).detach().cpu()
            return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # NumPy has no bfloat16
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        remedy = "Give a list or an array with one entry for each."
        raise InvalidArgument(name, "names in one row", f"a {type(value).__name__} of something else", remedy) from None


def _refuse_masked(value: object, *, name: str) -> None:
    """Refuse masked entries: NumPy would read the values under the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidArgument(name, "an array without masked entries", "some", "Fill them in: array.filled(np.nan).")


def _as_float_axes(value: ArrayLike, axes: str, *, name: str) -> Tensor:
    tensor = as_tensor(value, name=name)
    rank = axes.count(",") + 1
    if tensor.ndim != rank:
        remedy = f"It needs {rank} axes; add or drop one of length 1."
        raise InvalidArgument(name, f"of shape {axes}", f"shape {tuple(tensor.shape)}", remedy)
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InvalidArgument(name, "of real numbers", f"dtype {tensor.dtype}", "Convert it to float32 or float64.")
    if tensor.shape[-1] < 2:
        expected, remedy = f"of shape {axes} with at least 2 classes", "With one class there is nothing to decide."
        raise InvalidArgument(name, expected, f"{tensor.shape[-1]} class(es)", remedy)
    if 0 in tensor.shape[1:]:
        expected = f"of shape {axes} with at least 1 observation"
        raise InvalidArgument(name, expected, f"shape {tuple(tensor.shape)}", "Drop empty series.")
    return tensor if tensor.is_floating_point() else tensor.double()


def as_logits(value: ArrayLike) -> WindowLogits:
    """Logits of shape (batch, window, position, classes), which may not be finite."""
    return _as_float_axes(value, _LOGIT_AXES, name="logits")


def refuse_empty(tensor: Tensor, *, name: str) -> None:
    """Refuse an empty batch: a mean over no series has no value."""
    if len(tensor) == 0:
        remedy = "Skip empty batches before the call."
        raise InvalidArgument(name, "a batch of at least 1 series", "an empty batch", remedy)


def _as_integers(value: ArrayLike, like: Tensor, *, name: str, what: str) -> Tensor:
    tensor = as_tensor(value, name=name)
    if tensor.shape != (len(like),):
        expected, remedy = f"of shape (batch,) = ({len(like)},)", f"Give one {what} for each series."
        raise InvalidArgument(name, expected, f"shape {tuple(tensor.shape)}", remedy)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise InvalidArgument(name, "whole numbers", f"dtype {tensor.dtype}", "Convert them to int64.")
    return tensor.to(device=like.device, dtype=torch.int64)


def _refuse_outside(values: Tensor, low: int, high: int, *, name: str, remedy: str) -> None:
    outside = (values < low) | (values > high)
    if bool(outside.any()):
        index = int(outside.nonzero()[0, 0])
        raise InvalidArgument(name, f"in {low}..{high}", f"{int(values[index])} at index {index}", remedy)


def as_labels(value: ArrayLike, scores: Tensor, *, classes: int | None = None) -> Labels:
    """One class index for each row of `scores`, in 0..K-1; K is `classes`, by default the size of the last axis."""
    labels = _as_integers(value, scores, name="labels", what="class index")
    classes = scores.shape[-1] if classes is None else classes
    remedy = f"The scores have {classes} classes, counted from 0."
    _refuse_outside(labels, 0, classes - 1, name="labels", remedy=remedy)
    return labels


def as_lengths(value: ArrayLike | None, scores: Tensor, *, time: int) -> Lengths:
    """One length for each row of `scores`, in 1..time; by default `time` for every series."""
    if value is None:
        return torch.full((len(scores),), time, device=scores.device)
    lengths = _as_integers(value, scores, name="lengths", what="length")
    remedy = f"The tensor holds {time} observation(s) a series."
    _refuse_outside(lengths, 1, time, name="lengths", remedy=remedy)
    return lengths


def as_indices(value: ArrayLike, size: int, *, what: str, least: int = 1) -> IntArray:
    """At least `least` indices in 0..size-1; `what` names the indexed items in errors."""
    indices = as_tensor(value, name="indices").detach().cpu().numpy()
    if indices.ndim != 1 or len(indices) < least or (len(indices) and indices.dtype.kind not in "iu"):
        got, remedy = f"shape {indices.shape}, dtype {indices.dtype}", "Turn a mask into indices: np.flatnonzero(mask)."
        raise InvalidArgument("indices", "at least 1 whole number" if least else "whole numbers", got, remedy)
    outside = np.flatnonzero((indices < 0) | (indices >= size))
    if len(outside):
        got = f"{indices[outside[0]]} at index {outside[0]}"
        raise InvalidArgument("indices", f"in 0..{size - 1}", got, f"There are {size} {what}.")
    return indices.astype(np.int64)


def as_codes(names: npt.NDArray[Any], *, name: str) -> tuple[npt.NDArray[Any], IntArray]:
    """The different names, sorted, and the index of each entry among them."""
    try:
        return np.unique(names, return_inverse=True)
    except TypeError:
        types = sorted({type(entry).__name__ for entry in names.tolist()})
        raise InvalidArgument(name, "of one type", " and ".join(types), "Turn them all into text.") from None


def as_groups(groups: Any, series: int) -> IntArray:
    """(series,): the group of each series as a number from 0, from names of any one type."""
    names = as_entries(groups, name="groups")
    if names.shape != (series,):
        remedy = "Give one group for each series, for example the person or the machine it comes from."
        raise InvalidArgument("groups", f"of shape ({series},)", f"shape {names.shape}", remedy)
    return as_codes(names, name="groups")[1]


def running(lengths: Lengths, time: int) -> Tensor:
    """(batch, time): True up to the length of each series."""
    return torch.arange(time, device=lengths.device) < lengths[:, None]


def running_windows(lengths: Lengths, windows: int, positions: int) -> Tensor:
    """(batch, window, position): True for the full windows of a series, or the one of its own length if it is shorter."""
    start = torch.arange(windows, device=lengths.device)[:, None]
    position = torch.arange(positions, device=lengths.device)
    ends = lengths[:, None, None]
    return (start + position < ends) & (start <= (ends - positions).clamp_min(0))


def refuse_nonfinite(tensor: Tensor, live: Tensor | None = None, *, name: str) -> None:
    """Refuse numbers that are not finite where `live` is True, by default everywhere."""
    # The sum is sixty times cheaper than a test of every entry; it is finite only if all entries are.
    if torch.compiler.is_compiling() or math.isfinite(tensor.sum().item()):
        return
    bad = ~torch.isfinite(tensor.detach()).all(dim=-1)
    bad = bad if live is None else bad & live
    if bool(bad.any()):
        where = bad.nonzero()[0]
        value = tensor[tuple(where)].detach()
        value = value[~torch.isfinite(value)][0]
        axes = zip(("series", "time", "position"), where.tolist(), strict=False)
        got = f"{float(value)} at {', '.join(f'{axis} {index}' for axis, index in axes)} (counted from 0)"
        remedy = "Check it for a missing value, an overflow or a diverged training."
        raise InvalidArgument(name, "finite", got, remedy)


def without_padding(tensor: Tensor, live: Tensor, *, name: str) -> Tensor:
    """`tensor` with zeros where `live` is False, so that padding affects no value and no gradient; finite elsewhere."""
    refuse_nonfinite(tensor, live, name=name)
    return zero_beyond(tensor, live)


def zero_beyond(tensor: Tensor, live: Tensor) -> Tensor:
    """`tensor` with zeros where `live` is False."""
    return tensor if bool(live.all()) else torch.where(live[..., None], tensor, 0.0)


def with_lengths(scores: ArrayLike, lengths: ArrayLike | None) -> tuple[Scores, Lengths]:
    """Scores and lengths, checked; the scores are zero beyond each length."""
    tensor = _as_float_axes(scores, _SCORE_AXES, name="scores")
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor  # NumPy has no bfloat16
    checked = as_lengths(lengths, tensor, time=tensor.shape[1])
    return without_padding(tensor, running(checked, tensor.shape[1]), name="scores"), checked


def as_halting(value: ArrayLike | None, scores: Scores, lengths: Lengths) -> Statistic | None:
    """Halting probabilities of a model that has them, for checked scores; zero beyond each length."""
    if value is None:
        return None
    tensor, remedy = as_real_tensor(value, name="halting"), "It is a halting probability for each series and time."
    if tensor.shape != scores.shape[:2]:
        expected = f"of shape (batch, time) = {tuple(scores.shape[:2])}"
        raise InvalidArgument("halting", expected, f"shape {tuple(tensor.shape)}", remedy)
    tensor = tensor.to(scores.device, tensor.dtype if tensor.is_floating_point() else torch.float64)
    live = running(lengths, tensor.shape[1])
    outside = live & ~((tensor >= 0) & (tensor <= 1))
    if bool(outside.any()):
        raise InvalidArgument("halting", "in 0..1", float(tensor[outside][0]), remedy)
    return torch.where(live, tensor, 0.0)


def as_number(value: object, *, name: str, low: float, high: float = math.inf, remedy: str) -> float:
    """A number in low..high, both included; infinity only if `high` is infinite."""
    try:
        if getattr(value, "ndim", 0):
            raise TypeError  # float() would accept an array of one number
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, "a number", repr(value), remedy) from None
    if not low <= number <= high:
        expected = f"in {low:g}..{high:g}"
        if math.isinf(high):
            expected = "a number" if math.isinf(low) else f"at least {low:g}"
        raise InvalidArgument(name, expected, number, remedy)
    return number


def as_finite(value: object, *, name: str, low: float, remedy: str) -> float:
    """A finite number of at least `low`."""
    number = as_number(value, name=name, low=low, remedy=remedy)
    if math.isinf(number):
        raise InvalidArgument(name, "finite", number, remedy)
    return number


def as_between(value: object, *, name: str, low: float, high: float, remedy: str) -> float:
    """A number strictly between low and high."""
    number = as_number(value, name=name, low=-math.inf, remedy=remedy)
    if not low < number < high:
        expected = f"above {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}, ends left out"
        raise InvalidArgument(name, expected, number, remedy)
    return number


def as_seed(value: object) -> int:
    """A seed for torch's generators."""
    return as_whole(value, name="seed", low=0, remedy="It is a whole number; the same one gives the same draws.")


def as_whole(value: object, *, name: str, low: int, remedy: str) -> int:
    """A whole number of at least `low` that fits into int64."""
    if isinstance(value, int) and value >= low:
        number = int(value)  # beyond 2**53 a float would round it
    else:
        real = as_number(value, name=name, low=low, remedy=remedy)
        if not real.is_integer():
            raise InvalidArgument(name, "a whole number", real, remedy)
        number = int(real)
    if number >= 2**63:
        raise InvalidArgument(name, "below 2**63", value, remedy)
    return number


def as_real(value: ArrayLike, *, name: str) -> FloatArray:
    """A float64 array of real numbers, a copy."""
    tensor = as_real_tensor(value, name=name)
    array: FloatArray = tensor.detach().cpu().double().numpy().copy()
    return array


def as_nonnegative(value: ArrayLike, shape: Sequence[int], *, name: str, remedy: str) -> FloatArray:
    """A float64 array of the given shape whose entries are at least 0 (infinity is allowed)."""
    array = as_real(value, name=name)
    if array.shape != tuple(shape):
        raise InvalidArgument(name, f"of shape {tuple(shape)}", f"shape {array.shape}", remedy)
    if not (array >= 0).all():
        worst = array[~(array >= 0)][0]
        raise InvalidArgument(name, "at least 0 everywhere", f"an entry of {worst}", remedy)
    return array


def as_weights(value: ArrayLike, series: int, *, name: str) -> FloatArray:
    """(series,): finite weights of at least 0, not all of them 0."""
    array = as_nonnegative(value, (series,), name=name, remedy="A weight says how much a series counts.")
    if not np.isfinite(array).all() or not array.any():
        worst = array[~np.isfinite(array)][:1].tolist() or "a weight of zero for all"
        raise InvalidArgument(name, "finite, not all of them zero", worst, "Leave them out to count all alike.")
    return array
