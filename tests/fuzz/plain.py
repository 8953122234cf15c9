"""The plain meaning of a long table: rows as dicts become series, with loops and sorting, and nothing of the package."""

import datetime
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

ROLES = {
    "series": ("series", "series_id", "id"),
    "time": ("time", "t", "timestamp"),
    "label": ("label", "class", "target", "y"),
}
INDEX = ("", "Unnamed: 0", "__index_level_0__")
NULLS = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
}


class Plain(NamedTuple):
    """Series in the order in which they appear: ids and labels as text, and (time, values) by time."""

    channels: list[str]
    series: dict[str, tuple[str, list[tuple[Any, list[float]]]]]


def roles(names: Sequence[str]) -> dict[str, str]:
    """The columns that play the three parts, where their names say so."""
    found = {}
    for role, (first, *others) in ROLES.items():
        there = [first] if first in names else [name for name in others if name in names]
        there = [name for name in there if not (name == "y" and "x" in names)]
        if len(there) == 1:
            found[role] = there[0]
    return found


def meaning(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> Plain:
    """What a table says."""
    part = roles(names)
    channels = [name for name in names if name not in part.values() and name not in INDEX]
    series: dict[str, tuple[str, list[tuple[Any, list[float]]]]] = {}
    rows = list(rows)
    clock = time_reader([row[part["time"]] for row in rows])
    for row in rows:
        label = str(row[part["label"]]) if "label" in part else ""
        kept = series.setdefault(str(row[part["series"]]), (label, []))
        kept[1].append((clock(row[part["time"]]), [number(row[name]) for name in channels]))
    return Plain(
        channels, {name: (label, sorted(seen, key=lambda one: one[0])) for name, (label, seen) in series.items()}
    )


def number(value: Any) -> float:
    """A cell, NaN where it is missing."""
    if value is None or (isinstance(value, str) and value.strip(" \t") in NULLS):
        return math.nan
    if isinstance(value, str) and value.strip(" \t").lower() in ("true", "false"):
        return float(value.strip(" \t").lower() == "true")
    return float(value)


def time_reader(values: Sequence[Any]) -> Any:
    """A function from the times of a table to what can be compared and subtracted."""
    if not all(isinstance(value, str) for value in values):
        return _seconds
    texts = [value.strip() for value in values]
    for read in (_whole, float, datetime.datetime.fromisoformat, _nanoseconds):
        try:
            for text in texts:
                read(text)
        except ValueError:
            continue
        return lambda value, read=read: read(value.strip())
    raise ValueError(f"times such as {texts[:3]} were taken")


def _whole(text: str) -> int:
    return int(text, 16 if text.lower().startswith("0x") else 10)


def _nanoseconds(text: str) -> Any:
    return np.datetime64(text.removesuffix("Z"), "ns")


def _seconds(value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    return value


def gaps(times: Sequence[Any]) -> list[float]:
    """The time since the one before, in seconds where it is no number."""
    found = [0.0]
    for before, now in itertools.pairwise(times):
        gap = now - before
        gap = gap / np.timedelta64(1, "s") if isinstance(gap, np.timedelta64) else gap
        found.append(gap.total_seconds() if isinstance(gap, datetime.timedelta) else float(gap))
    return found


def differences(
    plain: Plain, ids: Any, labels: Any, channels: Any, x: Any, lengths: Any, missing: str, gap: str
) -> str | None:
    """What was read, against the meaning."""
    names = [str(name) for name in np.asarray(ids).tolist()]
    if names != list(plain.series):
        return f"ids {names[:5]}, not {list(plain.series)[:5]}"
    wanted = [*plain.channels, *(["gap"] if gap == "channel" else [])]
    if list(channels) != wanted:
        return f"channels {list(channels)}, not {wanted}"
    for place, (name, (label, seen)) in enumerate(plain.series.items()):
        if labels is not None and str(labels[place]) != label:
            return f"label {labels[place]!r} of {name!r}, not {label!r}"
        if int(lengths[place]) != len(seen):
            return f"{int(lengths[place])} rows of {name!r}, not {len(seen)}"
        values = np.array([numbers for _, numbers in seen], dtype=float).reshape(len(seen), -1)
        if gap == "channel":
            values = np.column_stack([values, gaps([time for time, _ in seen])])
        if missing == "mask":
            values = np.column_stack([np.nan_to_num(values, nan=0.0), ~np.isnan(values)])
        read = np.asarray(x[place])
        if not np.allclose(read[: len(seen)], values, rtol=1e-6 if gap == "channel" else 0.0, atol=0.0, equal_nan=True):
            return f"values of {name!r}: {read[: len(seen)].tolist()}, not {values.tolist()}"
        if read[len(seen) :].any():
            return f"values of {name!r} behind its end"
    return None
