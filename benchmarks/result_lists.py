"""The lists of docs/results.md over all records."""

from collections.abc import Mapping
from statistics import median

from result_notes import RECKONED, SETS
from result_orders import beaten, comparisons, level, pairs, phases_of, spans
from result_plans import ROOT, Record, published_rows
from result_tables import row
from sooner.lab.experiments import read_plan
from sooner.lab.experiments.earlier import same_settings

TOKENS_CHANGED = "2026-11-18"


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
    """For each experiment with a published table: in how many comparisons ours have the published order, and where not."""
    lines = []
    for record in records.values():
        found = comparisons(record, published_rows(record))
        if found:
            compared, left_out, missed = (
                sum(len(getattr(each, key)) for each in found) for key in ("compared", "left_out", "misses")
            )
            wrong: dict[tuple[str, str], list[float]] = {}
            for miss in (miss for each in found for miss in each.misses):
                wrong.setdefault((miss.lower, miss.upper), []).append(miss.time)
            where = "; ".join(f"{lower} below {upper} not at {spans(times)}" for (lower, upper), times in wrong.items())
            lines.append(
                f"- {record['title']}: {compared - missed} of {compared} ({left_out} left out){f': {where}' if where else ''}."
            )
    return "\n".join(lines)


def throughout(records: Mapping[str, Record]) -> str:
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


def outdated(records: Mapping[str, Record]) -> str:
    """What was trained with other settings than its plan has today."""
    lines = []
    for name, record in records.items():
        plan = read_plan(ROOT / "experiments" / f"{name}.toml", record["profile"])
        known = {each.published or each.name: each for each in plan.contenders} | {e.name: e for e in plan.contenders}
        trained = {model: each for model, each in record["settings"].items() if model in record["models"]}
        tuned = {model for model in trained if record["models"][model].get("tuned")}
        other = [
            model
            for model, settings in trained.items()
            if model not in tuned and (model not in known or not same_settings(known[model].settings, settings))
        ]
        if plan.encoder is not None and not same_settings(plan.encoder.settings, record["encoder"]):
            other.insert(0, "the encoder")
        if other:
            lines.append(f"- `{name}`: {', '.join(other)}")
    lines += [
        f"- `{name}`: the encoder, whose vectors of the tokens are smaller at first today" for name in older(records)
    ]
    if not lines:
        return "Every record has the settings with which its command trains today."
    text = "These were trained with other settings than their plans have today, so that their commands train something else:"
    return "\n".join([text, "", *lines])


def older(records: Mapping[str, Record]) -> list[str]:
    """The records whose encoder `tokens` was trained before its initial vectors became smaller, which no setting says."""
    return [
        name
        for name, record in records.items()
        if record["encoder"] and record["encoder"]["model"]["encoder"] == "tokens" and record["date"] <= TOKENS_CHANGED
    ]


def remarks(records: Mapping[str, Record]) -> str:
    """Models that vary much between trials, the errors of NGA-LSEL, and how much minutes vary."""
    return "\n".join([*varied(records), *nga(records), *minutes(records)])


def varied(records: Mapping[str, Record]) -> list[str]:
    """The model whose standard error is more than five times the median of its table, at the first mean time of the tests."""
    lines = []
    for name, record in records.items():
        times = [f"{time:g}" for time in phases_of(record).values()][:1]
        for time in times:
            sems = {model: each["mean"][time][1] for model, each in record["models"].items() if time in each["mean"]}
            known = {model: sem for model, sem in sems.items() if sem is not None}
            worst = max(known, key=lambda model, known=known: known[model], default="")
            if worst and known[worst] > 5 * median(known.values()):
                lines.append(
                    f"- In `{name}`, {worst} varies most between trials: its standard error at mean time {time} is "
                    f"{known[worst]:.2f}, the median of all models {median(known.values()):.2f}."
                )
    return lines


def nga(records: Mapping[str, Record]) -> list[str]:
    """The error of NGA-LSEL at the end of the series."""
    lines = []
    for name, record in records.items():
        for model, each in record["models"].items():
            if model.startswith("NGA-LSEL"):
                time, (error, _) = list(each["mean"].items())[-1]
                lines.append(f"- In `{name}`, the error of {model} at mean time {time} is {error:.2f}%.")
    return lines


def minutes(records: Mapping[str, Record]) -> list[str]:
    """The model whose trials, all of the same number of steps, took the most different times."""
    spent = {
        (name, model): sorted(seed["training_minutes"] for seed in each["seeds"])
        for name, record in records.items()
        for model, each in record["models"].items()
        if len(each["seeds"]) > 2 and min(seed["training_minutes"] for seed in each["seeds"]) > 1
    }
    if not spent:
        return []
    name, model = max(spent, key=lambda key: spent[key][-1] / spent[key][0])
    least, *_, most = spent[name, model]
    return [f"- Trials of {model} in `{name}` took {least:.1f} to {most:.1f} minutes for the same number of steps."]
