"""Tables and printed text of README.md and docs/ that are not of experiments, from results/pages.json and results/scale.json."""

import math
from collections.abc import Callable, Mapping
from typing import Any

Records = Mapping[str, Any]

NAMES = {
    "sequential test": "sequential test",
    "fixed-time test": "fixed-time test on the same scores",
    "LSTM-s": "LSTM-s (Ma, Sigal and Sclaroff 2016)",
}
TARGETS = ("10.0%", "3.0%", "1.0%")


def pages(records: Records) -> Mapping[str, Any]:
    found: Mapping[str, Any] = records["results/pages.json"]
    return found


def fenced(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def pumps_table(records: Records) -> str:
    return fenced(pages(records)["pumps"]["table"])


def pumps_evaluate(records: Records) -> str:
    """The first of the tables that `sooner evaluate` prints."""
    lines = pages(records)["pumps"]["evaluate_printed"]
    return fenced(lines[: 1 + next(index for index, line in enumerate(lines) if line.startswith("└"))])


def pumps_stream(records: Records) -> str:
    return fenced(pages(records)["pumps"]["stream_printed"])


def exact(records: Records) -> str:
    rows = {row["target"]: row for row in pages(records)["exact"]["rows"]}
    head = (
        "| error target of each class | error | mean time of the sequential test | error of a test at that fixed time "
        "| fixed time for the same error |\n|---:|---:|---:|---:|---:|"
    )
    keys = ("error", "mean_time", "fixed_error", "fixed_time")
    cells = (f"| {target} | {' | '.join(rows[target][key] for key in keys)} |" for target in TARGETS)
    return "\n".join([head, *cells])


def demo(records: Records) -> str:
    """The errors, and at which of the mean times the sequential test has the least."""
    found = pages(records)["demo"]["error_at"]
    times = list(found["sequential test"])
    head = [f"| balanced error in percent at mean time | {' | '.join(times)} |", "|---|" + "---:|" * len(times)]
    rows = [
        f"| {NAMES[name]} | {' | '.join(f'{100 * curve[time]:.1f}' for time in times)} |"
        for name, curve in found.items()
    ]
    least = [time for time in times if min(found, key=lambda name: found[name][time]) == "sequential test"]
    text = f"The sequential test has the smallest error of the three at mean times {', '.join(least)}, but not at the others."
    return "\n".join(
        [*head, *rows, "", text if len(least) < len(times) else text.replace(", but not at the others", "")]
    )


def live(records: Records) -> str:
    found = pages(records)["live"]["rows"]
    rows = (
        ("`pumps.sooner`: rocket", "2, 3", found["pumps"]),
        ("`digits.sooner` of the demo: rocket", "64, 10", found["digits"]),
        ("recurrent, 64 units, full memory", "64, 10", found["full"]),
        ("recurrent, 64 units, order 4", "64, 10", found["order-4"]),
    )
    head = (
        "| model | channels, classes | one series | 1,000 series, per series | time of observations 301-400 over 1-100 "
        "| memory per series |\n|---|---|---:|---:|---:|---:|"
    )
    cells = (
        f"| {name} | {shape} | {row['one_microseconds']:.0f} µs | {row['many_microseconds']:.1f} µs "
        f"| {row['late_over_early']:.2f} | {row['bytes']:,} bytes |"
        for name, shape, row in rows
    )
    return "\n".join([head, *cells])


def fleet(records: Records) -> str:
    """What 10,000 live streams need, from the cost and the bytes of one."""
    found = pages(records)["live"]["rows"]
    models = (found["pumps"], found["full"])
    each = [row["many_microseconds"] for row in models]
    lines = [
        "| | rocket | recurrent, full memory |\n|---|---:|---:|",
        f"| one observation (measured) | {each[0]:.1f} µs | {each[1]:.1f} µs |",
        f"| cores for 1 observation per second and stream | {each[0] / 100:.2f} | {each[1] / 100:.2f} |",
        f"| cores for 100 observations per second and stream | {each[0]:.1f} | {each[1]:.1f} |",
        "| memory of all streams (measured bytes of one) | "
        + " | ".join(f"{row['bytes'] / 100:.0f} MB ({row['bytes']:,})" for row in models)
        + " |",
        "",
        f"A fleet is not thread-safe: for 100 observations per second and stream, rocket needs {math.ceil(each[0])} "
        "processes, with the streams distributed by key. The processes are independent of each other. "
        "The time to read the input is not included.",
    ]
    return "\n".join(lines)


UNIT = 131_072  # rows of a unit of `sooner score`
MOST_UNITS = 10_000


def scale_costs(records: Records) -> str:
    """What a unit and a series cost; a unit has the series of 131,072 rows."""
    found = records["results/scale.json"]
    series = UNIT / 100
    peaks = sorted((found["peak_bytes"], found["peak_bytes_of_a_ray_worker"]))
    lines = [
        "| | per shard | per series of 100 observations |\n|---|---:|---:|",
        f"| messages | 2: the shard number to the worker, the result rows back | {2 / series:.4f} |",
        f"| bytes of the result rows | about {series * found['moved_bytes'] / 1e3:.0f} kB | {found['moved_bytes']:.0f} |",
        f"| bytes in the output file | | {found['written_bytes']:.0f} |",
        f"| memory of a worker, without the model and Python | {peaks[0] / 1e6:.0f} to {peaks[1] / 1e6:.0f} MB | |",
        "| memory of the main process in bytes | | 8, and 8 more while the IDs are sorted |",
        f"| work lost if a worker fails | the shard: about {UNIT * found['microseconds'] / 1e6:.1f} s of a core | |",
        "",
        f"These numbers were measured with `{found['command']}` ({found['series']:,} series; one thread, CPU time; rocket, "
        f"{found['channels']} channels, {found['classes']} classes, integer IDs).",
    ]
    return "\n".join(lines)


def billion(records: Records) -> str:
    """What 10^9 series of 100 observations need, from the measured cost of one."""
    found = records["results/scale.json"]
    seconds = 1e11 * found["microseconds"] / 1e6
    peaks = sorted((found["peak_bytes"], found["peak_bytes_of_a_ray_worker"]))
    lines = [
        "| | |\n|---|---:|",
        f"| one observation, reading included (measured) | {found['microseconds']:.1f} µs |",
        f"| work: 10^11 observations | {seconds / 3600:,.0f} core-hours |",
        f"| on 256 cores | {seconds / 3600 / 256:.1f} hours |",
        "| size of the table: 3 channels of float64, 24 bytes per observation before compression | 2.4 TB |",
        f"| read rate of 256 cores together | {2.4e12 / (seconds / 256) / 1e6:,.0f} MB/s |",
        f"| shards | {MOST_UNITS:,} of 10 million rows, {seconds / MOST_UNITS:,.0f} s each |",
        f"| messages | {2 * MOST_UNITS:,}; the results have {1e5 * found['moved_bytes'] / 1e6:.1f} MB each |",
        f"| memory of a worker | as above: {peaks[0] / 1e6:.0f} to {peaks[1] / 1e6:.0f} MB and the model |",
        "| memory of the main process | 8 GB, 16 GB while the IDs are sorted |",
        f"| size of the output | {found['written_bytes']:.0f} GB |",
    ]
    return "\n".join(lines)


BLOCKS: dict[str, Callable[[Records], str]] = {
    "pumps_table": pumps_table,
    "pumps_evaluate": pumps_evaluate,
    "pumps_stream": pumps_stream,
    "exact": exact,
    "demo": demo,
    "live": live,
    "fleet": fleet,
    "scale_costs": scale_costs,
    "billion": billion,
}
