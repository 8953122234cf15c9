"""The page that lays our speed-accuracy curves over the published ones."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sooner.report.comparison.contents import Comparison, Line, Table, Trajectories
from sooner.report.comparison.figures import write_comparison_figures
from sooner.report.document import document
from sooner.report.page import Report
from sooner.report.payload import pack


def write_comparison(folder: str | Path, comparison: Comparison) -> Report:
    """Write `comparison.html`, `curves.png` and, if there are trajectories, `trajectories.png` into a folder.

    The folder is created if needed, and existing files of the same names are replaced. The page needs no network.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "comparison.html"
    page.write_text(comparison_page(comparison), encoding="utf-8")
    return Report(page, write_comparison_figures(folder, comparison))


def comparison_page(comparison: Comparison) -> str:
    """The page as text."""
    banded = any(line.highlight == "headline" and line.band for line in comparison.lines)
    shortened = f'<p class="note" data-testid="shortened"><b>Shortened.</b> {escape(comparison.shortened)}</p>'
    return document(
        "comparison.html",
        title=comparison.title,
        slots={
            "lede": escape(comparison.lede),
            "shortened": shortened if comparison.shortened else "",
            "keys": "".join(_keys(comparison, name) for name in comparison.models),
            "band": " The band is one standard error of the mean to each side." if banded else "",
            "tables": "".join(_table(index, table) for index, table in enumerate(comparison.tables)),
            "trajectories": _panels(comparison),
        },
        about=comparison.about,
        contents={
            "lines": [_line(comparison, line) for line in comparison.lines],
            "floor": comparison.floor,
            "span": comparison.span,
            "trajectories": [_trajectories(one) for one in comparison.trajectories],
        },
        scripts=("numbers.js", "charts.js", "comparison.js"),
        styles=("page.css", "comparison.css"),
    )


def _keys(comparison: Comparison, name: str) -> str:
    """The legend entry of a model: a button for each of its lines."""
    buttons = [
        f'<button type="button" class="{line.origin}{" point" if len(line.times) == 1 else ""}" aria-pressed="true" '
        f'data-line="{index}" data-testid="key-{index}" aria-label="{escape(name)}, {line.origin_and_trials}">'
        f"<i></i>{line.origin_and_trials}</button>"
        for index, line in sorted(enumerate(comparison.lines), key=lambda numbered: numbered[1].origin)
        if line.name == name
    ]
    return f"<li><span>{escape(name)}</span>{''.join(buttons)}</li>"


def _table(index: int, table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
        if row
    )
    note = f'<p class="small">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<section class="card" aria-labelledby="table-{index}"><h2 id="table-{index}">{escape(table.title)}</h2>'
        f'<div class="box" tabindex="0" role="region" aria-labelledby="table-{index}">'
        f'<table class="texts" data-testid="table-{index}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        f"</div>{note}</section>"
    )


def _panels(comparison: Comparison) -> str:
    if not comparison.trajectories:
        return ""
    panels = "".join(
        f"<figure><figcaption>{escape(one.title)}</figcaption>"
        f'<div class="plot" id="trajectory-{index}" role="img" aria-label="{escape(one.title)}"></div>'
        f'<p class="small" data-testid="outcome-{index}">{escape(one.text)}</p></figure>'
        for index, one in enumerate(comparison.trajectories)
    )
    return (
        '<section class="card" aria-labelledby="panels-title"><h2 id="panels-title">Single series</h2>'
        '<p class="small">Each line is the lead of a class over its strongest rival, the smallest of its log-likelihood ratios '
        'to the other classes: <b class="truth">the true class</b> and <b class="others">every other class</b>. The dashed line '
        f'is the threshold, the circle the decision.</p><div class="panels">{panels}</div></section>'
    )


def _line(comparison: Comparison, line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "label": line.origin_and_trials,
        "origin": line.origin,
        "highlight": line.highlight,
        "hue": comparison.models.index(line.name),
        "times": pack(line.times),
        "errors": pack(line.errors),
        "band": {name: pack(side) for name, side in line.band._asdict().items()} if line.band else None,
        "texts": line.texts,
    }


def _trajectories(one: Trajectories) -> dict[str, Any]:
    return {
        "classes": one.classes,
        "truth": one.truth,
        "leads": pack(one.leads.T.astype(np.float32)),
        "threshold": one.threshold,
        "stop": one.stop,
    }
