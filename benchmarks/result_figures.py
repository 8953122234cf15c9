"""The figures of docs/results.md, drawn from records, and their captions."""

import math
import shutil
import tempfile
from itertools import combinations
from pathlib import Path

from result_notes import ENCODERS
from result_plans import ROOT, Record, published_rows
from sooner.lab.experiments.history import from_record
from sooner.lab.experiments.pages import course_of
from sooner.report.comparison.contents import Comparison, Line
from sooner.report.comparison.figures import write_comparison_figures
from sooner.report.comparison.training import write_training_figure

FIGURES = ROOT / "docs" / "figures"


def figure(record: Record) -> list[str]:
    path = FIGURES / f"{record['name']}.png"
    if not path.exists():
        return []
    return [f"![{record['title']}](figures/{path.name})", "", caption(record), ""]


def training_figure(record: Record) -> list[str]:
    path = FIGURES / f"{record['name']}_training.png"
    if not path.exists():
        return []
    text = (
        "*Left: loss on the validation set over its first value. Right: balanced error of the last frame of each series"
    )
    return [f"![Training: {record['title']}](figures/{path.name})", "", f"{text}. Band: one standard error.*", ""]


def draw_training(record: Record) -> None:
    """Loss and last-frame error over the steps of training, of the models whose record has them."""
    found = {name: from_record(model["history"]) for name, model in record["models"].items() if "history" in model}
    if found:
        courses = [course_of(name, points) for name, points in found.items()]
        write_training_figure(FIGURES / f"{record['name']}_training.png", record["title"], courses)


def draw_curves(record: Record) -> None:
    """The curves of a record over the published ones, as `sooner reproduce` draws them."""
    lines = []
    for name, model in record["models"].items():
        times, means = map(float, model["mean"]), list(model["mean"].values())
        sem = [math.nan if each is None else each for _, each in means]
        highlight = "headline" if name == record["headline_model"] else "plain"
        errors = [mean for mean, _ in means]
        trials = len(model["seeds"])
        lines.append(Line(name, "ours", list(times), errors, trials=trials, sem=sem, highlight=highlight))
    for name, rows in published_rows(record).items():
        times, errors, sem, trials = zip(*rows, strict=True)
        lines.append(Line(name, "published", times, errors, trials=trials[0], sem=sem))
    note = "Less training than published."
    if record["encoder"] is not None:
        encoder = ENCODERS[record["encoder"]["model"]["encoder"]]
        note = f"Encoder: {encoder} instead of ResNet-110; less training than published."
    comparison = Comparison(record["title"], "", tuple(lines), shortened=note)
    with tempfile.TemporaryDirectory() as folder:
        curves, *_ = write_comparison_figures(Path(folder), comparison)
        shutil.copyfile(curves, FIGURES / f"{record['name']}.png")


def caption(record: Record) -> str:
    if not record["name"].startswith("trajectories"):
        lone = any(len(points) == 1 for points in record["published"].values())
        dashed = "; dashed lines: published" if record["published"] else ""
        dashed += "; circles: published single points" if lone else ""
        hidden = [f"{one} and {other}" for one, other in combinations(record["models"], 2) if alike(record, one, other)]
        same = f" Lines that cannot be told apart: {'; '.join(hidden)}." if hidden else ""
        text = "Balanced error against mean time, averaged over trials; band: one standard error around the thick line"
        return f"*{text}{dashed}.{same}*"
    times = list(next(iter(record["models"].values()))["mean"])
    return (
        "*The first test series of each class, seed 0. Blue: lead of the true class over the strongest other class; orange: the "
        "same for each other class; dashed: the threshold whose mean time on the test set is at most "
        f"{times[len(times) // 2]}; circle: the decision, which is wrong if it is not on the blue line. A panel without a circle "
        "has a decision that was forced by the end of the series.*"
    )


def alike(record: Record, one: str, other: str) -> bool:
    """Whether two of our curves lie within 3% of each other throughout, so that a figure shows one line."""
    first, second = (record["models"][name]["mean"] for name in (one, other))
    return all(abs(first[time][0] / second[time][0] - 1) < 0.03 for time in first.keys() & second.keys())
