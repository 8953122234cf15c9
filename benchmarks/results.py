"""Writes the tables of docs/results.md from the records in results/: no number there is typed by hand.

python benchmarks/results.py           writes them, and takes the figures over
python benchmarks/results.py --check   says whether they are up to date, for tests
"""

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- tables: written by benchmarks/results.py -->", "<!-- end of tables -->"
FIGURES = ROOT / "docs" / "figures"
SHOWN = 8


class Order(NamedTuple):
    """Which model the paper has below which others, and at what mean times."""

    model: str
    others: tuple[str, ...]
    times: tuple[int, ...]
    slack: bool
    """Whether at or below, within the standard errors, is enough."""


_BASELINES = ("NP test", "LSTM-s", "LSTM-m", "EARLIEST 1e-2", "EARLIEST 1e2", "EARLIEST 1e-4")
_LOSSES = ("Logistic", "LLLR", "BARR", "DSKL", "LSIFwC", "LSIF", "LSIF, as run", "LSIF, as printed")
ORDERS = {
    "sat_nmnist_h": Order("MSPRT-TANDEM", _BASELINES, tuple(range(2, 14)), slack=False),
    "sat_nmnist_100f": Order("MSPRT-TANDEM", _BASELINES, tuple(range(2, 51)), slack=False),
    "losses_nmnist_h": Order("LSEL", _LOSSES, (5, 10), slack=True),
    "losses_nmnist_100f": Order("LSEL", _LOSSES, (5, 10, 20, 50), slack=True),
    "ablation_nmnist_100f": Order("TANDEM LSEL+Mult", ("TANDEM LSEL", "TANDEM Mult"), (20,), slack=True),
    "imbalance_nmnist_h": Order(
        "cost-sensitive LSEL", ("cross-entropy", "NGA-LSEL"), (2, 3, 4, 5, 6, 7, 8, 9, 10, 20), slack=False
    ),
}


def main() -> None:
    if "--check" not in sys.argv:
        FIGURES.mkdir(exist_ok=True)
        for folder in (curves.parent for curves in (ROOT / "results").glob("*/curves.png")):
            drawn = "trajectories" if folder.name.startswith("trajectories") else "curves"
            shutil.copyfile(folder / f"{drawn}.png", FIGURES / f"{folder.name}.png")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "results").glob("*.json"))]
    tables = "\n".join(section(record) for record in records if "headline" in record)
    made = f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
    if "--check" in sys.argv:
        sys.exit(0 if made == text else "docs/results.md is not what the records say: run benchmarks/results.py")
    PAGE.write_text(made, encoding="utf-8")


def section(record: dict[str, Any]) -> str:
    """One record: what was run, and every model beside the published one."""
    times = list(record["headline"]) or spread(record)
    machine = record["machine"]
    told = [
        f"## {record['title']}",
        "",
        f"`{record['command']}`, {record['date']}, {machine['cores']} {machine['processor']} cores.",
        "",
        *([f"Shortened: {record['shortened']}", ""] if record["shortened"] else []),
        row("model", "trials", "minutes each", *(f"at {time}" for time in times)),
        row("---", "---", *["---:"] * (len(times) + 1)),
    ]
    for name, model in record["models"].items():
        bold = "**" if name == record["headline_model"] else ""
        minutes = sorted(seed["training_minutes"] for seed in model["seeds"])
        spent = f"{minutes[0]:.0f} to {minutes[-1]:.0f}" if minutes[-1] >= 1 else "under 1"
        told.append(row(f"{bold}{name}{bold}", f"ours, {len(minutes)}", spent, *(ours(model, time) for time in times)))
        if any(cells := theirs(record, name, times)):
            told.append(row("", "published", "", *cells))
    for name in sorted(record["published"].keys() - record["models"].keys()):
        if any(cells := theirs(record, name, times)):
            told.append(row(name, "published", "", *cells))
    figure = FIGURES / f"{record['name']}.png"
    drawn = [f"![{record['title']}](figures/{figure.name})", ""] if figure.exists() else []
    return "\n".join([*told, "", *elsewhere(record, times), *order(record), *significance(record), *drawn])


def significance(record: dict[str, Any]) -> list[str]:
    """What the analysis of variance says."""
    if not record.get("statistics"):
        return []
    anova = {each["source"]: each for each in record["statistics"]["anova"]["rows"]}
    p = anova["model"]["p"]
    said = "no spread within models" if p is None else f"p = {p:.2g}"
    return [f"Analysis of variance, factor model: {said}. {record['statistics']['at']}", ""]


def order(record: dict[str, Any]) -> list[str]:
    """Whether the models stand in the expected order, and where not: the numbers."""
    expected = ORDERS.get(record["name"])
    if expected is None or expected.model not in record["models"]:
        return []
    others = [name for name in expected.others if name in record["models"]]
    if not others:
        return []
    times = expected.times
    when = f"{times[0]} to {times[-1]}" if len(times) > 4 else ", ".join(map(str, times))
    how = "at or below the others, within the standard errors" if expected.slack else "below the others"
    told = [f"Is {expected.model} {how}, at mean times {when}?", ""]
    return [*told, *(f"- {against(record, expected, name)}" for name in others), ""]


def against(record: dict[str, Any], expected: Order, name: str) -> str:
    """One comparison: at how many mean times it holds, where not, and the p of Tukey and Kramer in each phase."""
    mine, their = (record["models"][each]["mean"] for each in (expected.model, name))
    times = [time for time in map(str, expected.times) if time in mine and time in their]
    wrong = [time for time in times if not holds(mine[time], their[time], slack=expected.slack)]
    said = f"{name}: "
    if not times:
        return f"{said}its curve has no such mean times."
    if len(times) < len(expected.times):
        said += f"its curve has {len(times)} of the {len(expected.times)} mean times; "
    said += "yes" if not wrong else f"at {len(times) - len(wrong)} of {len(times)}"
    if wrong:
        cells = (f"{time} ({mine[time][0]:.2f} against {their[time][0]:.2f})" for time in wrong[:6])
        said += f", **not at** {', '.join(cells)}{' and more' if len(wrong) > 6 else ''}"
    found = [f"{phase + ' ' if phase else ''}{p:.2g}" for phase, p in probabilities(record, expected.model, name)]
    return f"{said}. Tukey-Kramer p: {', '.join(found)}." if found else f"{said}."


def holds(mine: list[float], their: list[float], *, slack: bool) -> bool:
    room = math.hypot(mine[1] or 0.0, their[1] or 0.0) if slack else 0.0
    return mine[0] <= their[0] + room if slack else mine[0] < their[0]


def probabilities(record: dict[str, Any], one: str, other: str) -> list[tuple[str, float]]:
    rows = record.get("statistics", {}).get("pairs", {}).get("rows", [])
    return [
        (row["first"]["phase"] or "", row["p"])
        for row in rows
        if {row["first"]["model"], row["second"]["model"]} == {one, other}
        and row["first"]["phase"] == row["second"]["phase"]
        and row["p"] is not None
    ]


def ours(model: dict[str, Any], time: str) -> str:
    if time not in model["mean"]:
        return ""
    mean, sem = model["mean"][time]
    return f"{mean:.2f}" if sem is None else f"{mean:.2f} ± {sem:.2f}"


def theirs(record: dict[str, Any], name: str, times: list[str]) -> list[str]:
    given = record["published"].get(name, {})
    return [f"{given[time]:.2f}" if time in given else "" for time in times]


def elsewhere(record: dict[str, Any], times: list[str]) -> list[str]:
    """Published points of models that have none in the table."""
    lone = {name: points for name, points in record["published"].items() if not any(theirs(record, name, times))}
    said = (f"{name} {error:.2f} at {time}" for name, points in lone.items() for time, error in points.items())
    return [f"Published at other mean times: {', '.join(said)}.", ""] if lone else []


def spread(record: dict[str, Any]) -> list[str]:
    times = list(next(iter(record["models"].values()))["mean"])
    return times[:: max(1, len(times) // SHOWN)]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
