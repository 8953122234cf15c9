"""Exact scores: thresholds from error targets, without any data.

The three classes are Gaussian noise with means half a standard deviation apart. The likelihoods are known, so no model is
trained. The threshold of each row follows from its target alone. The fixed-time test gets the same mean time, and the last
column is the time that it needs for the same error. To draw a figure, pass the name of a PNG file:

    python examples/05_exact_scores.py exact_scores.png
"""

import sys
from pathlib import Path

import numpy as np

from sooner.data import Gaussian
from sooner.evaluate import class_errors, hitting_times, sat_curve
from sooner.report import speed_accuracy
from sooner.rules import MSPRT, FixedTime, bounds

TARGETS = (0.3, 0.1, 0.03, 0.01, 0.001)
SERIES = 5_000

process = Gaussian.equidistant(classes=3, distance=0.5)
slowest = bounds.first_order_times(bounds.for_class_errors(min(TARGETS), classes=3), process.rates()).max()
observations, labels = process.sample(SERIES, time=int(6 * slowest), seed=0)
scores = process.scores(observations)
fixed = sat_curve(scores, labels, rule=FixedTime)

print(f"{SERIES:,} series with exact scores; worst class: upper end of its 95% confidence interval")
print(
    f"{'target':>8}{'threshold':>11}{'error':>9}{'worst class':>13}{'mean time':>11}{'fixed: error':>14}{'fixed: time':>13}"
)
points = {}
for target in TARGETS:
    rule = MSPRT(bounds.for_class_errors(target, classes=3))
    decisions = rule.decide(scores)
    errors, times = class_errors(decisions, labels), hitting_times(decisions)
    slower = np.flatnonzero(fixed.errors <= errors.balanced)
    needed = f"{fixed.mean_times[slower[0]]:.0f}" if len(slower) else "none"
    print(
        f"{target:8.1%}{np.max(rule.threshold):11.2f}{errors.balanced:9.2%}{errors.high.max():13.2%}{times.mean:11.1f}"
        f"{fixed.error_at(times.mean):14.2%}{needed:>13}"
    )
    points[f"target {100 * target:g} %"] = (times.mean, errors.balanced)

if len(sys.argv) > 1:
    speed_accuracy(
        {"sequential test (MSPRT)": sat_curve(scores, labels), "fixed-time test": fixed},
        Path(sys.argv[1]),
        title="Three classes half a standard deviation apart",
        least_error=10 / SERIES,
        points=points,
    )
    print("figure:", sys.argv[1])
