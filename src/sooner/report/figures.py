"""Figures of a report, written as PNG."""

import math
import warnings
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.evaluate.calibration import Reliability
from sooner.evaluate.intervals import Limits
from sooner.extras import optional
from sooner.report.findings import Findings
from sooner.report.reliability import bin_radii
from sooner.report.trajectories import leads
from sooner.rules import MSPRT
from sooner.types import FloatArray, SATCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito for colour blindness, darkest contrast first.
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
    """Draw curves by name, error over mean time with a logarithmic error axis, and write the figure as PNG.

    Args:
        curves: curves by name.
        path: the output file.
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
        offset: dict[str, Any] = {"xytext": (7, 3), "textcoords": "offset points", "annotation_clip": True}
        axes.annotate(as_text(label), (time, 100 * error), fontsize=8, **offset)
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
    curves = {evaluation.rule.__name__: evaluation.curve, **evaluation.baselines}
    # No lower than anything drawn, nor than half of the least error there can be.
    lowest = min(float(findings.band.low.min()), *(float(curve.errors.min()) for curve in curves.values()))
    floor = 0.5 / (np.count_nonzero(findings.counts) * int(findings.counts.max()))
    current = {f"threshold {evaluation.threshold:.4g}": (findings.times.mean, findings.errors.balanced)}
    path = folder / "speed_accuracy.png"
    speed_accuracy(
        curves,
        path,
        title=evaluation.title,
        points=current | dict(evaluation.points),
        least_error=max(0.8 * lowest, floor),
        band=(evaluation.curve.mean_times[findings.drawn], findings.band),
    )
    figures = {
        "trajectories": _trajectories(findings),
        "confusion": _confusion(findings),
        "decision_times": _decision_times(findings),
    }
    if evaluation.reliability is not None:
        figures["reliability"] = _reliability(evaluation.reliability)
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    return (path, *(folder / f"{name}.png" for name in figures))


def _trajectories(findings: Findings) -> "Figure":
    """One series of each category."""
    evaluation = findings.evaluation
    shown = list(reversed(dict(reversed(findings.chosen)).items()))[:_PANELS]
    figure, _ = blank_figure(8.4, 5.4, panels=len(shown))
    threshold = evaluation.threshold if issubclass(evaluation.rule, MSPRT) else math.inf
    for (category, series), axes in zip(shown, figure.axes, strict=True):
        length, truth = int(evaluation.lengths[series]), int(evaluation.labels[series])
        time, label = int(findings.decisions.times[series]), int(findings.decisions.labels[series])
        draw_leads(axes, leads(evaluation.scores[series, :length]), truth, threshold, (label, time))
        true_name, predicted = (as_text(str(evaluation.classes[k]), 12) for k in (truth, label))
        axes.set_title(f"{category}: {true_name}, predicted {predicted} at {time}", fontsize=8, loc="left")
    return figure


def draw_leads(axes: "Axes", ahead: FloatArray, truth: int, threshold: float, decision: tuple[int, int] | None) -> None:
    """Draw the leads of all classes over time, the threshold if it is finite, and the decision (label, time)."""
    times, marker = np.arange(1, len(ahead) + 1), "o" if len(ahead) == 1 else ""
    axes.plot(times, np.delete(ahead, truth, axis=1), marker + "-", color=COLOURS[1], alpha=0.5, linewidth=0.9)
    axes.plot(times, ahead[:, truth], marker + "-", color=COLOURS[0], linewidth=2)
    top = max(float(ahead.max()), 1e-9)
    if math.isfinite(threshold):
        axes.axhline(threshold, color="black", linewidth=0.9, linestyle="--")
        top = max(top, threshold)
    if decision is not None:
        label, time = decision
        axes.plot(time, ahead[time - 1, label], "o", color="black", markerfacecolor="white", markersize=7)
    # The whole line of the true class and everything above it; other lines may leave the panel at the bottom.
    least = max(float(ahead.min()), min(float(ahead[:, truth].min()), -1.6 * top))
    axes.set_ylim(least - 0.06 * top, 1.12 * top)
    axes.grid(alpha=0.25)
    axes.figure.supxlabel("observations read", fontsize=10)
    axes.figure.supylabel("lead over the strongest rival\n(log-likelihood ratio)", fontsize=10)


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


def _reliability(found: Reliability) -> "Figure":
    """How often decisions of a given probability are right; one point for each bin of probabilities."""
    figure, axes = blank_figure(4.8, 4.8)
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.9, linestyle="--")
    filled = found.counts > 0
    confidence, accuracy = found.confidence[filled], found.accuracy[filled]
    bars = np.maximum(np.stack([accuracy - found.low[filled], found.high[filled] - accuracy]), 0)
    axes.errorbar(confidence, accuracy, bars, fmt="none", ecolor=COLOURS[0], alpha=0.5, linewidth=1)
    axes.scatter(confidence, accuracy, 2 * bin_radii(found)[filled] ** 2, color=COLOURS[0], zorder=3)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
    axes.set_xlabel("probability of the decided class")
    axes.set_ylabel("share of right decisions")
    axes.set_title(f"expected calibration error {100 * found.error:.1f}%", fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    return figure


def blank_figure(width: float, height: float, *, panels: int = 1, columns: int = 2) -> "tuple[Figure, Axes]":
    """An empty figure with some panels, and the first of them."""
    # Importing matplotlib takes as long as the rest of a short command.
    with optional("figure", "drawn with matplotlib"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    columns = min(panels, columns)
    for index in range(panels):
        axes = figure.add_subplot(-(-panels // columns), columns, index + 1)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, figure.axes[0]


def save(figure: "Figure", path: Path) -> None:
    """Write the figure as PNG."""
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; the page shows them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(path)


def as_text(name: str, most: int = 60) -> str:
    """The name with escaped dollar signs, which matplotlib would read as formulas, and cut to `most` characters."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return cut.replace("$", r"\$")


def _first_time_below(curve: SATCurve, error: float) -> float:
    below = curve.mean_times[curve.errors <= error]
    return float(below[0] if len(below) else curve.mean_times[-1])
