"""The sections of docs/results.md: one for each record of `sooner reproduce`, with all numbers from the record."""

from collections.abc import Mapping
from typing import Any

from result_figures import figure, training_figure
from result_notes import earlier_meaning, incomplete, kept, shortened
from result_orders import (
    Comparisons,
    Level,
    Pair,
    Tested,
    beaten,
    comparisons,
    level,
    p_of,
    pairs,
    published_p,
    spans,
    tested,
)
from result_plans import Record, plan_of, published_rows
from sooner.lab.experiments.history import HistoryPoint, from_record
from sooner.lab.experiments.tuned import table_of

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
        *firm_order(record),
        *figure(record),
        *during_training(record),
        *tuning(record),
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


def firm_order(record: Record) -> list[str]:
    """The order where the published difference is above two standard errors, and every exception with its numbers."""
    found = comparisons(record, published_rows(record))
    if not found:
        return []
    misses = sorted(
        (miss for each in found for miss in each.misses), key=lambda miss: (miss.lower, miss.upper, miss.time)
    )
    if not misses:
        return [f"{counted(found)}.", ""]
    pair = ("{:.3f} and {:.3f}".format(*errors) for miss in misses for errors in (miss.ours, miss.theirs))
    return [
        f"{counted(found)}. The exceptions:",
        "",
        row("published order", "mean time", "our two errors", "published errors"),
        row("---", "---:", "---:", "---:"),
        *(row(f"{miss.lower} below {miss.upper}", f"{miss.time:g}", next(pair), next(pair)) for miss in misses),
        "",
    ]


def counted(found: list[Comparisons]) -> str:
    """How many comparisons have the published order, and how many were left out, in words."""
    compared, left_out, unreached, missed = (
        sum(len(getattr(each, key)) for each in found) for key in ("compared", "left_out", "unreached", "misses")
    )
    reached = f"; a curve of ours does not reach {unreached} more" if unreached else ""
    return (
        f"Where the published errors of two models differ by more than two standard errors of the difference, ours have the same "
        f"order in {compared - missed} of {compared} comparisons (pairs at mean times); {left_out} more were left out because "
        f"the published difference is smaller{reached}"
    )


def during_training(record: Record) -> list[str]:
    """Loss and last-frame error over the steps of training, of the models whose record has them."""
    courses = {name: from_record(model["history"]) for name, model in record["models"].items() if "history" in model}
    if not courses:
        return []
    steps = next(iter(courses.values()))
    shown_steps = [steps[index].step for index in spread(len(steps))]
    lines = [
        "During training, on the validation set: the loss, and in brackets the balanced error of the last frame in percent.",
        "",
        row("model", *(f"step {step:,}" for step in shown_steps)),
        row("---", *["---:"] * len(shown_steps)),
    ]
    uniform = [name for name in courses if is_uniform_lsel(record.get("settings", {}).get(name, {}))]
    for name, points in courses.items():
        by_step = {point.step: point for point in points}
        lines.append(row(name, *(course_cell(by_step.get(step)) for step in shown_steps)))
    lines += ["", *(f"With full memory, {name} is cost-sensitive LSEL with uniform costs." for name in uniform)]
    return [*lines, *([""] if uniform else []), *training_figure(record)]


def is_uniform_lsel(settings: Mapping[str, Any]) -> bool:
    """Whether the settings are those of the multiplet loss alone over a single window: the plain cross-entropy at every time."""
    return bool(settings) and set(settings["loss"]["weights"]) == {"multiplet"} and settings["model"]["order"] == "full"


def spread(count: int) -> list[int]:
    """At most `SHOWN` indices from the first to the last.

    >>> spread(20)
    [0, 3, 5, 8, 11, 14, 16, 19]
    """
    most = min(count, SHOWN)
    return sorted({round(index * (count - 1) / max(1, most - 1)) for index in range(most)})


def course_cell(point: HistoryPoint | None) -> str:
    if point is None:
        return ""
    loss = "overflow" if point.loss is None else f"{point.loss[0]:.3g}"
    return loss if point.last_error is None else f"{loss} ({point.last_error[0]:.2f})"


def tuning(record: Record) -> list[str]:
    """For each tuned model: the best trials with the published choice beside them, and what the chosen settings gave."""
    lines = []
    for name, entry in record.get("tuning", {}).items():
        columns, rows, note = table_of(entry)
        errors = ", ".join(f"{ours(entry, time)} at {time}" for time in shown(record) if time in entry["mean"])
        lines += [
            f"Tuning of {name}: `{entry['command']}`, {entry['date']}. {note}",
            "",
            row(*(f"`{column}`" if "." in column else column for column in columns)),
            row("---", *["---:"] * (len(columns) - 1)),
            *(row(*cells) for cells in rows),
            "",
            f"Trained with the best of them, its error on the test set is {errors}.",
            "",
        ]
    return lines


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
