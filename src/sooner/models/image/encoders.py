"""Encoders, which turn one observation into a vector of features.

An encoder inside of a model is trained with it, end to end. The paper trains the encoder separately: on single observations
(`FrameClassifier`), and the model on its features (`sooner.models.image.features`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor, nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole
from sooner.models.image.convolutions import convolutions, halved, image_shape, stage_widths
from sooner.models.image.maps import VALUES, Embedding, as_bytes, as_floats

ObservationRows = Shaped[Tensor, "rows *features"]
"""Single observations, of any series and time."""
Encoded = Float[Tensor, "rows width"]


class Encoder(nn.Module, ABC):
    """A map from observations of shape `features` to vectors of length `width`, without padding because of batch norm."""

    def __init__(self, features: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.features = tuple(as_whole(size, name="features", low=1, remedy="It is a shape.") for size in features)
        self.width = as_whole(width, name="width", low=1, remedy="It is the length of an observation's vector.")

    @abstractmethod
    def encode(self, rows: Tensor) -> Encoded:
        """The vectors of rows, as `read` returns them."""

    def forward(self, rows: ObservationRows) -> Encoded:
        """The vector of each row."""
        if rows.ndim < 1 or rows.shape[1:] != self.features:
            expected = f"of shape (rows{''.join(f', {size}' for size in self.features)})"
            raise InvalidArgument("rows", expected, f"shape {tuple(rows.shape)}", "That is what the encoder reads.")
        return self.encode(self.read(rows))

    def read(self, rows: Tensor) -> Tensor:
        """The rows in the dtype of the parameters; 8-bit pixels as x/127.5 - 1."""
        return as_floats(rows, next((value.dtype for value in self.parameters()), torch.get_default_dtype()))


class Identity(Encoder):
    """The observation itself, as one vector.

    >>> Identity((3,))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., 3.]])
    """

    def __init__(self, features: tuple[int, ...], width: int | None = None) -> None:
        super().__init__(features, math.prod(features))
        if width not in (None, self.width):
            expected = f"{self.width}, that of one observation"
            raise InvalidArgument("width", expected, width, "The identity changes nothing.")

    def encode(self, rows: Tensor) -> Encoded:
        """The flat rows."""
        return rows.reshape(len(rows), self.width)


class Dense(Encoder):
    """An encoder of sensor channels: one linear layer, with ReLU layers of the `hidden` widths before it.

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
    """ReLU(shortcut(x) + BN(conv(ReLU(BN(conv(x)))))), both convolutions 3x3 and without bias, the stride in the first."""

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
    """A residual network (He et al., 2016, version 1) for images: 3x3 stem without pooling, stages, global mean.

    The first block of every stage has a 1x1 projection and batch norm as its shortcut; all stages but the first halve height
    and width. No convolution has a bias. The vector is the mean over the pixels of the last stage, so `width` is its width.

    Args:
        features: (height, width) or (channels, height, width).
        blocks: number of blocks of each stage.
        widths: the channels of each stage.
    """

    def __init__(self, features: tuple[int, ...], *, blocks: tuple[int, ...], widths: tuple[int, ...]) -> None:
        image = image_shape(features)
        if not widths or len(blocks) != len(widths):
            expected, remedy = (
                f"one number for each of the {len(widths)} widths",
                "Each stage has its blocks and its width.",
            )
            raise InvalidArgument("blocks", expected, blocks, remedy)
        super().__init__(features, widths[-1])
        self.image = image
        stages = nn.Sequential()
        for stage, (depth, leaving) in enumerate(zip(blocks, widths, strict=True)):
            stages.append(_stage(widths[max(stage - 1, 0)], leaving, depth=depth, stride=2 if stage else 1))
        stem = nn.Conv2d(image[0], widths[0], 3, padding=1, bias=False)
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
        """The mean over the pixels of the last stage."""
        return self.layers(rows.reshape(len(rows), *self.image)).mean(dim=(2, 3))  # type: ignore[no-any-return]


class ConvolutionEncoder(Encoder):
    """Six layers of convolutions for small images, then one linear layer with norm and ReLU: trains on a CPU in minutes.

    Args:
        features: (height, width) or (channels, height, width).
        width: the length of the vector, and the channels of the last stage.
        table: channels of a learned table of the 8-bit values, which tells 254 from 255 as easily as black from white (see
            `sooner.models.image.maps.Embedding`); 0 reads pixels as they are.
        reader: how the layers halve height and width, see `convolutions`.

    >>> ConvolutionEncoder((28, 28), 128)(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 128])
    """

    def __init__(self, features: tuple[int, ...], width: int = 128, *, table: int = 0, reader: str = "strided") -> None:
        super().__init__(features, width)
        self.image = image_shape(self.features)
        if self.width % 8:
            raise InvalidArgument("width", "a multiple of 8", width, "The stages take shares of it.")
        as_whole(table, name="table", low=0, remedy="It counts channels; 0 reads pixels as they are.")
        self.stem = Embedding(self.image[0], table) if table else nn.Identity()
        widths = stage_widths(self.width, reader)
        pixels = halved(self.image[1], len(widths)) * halved(self.image[2], len(widths))
        self.layers = convolutions(self.image[0] * (table or 1), widths, reader)
        self.head = nn.Sequential(nn.Linear(width * pixels, width, bias=False), nn.BatchNorm1d(width), nn.ReLU())

    def encode(self, rows: Tensor) -> Encoded:
        """The last layer of the images."""
        maps = self.stem(rows.reshape(len(rows), *self.image)).contiguous(memory_format=torch.channels_last)
        return self.head(self.layers(maps).flatten(1))  # type: ignore[no-any-return]


class TokenEncoder(Encoder):
    """For sparse frames: the sum of a learned vector per (pixel, level) over the shown pixels, then two layers with norm.

    A layer on all pixels would read the background with the same weights as the few shown values, and lose them; here the
    background has no token, and costs nothing.

    Args:
        features: the shape of a frame of 8-bit values, unchanged or as x/127.5 - 1.
        width: the length of the vector.
        background: the value, in 0..255, of a pixel that is not shown.
        levels: number of levels of the values; each pixel has a vector for each level. The first level is the value 0 alone, the
            others are steps of equal width.
        hidden: the length of the summed vectors, and the width of the layer in between.

    >>> TokenEncoder((28, 28), 128)(torch.full((5, 28, 28), 255, dtype=torch.uint8)).shape
    torch.Size([5, 128])
    """

    def __init__(
        self, features: tuple[int, ...], width: int = 128, *, background: int = 255, levels: int = 8, hidden: int = 256
    ) -> None:
        super().__init__(features, width)
        self.background = as_whole(background, name="background", low=0, remedy="It is an 8-bit value.")
        self.levels = as_whole(levels, name="levels", low=1, remedy="It counts the steps of the values.")
        if self.background >= VALUES:
            raise InvalidArgument("background", "in 0..255", background, "It is an 8-bit value.")
        if self.levels > VALUES:
            raise InvalidArgument("levels", "in 1..256", levels, "There are no more 8-bit values.")
        hidden = as_whole(hidden, name="hidden", low=1, remedy="It is the length of a token's vector.")
        self.tokens = nn.EmbeddingBag(math.prod(self.features) * self.levels, hidden, mode="sum")
        nn.init.normal_(self.tokens.weight, std=0.02)  # 0.1 and 1 learn more slowly
        # Batch norm removes a constant, so no layer has a bias.
        self.layers = nn.Sequential(nn.BatchNorm1d(hidden), nn.ReLU())
        for leaving in (hidden, self.width):
            self.layers.extend([nn.Linear(hidden, leaving, bias=False), nn.BatchNorm1d(leaving), nn.ReLU()])

    def read(self, rows: Tensor) -> UInt8[Tensor, "rows pixels"]:
        """The 8-bit values of each frame, flat."""
        return as_bytes(rows).reshape(len(rows), math.prod(self.features))

    def encode(self, rows: Tensor) -> Encoded:
        """The vectors of the frames; one without a shown pixel has a sum of zero."""
        frame, pixel = (rows != self.background).nonzero(as_tuple=True)
        # Exact black says "no ink near", the faintest gray "at the edge of a stroke". Together in one level, they cost 2.8 points
        # of single-frame accuracy on NMNIST-100f after 4 million frames.
        level = (rows[frame, pixel].long() * (self.levels - 1) + VALUES - 2) // (VALUES - 1)
        # The tokens of a frame are contiguous: each bag begins where that of the frame before ends.
        sizes = frame.bincount(minlength=len(rows))
        encoded: Tensor = self.layers(self.tokens(pixel * self.levels + level, sizes.cumsum(0) - sizes))
        return encoded


ENCODERS: dict[str, Callable[..., Encoder]] = {
    "convolution": ConvolutionEncoder,
    "convolution_of_levels": partial(ConvolutionEncoder, table=8, reader="pooled"),
    "dense": Dense,
    "identity": Identity,
    "resnet110": ResidualNetwork.resnet110,
    "resnet_small": ResidualNetwork.small,
    "tokens": TokenEncoder,
}


def encoder_named(name: str, features: tuple[int, ...], *, width: int | None = None) -> Encoder:
    """A new encoder of that name for observations of that shape; `width` has a default for each.

    >>> encoder_named("resnet_small", (28, 28)).width
    64
    """
    if name not in ENCODERS:
        raise UnknownName("encoder", name, ENCODERS)
    return ENCODERS[name](features) if width is None else ENCODERS[name](features, width)


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
