"""A contact sheet: frames of a few series over time, one row per series."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sooner.extras import optional
from sooner.types import ArrayLike


def contact_sheet(frames: ArrayLike, names: Sequence[object], path: Path, *, title: str, columns: int = 10) -> None:
    """Draw frames of some series, evenly spaced in time.

    Args:
        frames: (series, time, height, width), grey values.
        names: the label of each row, one for each series.
        path: the output PNG file.
        title: one line above the figure.
        columns: number of frames of each series.
    """
    with optional("figure", "drawn with matplotlib"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    pictures = np.asarray(frames)
    shown = np.unique(np.linspace(0, pictures.shape[1] - 1, min(columns, pictures.shape[1])).round().astype(int))
    figure = Figure(figsize=(0.9 * len(shown) + 0.8, 0.9 * len(pictures) + 0.9), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    low, high = float(pictures.min()), float(pictures.max())
    for row, name in enumerate(names):
        for column, time in enumerate(shown):
            axes = figure.add_subplot(len(pictures), len(shown), row * len(shown) + column + 1)
            axes.imshow(pictures[row, time], cmap="gray", vmin=low, vmax=high, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            if row == 0:
                axes.set_title(f"frame {time + 1}", fontsize=7)
            if column == 0:
                axes.set_ylabel(str(name), fontsize=9, rotation=0, labelpad=12, va="center")
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
