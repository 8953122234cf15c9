"""A small stack of convolutions for maps of some 30 x 30 places, made for a CPU: what encoders and pooling read images with."""

from torch import nn

from sooner.inputs import as_whole


def convolutions(entering: int, widths: tuple[int, ...]) -> nn.Sequential:
    """Two 3x3 convolutions for each width, each with the norm of a batch and ReLU; the first of them halves height and width.

    Strides instead of pooling: at half the size from the first layer on, a step of training takes half the time, and after
    the same time the network knew more.

    Args:
        entering: channels of the maps that come in.
        widths: channels of each stage.
    """
    layers = nn.Sequential()
    for size in widths:
        leaving = as_whole(size, name="widths", low=1, remedy="It holds the channels of each stage.")
        for stride in (2, 1):
            layers.append(nn.Conv2d(entering, leaving, 3, stride=stride, padding=1, bias=False))
            layers.extend([nn.BatchNorm2d(leaving), nn.ReLU()])
            entering = leaving
    return layers


def halved(size: int, times: int) -> int:
    """What is left of a height or width after so many stages.

    >>> halved(28, 3)
    4
    """
    for _ in range(times):
        size = -(-size // 2)
    return size
