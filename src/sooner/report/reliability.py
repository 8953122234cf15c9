"""The reliability diagram of a page: how often a decision of a given probability is right."""

from html import escape

import numpy as np

from sooner.evaluate import Reliability

_SIDE, _LEFT, _FOOT, _TOP = 300, 46, 40, 8
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def reliability_card(found: Reliability | None, setting: str) -> str:
    """The section of the page, or nothing.

    Args:
        found: the reliability at the decisions.
        setting: the threshold of these decisions, in words.
    """
    if found is None:
        return ""
    series = int(found.counts.sum())
    note = (
        f"The expected calibration error is <b>{100 * found.error:.1f}&nbsp;%</b>, the log loss {found.log_loss:.3f}, on "
        f"{series:,} series. {escape(setting)}; this figure does not follow the slider. Each point is a bin of probabilities, "
        "larger for more series; bars are exact 95% confidence intervals. Points on the line are calibrated, points below it "
        "are too sure."
    )
    return (
        '<section class="card" aria-labelledby="reliability-title">'
        '<h2 id="reliability-title">Probabilities at the decision</h2>'
        f'<div class="reliability" data-testid="reliability">{_drawing(found)}<p class="small">{note}</p></div></section>'
    )


def _drawing(found: Reliability) -> str:
    parts = []
    for tick in _TICKS:
        x, y = _x(tick), _y(tick)
        parts.append(f'<path class="grid" d="M{x} {_y(0)}V{_y(1)}M{_x(0)} {y}H{_x(1)}"/>')
        parts.append(f'<text x="{x}" y="{_y(0) + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{_x(0) - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<path class="ideal" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>')
    rows = zip(found.counts, found.confidence, found.accuracy, found.low, found.high, bin_radii(found), strict=True)
    for count, confidence, accuracy, low, high, radius in rows:
        if count:
            x = _x(confidence)
            title = f"probability {confidence:.3f}, right {accuracy:.3f} ({low:.3f} to {high:.3f}), {count:,} series"
            parts.append(f'<path class="bar" d="M{x} {_y(low)}V{_y(high)}"/>')
            parts.append(
                f'<circle class="bin" cx="{x}" cy="{_y(accuracy)}" r="{radius:.1f}"><title>{title}</title></circle>'
            )
    across, down = (_x(0) + _x(1)) / 2, (_y(0) + _y(1)) / 2
    parts.append(
        f'<text x="{across}" y="{_y(0) + 34}" text-anchor="middle">probability of the decided class</text>'
        f'<text transform="translate(12 {down}) rotate(-90)" text-anchor="middle">share of right decisions</text>'
    )
    width, height = _SIDE + _LEFT + 12, _SIDE + _FOOT + _TOP
    label = f"Reliability diagram, expected calibration error {100 * found.error:.1f} percent"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def bin_radii(found: Reliability) -> np.ndarray:
    """An area that grows with the square root of the number of series, so that small bins remain visible."""
    radii: np.ndarray = 2.5 + 6 * (found.counts / max(found.counts.max(), 1)) ** 0.25
    return radii


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * float(share), 1)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - float(share)), 1)
