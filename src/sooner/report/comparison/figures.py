"""The figures of a comparison: drawn without a screen, written as PNG."""

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.report.comparison.contents import Comparison, Line, Trajectories
from sooner.report.figures import COLOURS, as_text, blank_figure, draw_leads, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Two more hues than a report needs: a paper may compare seven models.
_HUES = (*COLOURS, "#6D4FB3", "#6B6F76")
_GREY = "#8A9099"


def write_comparison_figures(folder: Path, comparison: Comparison) -> tuple[Path, ...]:
    """Write `curves.png` and, if there are trajectories, `trajectories.png` into an existing folder."""
    figures = {"curves": _curves(comparison)}
    if comparison.trajectories:
        figures["trajectories"] = _trajectories(comparison.trajectories)
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    return tuple(folder / f"{name}.png" for name in figures)


def _curves(comparison: Comparison) -> "Figure":
    """Error over mean time, the error axis logarithmic; the published lines below ours, the headline on top."""
    columns = len({line.origin for line in comparison.lines})
    figure, axes = blank_figure(7.2, 4.2 + 0.1 * columns * len(comparison.models))
    for line in comparison.lines:
        _draw(axes, line, _HUES[comparison.models.index(line.name) % len(_HUES)], comparison.floor)
    _scale(axes, comparison)
    axes.set_xlabel("mean time (observations)")
    axes.set_ylabel("balanced error (%)")
    axes.grid(alpha=0.25)
    note = textwrap.wrap(f"Shortened. {comparison.shortened}", 118)[:4] if comparison.shortened else []
    axes.set_title(as_text(comparison.title, 80), fontsize=11, loc="left", pad=6 + 11 * len(note))
    position: dict[str, Any] = {"xytext": (0, 5), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(as_text("\n".join(note), 500), (0, 1), fontsize=8, color="#444444", **position)
    _legend(figure, axes, comparison)
    return figure


def _legend(figure: "Figure", axes: "Axes", comparison: Comparison) -> None:
    """Draw the legend below the axes: ours in the left column, the published in the right column."""
    from matplotlib.lines import Line2D

    drawn: dict[tuple[str, str], Line2D] = {
        (line.name, line.origin): artist for line, artist in zip(comparison.lines, axes.lines, strict=True)
    }
    origins = [origin for origin in ("ours", "published") if any(line.origin == origin for line in comparison.lines)]
    blank = Line2D([], [], linestyle="none", label=" ")
    handles = [drawn.get((name, origin), blank) for origin in origins for name in comparison.models]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(2, len(handles)), frameon=False, fontsize=8)


def _draw(axes: "Axes", line: Line, hue: str, floor: float) -> None:
    ours, headline, single = line.origin == "ours", line.highlight == "headline", len(line.times) == 1
    colour = hue if ours else _blend(hue, _GREY)
    height = 3 + 2 * headline + ours
    axes.plot(
        line.times,
        np.maximum(line.errors, floor),
        color=colour,
        linestyle="none" if single else "-" if ours else "--",
        linewidth=3 if headline else 1.7 if ours else 1.3,
        marker="o" if single else "",
        markersize=8 if headline else 6,
        markerfacecolor=colour if ours else "white",
        zorder=height,
        # The origin comes first because matplotlib hides labels that start with "_".
        label=as_text(f"{line.origin}: {line.name}", 38) + f" ({line.trials:,} trial{'s' if line.trials > 1 else ''})",
    )
    if line.band is None or not (headline or single):
        return
    times, low, high = line.band
    low, high = np.maximum(low, floor), np.maximum(high, floor)
    if single:
        axes.vlines(times, low, high, color=colour, linewidth=1.2, zorder=height - 0.5)
    else:
        axes.fill_between(times, low, high, color=colour, alpha=0.22, linewidth=0, zorder=height - 0.5)


def _scale(axes: "Axes", comparison: Comparison) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    low, high = comparison.span
    none = any((line.errors == 0).any() for line in comparison.lines)
    axes.set_yscale("log")
    axes.set_xlim(0, 1.03 * max(line.times[-1] for line in comparison.lines))
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    ticks = _ticks(2 * comparison.floor if none else low, high)
    if len(ticks) < 2 and not none:  # too narrow for them
        ticks = [
            float(value)
            for value in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low / 1.1, high * 1.1)
            if value > 0
        ]
    positions, texts = list(ticks), [f"{value:g}" for value in ticks]
    if none:
        positions, texts = [comparison.floor, *positions], ["0", *texts]
    axes.set_yticks(positions, texts)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low / 1.15, high * 1.15)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... between two numbers, or only powers of ten if these would be too many.

    >>> _ticks(1.7, 64.0)
    [2.0, 5.0, 10.0, 20.0, 50.0]
    """
    digits = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    values = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [value for value in values if low <= value <= high]


def _trajectories(shown: tuple[Trajectories, ...]) -> "Figure":
    """A panel for each series."""
    from matplotlib.ticker import MaxNLocator

    figure, _ = blank_figure(8.4, 0.5 + 2.5 * math.ceil(len(shown) / 2), panels=len(shown))
    for series, axes in zip(shown, figure.axes, strict=True):
        threshold = math.inf if series.threshold is None else series.threshold
        draw_leads(axes, series.leads, series.truth, threshold, series.stop)
        axes.set_title(as_text(series.title, 56), fontsize=9, loc="left")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    return figure


def _blend(one: str, other: str) -> str:
    """The colour halfway between two."""
    halves = ((int(one[i : i + 2], 16) + int(other[i : i + 2], 16)) // 2 for i in (1, 3, 5))
    return "#" + "".join(f"{half:02x}" for half in halves)
