"""The sections of docs/results.md: one for each record of `sooner reproduce`, with all numbers from the record."""

from collections.abc import Mapping
from typing import Any

from result_figures import figure
from result_notes import earlier_meaning, incomplete, kept, shortened
from result_orders import Level, Pair, Tested, beaten, level, p_of, pairs, published_p, spans, tested
from result_plans import Record, plan_of, published_rows

SHOWN = 8
SOURCES = {"table": "", "figure": " (in the paper's figure)", "plan": " (not in the paper)"}


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


def row(*words: str) -> str:
    return f"| {' | '.join(words)} |"
