"""A report: one HTML page that needs nothing but itself, with a slider for the threshold, and its figures as PNG.

Writes into the folder that is named behind the program, or else into one that is thrown away:

    python examples/08_report.py report
"""

import sys
import tempfile

from sooner import EarlyClassifier
from sooner.data import archives
from sooner.evaluate import sat_curve
from sooner.report import Evaluation, write_report
from sooner.rules import FixedTime


def main(folder: str) -> None:
    """Fit, score other series, and write the page."""
    train, test = archives.load("JapaneseVowels")  # as `Series`, which know their labels and lengths
    clf = EarlyClassifier().fit_series(train)
    clf.choose_threshold(max_error=0.05)
    scores, lengths = clf.scores_of_series(test.observations, test.lengths)
    evaluation = Evaluation(
        scores,
        test.labels,
        clf.threshold,
        lengths=lengths,
        classes=clf.classes_.tolist(),
        baselines={"fixed-time test": sat_curve(scores, test.labels, lengths=lengths, rule=FixedTime)},
        title="Who is speaking?",
        about={"model": clf.model_name_, "rule": repr(clf.rule_), "training series": len(train)},
    )
    report = write_report(folder, evaluation)
    print(f"page: {report.page.name}, {report.page.stat().st_size / 1e6:.1f} MB, opens without a network")
    for figure in report.figures:
        print(f"figure: {figure.name}")


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as thrown_away:
        main(thrown_away)
