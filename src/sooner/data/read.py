"""The reader of all data: a file by its suffix, a folder or a pattern of tables, or a data set by its name.

================================ ================================================================================
source                           what it is
================================ ================================================================================
.csv .tsv (.gz), .parquet .pq    a long table, also a folder or a pattern of them: see `sooner.data.tables.reading`
.npz                             arrays `X` and `y`, or `observations` and `labels`, and optionally `lengths`, `groups`,
                                 `classes`, `ids`, `channels`
.npy                             `X` alone; its labels are in another .npy file, `y`
.ts                              the text format of the UCR and UEA archives, with the extra `sooner[archives]`
digits                           scikit-learn's digits: see `sooner.data.sets.digits`
JapaneseVowels and others        a set of the archives: see `sooner.data.sets.archives`
================================ ================================================================================

`X` is in aeon's layout, (cases, channels, time) or (cases, time); `observations` are (series, time, *features). Series of
unequal lengths are padded, with their `lengths`. Files are never unpickled.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sooner.data.sets import archives, digits
from sooner.data.tables import reading as tables
from sooner.errors import InvalidArgument, UnreadableFile, refuse_unknown
from sooner.series import Missing, Series
from sooner.series.columns import Columns, Gaps

Split: TypeAlias = Literal["train", "validation", "test"]

_ARRAYS = (".npz", ".npy", ".ts")


def read(
    source: str | Path,
    *,
    columns: Columns | None = None,
    y: str | Path | None = None,
    classes: Any = None,
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    part: Split = "train",
) -> Series:
    """Read labelled series from files, or from a named data set.

    Args:
        source: a file, a folder, a pattern, or the name of a data set.
        columns: the column names of a table, if they are not the default names.
        y: the file of the labels, only for .npy.
        classes: all class names, if some of them may be absent from the data.
        missing: as in `Series.from_aeon`.
        gaps: as in `read_table`, only for tables.
        part: the split of a named data set; files have no splits.

    If a source has no IDs or channel names, they are numbered from 0.

    >>> series = read("digits", part="test")
    >>> len(series), series.channels[:3]
    (359, ('0', '1', '2'))
    """
    if is_table(source):
        _refuse(y, "y", f"None for {source}", "A table has its labels in a column.")
        # In float64, as live observations.
        return tables.read_columns(source, columns or Columns(), "labelled", missing, gaps, "float64", classes)
    arrays = _arrays(source, columns, y, gaps, part)
    with _errors_about(source):
        if arrays.get("labels") is None:
            raise InvalidArgument("labels", "known for every series", "none", "Save both in one .npz file, as X and y.")
        return _series(**{**arrays, "classes": arrays.get("classes") if classes is None else classes}, missing=missing)


def read_observations(
    source: str | Path,
    *,
    columns: Columns | None = None,
    missing: Missing = "refuse",
    gaps: Gaps = "none",
    part: Split = "train",
) -> Series:
    """Read series without their labels; the arguments are those of `read`."""
    if is_table(source):
        return tables.read_columns(source, columns or Columns(), "unlabelled", missing, gaps, "float64")
    arrays = _arrays(source, columns, None, gaps, part)
    with _errors_about(source):
        return _series(**{**arrays, "labels": None, "groups": None}, missing=missing)


def _series(
    X: Any = None,  # noqa: N803
    observations: Any = None,
    *,
    ids: Any = None,
    channels: Any = None,
    lengths: Any = None,
    **known: Any,
) -> Series:
    """The checked series; unknown IDs and channel names are numbers from 0."""
    if X is not None and (lengths is None or np.ndim(X) not in (2, 3)):
        series = Series.from_aeon(X, known.pop("labels"), ids=ids, channels=channels, **known)
    else:
        if X is not None:
            observations = np.swapaxes(X, 1, 2) if np.ndim(X) == 3 else X
        series = Series.from_arrays(observations, lengths=lengths, ids=ids, channels=channels, **known)
    count = series.features[0] - series.mask_channels if len(series.features) == 1 else 0
    return replace(
        series,
        ids=np.arange(len(series)) if series.ids is None else series.ids,
        channels=tuple(map(str, range(count))) if series.channels is None else series.channels,
    )


def is_table(source: str | Path) -> bool:
    """Whether a source, which may not exist, is a table, a folder or a pattern."""
    path = Path(source).expanduser()
    if str(source) == "digits" or path.name.lower().endswith(_ARRAYS):
        return False
    from sooner.data.tables import files as sources

    if path.is_file() and not sources.is_table(path):
        remedy = f"It ends in one of {', '.join((*sources.PARQUET, *sources.CSV, *_ARRAYS))}."
        raise InvalidArgument(str(source), "a file of data", f"{path.suffix or 'no suffix'}", remedy)
    return path.exists() or bool(path.suffix) or any(mark in str(source) for mark in "/\\*?[")


def _arrays(
    source: str | Path, columns: Columns | None, y: str | Path | None, gaps: Gaps, part: Split
) -> dict[str, Any]:
    """The arguments of `_series` for a source that is no table."""
    given = {} if columns is None else columns.given()
    if given:
        names = [name for names in given.values() for name in ([names] if isinstance(names, str) else names)]
        got = ", ".join(map(repr, names))
        raise InvalidArgument("`, `".join(given), f"left out for {source}", got, "Only tables have columns.")
    _refuse(None if gaps == "none" else gaps, "gaps", f'"none" for {source}', "Only tables have times.")
    suffix = Path(source).suffix.lower()
    if suffix == ".npy":
        return {"X": _loaded(source), "labels": None if y is None else _loaded(y)}
    _refuse(y, "y", f"None for {source}", "Only .npy files have their labels elsewhere.")
    if suffix == ".npz":
        arrays = _loaded(source)
        first, labels = ("X", "y") if "X" in arrays else ("observations", "labels")
        if first not in arrays:
            expected, remedy = (
                "arrays called X and y, or observations and labels",
                "Save them by these names: np.savez(file, X=..., y=...).",
            )
            raise InvalidArgument(str(source), expected, f"{sorted(arrays)}", remedy)
        optional = ("lengths", "groups", "classes", "ids", "channels")
        return {first: arrays[first], "labels": arrays.get(labels)} | {name: arrays.get(name) for name in optional}
    if suffix == ".ts":
        return dict(zip(("X", "labels"), archives.read_ts(source), strict=True))
    return _data_set(str(source), part)


def _data_set(name: str, part: Split) -> dict[str, Any]:
    known = digits.Digits._fields if name == "digits" else archives.Archive._fields
    refuse_unknown("part", part, known)
    if name == "digits":
        series = getattr(digits.load(), part)
        labels = series.names(series.labels)
        return {"observations": series.observations, "labels": labels, "classes": series.classes}
    splits = archives.cases(name)
    x, y = splits[known.index(part)]
    return {"X": x, "labels": y, "classes": archives.classes_of(splits)}


def _loaded(path: str | Path) -> Any:
    """An array, or the arrays of an .npz file by their names; nothing is unpickled."""
    file = Path(path).expanduser()
    if not file.is_file():
        remedy = "Check the name and the current folder."
        raise InvalidArgument(str(path), f"a {file.suffix} file", "nothing there", remedy)
    if not file.stat().st_size:
        raise UnreadableFile(str(path), f"a {file.suffix} file", "an empty file")
    try:
        with file.open("rb") as content, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns when it tries to repair a damaged header
            loaded = np.load(content, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                loaded = {name: loaded[name] for name in loaded.files}
                loaded = loaded if all(isinstance(array, np.ndarray) for array in loaded.values()) else None
    except Exception as error:  # NumPy may raise any exception for a damaged header
        if "Object arrays" in str(error):
            remedy = "Save series of unequal lengths as one padded array, with their `lengths` beside it."
            raise InvalidArgument(str(path), "arrays of plain numbers or text", "Python objects", remedy) from None
        loaded = None
    if not isinstance(loaded, dict if file.suffix.lower() == ".npz" else np.ndarray):
        raise UnreadableFile(str(path), f"a readable {file.suffix} file", "something else")
    if not all(map(_is_unicode, loaded.values() if isinstance(loaded, dict) else [loaded])):
        raise UnreadableFile(str(path), "arrays of Unicode text", "other codes")
    return loaded


def _is_unicode(array: npt.NDArray[Any]) -> bool:
    """False for an array of text with invalid code points, which NumPy does not check."""
    if array.dtype.kind != "U" or not array.size:
        return True
    codes = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.uint32)
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any()


def _refuse(value: object, name: str, expected: str, remedy: str) -> None:
    """Refuse an argument that this source does not use."""
    if value is not None:
        raise InvalidArgument(name, expected, repr(value), remedy)


@contextmanager
def _errors_about(source: str | Path) -> Iterator[None]:
    """Begin errors with the name of the source."""
    try:
        yield
    except InvalidArgument as error:
        error.args = (f"In {source}: {error}",)
        raise
