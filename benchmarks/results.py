"""Writes the tables of docs/results.md from the records in results/: no number there is typed by hand.

python benchmarks/results.py           writes them, and takes the figures over
python benchmarks/results.py --check   says whether they are up to date, for tests
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- tables: written by benchmarks/results.py -->", "<!-- end of tables -->"
FIGURES = ROOT / "docs" / "figures"
SHOWN = 8


def main() -> None:
    if "--check" not in sys.argv:
        for figure in (ROOT / "results").glob("*/curves.png"):
            FIGURES.mkdir(exist_ok=True)
            shutil.copyfile(figure, FIGURES / f"{figure.parent.name}.png")
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
        if name in record["published"]:
            told.append(row("", "published", "", *theirs(record, name, times)))
    for name in sorted(record["published"].keys() - record["models"].keys()):
        if any(cells := theirs(record, name, times)):
            told.append(row(name, "published", "", *cells))
    figure = FIGURES / f"{record['name']}.png"
    drawn = [f"![{record['title']}](figures/{figure.name})", ""] if figure.exists() else []
    return "\n".join([*told, "", *significance(record), *drawn])


def significance(record: dict[str, Any]) -> list[str]:
    """What the tests say of the headline model."""
    pairs = record.get("statistics", {}).get("pairs")
    if not pairs:
        return []
    anova = {each["source"]: each for each in record["statistics"]["anova"]["rows"]}
    p = anova["model"]["p"]
    said = "no spread within models" if p is None else f"p = {p:.2g}"
    return [f"Analysis of variance, factor model: {said}. {record['statistics']['at']}", ""]


def ours(model: dict[str, Any], time: str) -> str:
    if time not in model["mean"]:
        return ""
    mean, sem = model["mean"][time]
    return f"{mean:.2f}" if sem is None else f"{mean:.2f} ± {sem:.2f}"


def theirs(record: dict[str, Any], name: str, times: list[str]) -> list[str]:
    given = record["published"][name]
    return [f"{given[time]:.2f}" if time in given else "" for time in times]


def spread(record: dict[str, Any]) -> list[str]:
    times = list(next(iter(record["models"].values()))["mean"])
    return times[:: max(1, len(times) // SHOWN)]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
