"""Small stacks of convolutions for images of about 30 x 30 pixels, suited to a CPU; used by encoders and pooling."""

from torch import nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole

READERS = ("strided", "pooled")


def convolutions(entering: int, widths: tuple[int, ...], reader: str = "strided") -> nn.Sequential:
    """Two 3x3 convolutions per stage, each with batch norm and ReLU; each stage halves height and width.

    Args:
        entering: input channels.
        widths: channels of each stage.
        reader: "strided" halves with the first convolution of a stage, "pooled" with max pooling after the second, which takes
            twice the time.
    """
    if reader not in READERS:
        raise UnknownName("reader", reader, READERS)
    layers = nn.Sequential()
    for size in widths:
        leaving = as_whole(size, name="widths", low=1, remedy="It holds the channels of each stage.")
        for stride in (2 if reader == "strided" else 1, 1):
            layers.append(nn.Conv2d(entering, leaving, 3, stride=stride, padding=1, bias=False))
            layers.extend([nn.BatchNorm2d(leaving), nn.ReLU()])
            entering = leaving
        if reader == "pooled":
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return layers


def stage_widths(width: int, reader: str) -> tuple[int, int, int]:
    """The channels of three stages up to `width`, chosen for each type of reader.

    >>> stage_widths(128, "strided"), stage_widths(128, "pooled")
    ((48, 96, 128), (32, 64, 128))
    """
    return (width // 4, width // 2, width) if reader == "pooled" else (3 * width // 8, 3 * width // 4, width)


def halved(size: int, times: int) -> int:
    """The height or width after halving it `times` times, rounded up.

    >>> halved(28, 3)
    4
    """
    return -(-size >> times)


def image_shape(features: tuple[int, ...]) -> tuple[int, ...]:
    """(channels, height, width) of an image of shape (height, width) or (channels, height, width).

    >>> image_shape((28, 28))
    (1, 28, 28)
    """
    if len(features) not in (2, 3):
        raise InvalidArgument("features", "(height, width) or (channels, height, width)", features, "It reads images.")
    return (1, *features)[-3:]
