"""A report: one self-contained HTML page with a slider for the threshold, and its figures as PNG.

The program writes into the given folder, or into a temporary folder:

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
    """Fit a classifier, score the test series, and write the page."""
    train, test = archives.load("JapaneseVowels")  # as `Series`, with labels and lengths
    clf = EarlyClassifier().fit(train)
    clf.choose_threshold(max_error=0.05)
    scores, lengths = clf.scores(test)
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
