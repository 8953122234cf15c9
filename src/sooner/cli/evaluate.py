"""`sooner evaluate`."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from rich.markup import escape
from typer import Option

from sooner.cli.options import ModelFile, Source, Split, TableOptions, Threshold, read_for
from sooner.cli.screen import Screen, limits_title, promise_record
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
    threshold: Threshold = None,
    out: Annotated[Path, Option("--out", "-o", help="Output folder for the report.")] = Path("report"),
    part: Split = "test",
    *,
    table: TableOptions,
    screen: Screen,
) -> None:
    """Evaluate a model on labelled test series, and write an HTML report.

    The report has the whole speed-accuracy curve and a slider: all numbers follow the threshold. With `--group` the confidence
    intervals are for new groups, not for new series of the same groups.

    Example: `sooner evaluate pumps.sooner new_pumps.csv`
    """
    clf = load(model)
    with screen.status(f"reading {escape(source)}"):
        series = read_for(clf, source, table.columns(), part)
    if threshold is not None:
        clf.rule_ = clf.rule_named_by(threshold)
    with screen.status("deciding"):
        scored = clf.judged(series)
        achieved, labels = clf.evaluate(scored), scored.truths
        decisions = clf.rule_.decide(scored.scores, scored.lengths, halting=scored.halting)
    errors = class_errors(decisions, labels, classes=range(clf.n_classes_), groups=scored.groups)
    names = [str(clf.classes_[k]) for k in errors.classes]
    rows = [
        (
            name,
            f"{count}",
            f"{error:.2%}",
            f"{low:.2%} to {high:.2%}",
            f"{decisions.times[labels == k].mean():.2f}",
        )
        for name, k, count, error, low, high in zip(
            names, errors.classes, errors.counts, errors.errors, errors.low, errors.high, strict=True
        )
    ]
    screen.achieved(achieved)
    screen.promise(clf.promise_)
    screen.table("Classes", ["class", "series", "error", limits_title(scored.groups), "mean time"], rows)
    probabilities = clf.reliability(scored)
    page = None
    if not is_installed("report"):
        screen.message(escape('No report was written: it needs the extra report, pip install "sooner[report]".'))
    elif isinstance(clf.rule_, ThresholdRule) and np.ndim(clf.threshold) == 0:  # a matrix is no point of a curve
        with screen.status("writing the report"):
            title = f"{model.name} on {source}"
            page = write_report(out, evaluation_of(clf, scored, title=title, beside={})).page
        screen.file("Report", page)
    else:
        screen.message(f"No report was written: {escape(repr(clf.rule_))} is no point of a curve over thresholds.")
    screen.json(
        {
            **achieved.to_dict(),
            "threshold": clf.threshold,
            "promise": promise_record(clf.promise_),
            "calibration_error": probabilities.error,
            "log_loss": probabilities.log_loss,
            "average_cost": average_cost(decisions, labels, lengths=scored.lengths),
            "classes": dict(zip(names, errors.errors, strict=True)),
            "report": None if page is None else str(page),
        }
    )


def evaluation_of(clf: EarlyClassifier, scored: Scored, *, title: str, beside: Mapping[str, SATCurve]) -> Evaluation:
    """The content of a classifier's report, with the fixed-time test and other curves for comparison."""
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
        reliability=clf.reliability(scored),
        title=title,
        promise=None if clf.promise_ is None else str(clf.promise_),
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
