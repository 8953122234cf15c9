"""Figures: drawn without a screen, written as PNG."""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sooner.types import SATCurve

# A palette that people with colour-blindness can tell apart (Okabe and Ito), darkest contrast first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def speed_accuracy(
    curves: Mapping[str, SATCurve],
    path: Path,
    *,
    title: str,
    points: Mapping[str, tuple[float, float]] | None = None,
    least_error: float = 1e-4,
) -> None:
    """Draw curves by name, error over mean time with a logarithmic error axis, and named points on top.

    Args:
        curves: from name to curve, drawn in that order.
        path: the PNG to write.
        title: one line above the figure.
        points: from a label to (mean time, error as a fraction).
        least_error: where the error axis ends; below it a curve rests on too few errors to be read.
    """
    figure = Figure(figsize=(7.2, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (name, curve), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        curve.plot(axes, label=name)
        axes.lines[-1].set(color=colour, linewidth=1.8)
    for label, (time, error) in (points or {}).items():
        axes.plot(time, 100 * error, "o", color=COLOURS[0], markersize=5)
        axes.annotate(label, (time, 100 * error), xytext=(7, 3), textcoords="offset points", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylim(100 * least_error, 100)
    axes.set_xlim(0, 1.05 * max(_first_time_below(curve, least_error) for curve in curves.values()))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.set_title(title, fontsize=11, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _first_time_below(curve: SATCurve, error: float) -> float:
    below = curve.mean_times[curve.errors <= error]
    return float(below[0] if len(below) else curve.mean_times[-1])
