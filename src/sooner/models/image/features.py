"""Features of an encoder in a file: written once, and read by every training on them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_tensor, as_whole
from sooner.models.image.encoders import Encoder
from sooner.storage import whole_file
from sooner.types import ArrayLike

FeatureSeries = Float[Tensor, "batch time width"]


def features_from_file(path: str | os.PathLike[str]) -> FeatureSeries:
    """The features in a .npy file of shape (series, time, width), mapped into memory; the file is never changed."""
    form = "a .npy file of floats, of shape (series, time, width)"
    remedy = "Write it with encode_to_file, or with numpy.save."
    try:
        array = np.lib.format.open_memmap(path, mode="c")
    except FileNotFoundError:
        raise InvalidArgument("path", form, f"{os.fspath(path)!r}, which does not exist", remedy) from None
    except (OSError, ValueError) as error:
        raise InvalidArgument("path", form, f"{os.fspath(path)!r}, which cannot be read ({error})", remedy) from None
    if array.ndim != 3 or array.dtype not in (np.float16, np.float32, np.float64):
        got = f"{os.fspath(path)!r} with {array.dtype} of shape {array.shape}"
        raise InvalidArgument("path", form, got, remedy)
    return torch.from_numpy(array)


def encode_to_file(
    encoder: Encoder,
    observations: ArrayLike | Iterable[ArrayLike],
    path: str | os.PathLike[str],
    *,
    rows: int = 1024,
) -> FeatureSeries:
    """Write the encoder's vector of every observation to a .npy file, and return `features_from_file` of it.

    The encoder runs in evaluation mode and without gradients, and keeps its own mode. The file appears when it is complete, and
    replaces an old one.

    Args:
        encoder: trained, on any device.
        observations: (series, time, *features), an array (which may be mapped into memory) or batches of that shape, all with the
            same number of times.
        path: path of the file, usually with the ending .npy.
        rows: number of observations that the encoder reads at once.
    """
    rows = as_whole(rows, name="rows", low=1, remedy="It is the number of observations that are read at once.")
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        encoder.eval()
        with whole_file(Path(path)) as partial:
            _write_series(partial, (_encode_series(encoder, batch, rows) for batch in _batches(observations, rows)))
    finally:
        for module, training in modes:
            module.training = training
    return features_from_file(path)


def _batches(observations: ArrayLike | Iterable[ArrayLike], rows: int) -> Iterator[Tensor]:
    if not isinstance(observations, Tensor | np.ndarray):
        yield from (as_tensor(batch, name="observations") for batch in observations)  # type: ignore[union-attr]
        return
    series = max(1, rows // max(1, *observations.shape[1:2]))
    for start in range(0, len(observations), series):
        chunk = observations[start : start + series]
        # A copy, because torch warns of arrays that are mapped for reading only.
        yield chunk if isinstance(chunk, Tensor) else torch.from_numpy(np.array(chunk))


def _encode_series(encoder: Encoder, batch: Tensor, rows: int) -> FeatureSeries:
    if batch.ndim < 2 or batch.shape[2:] != encoder.features:
        axes = "".join(f", {size}" for size in encoder.features)
        expected, got = f"of shape (series, time{axes})", f"shape {tuple(batch.shape)}"
        raise InvalidArgument("observations", expected, got, "That is what the encoder reads.")
    device = next((parameter.device for parameter in encoder.parameters()), batch.device)
    with torch.no_grad():
        vectors = [encoder(chunk.to(device)).cpu() for chunk in batch.flatten(0, 1).split(rows)]
    return torch.cat(vectors).view(*batch.shape[:2], encoder.width)


def _write_series(path: Path, batches: Iterable[FeatureSeries]) -> None:
    """One .npy file from batches, of unknown number: NumPy's header has room for the first axis to grow."""
    series, shape, dtype = 0, (0, 0), np.dtype(np.float32)
    with path.open("wb") as file:
        for array in (batch.numpy() for batch in batches if len(batch)):
            if series == 0:
                shape, dtype = (array.shape[1], array.shape[2]), array.dtype
                _write_header(file, (series, *shape), dtype)
            elif array.shape[1] != shape[0]:
                got = f"{array.shape[1]} after {shape[0]}"
                raise InvalidArgument("observations", "of the same time in all batches", got, "Pad the shorter ones.")
            file.write(np.ascontiguousarray(array).data)
            series += len(array)
        if series == 0:
            raise InvalidArgument("observations", "at least 1 series", "none", "An empty file would be of no use.")
        file.seek(0)
        _write_header(file, (series, *shape), dtype)
        file.flush()
        os.fsync(file.fileno())


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
