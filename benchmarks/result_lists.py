"""The lists of docs/results.md over all records."""

from collections.abc import Mapping

from result_notes import RECKONED, SETS
from result_orders import beaten, comparisons, level, pairs, spans
from result_plans import ROOT, Record, published_rows
from result_tables import row


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
