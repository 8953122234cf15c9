"""The self-contained HTML report, and its figures as PNG."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from sooner.report.document import document
from sooner.report.evaluation import Evaluation
from sooner.report.figures import write_figures
from sooner.report.findings import Findings
from sooner.report.payload import payload
from sooner.report.reliability import reliability_card


@dataclass(frozen=True)
class Report:
    """The paths of the page and of its figures, which are PNG files."""

    page: Path
    figures: tuple[Path, ...]


def write_report(folder: str | Path, evaluation: Evaluation) -> Report:
    """Write `report.html` and its figures into a folder, which is created if needed; existing files are replaced.

    The page is interactive and needs no network. All its numbers are for the threshold of the slider, and equal those of
    `Evaluation.curve` and `sooner.evaluate`.
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
    evaluation = findings.evaluation
    return document(
        "page.html",
        title=evaluation.title,
        slots={
            "lede": escape(_lede(findings)),
            "headline": _headline(findings),
            "stepwise": _stepwise(findings),
            "limits": "95% confidence interval" + ("" if evaluation.groups is None else " by group"),
            "absent": _absent(findings),
            "reliability": reliability_card(evaluation.reliability, _setting(evaluation.threshold)),
        },
        about={"rule": evaluation.rule.__name__, "threshold": repr(evaluation.threshold), **evaluation.about},
        contents=payload(findings),
        scripts=("numbers.js", "charts.js", "page.js"),
        styles=("page.css",),
    )


def _lede(findings: Findings) -> str:
    evaluation = findings.evaluation
    series, horizon, classes = evaluation.scores.shape
    shortest = int(evaluation.lengths.min())
    span = f"{shortest:,} to {horizon:,}" if shortest < horizon else f"{horizon:,}"
    groups = "" if evaluation.groups is None else f" in {int(evaluation.groups.max()) + 1:,} groups"
    statistic = (evaluation.rule.statistic.__doc__ or "its statistic").splitlines()[0].rstrip(".")
    return (
        f"{series:,} series of {classes:,} classes{groups}, {span} observation{'s' if horizon > 1 else ''} each. "
        f"{evaluation.rule.__name__} stops when this statistic reaches the threshold: {statistic[:1].lower()}{statistic[1:]}."
    )


def _headline(findings: Findings) -> str:
    errors, times, limits = findings.errors, findings.times, findings.limits
    threshold = findings.evaluation.threshold
    by_group = "" if findings.evaluation.groups is None else " by group"
    text = (
        f"{_setting(threshold)}, the balanced error is <b>{percent(errors.balanced)}</b> (95% confidence interval{by_group} "
        f"{percent(float(limits.low))} to {percent(float(limits.high))}) at a mean time of <b>{times.mean:.2f}</b> "
        f"observations. {percent(times.forced)} of the decisions were forced by the end of the series."
    )
    return text.replace(" %", "&nbsp;%")


def _setting(threshold: float) -> str:
    return "With an infinite threshold" if np.isinf(threshold) else f"At a threshold of {threshold:.4g}"


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
