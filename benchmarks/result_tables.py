"""The sections of docs/results.md: one for each record of `sooner reproduce`, every number of it read from the record.

What the paper's settings are is read from `experiments/NAME.toml`, outside of its profiles.
"""

import math
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from result_orders import UNTRAINED, Pair, Tested, beaten, p_of, pairs, spans, tested
from sooner.experiment.published import published
from sooner.report.comparison import Comparison, Line
from sooner.report.comparison_figures import write_comparison_figures

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
SHOWN = 8
RECKONED = "2026-11-18"
"""Records of earlier dates were trained before the published settings got their meaning (docs/results.md says which)."""
ENCODERS = {
    "dense": "one linear layer",
    "convolution": "six convolutional layers and a linear one",
    "resnet110": "ResNet-110",
}
SETS = {"nmnist-h": "NMNIST-H", "nmnist-100f": "NMNIST-100f"}
SHORTENED = "Shortened (in brackets: profile `paper`)."
SOURCES = {"table": "", "figure": " (in the paper's figure)", "plan": " (not in the paper)"}

Record = Mapping[str, Any]


def plan_of(record: Record) -> dict[str, Any]:
    """The published settings of a record's plan."""
    with (ROOT / "experiments" / f"{record['name']}.toml").open("rb") as file:
        return tomllib.load(file)


def section(record: Record) -> str:
    """One record: what was run, every model beside the published one, the orders, and the figure."""
    machine = record["machine"]
    lines = [
        f"## {record['title']}",
        "",
        f"`{record['command']}`, {record['date']}, {machine['cores']} {machine['processor']} cores.",
        "",
        *paragraph(incomplete(record)),
        *paragraph(shortened(record)),
        *paragraph(earlier_meaning(record)),
        *table(record),
        "",
        *paragraph(elsewhere(record)),
        *paragraph(untrained(record)),
        *paragraph(against_the_published(record)),
        *order(record),
        *figure(record),
    ]
    return "\n".join(lines)


def paragraph(text: str) -> list[str]:
    return [text, ""] if text else []


def incomplete(record: Record) -> str:
    """Which trials of the plan are not in the record."""
    missing = missing_trials(record)
    if not missing:
        return ""
    said = ", ".join(f"{name} {done} of {asked}" for name, (done, asked) in missing.items())
    if "--only" in record["command"]:
        return f"Not every trial of the plan was run: {said}."
    return (
        f"Not every trial of the plan was run: {said}. Without `--only`, the command above would not have ended before "
        "they were done: the record lost that option, and the command runs more than the record holds."
    )


def missing_trials(record: Record) -> dict[str, tuple[int, int]]:
    """Trials that are done and that the command asks for, of each model that has fewer."""
    found = re.search(r"--seeds (\d+)", record["command"])
    asked = int(found[1]) if found else 0
    # The settings are there of every model of the plan, run or not.
    done = {name: len(record["models"].get(name, {"seeds": ()})["seeds"]) for name in record["settings"]}
    return {name: (count, asked) for name, count in done.items() if count < asked}


def shortened(record: Record) -> str:
    """How much less than in the paper was trained, from the settings of the record and those of the plan."""
    plan = plan_of(record)
    told = [f"{SHORTENED} {encoder_of(record, plan)}"]
    alike: dict[tuple[str, str], list[str]] = {}
    for name, settings in record["settings"].items():
        if name in record["models"]:
            ours = steps_of(settings["training"], settings["optimizer"])
            given = published_settings(plan, name)
            paper = steps_of(given["training"], given["optimizer"])
            own = name not in record["published"] and ours == paper
            alike.setdefault((ours, "not of the paper" if own else paper), []).append(name)
    told += [f"{', '.join(names)}: {ours} ({paper})." for (ours, paper), names in alike.items()]
    return " ".join(told)


def published_settings(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Those of the model of that name, or of the one that the paper calls so."""
    models: Mapping[str, Any] = plan["models"]
    return models[name] if name in models else next(each for each in models.values() if each.get("published") == name)


def encoder_of(record: Record, plan: Mapping[str, Any]) -> str:
    ours, paper = (
        f"{ENCODERS[each['model']['encoder']]}, {frames(each):.3g} million frames"
        for each in (record["encoder"], plan["encoder"])
    )
    return f"Encoder: {ours} ({paper})."


def frames(each: Mapping[str, Any]) -> float:
    """Millions of frames that an encoder saw."""
    return float(each["training"]["batch_size"] * each["training"]["iterations"] * each["model"]["moments"] / 1e6)


def steps_of(training: Mapping[str, Any], optimizer: Mapping[str, Any]) -> str:
    rate = ", cosine schedule" if optimizer.get("schedule", "constant") == "cosine" else ""
    return f"{training['iterations']:,} steps of {training['batch_size']:,} series{rate}"


def earlier_meaning(record: Record) -> str:
    if record["date"] >= RECKONED:
        return ""
    return "Trained with [the settings' earlier meaning](#settings-of-another-meaning); to be run again."


def table(record: Record) -> list[str]:
    times = shown(record)
    trials = {name: rows[0].trials for name, rows in published_rows(record).items()}
    told = [
        row("model", "trials", "minutes each", *(f"at {time}" for time in times)),
        row("---", "---", *["---:"] * (len(times) + 1)),
    ]
    for name, model in record["models"].items():
        bold = "**" if name == record["headline_model"] else ""
        minutes = sorted(seed["training_minutes"] for seed in model["seeds"])
        spent = f"{minutes[0]:.1f} to {minutes[-1]:.1f}" if len(minutes) > 1 else f"{minutes[0]:.1f}"
        told.append(row(f"{bold}{name}{bold}", f"ours, {len(minutes)}", spent, *(ours(model, time) for time in times)))
        if any(cells := theirs(record, name, times)):
            told.append(row("", f"published, {trials[name]}", "", *cells))
    for name in sorted(record["published"].keys() - record["models"].keys()):
        if any(cells := theirs(record, name, times)):
            told.append(row(name, f"published, {trials[name]}", "", *cells))
    return told


def published_rows(record: Record) -> Mapping[str, Any]:
    """The paper's rows, with their numbers of trials, by the names of the record."""
    plan = plan_of(record)
    rows = published(plan["published"]) if "published" in plan else {}
    ours = {each["published"]: name for name, each in plan["models"].items() if "published" in each}
    return {name if name in record["published"] else ours[name]: each for name, each in rows.items()}


def shown(record: Record) -> list[str]:
    """The mean times of the table: those of the headline, or some of all."""
    times = list(next(iter(record["models"].values()))["mean"])
    return list(record["headline"]) or times[:: max(1, len(times) // SHOWN)]


def ours(model: Mapping[str, Any], time: str) -> str:
    if time not in model["mean"]:
        return ""
    mean, sem = model["mean"][time]
    return f"{mean:.2f}" if sem is None else f"{mean:.2f} ± {sem:.2f}"


def theirs(record: Record, name: str, times: list[str]) -> list[str]:
    given = record["published"].get(name, {})
    return [f"{given[time]:.2f}" if time in given else "" for time in times]


def elsewhere(record: Record) -> str:
    """Published points of models that have none in the table."""
    times = shown(record)
    lone = {name: points for name, points in record["published"].items() if not any(theirs(record, name, times))}
    said = (f"{name} {error:.2f} at {time}" for name, points in lone.items() for time, error in points.items())
    return f"Published at other mean times: {', '.join(said)}." if lone else ""


def untrained(record: Record) -> str:
    """Models that are shown and not compared, with what they reached on the validation set."""
    names = [name for name in UNTRAINED.get(record["name"], ()) if name in record["models"]]
    if not names:
        return ""
    said = []
    for name in names:
        reached = (100 * seed["best_validation"]["metric"] for seed in record["models"][name]["seeds"])
        said.append(f"{name} {' and '.join(f'{each:.1f}%' for each in reached)}")
    return (
        f"{' and '.join(names)} are not compared below: they are hardly trained. On the validation set their accuracy, the mean "
        f"over all times, is {', '.join(said)}; naming a class at random gives 10%."
    )


def against_the_published(record: Record) -> str:
    found = beaten(record)
    if found is None:
        return ""
    name, rival, times, below = found
    return (
        f"The mean error of {name} is below the published one of {rival} at {len(below)} of the {len(times)} mean times "
        f"that both have ({spans(times)})."
    )


def order(record: Record) -> list[str]:
    """Every pair: at how many mean times ours have the order of the paper, at which not, and the p-values."""
    found, test = pairs(record), tested(record)
    if not found:
        return []
    phases = {} if test is None else test.phases
    heads = [f"p, {phase} ({time:g})" if phase != "at" else f"p at {time:g}" for phase, time in phases.items()]
    told = [
        row("order to meet", "mean times", "met at", "other order at", "equal at", *heads),
        row("---", "---:", "---:", "---", "---", *["---:"] * len(heads)),
        *(row(*cells(pair, test)) for pair in found),
        "",
    ]
    if test is None:
        return told
    p = "no spread within models" if test.model is None else f"p = {test.model:.2g}"
    said = f"p: Tukey-Kramer, over {', '.join(test.models)}. Analysis of variance, factor model: {p}."
    return [*told, said, ""]


def cells(pair: Pair, test: Tested | None) -> list[str]:
    mixed = f", but above at {spans(pair.above)}" if pair.above else ""
    level = f", equal at {spans(pair.level)}" if pair.level else ""
    found = [] if test is None else [p_of(test, pair.lower, pair.upper, phase) for phase in test.phases]
    return [
        f"{pair.lower} below {pair.upper}{mixed}{level}{SOURCES[pair.source]}",
        f"{pair.times}",
        f"{len(pair.same)}",
        f"**{spans(pair.other)}**" if pair.other else "",
        f"**{spans(pair.equal)}**" if pair.equal else "",
        *("" if p is None else f"{p:.2g}" for p in found),
    ]


def figure(record: Record) -> list[str]:
    path = FIGURES / f"{record['name']}.png"
    if not path.exists():
        return []
    return [f"![{record['title']}](figures/{path.name})", "", caption(record), ""]


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
    encoder = ENCODERS[record["encoder"]["model"]["encoder"]]
    note = f"Encoder: {encoder} instead of ResNet-110; fewer and smaller steps than published."
    comparison = Comparison(record["title"], "", tuple(lines), shortened=note)
    with tempfile.TemporaryDirectory() as folder:
        curves, *_ = write_comparison_figures(Path(folder), comparison)
        shutil.copyfile(curves, FIGURES / f"{record['name']}.png")


def caption(record: Record) -> str:
    if not record["name"].startswith("trajectories"):
        lone = any(len(points) == 1 for points in record["published"].values())
        dashed = "; dashed: as published" if record["published"] else ""
        dashed += ", circles: published single points" if lone else ""
        hidden = [f"{one} and {other}" for one, other in combinations(record["models"], 2) if alike(record, one, other)]
        same = f" Lines that cannot be told apart: {'; '.join(hidden)}." if hidden else ""
        said = "Balanced error over the mean time, means over the trials; band: one standard error of the thick line"
        return f"*{said}{dashed}.{same}*"
    times = list(next(iter(record["models"].values()))["mean"])
    return (
        "*The first test series of each class, seed 0. Blue: by how much the true class leads its strongest rival; orange: the "
        "same of the other classes; dashed: the threshold whose mean time on the test set is at most "
        f"{times[len(times) // 2]}; circle: the decision, wrong where it is not on the blue line; without a circle the end "
        "of the series forced it.*"
    )


def alike(record: Record, one: str, other: str) -> bool:
    """Whether two of our curves lie within 3% of each other throughout, so that a figure shows one line."""
    first, second = (record["models"][name]["mean"] for name in (one, other))
    return all(abs(first[time][0] / second[time][0] - 1) < 0.03 for time in first.keys() & second.keys())


def unrun(records: Mapping[str, Record]) -> str:
    """The plans that have no record."""
    names = sorted(path.stem for path in (ROOT / "experiments").glob("*.toml"))
    missing = [f"`{name}`" for name in names if name not in records]
    return f"Plans that were not run: {', '.join(missing)}." if missing else "Every plan was run."


def lower(records: Mapping[str, Record]) -> str:
    """Our own networks beside the published models: one line each, with the numbers at a mean time in the middle."""
    told = []
    for record in records.values():
        if (found := beaten(record)) is not None:
            name, rival, times, below = found
            time = list(record["headline"])[len(record["headline"]) // 2]
            mean, theirs = record["headline"][time], record["published"][rival][time]
            told.append(
                f"- {name} on {SETS[record['data']['set']]}: below the published error of {rival} at {len(below)} of the "
                f"{len(times)} mean times that both have; at {time}, {mean:.2f}% against {theirs:.2f}%."
            )
    return "\n".join(told)


def levels(records: Mapping[str, Record]) -> str:
    """How many of our models lie above the published errors of the same name throughout, and which not."""
    total, exceptions = 0, []
    for record in records.values():
        for name, model in record["models"].items():
            given = record["published"].get(name, {})
            times = [time for time in given if time in model["mean"]]
            below = [time for time in times if model["mean"][time][0] < given[time]]
            total += bool(times)
            exceptions += [f"{name} on {record['name']}, below at {len(below)} of {len(times)}"] if below else []
    above = f"{total - len(exceptions)} of {total} curves of models that the paper has too lie above the published throughout"
    return f"{above}; the others: {', '.join(exceptions)}." if exceptions else f"{above}."


def overview(records: Mapping[str, Record]) -> str:
    """Over all tables: how many pairs have the published order throughout, and which not."""
    told = []
    for record in records.values():
        found = [pair for pair in pairs(record) if pair.source == "table"]
        if found:
            wrong = [
                f"{pair.lower} and {pair.upper} at {len(pair.same)} of {pair.times}" for pair in found if not pair.met
            ]
            said = "" if not wrong else f"; not throughout: {', '.join(wrong)}"
            told.append(f"- {record['title']}: {len(found) - len(wrong)} of {len(found)} pairs{said}.")
    return "\n".join(told)


def row(*words: str) -> str:
    return f"| {' | '.join(words)} |"
