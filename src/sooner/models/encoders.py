"""Encoders: what turns one observation into a vector of features.

An encoder inside of a model is trained with it, end to end. The paper's way is the other one: train the encoder on single
observations (`FrameClassifier`), write its features to a file once (`encode_to_file`), and train the model on those
(`features_from_file`).
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_tensor, as_whole
from sooner.models.convolutions import convolutions, halved, stage_widths
from sooner.models.maps import ACCUMULATIONS, Embedding
from sooner.storage import whole_file
from sooner.types import ArrayLike

Rows = Shaped[Tensor, "rows *features"]
"""Single observations, of any series and time."""
Encoded = Float[Tensor, "rows width"]
FeatureSeries = Float[Tensor, "batch time width"]


class Encoder(nn.Module, ABC):
    """Observations (rows, *features) in, vectors (rows, width) out.

    Padding is no observation: hand over the rows of series that still run, and batch norm never sees another one.

    Args:
        features: the shape of one observation.
        width: the length of its vector.
    """

    def __init__(self, features: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.features = tuple(as_whole(size, name="features", low=1, remedy="It is a shape.") for size in features)
        self.width = as_whole(width, name="width", low=1, remedy="It is the length of an observation's vector.")

    @abstractmethod
    def encode(self, rows: Tensor) -> Encoded:
        """The vectors of rows that have the right shape and the parameters' own type."""

    def forward(self, rows: Rows) -> Encoded:
        """The vector of each row; 8-bit pixels are read as x/127.5 - 1."""
        if rows.ndim < 1 or rows.shape[1:] != self.features:
            axes = "".join(f", {size}" for size in self.features)
            raise InvalidArgument(
                "rows", f"of shape (rows{axes})", f"shape {tuple(rows.shape)}", "That is what the encoder reads."
            )
        dtype = next((parameter.dtype for parameter in self.parameters()), torch.get_default_dtype())
        return self.encode(rows.to(dtype) / 127.5 - 1 if rows.dtype == torch.uint8 else rows.to(dtype))


class Identity(Encoder):
    """Features that are already there, as one vector.

    >>> Identity((3,))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., 3.]])
    """

    def __init__(self, features: tuple[int, ...], width: int | None = None) -> None:
        super().__init__(features, math.prod(features))
        if width not in (None, self.width):
            raise InvalidArgument(
                "width", f"{self.width}, that of one observation", width, "The identity changes nothing."
            )

    def encode(self, rows: Tensor) -> Encoded:
        """The rows as they are, flat."""
        return rows.reshape(len(rows), self.width)


class Dense(Encoder):
    """A front for sensor channels: one linear layer, or ReLU layers of the `hidden` widths before it.

    >>> Dense((3,), 8, hidden=(16,))(torch.zeros(5, 3)).shape
    torch.Size([5, 8])
    """

    def __init__(self, features: tuple[int, ...], width: int = 128, *, hidden: tuple[int, ...] = ()) -> None:
        super().__init__(features, width)
        layers = nn.Sequential()
        entering = math.prod(self.features)
        for size in hidden:
            leaving = as_whole(size, name="hidden", low=1, remedy="It holds the widths of the hidden layers.")
            layers.extend([nn.Linear(entering, leaving), nn.ReLU()])
            entering = leaving
        self.layers = layers.append(nn.Linear(entering, self.width))

    def encode(self, rows: Tensor) -> Encoded:
        """The last layer of the flat rows."""
        return self.layers(rows.flatten(1) if self.features else rows[:, None])  # type: ignore[no-any-return]


class ResidualBlock(nn.Module):
    """ReLU(shortcut(x) + BN(conv(ReLU(BN(conv(x)))))), both convolutions 3x3 and without bias.

    Args:
        entering, leaving: channels.
        stride: of the first convolution.
        shortcut: brings x to the block's own shape.
    """

    def __init__(self, entering: int, leaving: int, *, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(entering, leaving, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(leaving),
            nn.ReLU(),
            nn.Conv2d(leaving, leaving, 3, padding=1, bias=False),
            nn.BatchNorm2d(leaving),
        )
        self.shortcut = shortcut

    def forward(self, images: Float[Tensor, "rows entering tall wide"]) -> Float[Tensor, "rows leaving height width"]:
        """Images of `leaving` channels, smaller by the stride."""
        return torch.relu(self.shortcut(images) + self.residual(images))


class ResidualNetwork(Encoder):
    """A residual network of the first kind (He et al., 2016) for images: 3x3 stem without pooling, stages, global mean.

    Every stage opens with a 1x1 projection and batch norm as its shortcut, the first one too; all but the first halve height
    and width. No convolution has a bias. The mean over places of the last stage is the vector, so `width` is its width.

    Args:
        features: (height, width) or (channels, height, width).
        blocks: how many blocks each stage has.
        widths: the channels of each stage.
    """

    def __init__(self, features: tuple[int, ...], *, blocks: tuple[int, ...], widths: tuple[int, ...]) -> None:
        if len(features) not in (2, 3):
            remedy = "A residual network reads images."
            raise InvalidArgument("features", "(height, width) or (channels, height, width)", features, remedy)
        if not widths or len(blocks) != len(widths):
            raise InvalidArgument(
                "blocks",
                f"one number for each of the {len(widths)} widths",
                blocks,
                "Each stage has its blocks and its width.",
            )
        super().__init__(features, widths[-1])
        self.channels = 1 if len(features) == 2 else self.features[0]
        stages = nn.Sequential()
        for stage, (depth, leaving) in enumerate(zip(blocks, widths, strict=True)):
            stages.append(_stage(widths[max(stage - 1, 0)], leaving, depth=depth, stride=2 if stage else 1))
        stem = nn.Conv2d(self.channels, widths[0], 3, padding=1, bias=False)
        self.layers = nn.Sequential(stem, nn.BatchNorm2d(widths[0]), nn.ReLU(), stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @classmethod
    def resnet110(cls, features: tuple[int, ...], width: int = 128) -> "ResidualNetwork":
        """The paper's ResNet-110: stages of 18 blocks, of a quarter, a half and the whole of `width`.

        With `FrameClassifier` it has 6,904,608 parameters for 10 classes of gray images, and 110 layers with weights.
        """
        return cls(features, blocks=(18, 18, 18), widths=_doubling(width))

    @classmethod
    def small(cls, features: tuple[int, ...], width: int = 64) -> "ResidualNetwork":
        """One block a stage, of a quarter, a half and the whole of `width`: trains on a CPU."""
        return cls(features, blocks=(1, 1, 1), widths=_doubling(width))

    def encode(self, rows: Tensor) -> Encoded:
        """The mean over places of the last stage."""
        images = rows.reshape(len(rows), self.channels, *self.features[-2:])
        return self.layers(images).mean(dim=(2, 3))  # type: ignore[no-any-return]


class Convolution(Encoder):
    """Six layers of convolutions for small images, then one linear layer with norm and ReLU: trains on a CPU in minutes.

    Args:
        features: (height, width) or (channels, height, width).
        width: the length of the vector, and the channels of the last stage.
        table: channels of a learned table of the 8-bit values, which tells 254 from 255 as easily as black from white (see
            `sooner.models.maps.Embedding`); 0 reads pixels as they are.
        reader: how the layers halve height and width, see `convolutions`.

    >>> Convolution((28, 28), 128)(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 128])
    """

    def __init__(self, features: tuple[int, ...], width: int = 128, *, table: int = 0, reader: str = "strided") -> None:
        super().__init__(features, width)
        if len(self.features) not in (2, 3):
            expected = "(height, width) or (channels, height, width)"
            raise InvalidArgument("features", expected, self.features, "It reads images.")
        if self.width % 8:
            raise InvalidArgument("width", "a multiple of 8", width, "The stages take shares of it.")
        self.image = (1, *self.features)[-3:]
        as_whole(table, name="table", low=0, remedy="It counts channels; 0 reads pixels as they are.")
        self.stem = Embedding(self.image[0], table, ACCUMULATIONS["max"]) if table else nn.Identity()
        widths = stage_widths(self.width, reader)
        places = halved(self.image[1], len(widths)) * halved(self.image[2], len(widths))
        self.layers = convolutions(self.image[0] * (table or 1), widths, reader)
        self.head = nn.Sequential(nn.Linear(width * places, width, bias=False), nn.BatchNorm1d(width), nn.ReLU())

    def encode(self, rows: Tensor) -> Encoded:
        """The last layer of the images."""
        maps = self.stem(rows.reshape(len(rows), *self.image)).contiguous(memory_format=torch.channels_last)
        return self.head(self.layers(maps).flatten(1))  # type: ignore[no-any-return]


ENCODERS: Mapping[str, Callable[..., Encoder]] = {
    "convolution": Convolution,
    "convolution_of_levels": partial(Convolution, table=8, reader="pooled"),
    "dense": Dense,
    "identity": Identity,
    "resnet110": ResidualNetwork.resnet110,
    "resnet_small": ResidualNetwork.small,
}


def encoder_named(name: str, features: tuple[int, ...], *, width: int | None = None) -> Encoder:
    """A new encoder of that name for observations of that shape; without `width`, of its usual one.

    >>> encoder_named("resnet_small", (28, 28)).width
    64
    """
    if name not in ENCODERS:
        raise UnknownName("encoder", name, ENCODERS)
    return ENCODERS[name](features) if width is None else ENCODERS[name](features, width)


def features_from_file(path: str | os.PathLike[str]) -> FeatureSeries:
    """The features in a .npy file of shape (series, time, width), as a tensor that is read when it is indexed.

    The file is mapped into memory, never loaded whole. What is written to the tensor stays in memory: the file keeps its
    content.
    """
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
    """Write the encoder's vector of every observation to a .npy file, and give what `features_from_file` reads there.

    The encoder works in evaluation mode and without gradients, and is left as it was found. The file appears under its name
    when it is complete, and replaces what was there.

    Args:
        encoder: trained, on whatever device.
        observations: (series, time, *features), an array (one mapped into memory will do) or batches of that shape, for
            example made on the fly; all of the same time.
        path: where to; by custom it ends in .npy.
        rows: observations that the encoder reads at once.
    """
    rows = as_whole(rows, name="rows", low=1, remedy="It is the number of observations that are read at once.")
    target = Path(path)
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        encoder.eval()
        with whole_file(target) as part:
            _write_series(part, (_encode_series(encoder, batch, rows) for batch in _batches(observations, rows)))
    finally:
        for module, training in modes:
            module.training = training
    return features_from_file(target)


def _doubling(width: int) -> tuple[int, int, int]:
    quarter, rest = divmod(width, 4)
    if rest or quarter < 1:
        raise InvalidArgument("width", "a multiple of 4", width, "The stages take a quarter, a half and all of it.")
    return quarter, 2 * quarter, width


def _stage(entering: int, leaving: int, *, depth: int, stride: int) -> nn.Sequential:
    projection = nn.Conv2d(entering, leaving, 1, stride=stride, bias=False)
    opening = nn.Sequential(projection, nn.BatchNorm2d(leaving))
    stage = nn.Sequential(ResidualBlock(entering, leaving, stride=stride, shortcut=opening))
    for _ in range(as_whole(depth, name="blocks", low=1, remedy="Every stage has a block.") - 1):
        stage.append(ResidualBlock(leaving, leaving, stride=1, shortcut=nn.Identity()))
    return stage


def _batches(observations: ArrayLike | Iterable[ArrayLike], rows: int) -> Iterator[Tensor]:
    if not isinstance(observations, Tensor | np.ndarray):
        yield from (as_tensor(batch, name="observations") for batch in observations)  # type: ignore[union-attr]
        return
    series = max(1, rows // max(1, *observations.shape[1:2]))
    for start in range(0, len(observations), series):
        part = observations[start : start + series]
        # A copy, because torch warns of arrays that are mapped for reading only.
        yield part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))


def _encode_series(encoder: Encoder, batch: Tensor, rows: int) -> FeatureSeries:
    if batch.ndim < 2 or batch.shape[2:] != encoder.features:
        axes = "".join(f", {size}" for size in encoder.features)
        expected, got = f"of shape (series, time{axes})", f"shape {tuple(batch.shape)}"
        raise InvalidArgument("observations", expected, got, "That is what the encoder reads.")
    device = next((parameter.device for parameter in encoder.parameters()), batch.device)
    with torch.no_grad():
        vectors = [encoder(part.to(device)).cpu() for part in batch.flatten(0, 1).split(rows)]
    return torch.cat(vectors).view(*batch.shape[:2], encoder.width)


def _write_series(path: Path, batches: Iterable[FeatureSeries]) -> None:
    """One .npy file from batches whose number shows at the end: NumPy's header has room for the first axis to grow."""
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
