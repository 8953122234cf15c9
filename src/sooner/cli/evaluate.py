"""`sooner evaluate`."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from sooner.cli.options import (
    AsJson,
    ChannelColumns,
    GroupColumn,
    LabelColumn,
    ModelFile,
    Part,
    Quiet,
    SeriesColumn,
    Source,
    TimeColumn,
    columns_of,
    read_for,
)
from sooner.cli.screen import Screen
from sooner.estimator import EarlyClassifier, load
from sooner.estimator.dial import family_of
from sooner.evaluate import average_cost, class_errors, sat_curve
from sooner.evaluate.achieved import achieved
from sooner.extras import is_installed
from sooner.report import Evaluation, write_report
from sooner.rules import FixedTime, ThresholdRule
from sooner.types import SATCurve


def evaluate(
    model: ModelFile,
    source: Source,
    threshold: Annotated[
        float | None, typer.Option(help="Another threshold than the model's, for this evaluation.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path("report"),
    part: Part = "test",
    series: SeriesColumn = None,
    time: TimeColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    channels: ChannelColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a model on labelled series that it has not seen, and write a page to look at.

    The page holds the whole speed-accuracy curve, and a slider: every number on it moves with the threshold. With `--group`
    confidence limits are about new groups, not about new series of the same ones.

    Example: `sooner evaluate pumps.sooner new_pumps.csv`
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    clf = load(model)
    with screen.status(f"reading {escape(source)}"):
        table = read_for(clf, source, columns_of(series, time, label, group, channels), part)
    if threshold is not None:
        clf.rule_ = clf.rule_named_by(threshold)
    groups = table.series.groups
    with screen.status("deciding"):
        scores, lengths = clf.scores_of_series(table.series.observations, table.series.lengths)
        found = achieved(clf.rule_, scores, table.series.labels, lengths=lengths, groups=groups)
        decisions = clf.rule_.decide(scores, lengths)
    labels = table.series.labels.numpy()
    errors = class_errors(decisions, labels, classes=range(clf.n_classes_), groups=groups)
    names = clf.classes_.tolist()
    screen.achieved(found)
    screen.near_chance(found)
    rows = [
        (
            str(names[k]),
            f"{n}",
            f"{error:.2%}",
            f"{low:.2%} to {high:.2%}",
            f"{decisions.times[labels == k].mean():.2f}",
        )
        for k, n, error, low, high in zip(
            errors.classes, errors.counts, errors.errors, errors.low, errors.high, strict=True
        )
    ]
    limits = "95 % limits" if groups is None else "95 % limits, by group"
    screen.table("Classes", ["class", "series", "error", limits, "mean time"], rows)
    page = None
    if not is_installed("report"):
        screen.news(escape('No page was written: it is drawn with the extra report, pip install "sooner[report]".'))
    elif isinstance(clf.rule_, ThresholdRule) and np.ndim(clf.threshold) == 0:  # a matrix is no point of a curve
        with screen.status("writing the report"):
            title = f"{model.name} on {source}"
            page = write_report(out, evaluation_of(clf, scores, labels, lengths, groups, title=title, beside={})).page
        screen.result(f"Report: [bold]{escape(str(page))}[/]")
    screen.answer(
        {
            **found.to_dict(),
            "threshold": clf.threshold,
            "average_cost": average_cost(decisions, labels, lengths=lengths),
            "classes": {str(names[k]): error for k, error in zip(errors.classes, errors.errors, strict=True)},
            "report": None if page is None else str(page),
        }
    )


def evaluation_of(
    clf: EarlyClassifier,
    scores: Any,
    labels: Any,
    lengths: Any,
    groups: Any = None,
    *,
    title: str,
    beside: Mapping[str, SATCurve],
) -> Evaluation:
    """What the report shows of a classifier: its rule, the fixed-time test and others beside it, and how it was made."""
    family = family_of(clf.rule_)
    fixed = (
        {} if family is FixedTime else {"fixed-time test": sat_curve(scores, labels, lengths=lengths, rule=FixedTime)}
    )
    return Evaluation(
        scores,
        labels,
        clf.threshold,
        lengths=lengths,
        groups=groups,
        classes=clf.classes_.tolist(),
        rule=family,
        baselines={**fixed, **beside},
        title=title,
        about={
            "model": clf.model_name_,
            "order": clf.order_,
            "rule": repr(clf.rule_),
            "priors": str(clf.priors),
            "training series": int(clf.class_counts_.sum()),
            "bytes for a live series": clf.model_.bytes_per_stream(),
            **{package: version(package) for package in ("sooner", "torch")},
        },
    )
