"""Tables and the figure of docs/guarantees.md, from results/guarantees.json."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

Records = Mapping[str, Any]

RECORD = "results/guarantees.json"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "guarantees.png"
POPULATIONS = ("process", "digits", "archive")
RISKS = {
    "error": "error",
    "balanced_error": "balanced error",
    "class_error": "error of each class",
    "gap": "gap to waiting",
    "early_error": "error among those decided early",
}
BAR = 0.25  # percent
SCALES = ("twice as sure", "half as sure", "twice as sure early, half as sure late")


def rows_of(records: Records) -> Mapping[str, Any]:
    found: Mapping[str, Any] = records[RECORD]["rows"]
    return found


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}%"


def cell(row: Mapping[str, Any], choice: str) -> str:
    """The share of broken promises, or none where not one threshold was given."""
    return "none" if row[f"{choice}_refused"] == 1 else percent(row[f"{choice}_broken"])


def broken(records: Records) -> str:
    """Shares of broken promises at both levels and all numbers of series, of the naive choice and of the certified one."""
    record = records[RECORD]
    rows, counts = record["rows"], record["counts"]
    heads = [f"{name}, {count:,}" for name in ("naive", "certified") for count in counts]
    lines = [
        f"| promise | population | {' | '.join(heads)} | mean time at {counts[-1]:,} |",
        "|---|---|" + "---:|" * (len(heads) + 1),
    ]
    for level in record["levels"]:
        for risk, name in RISKS.items():
            for population in POPULATIONS:
                found = [rows[f"{population}, {risk}, {level:g}, {count}"] for count in counts]
                cells = [cell(row, choice) for choice in ("naive", "certified") for row in found]
                cells.append(mean_time(found[-1]))
                lines.append(f"| {name} at most {100 * level:g}% | {population} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mean_time(row: Mapping[str, Any]) -> str:
    """The mean time relative to the least threshold that would have done, where a certificate is the rule."""
    ratio = row.get("time_ratio") if row["certified_refused"] < 0.05 else None
    return "" if ratio is None else f"{ratio:.2f}"


def refused(records: Records) -> str:
    """How often there was no certificate."""
    record = records[RECORD]
    lines = []
    for level in record["levels"]:
        for count in record["counts"]:
            shares = [record["rows"][f"{name}, error, {level:g}, {count}"]["certified_refused"] for name in POPULATIONS]
            each = ", ".join(f"{percent(share)} ({name})" for share, name in zip(shares, POPULATIONS, strict=True))
            lines.append(f"- plain error at most {100 * level:g}%, {count:,} calibration series: {each}")
    return "\n".join(lines)


def scaled(records: Records) -> str:
    """Broken promises with scores that are too sure, or not sure enough."""
    record = records[RECORD]
    rows, level, count = record["rows"], record["levels"][1], record["scaled"]
    lines = ["| scores of the digits | naive | certified |", "|---|---:|---:|"]
    for scale in ("", *(f" {each}" for each in SCALES)):
        found = [rows[f"digits{scale}, {risk}, {level:g}, {count}"] for risk in RISKS]
        naive, certified = (max(row[f"{choice}_broken"] for row in found) for choice in ("naive", "certified"))
        lines.append(f"| {scale.strip() or 'as they are'} | {percent(naive)} | {percent(certified)} |")
    return "\n".join(lines)


def groups(records: Records) -> str:
    """Broken promises about new groups."""
    record = records[RECORD]
    count = record["counts"][-1]
    lines = [
        "| promise about new groups | naive | certified | no certificate | mean time |",
        "|---|---:|---:|---:|---:|",
    ]
    for level in record["levels"]:
        for risk, name in RISKS.items():
            row = record["rows"][f"process by group, {risk}, {level:g}, {count}"]
            cells = (cell(row, "naive"), cell(row, "certified"), percent(row["certified_refused"]), mean_time(row))
            lines.append(f"| {name} at most {100 * level:g}% | {' | '.join(cells)} |")
    return "\n".join(lines)


def sets(records: Records) -> str:
    """Coverage and size of label sets."""
    record = records[RECORD]
    lines = [
        "| population | calibration series | label in the set at all times | at the decision "
        "| mean size after a quarter | half | all |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in POPULATIONS:
        for count in record["counts"]:
            row = record["rows"][f"{name}, sets, {count}"]
            sizes = " | ".join(f"{row['mean_sizes'][when]:.2f}" for when in ("quarter", "half", "end"))
            covered = f"{percent(row['coverage'])} | {percent(row['coverage_at_the_decision'])}"
            lines.append(f"| {name} ({row['classes']} classes) | {count:,} | {covered} | {sizes} |")
    return "\n".join(lines)


def watch(records: Records) -> str:
    """False alarms and delays."""
    record = records[RECORD]
    found, asked = record["rows"]["watch"], record["watch"]
    lines = [
        f"In {asked['repeats']} runs of {asked['series']:,} labels each with an error of exactly the promised "
        f"{100 * asked['promised']:g}%, the watch (`delta={asked['delta']:g}`) raised a false alarm in "
        f"{percent(found['false_alarms'])}.",
        "",
        "| true error | alarms | labels until the alarm, mean | 90% quantile | labels of one test of fixed size with 90% power |",
        "|---:|---:|---:|---:|---:|",
    ]
    for error, row in found["delays"].items():
        cells = (percent(row["raised"]), f"{row['mean']:.0f}", f"{row['90%']:.0f}", f"{row['fixed_sample']:,}")
        lines.append(f"| {percent(float(error))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def calibration(records: Records) -> str:
    """Calibration error and log loss of each archive set, with and without the calibration."""
    found = {
        name.removeprefix("calibration, "): row
        for name, row in rows_of(records).items()
        if name.startswith("calibration, ")
    }
    lines = [
        "| set | calibration error before | after | if calibrated | over all splits: before | after | log loss before | after |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in found.items():
        before, after = row["before"], row["after"]
        errors = [
            before["error"],
            after["error"],
            row["error_if_calibrated"],
            before["pooled_error"],
            after["pooled_error"],
        ]
        losses = [f"{each['pooled_log_loss']:.3f}" for each in (before, after)]
        lines.append(f"| {name} | {' | '.join([*map(percent, errors), *losses])} |")
    return "\n".join(lines)


def draw(records: Records) -> None:
    """The true error of every draw, certified and naive."""
    record = records[RECORD]
    name, row = next((name, row) for name, row in record["rows"].items() if "naive_errors" in row)
    population, _, level, count = name.split(", ")
    figure = Figure(figsize=(7.2, 4.2), facecolor="white", layout="constrained")
    panels = figure.subplots(2, sharex=True, sharey=True)
    limit, choices = 100 * float(level), {"naive": "#D55E00", "certified": "#0072B2"}
    errors = {choice: 100 * np.array(row[f"{choice}_errors"]) for choice in choices}
    largest = max(each.max() for each in errors.values())
    edges = np.arange(limit % BAR, largest + BAR, BAR)  # the limit is an edge
    for axes, (choice, colour) in zip(panels, choices.items(), strict=True):
        _, _, bars = axes.hist(errors[choice], edges, color=colour, alpha=0.45)
        for bar in bars:
            if bar.get_x() >= limit - BAR / 2:
                bar.set_alpha(1.0)
        axes.axvline(limit, color="black", linewidth=1.2, linestyle="--")
        broken = percent(row[f"{choice}_broken"])
        axes.text(0.99, 0.9, f"{choice}: {broken} above", transform=axes.transAxes, ha="right", va="top", fontsize=11)
        axes.set_ylabel("draws")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].annotate(
        "promised", (limit, 1), (4, -4), ("data", "axes fraction"), "offset points", va="top", fontsize=9
    )
    panels[1].set_xlabel("true error (%)")
    title = f"At most {limit:g}% error, {row['draws']} draws of {int(count):,} calibration series ({population})"
    panels[0].set_title(title, fontsize=11, loc="left")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=150)


BLOCKS: dict[str, Callable[[Records], str]] = {
    "guarantees_broken": broken,
    "guarantees_refused": refused,
    "guarantees_scaled": scaled,
    "guarantees_groups": groups,
    "guarantees_sets": sets,
    "guarantees_watch": watch,
    "guarantees_calibration": calibration,
}
