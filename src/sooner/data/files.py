"""One door for all data: a file by its suffix, a folder or a pattern of tables, or a set by its name.

================================ ================================================================================
source                           what it is
================================ ================================================================================
.csv .tsv (.gz), .parquet .pq    a long table, also a folder or a pattern of them: see `sooner.data.tables`
.npz                             arrays `X` and `y`, or `observations` and `labels`, and if need be `lengths`, `groups`,
                                 `classes`, `ids`, `channels`
.npy                             `X` alone; its labels are in another .npy file, given as `y`
.ts                              the text format of the UCR and UEA archives, with the extra `sooner[archives]`
digits                           scikit-learn's digits: see `sooner.data.digits`
JapaneseVowels and others        a set of the archives: see `sooner.data.archives`
================================ ================================================================================

`X` is in aeon's layout, (cases, channels, time) or (cases, time); `observations` are (series, time, *features). Series of
unequal lengths are padded with anything, and `lengths` says how much of each counts. Files are never unpickled.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sooner.data import archives, digits, tables
from sooner.data.columns import Columns
from sooner.data.series import Missing, Names, Series
from sooner.data.tables import Gaps, Table, Unlabelled
from sooner.errors import InvalidArgument, UnknownName

Part: TypeAlias = Literal["train", "validation", "test"]

_ARRAYS = (".npz", ".npy", ".ts")
_LOOK = "Look at the name, and at the folder you are in."


def read(
    source: str | Path,
    *,
    columns: Columns | None = None,
    y: str | Path | None = None,
    classes: Any = None,
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    part: Part = "train",
) -> Table:
    """Read labelled series from wherever they are.

    Args:
        source: a file, a folder, a pattern, or the name of a set.
        columns: which column of a table is what, where its names do not say so.
        y: the file of the labels, for .npy alone.
        classes: the names of the classes, for data that may lack some of them.
        missing: as in `Series.from_aeon`.
        gaps: as in `read_table`, for tables alone.
        part: which part of a named set; a file has one part, and is read whole.

    Where a source has no ids or names of channels, they are counted from 0.

    >>> table = read("digits", part="test")
    >>> len(table.series), table.channels[:3]
    (359, ('0', '1', '2'))
    """
    if is_table(source):
        _refuse(y, "y", f"None for {source}", "A table has its labels in a column.")
        c = columns or Columns()
        return tables.read_table(
            source,
            series=c.series,
            time=c.time,
            label=c.label,
            channels=c.channels,
            group=c.group,
            ignore=c.ignore,
            classes=classes,
            missing=missing,
            gaps=gaps,
            dtype="float64",  # as a live series of the same numbers comes
        )
    arrays = _arrays(source, columns, y, gaps, part)
    with _about(source):
        return arrays.table(classes, missing)


def read_observations(
    source: str | Path,
    *,
    columns: Columns | None = None,
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    part: Part = "train",
) -> Unlabelled:
    """Read series without their labels, if they have any; the arguments are those of `read`."""
    if is_table(source):
        c = columns or Columns()
        return tables.read_observations(
            source,
            series=c.series,
            time=c.time,
            label=c.label,
            channels=c.channels,
            ignore=c.ignore,
            missing=missing,
            gaps=gaps,
            dtype="float64",
        )
    arrays = _arrays(source, columns, None, gaps, part)
    with _about(source):
        # The record wants labels: it is given some, and they are left behind.
        count = len(arrays.x) if isinstance(arrays.x, list) or arrays.x.ndim else 0
        table = replace(arrays, y=np.zeros(count), groups=None).table([0, 1], missing)
    series = table.series
    return Unlabelled(table.ids, table.channels, series.observations, series.lengths, series.mask_channels)


@dataclass(frozen=True, eq=False)
class _Arrays:
    """What a source without a table holds; whatever it lacks is None."""

    x: Any
    y: Any
    layout: Literal["aeon", "series"] = "aeon"
    lengths: Any = None
    groups: Any = None
    classes: Any = None
    ids: Any = None
    channels: Any = None

    def table(self, classes: Any, missing: Missing) -> Table:
        """The record, checked."""
        if self.y is None:
            raise InvalidArgument("labels", "known for every series", "none", "Save both in one .npz file, as X and y.")
        known = self.classes if classes is None else classes
        if self.layout == "aeon" and (self.lengths is None or np.ndim(self.x) not in (2, 3)):
            series = Series.from_aeon(self.x, self.y, groups=self.groups, classes=known, missing=missing)
        else:
            x = np.swapaxes(self.x, 1, 2) if self.layout == "aeon" and np.ndim(self.x) == 3 else self.x
            series = Series.from_arrays(
                x, self.y, lengths=self.lengths, groups=self.groups, classes=known, missing=missing
            )
        return Table(self._ids(len(series)), self._channels(series), series)

    def _ids(self, count: int) -> Names:
        ids = np.arange(count) if self.ids is None else np.asarray(self.ids)
        if ids.shape != (count,) or len(np.unique(ids)) != count:
            got = f"{len(np.unique(ids))} in shape {ids.shape}"
            raise InvalidArgument("ids", f"{count} different ones", got, "Give each series one.")
        return ids

    def _channels(self, series: Series) -> tuple[str, ...]:
        count = series.features[0] - series.mask_channels if len(series.features) == 1 else 0
        names = tuple(map(str, range(count) if self.channels is None else np.ravel(self.channels)))
        if len(names) != count:
            raise InvalidArgument("channels", f"{count} names", f"{len(names)}", "Give each channel one.")
        return names


def is_table(source: str | Path) -> bool:
    """Whether a source is (or would be, if it were there) a table, a folder or a pattern."""
    place = Path(source).expanduser()
    if str(source) == "digits" or place.name.lower().endswith(_ARRAYS):
        return False
    from sooner.data import sources

    if place.is_file() and not sources.is_table(place):
        known = ", ".join((*sources.PARQUET, *sources.CSV, *_ARRAYS))
        raise InvalidArgument(
            str(source), "a file of data", f"{place.suffix or 'no suffix'}", f"It ends in one of {known}."
        )
    return place.exists() or bool(place.suffix) or any(mark in str(source) for mark in "/\\*?[")


def _arrays(source: str | Path, columns: Columns | None, y: str | Path | None, gaps: Gaps, part: Part) -> _Arrays:
    """Whatever is no table."""
    named = {} if columns is None else columns.given()
    if named:
        got = ", ".join(
            repr(name) for names in named.values() for name in ([names] if isinstance(names, str) else names)
        )
        raise InvalidArgument("`, `".join(named), f"left out for {source}", got, "Only tables have columns.")
    _refuse(None if gaps == "none" else gaps, "gaps", f'"none" for {source}', "Only tables have times.")
    suffix = Path(source).suffix.lower()
    if suffix == ".npy":
        return _Arrays(_loaded(source), None if y is None else _loaded(y))
    _refuse(y, "y", f"None for {source}", "Only .npy files have their labels elsewhere.")
    if suffix == ".npz":
        return _from_npz(source)
    if suffix == ".ts":
        return _Arrays(*archives.read_ts(source))
    return _named(str(source), part)


def _named(name: str, part: Part) -> _Arrays:
    """One part of a set that has a name."""
    known = digits.Digits._fields if name == "digits" else archives.Archive._fields
    if part not in known:
        raise UnknownName("part", part, known)
    if name == "digits":
        series = getattr(digits.load(), part)
        return _Arrays(series.observations, series.names(series.labels), "series", classes=series.classes)
    x, y, classes = getattr(archives.cases(name), part)
    return _Arrays(x, y, classes=classes)


def _from_npz(source: str | Path) -> _Arrays:
    arrays = _loaded(source)
    names = ("X", "y") if "X" in arrays else ("observations", "labels")
    if names[0] not in arrays:
        expected, got = "arrays called X and y, or observations and labels", f"{sorted(arrays)}"
        raise InvalidArgument(str(source), expected, got, "Save them by these names: np.savez(file, X=..., y=...).")
    return _Arrays(
        arrays[names[0]],
        arrays.get(names[1]),
        "aeon" if names[0] == "X" else "series",
        *(arrays.get(name) for name in ("lengths", "groups", "classes", "ids", "channels")),
    )


def _loaded(path: str | Path) -> Any:
    """An array, or the arrays of an .npz file by their names; nothing is unpickled."""
    place = Path(path).expanduser()
    if not place.is_file() or not place.stat().st_size:
        got, remedy = ("an empty file", "Look at what wrote it.") if place.is_file() else ("nothing there", _LOOK)
        raise InvalidArgument(str(path), f"a {place.suffix} file", got, remedy)
    try:
        with place.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what NumPy's attempts to mend a damaged header print
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.lib.npyio.NpzFile):
                found = {name: found[name] for name in found.files}
                found = found if all(isinstance(array, np.ndarray) for array in found.values()) else None
    except Exception as error:  # NumPy's parser of headers raises whatever the parts of it raise on damaged ones
        if "Object arrays" in str(error):
            remedy = "Save series of unequal lengths as one padded array, with their `lengths` beside it."
            raise InvalidArgument(str(path), "arrays of plain numbers or text", "Python objects", remedy) from None
        found = None
    if not isinstance(found, dict if place.suffix.lower() == ".npz" else np.ndarray):
        remedy = "Look at what wrote it."
        raise InvalidArgument(str(path), f"a readable {place.suffix} file", "something else", remedy)
    if not all(map(_is_text, found.values() if isinstance(found, dict) else [found])):
        raise InvalidArgument(str(path), "arrays of Unicode text", "other codes", "Look at what wrote it.")
    return found


def _is_text(array: npt.NDArray[Any]) -> bool:
    """Whether an array of text holds nothing but letters; NumPy takes any four bytes for one."""
    if array.dtype.kind != "U" or not array.size:
        return True
    codes = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.uint32)
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any()


def _refuse(value: object, name: str, expected: str, remedy: str) -> None:
    """An argument that this source has no use for."""
    if value is not None:
        raise InvalidArgument(name, expected, repr(value), remedy)


@contextmanager
def _about(source: str | Path) -> Iterator[None]:
    """Put the name of the source before a sentence about what is in it."""
    try:
        yield
    except InvalidArgument as error:
        error.args = (f"In {source}: {error}",)
        raise
