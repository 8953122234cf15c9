"""Figures of a report, written as PNG."""

import math
import warnings
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sooner.evaluate.intervals import Limits
from sooner.extras import optional
from sooner.report.findings import Findings
from sooner.report.trajectories import leads
from sooner.rules import MSPRT
from sooner.types import FloatArray, SATCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A palette that people with colour-blindness can tell apart (Okabe and Ito), darkest contrast first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

_READABLE = 20  # classes whose names and counts fit into a figure
_PANELS = 4


def speed_accuracy(
    curves: Mapping[str, SATCurve],
    path: Path,
    *,
    title: str,
    points: Mapping[str, tuple[float, float]] | None = None,
    least_error: float = 1e-4,
    band: tuple[FloatArray, Limits] | None = None,
) -> None:
    """Draw curves by name, error over mean time with a logarithmic error axis, and named points on top.

    Args:
        curves: curves by name, drawn in that order.
        path: the output PNG file.
        title: one line above the figure.
        points: (mean time, error as a fraction) by label.
        least_error: lower end of the error axis; below it a curve is based on too few errors.
        band: mean times, and the confidence limits of the first curve's error there.
    """
    figure, axes = blank_figure(7.2, 4.5)
    for (name, curve), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        curve.plot(axes, label=as_text(name))
        axes.lines[-1].set(color=colour, linewidth=1.8)
    if band is not None:
        times, (low, high) = band
        axes.fill_between(times, 100 * np.maximum(low, 1e-9), 100 * high, color=COLOURS[0], alpha=0.15, linewidth=0)
    for label, (time, error) in (points or {}).items():
        axes.plot(time, 100 * error, "o", color=COLOURS[0], markersize=5)
        axes.annotate(
            as_text(label),
            (time, 100 * error),
            xytext=(7, 3),
            textcoords="offset points",
            fontsize=8,
            annotation_clip=True,
        )
    axes.set_yscale("log")
    axes.set_ylim(100 * least_error, 100)
    axes.set_xlim(0, 1.05 * max(_first_time_below(curve, least_error) for curve in curves.values()))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.set_title(as_text(title), fontsize=11, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def write_figures(folder: Path, findings: Findings) -> tuple[Path, ...]:
    """Write the figures of a report, one file each."""
    evaluation = findings.evaluation
    name = evaluation.rule.__name__
    curves = {name: evaluation.curve, **evaluation.baselines}
    # No lower than anything drawn, nor than half of the least error there can be.
    lowest = min(float(findings.band.low.min()), *(float(curve.errors.min()) for curve in curves.values()))
    floor = 0.5 / (np.count_nonzero(findings.counts) * int(findings.counts.max()))
    here = {f"threshold {evaluation.threshold:.4g}": (findings.times.mean, findings.errors.balanced)}
    path = folder / "speed_accuracy.png"
    speed_accuracy(
        curves,
        path,
        title=evaluation.title,
        points=here | dict(evaluation.points),
        least_error=max(0.8 * lowest, floor),
        band=(evaluation.curve.mean_times[findings.drawn], findings.band),
    )
    drawings = {"trajectories": _trajectories, "confusion": _confusion, "decision_times": _decision_times}
    paths = [folder / f"{what}.png" for what in drawings]
    for target, draw in zip(paths, drawings.values(), strict=True):
        save(draw(findings), target)
    return (path, *paths)


def _trajectories(findings: Findings) -> "Figure":
    """One series of each category: the lead of the true class over its strongest rival, and of every other class."""
    evaluation = findings.evaluation
    firsts = dict(reversed(findings.chosen))
    shown = list(reversed(firsts.items()))[:_PANELS]
    figure, _ = blank_figure(8.4, 5.4, panels=len(shown))
    for (category, series), axes in zip(shown, figure.axes, strict=True):
        length, truth = int(evaluation.lengths[series]), int(evaluation.labels[series])
        ahead, times = leads(evaluation.scores[series, :length]), np.arange(1, length + 1)
        axes.plot(times, np.delete(ahead, truth, axis=1), color=COLOURS[1], alpha=0.5, linewidth=0.9)
        axes.plot(times, ahead[:, truth], color=COLOURS[0], linewidth=2)
        time, named = int(findings.decisions.times[series]), int(findings.decisions.labels[series])
        if issubclass(evaluation.rule, MSPRT) and math.isfinite(evaluation.threshold):
            axes.axhline(evaluation.threshold, color="black", linewidth=0.9, linestyle="--")
        axes.plot(time, ahead[time - 1, named], "o", color="black", markerfacecolor="white", markersize=7)
        peak = max(float(ahead.max()), 1e-9)
        axes.set_ylim(max(float(ahead.min()), -1.6 * peak) - 0.06 * peak, 1.12 * peak)
        true_name, predicted = (as_text(str(evaluation.classes[k]), 12) for k in (truth, named))
        axes.set_title(f"{category}: {true_name}, predicted {predicted} at {time}", fontsize=8, loc="left")
        axes.grid(alpha=0.25)
    figure.supxlabel("observations read", fontsize=10)
    figure.supylabel("lead over the strongest rival (log-likelihood ratio)", fontsize=10)
    return figure


def _confusion(findings: Findings) -> "Figure":
    """Confusion matrix: series by true class (rows) and predicted class (columns), coloured by the share of the row."""
    classes = len(findings.counts)
    cells = findings.records.truths * classes + findings.decisions.labels
    counts = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
    side = min(max(0.5 * classes, 3.5), 10.0)
    figure, axes = blank_figure(side + 1, side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1.25)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if classes <= _READABLE:
        names = [as_text(str(name), 16) for name in findings.evaluation.classes]
        axes.set_xticks(range(classes), names, rotation=0 if max(map(len, names)) < 4 else 45, fontsize=8)
        axes.set_yticks(range(classes), names, fontsize=8)
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.4 else "black"
            axes.text(column, row, f"{count:,}" if count else "", ha="center", va="center", fontsize=7, color=colour)
    return figure


def _decision_times(findings: Findings) -> "Figure":
    """Histogram of decision times, for right and wrong decisions."""
    figure, axes = blank_figure(6.4, 3.6)
    right = findings.decisions.labels == findings.records.truths
    edges = 0.5 + findings.width * np.arange(findings.bins + 1)
    times = [findings.decisions.times[right], findings.decisions.times[~right]]
    axes.hist(times, bins=edges.tolist(), stacked=True, color=COLOURS[:2], label=["right", "wrong"])
    axes.set_xlabel("observations read")
    axes.set_ylabel("series")
    axes.legend(frameon=False)
    return figure


def blank_figure(width: float, height: float, *, panels: int = 1) -> "tuple[Figure, Axes]":
    """An empty figure of one panel, or of up to four in two columns."""
    # Imported here: it takes as long as all the rest of a short command.
    with optional("figure", "drawn with matplotlib"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    columns = min(panels, 2)
    for index in range(panels):
        axes = figure.add_subplot(-(-panels // columns), columns, index + 1)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, figure.axes[0]


def save(figure: "Figure", path: Path) -> None:
    """Write the figure as PNG."""
    with warnings.catch_warnings():
        # A name in letters that the font lacks is drawn as boxes; the page beside has it right.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(path)


def as_text(name: str, most: int = 60) -> str:
    """The name with escaped dollar signs, which matplotlib would read as formulas, and cut to `most` characters."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return cut.replace("$", r"\$")


def _first_time_below(curve: SATCurve, error: float) -> float:
    below = curve.mean_times[curve.errors <= error]
    return float(below[0] if len(below) else curve.mean_times[-1])
