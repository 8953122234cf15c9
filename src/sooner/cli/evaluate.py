"""`sooner evaluate`."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
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
from sooner.evaluate import average_cost, class_errors
from sooner.extras import is_installed
from sooner.report import Evaluation, write_report
from sooner.rules import FixedTime, ThresholdRule
from sooner.scores import Scored
from sooner.types import SATCurve


def evaluate(
    model: ModelFile,
    source: Source,
    threshold: Annotated[float | None, typer.Option(help="A different threshold for this evaluation.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder for the report.")] = Path("report"),
    part: Part = "test",
    series: SeriesColumn = None,
    time: TimeColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    channels: ChannelColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate a model on labelled test series, and write an HTML report.

    The report has the whole speed-accuracy curve and a slider: all numbers follow the threshold. With `--group` the confidence
    intervals are for new groups, not for new series of the same groups.

    Example: `sooner evaluate pumps.sooner new_pumps.csv`
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    clf = load(model)
    with screen.status(f"reading {escape(source)}"):
        unseen = read_for(clf, source, columns_of(series, time, label, group, channels), part)
    if threshold is not None:
        clf.rule_ = clf.rule_named_by(threshold)
    with screen.status("deciding"):
        scored = clf.judged(unseen)
        found, labels = clf.evaluate(scored), scored.truths
        decisions = clf.rule_.decide(scored.scores, scored.lengths, halting=scored.halting)
    errors = class_errors(decisions, labels, classes=range(clf.n_classes_), groups=scored.groups)
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
    limits = "95% confidence interval" if scored.groups is None else "95% confidence interval, by group"
    screen.table("Classes", ["class", "series", "error", limits, "mean time"], rows)
    page = None
    if not is_installed("report"):
        screen.news(escape('No report was written: it needs the extra report, pip install "sooner[report]".'))
    elif isinstance(clf.rule_, ThresholdRule) and np.ndim(clf.threshold) == 0:  # a matrix is no point of a curve
        with screen.status("writing the report"):
            title = f"{model.name} on {source}"
            page = write_report(out, evaluation_of(clf, scored, title=title, beside={})).page
        screen.result(f"Report: [bold]{escape(str(page))}[/]")
    screen.answer(
        {
            **found.to_dict(),
            "threshold": clf.threshold,
            "average_cost": average_cost(decisions, labels, lengths=scored.lengths),
            "classes": {str(names[k]): error for k, error in zip(errors.classes, errors.errors, strict=True)},
            "report": None if page is None else str(page),
        }
    )


def evaluation_of(clf: EarlyClassifier, scored: Scored, *, title: str, beside: Mapping[str, SATCurve]) -> Evaluation:
    """What the report shows of a classifier: its rule, the fixed-time test and others beside it, and how it was made."""
    family = family_of(clf.rule_)
    fixed = {} if family is FixedTime else {"fixed-time test": clf.speed_accuracy_of(FixedTime, scored)}
    return Evaluation(
        torch.from_numpy(scored.scores),
        torch.from_numpy(scored.truths),
        clf.threshold,
        lengths=torch.from_numpy(scored.lengths),
        groups=scored.groups,
        classes=clf.classes_.tolist(),
        rule=family,
        halting=None if scored.halting is None else torch.from_numpy(scored.halting),
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
