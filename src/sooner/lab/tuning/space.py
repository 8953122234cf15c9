"""The search space: a `[search]` table in the settings file, with a list of values or a range for each key.

[search]
model.order = [0, 5, 10, "full"]
optimizer.lr = { low = 1e-4, high = 1e-2, log = true }
loss.weights.lsel = [0.1, 1.0, 10.0]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from optuna.trial import Trial

from sooner.errors import InvalidArgument
from sooner.train.settings import Settings, changed, read_tables


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, integers if both ends are; with `log`, on a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (self.low, self.high))
        if not numbers or not isinstance(self.log, bool) or not self.low < self.high or (self.log and self.low <= 0):
            got = f"low {self.low!r}, high {self.high!r}, log {self.log!r}"
            expected = "a range { low, high, log } with low < high, and 0 < low where log is true"
            raise InvalidArgument("search", expected, got, "For a few values give a list of them.")

    def draw(self, trial: Trial, key: str) -> float:
        """Sample a value for this trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(key, self.low, self.high, log=self.log)
        return trial.suggest_float(key, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Grid:
    """A list of values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values or not all(isinstance(value, int | float | str) for value in self.values):
            remedy = "Leave the key out to search elsewhere only."
            raise InvalidArgument("search", "lists of numbers or texts, at least one in each", self.values, remedy)

    def draw(self, trial: Trial, key: str) -> Any:
        """A value for this trial."""
        return trial.suggest_categorical(key, self.values)


@dataclass(frozen=True)
class SearchSpace:
    """A search space: dotted keys of settings with a grid or a range each."""

    axes: Mapping[str, Grid | Range] = field(hash=False)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "SearchSpace":
        """The `[search]` table; its keys may be dotted or nested.

        >>> SearchSpace.from_dict({"optimizer": {"lr": [0.1, 0.01]}, "model.order": {"low": 0, "high": 9}}).axes
        {'optimizer.lr': Grid(values=(0.1, 0.01)), 'model.order': Range(low=0, high=9, log=False)}
        """
        axes = dict(_axes("", table))
        if not axes:
            raise InvalidArgument("search", "a table with at least one key", dict(table), "List the values to try.")
        return cls(axes)

    def draw(self, trial: Trial) -> dict[str, Any]:
        """Sample a value for each key."""
        return {key: axis.draw(trial, key) for key, axis in self.axes.items()}

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the list of values or the range of each dotted key.

        >>> SearchSpace.from_dict({"optimizer.lr": [0.1, 0.01], "model.order": {"low": 0, "high": 9}}).to_dict()
        {'optimizer.lr': [0.1, 0.01], 'model.order': {'low': 0, 'high': 9, 'log': False}}
        """
        return {key: list(axis.values) if isinstance(axis, Grid) else vars(axis) for key, axis in self.axes.items()}

    def check(self, settings: Settings) -> None:
        """Refuse invalid keys and values before the first trial."""
        for key, axis in self.axes.items():
            for value in axis.values if isinstance(axis, Grid) else (axis.low, axis.high):
                changed(settings, {key: value})


def read_search(path: str | PathLike[str]) -> SearchSpace:
    """The search space of a settings file."""
    tables = read_tables(path)
    if "search" not in tables:
        raise InvalidArgument(
            Path(path).name, "a file with a [search] table", sorted(tables), "List the values to try."
        )
    return SearchSpace.from_dict(tables["search"])


def _axes(prefix: str, table: Any) -> Iterator[tuple[str, Grid | Range]]:
    for name, axis in table.items():
        key = f"{prefix}{name}"
        if isinstance(axis, list | tuple):
            yield key, Grid(tuple(axis))
        elif isinstance(axis, Mapping) and {"low", "high"} & set(axis):
            unknown = set(axis) - {"low", "high", "log"}
            if unknown or not {"low", "high"} <= set(axis):
                raise InvalidArgument(f"search.{key}", "{ low, high, log }", sorted(axis), "`log` may be left out.")
            yield key, Range(axis["low"], axis["high"], axis.get("log", False))
        elif isinstance(axis, Mapping):
            yield from _axes(f"{key}.", axis)
        else:
            remedy = "Put a single value into the settings."
            raise InvalidArgument(f"search.{key}", "a list of values, or { low, high, log }", repr(axis), remedy)
