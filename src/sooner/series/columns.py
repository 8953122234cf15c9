"""The columns of a long table (one row per observation), by the user's names or by a few common ones.

Nothing is guessed from the values, and where two common names are present, the user is asked.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sooner.errors import InvalidArgument

Labelling: TypeAlias = Literal["labelled", "unlabelled"]
Gaps: TypeAlias = Literal["none", "channel"]

GAP = "gap"
"""The name of the last channel with `gaps="channel"`: the time since the observation before."""

# The first spelling always wins; one of the others is used only if it is the only one.
_SPELLINGS = {
    "series": ("series", "series_id", "id"),
    "time": ("time", "t", "timestamp"),
    "label": ("label", "class", "target", "y"),
}
_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # row numbers of pandas; a channel only if it is named
_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """The columns of a table, as the user names them.

    Args:
        series: the series ID; by default `series`, `series_id` or `id`.
        time: the time of the observation; by default `time`, `t` or `timestamp`.
        label: the class of the series; by default `label`, `class`, `target` or `y` (beside an `x`, `y` is a channel).
        channels: the observed numbers, in this order; by default all other columns, which must then be numbers.
        group: a group ID (for example the patient); a group is never split; by default none.
        ignore: columns that are not read.
    """

    series: str | None = None
    time: str | None = None
    label: str | None = None
    channels: Sequence[str] | None = None
    group: str | None = None
    ignore: Sequence[str] = ()

    def given(self) -> dict[str, Any]:
        """The arguments that are not left out.

        >>> Columns(label="state").given()
        {'label': 'state'}
        """
        return {role: name for role, name in vars(self).items() if name is not None and name != ()}

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore", tuple(dict.fromkeys(_as_list(self.ignore, "ignore", '["note"]'))))
        if self.channels is not None:
            object.__setattr__(self, "channels", _as_list(self.channels, "channels", '["x", "y"]'))
            if not self.channels:
                remedy = 'Give a list of names, for example channels=["x", "y"].'
                raise InvalidArgument("channels", "at least 1 name", "none", remedy)
        roles: dict[str, list[str]] = {}
        for role, names in self.given().items():
            for name in [names] if isinstance(names, str) else names:
                roles.setdefault(name, []).append(role)
        for name, given in roles.items():
            if len(given) > 1:
                remedy = "A column is one of series, time, label, group or channel, or it is not read."
                raise InvalidArgument("`, `".join(dict.fromkeys(given)), "different columns", f"{name!r} twice", remedy)


def _as_list(names: Sequence[str], argument: str, example: str) -> tuple[str, ...]:
    listed = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        remedy = f"Give a list of names, for example {argument}={example}."
        raise InvalidArgument(argument, "names of columns", repr(names), remedy)
    return listed


@dataclass(frozen=True)
class ColumnChoice:
    """The columns of one file, which has all of them; `label` is None for series without labels."""

    series: str
    time: str
    label: str | None
    group: str | None
    channels: tuple[str, ...]

    def names(self) -> list[str]:
        """The names of all columns."""
        return [*filter(None, (self.series, self.time, self.label, self.group)), *self.channels]


def choose(columns: Columns, types: Mapping[str, str], file: str, labelling: Labelling) -> ColumnChoice:
    """Find the columns in a file.

    Args:
        columns: the user's names.
        types: the type of each column of the file, in order: "number", or any other word.
        file: the name of the file in errors.
        labelling: "unlabelled" needs no label, and leaves a column of that name out of the channels.

    >>> choose(Columns(), {"id": "text", "t": "number", "x": "number", "class": "text"}, "data.csv", "labelled")
    ColumnChoice(series='id', time='t', label='class', group=None, channels=('x',))
    """
    names = [name for name in types if name not in columns.ignore]
    given: dict[str, str | None] = {"series": columns.series, "time": columns.time}
    given |= {"label": columns.label} if labelling == "labelled" else {}
    given |= {"group": columns.group} if columns.group is not None else {}
    chosen = {role: spelled(role, names) if name is None else name for role, name in given.items()}
    missing = {role: given[role] for role, name in chosen.items() if name not in names}
    if missing or {*columns.ignore, *(columns.channels or ())} - types.keys():
        raise _missing_columns(missing, columns, types, file)
    # Data that need no label may lack the column.
    label = chosen.get("label") or (columns.label if columns.label in names else spelled("label", names))
    taken = {*chosen.values(), label}
    channels = columns.channels
    if channels is None:
        channels = tuple(name for name in names if name not in taken and name not in _INDEX)
    for name in channels:
        if name in taken:
            remedy = 'The time since the observation before is a channel with gaps="channel".'
            raise InvalidArgument("channels", "other columns than series, time, label and group", repr(name), remedy)
        if types[name] != "number":
            omission = "Leave it out" if columns.channels is not None else "Leave it out by ignore="
            remedy = f"{omission}, or name its role: series=, time=, label= or group=."
            raise InvalidArgument("channels", f"columns of numbers in {file}", f"{types[name]} in {name!r}", remedy)
    if not channels:
        raise InvalidArgument("channels", f"at least 1 other column of {file}", "none", f"It has {_listed(types)}.")
    series, time = str(chosen["series"]), str(chosen["time"])
    return ColumnChoice(series, time, chosen.get("label"), chosen.get("group"), tuple(channels))


def _missing_columns(
    missing: Mapping[str, str | None], columns: Columns, types: Mapping[str, str], file: str
) -> InvalidArgument:
    """The error that names all missing columns, not only the first one."""
    names = types.keys() - columns.ignore
    got = {role: _candidates(role, names) if name is None else repr(name) for role, name in missing.items()}
    for role, listed in (("channels", columns.channels), ("ignore", columns.ignore)):
        absent = [repr(name) for name in listed or () if name not in types]
        got |= {role: ", ".join(absent)} if absent else {}
    unnamed = [f"{role}=" for role, name in missing.items() if name is None]
    is_one = len(got) == 1 and not got.keys() & {"channels", "ignore"}
    hint = f": name {'one' if len(unnamed) == 1 else 'them'} by {', '.join(unnamed)}" if unnamed else ""
    expected, remedy = f"a column of {file}" if is_one else f"columns of {file}", f"It has {_listed(types)}{hint}."
    return InvalidArgument("`, `".join(got), expected, "; ".join(got.values()), remedy)


def _candidates(role: str, names: Container[str]) -> str:
    known = spellings(role, names)
    present = [repr(name) for name in known if name in names]
    return " and ".join(present) if present else f"none called {', '.join(map(repr, known))}"


def spellings(role: str, names: Container[str]) -> list[str]:
    """The common names of the series, time or label column."""
    return [name for name in _SPELLINGS[role] if not (name == "y" and "x" in names)]


def spelled(role: str, names: Container[str]) -> str | None:
    """The common name of the series, time or label column that is among `names`; None if there is none, or two.

    >>> spelled("time", ["id", "t", "x"])
    't'
    """
    first, *others = spellings(role, names)
    present = [first] if first in names else [name for name in others if name in names]
    return present[0] if len(present) == 1 else None


def _listed(types: Mapping[str, str]) -> str:
    names = [repr(name) for name in list(types)[:_SHOWN]]
    more = f" and {len(types) - _SHOWN} more" if len(types) > _SHOWN else ""
    return f"the columns {', '.join(names)}{more}"
