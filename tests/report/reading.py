"""What the page shows, read as numbers, and what Python says it should show."""

import numpy as np

from sooner.evaluate import class_errors, hitting_times
from sooner.evaluate.group_intervals import group_counts, group_limits
from sooner.evaluate.intervals import balanced_limits


def decide(evaluation, threshold):
    return evaluation.rule.at(threshold).decide(evaluation.scores, evaluation.lengths)


def said_by_python(evaluation, decisions):
    """What Python says of these decisions, by none of the report's own code but the limits of the balanced error."""
    labels, classes = evaluation.labels.numpy(), evaluation.scores.shape[2]
    errors, times = class_errors(decisions, labels, groups=evaluation.groups), hitting_times(decisions)
    counts = np.bincount(labels, minlength=classes)
    wrong = np.bincount(labels, decisions.labels != labels, minlength=classes)
    if evaluation.groups is None:
        low, high = balanced_limits(wrong, counts)
    else:
        of = group_counts(labels, evaluation.groups, classes=classes)
        bad = group_counts(labels, evaluation.groups, classes=classes, weights=decisions.labels != labels)
        low, high = group_limits(bad, of)
    rows = {
        int(k): (int(counts[k]), errors.errors[i], errors.low[i], errors.high[i], decisions.times[labels == k].mean())
        for i, k in enumerate(errors.classes)
    }
    confusion = np.zeros((classes, classes), dtype=int)
    np.add.at(confusion, (labels, decisions.labels), 1)
    right = decisions.labels == labels
    times_right, times_wrong = (
        [int((decisions.times[part] == t).sum()) for t in range(1, evaluation.scores.shape[1] + 1)]
        for part in (right, ~right)
    )
    plain = float((decisions.labels != labels).mean())
    values = (errors.balanced, float(low), float(high), times.mean, times.forced, plain)
    return {"values": values, "rows": rows, "confusion": confusion.tolist(), "bars": [times_right, times_wrong]}


SHOWN = """(classes) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const at = (name) => document.querySelector(`[data-testid="${name}"]`).dataset;
    const each = (make) => Array.from({ length: classes }, (_, k) => make(k));
    done({
        values: [
            at("balanced-error").value, at("balanced-limits").low, at("balanced-limits").high, at("mean-time").value,
            at("forced").value, at("plain-error").value,
        ],
        rows: each((k) => [
            at(`class-${k}-count`).value, at(`class-${k}-error`).value, at(`class-${k}-limits`).low,
            at(`class-${k}-limits`).high, at(`class-${k}-time`).value,
        ]),
        confusion: each((k) => each((l) => Number(at(`confusion-${k}-${l}`).value))),
        bars: document.getElementById("times").data.map((bar) => Array.from(bar.y)),
        threshold: document.getElementById("exact").value,
        texts: ["balanced-error", "mean-time", "forced", "plain-error"].map(
            (name) => document.querySelector(`[data-testid="${name}"]`).textContent,
        ),
    });
})))"""


def read(page, evaluation):
    """What the page shows, drawings included, once they have followed."""
    shown = page.evaluate(SHOWN, evaluation.scores.shape[2])
    rows = {k: tuple(map(float, row)) for k, row in enumerate(shown["rows"]) if row[0] != "0"}
    return shown | {"values": tuple(map(float, shown["values"])), "rows": rows, "threshold": float(shown["threshold"])}


def assert_exact(page, evaluation, decisions):
    shown, expected = read(page, evaluation), said_by_python(evaluation, decisions)
    for name, value in expected.items():
        assert shown[name] == value, name
    error, _, _, time, forced, plain = expected["values"]
    for text, value in zip(shown["texts"], (100 * error, time, 100 * forced, 100 * plain), strict=True):
        number = text.removesuffix("\u00a0%")
        assert abs(float(number) - value) <= 0.5001 * 10.0 ** -len(number.split(".")[1])
    return shown["threshold"]


def slide(page, place):
    page.evaluate(
        "(place) => { const s = document.getElementById('slider'); s.value = place; s.dispatchEvent(new Event('input')); }",
        place,
    )


def enter(page, text):
    field = page.get_by_test_id("exact")
    field.fill(text)
    field.press("Enter")


def last_position(page):
    return int(page.get_by_test_id("slider").get_attribute("max"))


def threshold_of(page):
    return float(page.get_by_test_id("exact").input_value())
