"""`sooner demo`."""

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from sooner.cli.evaluate import evaluation_of
from sooner.cli.options import Seed
from sooner.cli.screen import Screen
from sooner.data import digits
from sooner.estimator import EarlyClassifier
from sooner.extras import refuse_missing
from sooner.report import write_report
from sooner.rules import FixedTime

TIMES = (2, 4, 6, 8, 10, 12)


def demo(
    out: Annotated[Path, Option("--out", "-o", help="Output folder for the model and the report.")] = Path("demo"),
    max_epochs: Annotated[int, Option(min=1, help="Maximum number of epochs for LSTM-s.")] = 40,
    seed: Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Train on real data, and show error against time.

    The data are handwritten digits, of which each of 16 frames reveals four more pixels. The sequential test decides each
    digit as soon as the evidence suffices. The fixed-time test on the same scores decides all digits at the same time. LSTM-s is
    a recurrent network with the ranking loss of Ma, Sigal and Sclaroff (2016). All numbers are from a separate test set.
    """
    refuse_missing("report", "demo", "drawn with plotly")
    train, validation, test = digits.load(seed)
    with screen.status(f"fitting {len(train):,} digits"):
        clf = EarlyClassifier(random_state=seed).fit(train)
        chosen = clf.choose_threshold(validation, max_error=0.1)
    with screen.status("training LSTM-s for comparison"):
        loss = {"multiplet": 1.0, "ranking_score": 0.1}
        lstm_s = EarlyClassifier("lstm", loss=loss, max_epochs=max_epochs, random_state=seed).fit(train)
    scored = clf.judged(test)
    curves = {
        "sequential test": clf.speed_accuracy(scored),
        "fixed-time test": clf.speed_accuracy_of(FixedTime, scored),
        "LSTM-s": lstm_s.speed_accuracy(test),
    }
    errors = {name: np.asarray(curve.error_at(TIMES)).tolist() for name, curve in curves.items()}
    title, beside = "Digits, revealed a few pixels at a time", {"LSTM-s": curves["LSTM-s"]}
    report = write_report(out, evaluation_of(clf, scored, title=title, beside=beside))
    file = out / "digits.sooner"
    clf.save(file)
    screen.table(
        f"Balanced error in percent at mean times, {len(test)} unseen digits",
        ["mean time", *map(str, TIMES)],
        [(name, *(f"{100 * error:.1f}" for error in row)) for name, row in errors.items()],
    )
    reached = clf.evaluate(scored)
    screen.result(f"Threshold {clf.threshold:.3f}, chosen for an error of at most 10% on {chosen.series} other digits:")
    screen.result(f"  {reached}")
    screen.file("Model", file, "  (sooner threshold, sooner evaluate, sooner bench)")
    screen.file("Report", report.page, "  (open it, and move the slider)")
    screen.json(
        {
            "error_at": {name: dict(zip(map(str, TIMES), row, strict=True)) for name, row in errors.items()},
            "reached": reached.to_dict(),
            "report": str(report.page),
        }
    )
