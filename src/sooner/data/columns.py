"""Which column of a long table is what: by the names the user gives, or by a few common ones.

A long table has one row for one observation of one series. Nothing is guessed from the values: a column is taken for what
its name says, and where two names would do, the user is asked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sooner.errors import InvalidArgument

Labelling: TypeAlias = Literal["labelled", "unlabelled"]

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
        group: who or what the series comes from, for splits that tear no group; by default none.
    """

    series: str | None = None
    time: str | None = None
    label: str | None = None
    channels: Sequence[str] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.channels is not None:
            remedy = 'Give a list of names, for example channels=["x", "y"].'
            if isinstance(self.channels, str) or not all(isinstance(name, str) for name in self.channels):
                raise InvalidArgument("channels", "names of columns", repr(self.channels), remedy)
            if not self.channels:
                raise InvalidArgument("channels", "at least 1 name", "none", remedy)
            object.__setattr__(self, "channels", tuple(self.channels))
        named = [*(self.channels or ()), *filter(None, (self.series, self.time, self.label, self.group))]
        twice = [name for name, count in Counter(named).items() if count > 1]
        if twice:
            remedy = "A column is one of series, time, label, group or channel."
            raise InvalidArgument("columns", "named once each", f"{twice[0]!r} twice", remedy)


@dataclass(frozen=True)
class Chosen:
    """The columns of one file, all of them there; `label` is None where the series have none."""

    series: str
    time: str
    label: str | None
    group: str | None
    channels: tuple[str, ...]

    def names(self) -> list[str]:
        """All of them, each once."""
        return [*filter(None, (self.series, self.time, self.label, self.group)), *self.channels]


def choose(columns: Columns, kinds: Mapping[str, str], file: str, labelling: Labelling) -> Chosen:
    """Find the columns in a file.

    Args:
        columns: as the user names them.
        kinds: each column of the file, in order, and what it holds: "number", or a word for anything else.
        file: how to name the file.
        labelling: "unlabelled" needs no label, and leaves a column of that name out of the channels.

    >>> choose(Columns(), {"id": "text", "t": "number", "x": "number", "class": "text"}, "data.csv", "labelled")
    Chosen(series='id', time='t', label='class', group=None, channels=('x',))
    """
    series, time = _required("series", columns.series, kinds, file), _required("time", columns.time, kinds, file)
    if labelling == "labelled":
        label: str | None = _required("label", columns.label, kinds, file)
    else:
        # A label that is not there is no fault of data that need none.
        label = columns.label if columns.label in kinds else _spelled("label", kinds)
    group = None if columns.group is None else _required("group", columns.group, kinds, file)
    taken = {series, time, label, group}
    channels = columns.channels
    if channels is None:
        channels = tuple(name for name in kinds if name not in taken and name not in _INDEX)
    for name in channels:
        _refuse_channel(name, taken, kinds, file)
    if not channels:
        raise InvalidArgument("channels", f"at least 1 other column of {file}", "none", f"It has {_listed(kinds)}.")
    return Chosen(series, time, label if labelling == "labelled" else None, group, tuple(channels))


def _required(role: str, name: str | None, kinds: Mapping[str, str], file: str) -> str:
    """The column that plays this part."""
    if name is not None and name in kinds:
        return name
    if name is not None:
        raise InvalidArgument(role, f"a column of {file}", repr(name), f"It has {_listed(kinds)}.")
    found = _spelled(role, kinds)
    if found is None:
        there = [repr(one) for one in _spellings(role, kinds) if one in kinds]
        got = " and ".join(there) if there else f"none called {', '.join(map(repr, _spellings(role, kinds)))}"
        raise InvalidArgument(
            role, f"a column of {file}", got, f"It has {_listed(kinds)}: name one, {role}=... or --{role}."
        )
    return found


def _spellings(role: str, kinds: Mapping[str, str]) -> list[str]:
    return [name for name in _SPELLINGS[role] if not (name == "y" and "x" in kinds)]


def _spelled(role: str, kinds: Mapping[str, str]) -> str | None:
    first, *others = _spellings(role, kinds)
    there = [first] if first in kinds else [name for name in others if name in kinds]
    return there[0] if len(there) == 1 else None


def _refuse_channel(name: str, taken: set[str | None], kinds: Mapping[str, str], file: str) -> None:
    if name not in kinds:
        raise InvalidArgument("channels", f"columns of {file}", repr(name), f"It has {_listed(kinds)}.")
    if name in taken:
        remedy = 'The time since the observation before is a channel with gaps="channel".'
        raise InvalidArgument("channels", "other columns than series, time, label and group", repr(name), remedy)
    if kinds[name] != "number":
        remedy = "Pass channels= with the columns of numbers, or name its part: series=, time=, label= or group=."
        raise InvalidArgument("channels", f"columns of numbers in {file}", f"{kinds[name]} in {name!r}", remedy)


def _listed(kinds: Mapping[str, str]) -> str:
    names = [repr(name) for name in list(kinds)[:_SHOWN]]
    more = f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
    return f"the columns {', '.join(names)}{more}"
