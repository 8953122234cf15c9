"""The sections of docs/results.md: one for each record of `sooner reproduce`, with all numbers from the record.

The paper's settings are read from `experiments/NAME.toml`, outside of its profiles.
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

from result_orders import Level, Pair, Tested, beaten, level, p_of, pairs, published_p, spans, tested
from sooner.lab.experiments.published import published
from sooner.report.comparison.contents import Comparison, Line
from sooner.report.comparison.figures import write_comparison_figures

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
SHOWN = 8
RECKONED = "2026-11-18"
"""Records of earlier dates were trained before the published settings got their meaning (docs/results.md says which)."""
ENCODERS = {
    "dense": "one linear layer",
    "convolution": "six convolutional layers and a linear one",
    "convolution_of_levels": "six convolutional layers and a linear one on a table of the 256 values",
    "tokens": "a sum of vectors, one for each shown pixel, and two linear layers",
    "resnet110": "ResNet-110",
}
FRAME_ACCURACY = {"nmnist-h": 84.1, "nmnist-100f": 43.1}
"""Published, in percent: of ResNet-110 on single frames."""
SETS = {"nmnist-h": "NMNIST-H", "nmnist-100f": "NMNIST-100f"}
SHORTENED = "Training was shortened (settings of the profile `paper` in brackets)."
SOURCES = {"table": "", "figure": " (in the paper's figure)", "plan": " (not in the paper)"}

Record = Mapping[str, Any]


def plan_of(record: Record) -> dict[str, Any]:
    """The published settings of a record's plan."""
    with (ROOT / "experiments" / f"{record['name']}.toml").open("rb") as file:
        return tomllib.load(file)


def section(record: Record) -> str:
    """The section of one record: command, table of our and published errors, table of orders, figure."""
    machine = record["machine"]
    lines = [
        f"## {record['title']}",
        "",
        f"`{record['command']}`, {record['date']}, {machine['cores']} {machine['processor']} cores.",
        "",
        *paragraph(kept(record)),
        *paragraph(incomplete(record)),
        *paragraph(shortened(record)),
        *paragraph(earlier_meaning(record)),
        *table(record),
        "",
        *paragraph(elsewhere(record)),
        *paragraph(beside_the_published(record)),
        *paragraph(against_the_published(record)),
        *order(record),
        *figure(record),
    ]
    return "\n".join(lines)


def paragraph(text: str) -> list[str]:
    return [text, ""] if text else []


def kept(record: Record) -> str:
    """The models that another command made, which this one did not run again."""
    made: dict[tuple[str, str], list[str]] = {}
    for name, model in record["models"].items():
        origin = (model.get("command", record["command"]), model.get("date", record["date"]))
        made.setdefault(origin, []).append(name)
    made.pop((record["command"], record["date"]), None)
    return " ".join(f"{', '.join(names)}: `{command}`, {date}." for (command, date), names in made.items())


def incomplete(record: Record) -> str:
    """Which trials of the plan are not in the record."""
    missing = missing_trials(record)
    if not missing:
        return ""
    text = ", ".join(f"{name}: {done} of {asked}" for name, (done, asked) in missing.items())
    if "--only" in record["command"]:
        return f"Not every trial of the plan was run: {text}."
    return (
        f"Not every trial of the plan was run: {text}. The record does not contain the `--only` options with which it "
        "was made, so the command above runs more trials than the record contains."
    )


def missing_trials(record: Record) -> dict[str, tuple[int, int]]:
    """Trials that are done and that the command asks for, of each model that has fewer."""
    found = re.search(r"--seeds (\d+)", record["command"])
    asked = int(found[1]) if found else 0
    # The settings are there of every model of the plan, run or not.
    done = {name: len(record["models"].get(name, {"seeds": ()})["seeds"]) for name in record["settings"]}
    return {name: (count, asked) for name, count in done.items() if count < asked}


def shortened(record: Record) -> str:
    """How training was shortened, from the settings of the record and those of the plan."""
    plan = plan_of(record)
    lines = [f"{SHORTENED} {encoder_of(record, plan)}"]
    alike: dict[tuple[str, str], list[str]] = {}
    for name, settings in record["settings"].items():
        if name in record["models"]:
            ours = steps_of(settings["training"], settings["optimizer"])
            given = published_settings(plan, name)
            paper = steps_of(given["training"], given["optimizer"])
            own = name not in record["published"] and ours == paper
            alike.setdefault((ours, "not in the paper" if own else paper), []).append(name)
    lines += [f"{', '.join(names)}: {ours} ({paper})." for (ours, paper), names in alike.items()]
    return " ".join(lines)


def published_settings(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Those of the model of that name, or of the one that the paper calls so."""
    models: Mapping[str, Any] = plan["models"]
    return models[name] if name in models else next(each for each in models.values() if each.get("published") == name)


def encoder_of(record: Record, plan: Mapping[str, Any]) -> str:
    ours, paper = (
        f"{ENCODERS[each['model']['encoder']]}, {frames(each):.3g} million frames"
        for each in (record["encoder"], plan["encoder"])
    )
    return f"Encoder: {ours} ({paper}).{accuracy_of(record)}"


def accuracy_of(record: Record) -> str:
    """What the encoder reaches on single frames; records before it was measured do not say."""
    found = record.get("frame_accuracy")
    if not found:
        return ""
    given = FRAME_ACCURACY.get(record["data"]["set"])
    published = f" (published: {given}%)" if given and record["data"].get("frequencies", "equal") == "equal" else ""
    text = ", ".join(f"{100 * accuracy:.1f}% on the {split} set" for split, accuracy in found.items())
    return f" Its accuracy on single frames: {text}{published}."


def frames(each: Mapping[str, Any]) -> float:
    """Millions of frames that an encoder saw."""
    return float(each["training"]["batch_size"] * each["training"]["iterations"] * each["model"]["moments"] / 1e6)


def steps_of(training: Mapping[str, Any], optimizer: Mapping[str, Any]) -> str:
    rate = ", cosine schedule" if optimizer.get("schedule", "constant") == "cosine" else ""
    crop, whole = training.get("crop", "none"), training.get("whole_every", "none")
    crops = "" if crop == "none" else f", all but every {whole}th of them on crops of {crop} frames"
    return f"{training['iterations']:,} steps of {training['batch_size']:,} series{crops}{rate}"


def earlier_meaning(record: Record) -> str:
    if record["date"] >= RECKONED:
        return ""
    return "These trials [differ from the published settings](#differences-from-the-published-settings) and will be run again."


def table(record: Record) -> list[str]:
    times = shown(record)
    trials = {name: rows[0].trials for name, rows in published_rows(record).items()}
    lines = [
        row("model", "trials", "minutes each", *(f"at {time}" for time in times)),
        row("---", "---", *["---:"] * (len(times) + 1)),
    ]
    for name, model in record["models"].items():
        bold = "**" if name == record["headline_model"] else ""
        minutes = sorted(seed["training_minutes"] for seed in model["seeds"])
        spent = f"{minutes[0]:.1f} to {minutes[-1]:.1f}" if len(minutes) > 1 else f"{minutes[0]:.1f}"
        lines.append(row(f"{bold}{name}{bold}", f"ours, {len(minutes)}", spent, *(ours(model, time) for time in times)))
        if any(cells := theirs(record, name, times)):
            lines.append(row("", f"published, {trials[name]}", "", *cells))
    for name in sorted(record["published"].keys() - record["models"].keys()):
        if any(cells := theirs(record, name, times)):
            lines.append(row(name, f"published, {trials[name]}", "", *cells))
    return lines


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
    """Published points of models that have none in the table, with our sampled points beside them."""
    times = shown(record)
    text = []
    for name, points in record["published"].items():
        if not any(theirs(record, name, times)):
            given = ", ".join(f"{error:.2f} at {time}" for time, error in points.items())
            text.append(f"{name} published {given}{sampled(record['models'].get(name, {}))}")
    return f"At other mean times: {'; '.join(text)}." if text else ""


def sampled(model: Mapping[str, Any]) -> str:
    """The point at halting times that were drawn, as the published one was."""
    if "sampled" not in model:
        return ""
    (time, _), (error, sem) = model["sampled"]["mean_time"], model["sampled"]["error"]
    return f", ours with sampled halting times {error:.2f}{'' if sem is None else f' ± {sem:.2f}'} at {time:.2f}"


def beside_the_published(record: Record) -> str:
    """For each model of the paper's table: where it is at or below the published error, and how far above at most."""
    found = {name: each for name in record["models"] if (each := level(record, name)) is not None}
    return " ".join(f"{name} {in_words(each)}." for name, each in found.items())


def in_words(found: Level) -> str:
    text = f"is at or below the published error at {len(found.met)} of {len(found.met) + len(found.above)} mean times"
    if not found.above:
        return text
    where = f" (not at {spans(found.above)})" if found.met else ""
    return f"{text}{where}, at most {found.excess:.2f} above it (at {found.worst:g})"


def against_the_published(record: Record) -> str:
    found = beaten(record)
    if found is None:
        return ""
    name, rival, times, below = found
    return (
        f"The mean error of {name} is below the published error of {rival} at {len(below)} of the {len(times)} mean times "
        f"of both curves ({spans(times)})."
    )


def order(record: Record) -> list[str]:
    """Every pair: at how many mean times ours have the order of the paper, at which not, and the p-values."""
    found, test = pairs(record), tested(record)
    if not found:
        return []
    phases = {} if test is None else test.phases
    heads = [f"p, {phase} ({time:g})" if phase != "at" else f"p at {time:g}" for phase, time in phases.items()]
    given = published_p(record, plan_of(record).get("published", ""))
    lines = [
        row("expected order", "mean times", "same order at", "opposite order at", "equal at", *heads),
        row("---", "---:", "---:", "---", "---", *["---:"] * len(heads)),
        *(row(*cells(pair, test, given)) for pair in found),
        "",
    ]
    if test is None:
        return lines
    p = "no spread within models" if test.model is None else f"p = {test.model:.2g}"
    text = (
        f"The p-values of pairs are from the Tukey-Kramer test over {', '.join(test.models)}. "
        f"Analysis of variance, factor model: {p}.{' In brackets: the published p.' if given else ''}"
    )
    return [*lines, text, ""]


def cells(pair: Pair, test: Tested | None, given: Mapping[tuple[frozenset[str], str], float]) -> list[str]:
    mixed = f", but above at {spans(pair.above)}" if pair.above else ""
    level = f", equal at {spans(pair.level)}" if pair.level else ""
    phases = () if test is None else tuple(test.phases)
    return [
        f"{pair.lower} below {pair.upper}{mixed}{level}{SOURCES[pair.source]}",
        f"{pair.times}",
        f"{len(pair.same)}",
        f"**{spans(pair.other)}**" if pair.other else "",
        f"**{spans(pair.equal)}**" if pair.equal else "",
        *(p_cell(pair, phase, test, given) for phase in phases),
    ]


def p_cell(pair: Pair, phase: str, test: Tested | None, given: Mapping[tuple[frozenset[str], str], float]) -> str:
    ours = None if test is None else p_of(test, pair.lower, pair.upper, phase)
    theirs = given.get((frozenset((pair.lower, pair.upper)), phase))
    return " ".join([*([] if ours is None else [f"{ours:.2g}"]), *([] if theirs is None else [f"({theirs:.2g})"])])


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


def unrun(records: Mapping[str, Record]) -> str:
    """The plans that have no record."""
    names = sorted(path.stem for path in (ROOT / "experiments").glob("*.toml"))
    missing = [f"`{name}`" for name in names if name not in records]
    return f"These plans were not run: {', '.join(missing)}." if missing else "Every plan was run."


def lower(records: Mapping[str, Record]) -> str:
    """Our own networks beside the published models: one line each, with the numbers at a mean time in the middle."""
    lines = []
    for record in records.values():
        if (found := beaten(record)) is not None:
            name, rival, times, below = found
            time = list(record["headline"])[len(record["headline"]) // 2]
            mean, theirs = record["headline"][time], record["published"][rival][time]
            lines.append(
                f"- {name} on {SETS[record['data']['set']]}: its error is below the published error of {rival} at "
                f"{len(below)} of the {len(times)} mean times of both curves; "
                f"at mean time {time}, {mean:.2f}% against {theirs:.2f}%."
            )
    return "\n".join(lines)


def levels(records: Mapping[str, Record]) -> str:
    """Each model that has a published curve: whether it is at or below it, and where not, by how much."""
    lines = [
        row("experiment", "model", "trained", "at or below the published error", "largest excess"),
        row("---", "---", "---", "---:", "---:"),
    ]
    for record in records.values():
        for name, model in record["models"].items():
            if (found := level(record, name)) is not None:
                times = len(found.met) + len(found.above)
                excess = f"{found.excess:.2f} (at {found.worst:g})" if found.above else ""
                date = model.get("date", record["date"])
                lines.append(row(f"`{record['name']}`", name, date, f"{len(found.met)} of {times} mean times", excess))
    return "\n".join(lines)


def stale(records: Mapping[str, Record]) -> str:
    """The records that were made before settings had their published meaning."""
    names = [f"`{name}`" for name, record in records.items() if record["date"] < RECKONED]
    return f"These records were made before {RECKONED}: {', '.join(names)}." if names else "No record is that old."


def overview(records: Mapping[str, Record]) -> str:
    """Over all tables: how many pairs have the published order throughout, and which not."""
    lines = []
    for record in records.values():
        found = [pair for pair in pairs(record) if pair.source == "table"]
        if found:
            wrong = [
                f"{pair.lower} and {pair.upper} at {len(pair.same)} of {pair.times}" for pair in found if not pair.met
            ]
            text = "" if not wrong else f"; the others have it at fewer mean times: {', '.join(wrong)}"
            lines.append(f"- {record['title']}: {len(found) - len(wrong)} of {len(found)} pairs{text}.")
    return "\n".join(lines)


def row(*words: str) -> str:
    return f"| {' | '.join(words)} |"
