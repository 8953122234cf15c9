"""docs/figures/frames.png: frames of the generated data sets, and the mean of the frames of each series shown."""

from pathlib import Path

import numpy as np

from sooner.data import mnist
from sooner.data.sets.nmnist import Nmnist, NmnistName
from sooner.report.figures import blank_figure, save
from sooner.types import IntArray

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "frames.png"
SETS: dict[NmnistName, str] = {"nmnist": "NMNIST", "nmnist-h": "NMNIST-H", "nmnist-100f": "NMNIST-100f"}
COLUMNS = 8


def draw(images: mnist.LabelledImages) -> None:
    """A row for each set: frames of its first test series in order, then the mean of all of its frames.

    Args:
        images: the test set of MNIST.
    """
    figure, _ = blank_figure(9.0, 3.5, panels=len(SETS) * (COLUMNS + 1), columns=COLUMNS + 1)
    rows = np.array(figure.axes).reshape(len(SETS), COLUMNS + 1)
    for (kind, name), axes in zip(SETS.items(), rows, strict=True):
        series = Nmnist(images.images, images.labels, kind=kind, split="test").batch([0]).observations[0].numpy()
        for panel, time in zip(axes, times(len(series)), strict=False):
            panel.imshow(series[time - 1], cmap="gray", vmin=0, vmax=255)
            panel.set_title(f"t = {time}", fontsize=8)
        # Most pixels of a mean are nearly white, so its own smallest and largest value are black and white.
        axes[-1].imshow(series.mean(axis=0), cmap="gray")
        axes[-1].set_title("mean", fontsize=8)
        axes[0].set_ylabel(name, fontsize=9)
    for panel in rows.ravel():
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[["top", "right", "bottom", "left"]].set(visible=True, color="#8A9099", linewidth=0.6)
    save(figure, FIGURE)


def times(count: int) -> IntArray:
    """The times of the frames shown, from 1 to the last.

    >>> times(20).tolist()
    [1, 4, 6, 9, 12, 15, 17, 20]
    """
    return np.linspace(1, count, COLUMNS).round().astype(int)
