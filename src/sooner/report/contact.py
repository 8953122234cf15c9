"""A contact sheet: frames of a few series over time, one row per series."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sooner.report.figures import blank_figure, save
from sooner.types import ArrayLike


def contact_sheet(frames: ArrayLike, names: Sequence[object], path: Path, *, title: str, columns: int = 10) -> None:
    """Draw `columns` frames of each series, evenly spaced in time, from the grey values (series, time, height, width)."""
    pictures = np.asarray(frames)
    shown = np.unique(np.linspace(0, pictures.shape[1] - 1, min(columns, pictures.shape[1])).round().astype(int))
    width, height = 0.9 * len(shown) + 0.8, 0.9 * len(pictures) + 0.9
    figure, _ = blank_figure(width, height, panels=len(pictures) * len(shown), columns=len(shown))
    low, high = float(pictures.min()), float(pictures.max())
    for index, axes in enumerate(figure.axes):
        row, column = divmod(index, len(shown))
        axes.imshow(pictures[row, shown[column]], cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        if row == 0:
            axes.set_title(f"frame {shown[column] + 1}", fontsize=7)
        if column == 0:
            axes.set_ylabel(str(names[row]), fontsize=9, rotation=0, labelpad=12, va="center")
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
