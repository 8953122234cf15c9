"""Which column of a long table is what: by the names the user gives, or by a few common ones.

A long table has one row for one observation of one series. Nothing is guessed from the values: a column is taken for what
its name says, and where two names would do, the user is asked.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sooner.errors import InvalidArgument

Labelling: TypeAlias = Literal["labelled", "unlabelled"]
Gaps: TypeAlias = Literal["none", "channel"]

GAP = "gap"
"""The name of the channel that `gaps="channel"` adds behind the others: the time since the observation before."""

# The first spelling wins wherever it stands; the others are taken only if they stand alone.
_SPELLINGS = {
    "series": ("series", "series_id", "id"),
    "time": ("time", "t", "timestamp"),
    "label": ("label", "class", "target", "y"),
}
_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # what pandas leaves of its row numbers; never a channel unasked
_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """The columns of a table, as the user names them.

    Args:
        series: which series a row belongs to; by default `series`, `series_id` or `id`.
        time: when it was observed; by default `time`, `t` or `timestamp`.
        label: the class of its series; by default `label`, `class`, `target` or `y` (beside an `x`, `y` is a channel).
        channels: the numbers observed, in this order; by default every other column, which must then be numbers.
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
        """Those that are named, by what they are.

        >>> Columns(label="state").given()
        {'label': 'state'}
        """
        return {role: name for role, name in vars(self).items() if name is not None and name != ()}

    def __post_init__(self) -> None:
        if isinstance(self.ignore, str) or not all(isinstance(name, str) for name in self.ignore):
            remedy = 'Give a list of names, for example ignore=["note"].'
            raise InvalidArgument("ignore", "names of columns", repr(self.ignore), remedy)
        object.__setattr__(self, "ignore", tuple(dict.fromkeys(self.ignore)))
        if self.channels is not None:
            remedy = 'Give a list of names, for example channels=["x", "y"].'
            if not isinstance(self.channels, str):
                object.__setattr__(self, "channels", tuple(self.channels))
            if isinstance(self.channels, str) or not all(isinstance(name, str) for name in self.channels):
                raise InvalidArgument("channels", "names of columns", repr(self.channels), remedy)
            if not self.channels:
                raise InvalidArgument("channels", "at least 1 name", "none", remedy)
        named = [
            (name, role)
            for role, names in self.given().items()
            for name in ([names] if isinstance(names, str) else names)
        ]
        twice = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
        if twice:
            roles = dict.fromkeys(role for name, role in named if name == twice[0])
            remedy = "A column is one of series, time, label, group or channel, or it is not read."
            raise InvalidArgument("`, `".join(roles), "different columns", f"{twice[0]!r} twice", remedy)


@dataclass(frozen=True)
class ColumnChoice:
    """The columns of one file, all of them there; `label` is None where the series have none."""

    series: str
    time: str
    label: str | None
    group: str | None
    channels: tuple[str, ...]

    def names(self) -> list[str]:
        """All of them, each once."""
        return [*filter(None, (self.series, self.time, self.label, self.group)), *self.channels]


def choose(columns: Columns, kinds: Mapping[str, str], file: str, labelling: Labelling) -> ColumnChoice:
    """Find the columns in a file.

    Args:
        columns: as the user names them.
        kinds: each column of the file, in order, and what it holds: "number", or a word for anything else.
        file: how to name the file.
        labelling: "unlabelled" needs no label, and leaves a column of that name out of the channels.

    >>> choose(Columns(), {"id": "text", "t": "number", "x": "number", "class": "text"}, "data.csv", "labelled")
    ColumnChoice(series='id', time='t', label='class', group=None, channels=('x',))
    """
    there = {name: kind for name, kind in kinds.items() if name not in columns.ignore}
    wanted = {"series": columns.series, "time": columns.time}
    if labelling == "labelled":
        wanted["label"] = columns.label
    if columns.group is not None:
        wanted["group"] = columns.group
    found = {role: name if name in there else None for role, name in wanted.items()}
    found |= {role: spelled(role, there) for role, name in wanted.items() if name is None}
    lost = {role: name for role, name in wanted.items() if found[role] is None}
    if lost or {*columns.ignore, *(columns.channels or ())} - kinds.keys():
        raise _lost_columns(lost, columns, kinds, file)
    # A label that is not there is no fault of data that need none.
    label = found.get("label") or (columns.label if columns.label in there else spelled("label", there))
    taken = {*found.values(), label}
    channels = columns.channels
    if channels is None:
        channels = tuple(name for name in there if name not in taken and name not in _INDEX)
    for name in channels:
        _refuse_channel(name, taken, kinds, file, named=columns.channels is not None)
    if not channels:
        raise InvalidArgument("channels", f"at least 1 other column of {file}", "none", f"It has {_listed(kinds)}.")
    series, time, group = str(found["series"]), str(found["time"]), found.get("group")
    return ColumnChoice(series, time, found.get("label"), group, tuple(channels))


def _lost_columns(
    lost: Mapping[str, str | None], columns: Columns, kinds: Mapping[str, str], file: str
) -> InvalidArgument:
    """A sentence that names all columns that are not there, not the first one alone."""
    others = kinds.keys() - columns.ignore
    got = {role: _lost(role, name, others) for role, name in lost.items()}
    for role, names in (("channels", columns.channels), ("ignore", columns.ignore)):
        absent = [repr(name) for name in names or () if name not in kinds]
        got |= {role: ", ".join(absent)} if absent else {}
    nameless = [f"{role}=" for role, name in lost.items() if name is None]
    one = len(got) == 1
    what = f"a column of {file}" if one and not got.keys() & {"channels", "ignore"} else f"columns of {file}"
    hint = f": name {'one' if len(nameless) == 1 else 'them'} by {', '.join(nameless)}" if nameless else ""
    return InvalidArgument("`, `".join(got), what, "; ".join(got.values()), f"It has {_listed(kinds)}{hint}.")


def _lost(role: str, name: str | None, names: Container[str]) -> str:
    """What there is instead of a column."""
    if name is not None:
        return repr(name)
    several = [repr(one) for one in spellings(role, names) if one in names]
    return " and ".join(several) if several else f"none called {', '.join(map(repr, spellings(role, names)))}"


def spellings(role: str, names: Container[str]) -> list[str]:
    """The names by which a column is known to be the series, the time or the label."""
    return [name for name in _SPELLINGS[role] if not (name == "y" and "x" in names)]


def spelled(role: str, names: Container[str]) -> str | None:
    """The one of these names by which a column is known to be the series, the time or the label; None if there is none, or two.

    >>> spelled("time", ["id", "t", "x"])
    't'
    """
    first, *others = spellings(role, names)
    there = [first] if first in names else [name for name in others if name in names]
    return there[0] if len(there) == 1 else None


def _refuse_channel(name: str, taken: set[str | None], kinds: Mapping[str, str], file: str, *, named: bool) -> None:
    if name in taken:
        remedy = 'The time since the observation before is a channel with gaps="channel".'
        raise InvalidArgument("channels", "other columns than series, time, label and group", repr(name), remedy)
    if kinds[name] != "number":
        remedy = f"Leave it out{'' if named else ' by ignore='}, or name its part: series=, time=, label= or group=."
        raise InvalidArgument("channels", f"columns of numbers in {file}", f"{kinds[name]} in {name!r}", remedy)


def _listed(kinds: Mapping[str, str]) -> str:
    names = [repr(name) for name in list(kinds)[:_SHOWN]]
    more = f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
    return f"the columns {', '.join(names)}{more}"
