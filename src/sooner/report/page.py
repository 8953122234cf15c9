"""The self-contained HTML report, and its figures as PNG."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np

from sooner.extras import optional
from sooner.report.evaluation import Evaluation
from sooner.report.figures import write_figures
from sooner.report.findings import Findings
from sooner.report.payload import payload

_SCRIPTS = ("numbers.js", "charts.js", "page.js")


@dataclass(frozen=True)
class Report:
    """The files that were written: the page, and the figures as PNG."""

    page: Path
    figures: tuple[Path, ...]


def write_report(folder: str | Path, evaluation: Evaluation) -> Report:
    """Write `report.html` and its figures into a folder, which is created if needed.

    The page is interactive and needs no network. All its numbers are for the threshold of the slider, and equal those of
    `Evaluation.curve` and `sooner.evaluate`.

    Args:
        folder: the output folder; existing files of the same names are replaced.
        evaluation: the content.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    findings = Findings.of(evaluation)
    page = folder / "report.html"
    page.write_text(_page(findings), encoding="utf-8")
    return Report(page, write_figures(folder, findings))


def report_page(evaluation: Evaluation) -> str:
    """The page as text, for example for a notebook."""
    return _page(Findings.of(evaluation))


def _page(findings: Findings) -> str:
    # plotly's own package takes a second to import.
    with optional("report", "drawn with plotly"):
        from plotly.offline import get_plotlyjs

    evaluation = findings.evaluation
    plotly, script = get_plotlyjs(), "\n".join(map(part, _SCRIPTS))
    return filled(
        part("page.html"),
        {
            "policy": policy(plotly, script),
            "style": part("page.css"),
            "title": escape(evaluation.title),
            "lede": escape(_lede(findings)),
            "headline": _headline(findings),
            "stepwise": _stepwise(findings),
            "limits": "95% confidence interval" + ("" if evaluation.groups is None else " by group"),
            "absent": _absent(findings),
            "about": _about(evaluation),
            "made": escape(f"Written by sooner {version('sooner')}. This page contains its data and needs no network."),
            "told": payload(findings),
            "plotly": plotly,
            "script": script,
        },
    )


def part(name: str) -> str:
    """The text of a file in this package."""
    return files("sooner.report").joinpath(name).read_text(encoding="utf-8")


def filled(template: str, slots: Mapping[str, str]) -> str:
    """The template with its `@@slots@@` filled in one pass, so that slots in the filled-in text have no effect."""
    return re.sub(r"@@(\w+)@@", lambda slot: slots[slot[1]], template)


def policy(*scripts: str) -> str:
    """A Content-Security-Policy that allows no network and only the page's own scripts, by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _lede(findings: Findings) -> str:
    evaluation = findings.evaluation
    series, horizon, classes = evaluation.scores.shape
    shortest = int(evaluation.lengths.min())
    span = f"{shortest:,} to {horizon:,}" if shortest < horizon else f"{horizon:,}"
    statistic = (evaluation.rule.statistic.__doc__ or "its statistic").splitlines()[0].rstrip(".")
    return (
        f"{series:,} series of {classes:,} classes{_groups(evaluation)}, {span} observation{'s' if horizon > 1 else ''} each. "
        f"{evaluation.rule.__name__} stops when this statistic reaches the threshold: {statistic[:1].lower()}{statistic[1:]}."
    )


def _groups(evaluation: Evaluation) -> str:
    return "" if evaluation.groups is None else f" in {int(evaluation.groups.max()) + 1:,} groups"


def _headline(findings: Findings) -> str:
    errors, times, limits = findings.errors, findings.times, findings.limits
    threshold = findings.evaluation.threshold
    by_group = "" if findings.evaluation.groups is None else " by group"
    setting = "With an infinite threshold" if np.isinf(threshold) else f"At a threshold of {threshold:.4g}"
    text = (
        f"{setting}, the balanced error is <b>{percent(errors.balanced)}</b> (95% confidence interval{by_group} "
        f"{percent(float(limits.low))} to {percent(float(limits.high))}) at a mean time of <b>{times.mean:.2f}</b> "
        f"observations. {percent(times.forced)} of the decisions were forced by the end of the series."
    )
    return text.replace(" %", "&nbsp;%")


def percent(share: float) -> str:
    """A share in percent, as text.

    >>> percent(0.0123), percent(0.5)
    ('1.23 %', '50.0 %')
    """
    return f"{100 * share:.{2 if share < 0.0995 else 1}f} %"


def _stepwise(findings: Findings) -> str:
    if findings.exact_at == "every threshold":
        return ""
    return (
        f" Because there are many series, this page contains {len(findings.drawn):,} exact points of the curve; a threshold "
        "between two points is rounded up to the next point."
    )


def _absent(findings: Findings) -> str:
    names = [findings.evaluation.classes[k] for k in findings.errors.absent]
    if not names:
        return ""
    absent = ", ".join(escape(str(name)) for name in names)
    return f'<p class="small" data-testid="absent">Classes without series, which are in no mean: {absent}.</p>'


def _about(evaluation: Evaluation) -> str:
    rows = {"rule": evaluation.rule.__name__, "threshold": repr(evaluation.threshold)}
    rows |= {name: str(value) for name, value in evaluation.about.items()}
    packages = {name: version(name) for name in ("sooner", "numpy", "torch", "plotly")}
    rows |= {name: value for name, value in packages.items() if name not in rows}
    return "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows.items()
    )
