"""The UCR and UEA archives and their .ts files, read by aeon: the extra `sooner[archives]`.

Some sets come inside the aeon package and need no network (`embedded` names them); the others are downloaded by aeon into
its own cache. Lengths stay as unequal as they are, and missing values ("?" in a file) stay missing. aeon writes the names of
classes in lower case.
"""

import difflib
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sooner.errors import FetchFailed, InvalidArgument
from sooner.extras import refuse_missing
from sooner.series import Missing, Names, Series

_FAILURES = (OSError, ValueError, TypeError, IndexError, KeyError)


class Archive(NamedTuple):
    """The two parts of a set as it is published; they share the names of their classes."""

    train: Series
    test: Series


def embedded() -> list[str]:
    """The names of the sets that are inside the aeon package.

    >>> "JapaneseVowels" in embedded()
    True
    """
    folder = _aeon_folder() / "datasets" / "data"
    return sorted(test.parent.name for test in folder.glob("*/*_TEST.ts") if _is_set(test))


def load(name: str, *, missing: Missing = "refuse") -> Archive:
    """One set of the archives, by its name there.

    Args:
        name: for example "JapaneseVowels" or "GunPoint".
        missing: as in `Series.from_aeon`.

    >>> vowels = load("JapaneseVowels")
    >>> len(vowels.train), len(vowels.test), vowels.train.features, vowels.train.lengths.unique().tolist()[:3]
    (270, 370, (12,), [7, 9, 10])
    """
    parts = cases(name)
    return Archive(*(Series.from_aeon(x, y, classes=classes_of(parts), missing=missing) for x, y in parts))


def cases(name: str) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The training and the test set as aeon has them: (X, y), (X_test, y_test).

    `X` is an array (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints).
    """
    return _loaded(name, "train"), _loaded(name, "test")


def classes_of(parts: Sequence[tuple[Any, Any]]) -> Names:
    """The classes of all parts of a set, sorted."""
    return np.unique(np.concatenate([labels for _, labels in parts]))


def read_ts(path: str | Path) -> tuple[Any, Any]:
    """The cases and the labels of a .ts file; None for the labels if it has none.

    The cases are an array (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints).
    """
    file = Path(path).expanduser()
    if not file.is_file():
        remedy = "Check the name and the current folder."
        raise InvalidArgument(str(path), "a .ts file", "nothing there", remedy)
    if b"\0" in file.read_bytes():
        raise InvalidArgument(str(path), "a .ts file of text", "NUL bytes", "Save it as UTF-8.")
    _aeon_folder()
    from aeon.datasets import load_from_ts_file

    try:
        x, y, header = load_from_ts_file(str(file), return_meta_data=True)
    except _FAILURES as error:
        raise _unreadable(file, error) from None
    if not len(x):
        raise InvalidArgument(
            str(path), "a .ts file of at least 1 series", "none", "Check the program that wrote this file."
        )
    if header["targetlabel"]:
        remedy = "It is a set for regression."
        raise InvalidArgument(str(path), "a .ts file of classes", "one of numbers to be predicted", remedy)
    return x, _known(file, y) if header["classlabel"] else None


def _known(file: Path, y: Any) -> Names:
    """The names of the classes, without blanks around them; aeon writes "?" as NaN, and takes it for a class."""
    names: Names = np.char.strip(y)
    missing = np.flatnonzero(np.char.lower(names) == "nan")
    if len(missing):
        got, remedy = f"none at series {missing[0]} (counted from 0)", "Name its class, or drop the series."
        raise InvalidArgument(str(file), "a .ts file with a class for every series", got, remedy)
    return names


def _loaded(name: str, split: str) -> tuple[Any, Any]:
    inside = embedded()
    from aeon.datasets import load_classification
    from aeon.datasets.tsc_datasets import tsc_zenodo

    try:
        # Not the versions that were cut to equal lengths or filled in.
        x, y = load_classification(str(name), split=split, load_equal_length=False, load_no_missing=False)
    except _FAILURES as error:
        known = {*tsc_zenodo, *inside}
        offer = f"Inside the aeon package, without a network, there are {', '.join(inside)}."
        if name in known:
            raise FetchFailed(name, [_in_a_line(error)], offer) from None
        nearest = difflib.get_close_matches(str(name), sorted(known), n=1)
        remedy = f"Did you mean {nearest[0]!r}? {offer}" if nearest else offer
        raise InvalidArgument("name", "a set of the UCR or UEA archives", repr(name), remedy) from None
    return x, y


def _aeon_folder() -> Path:
    """Where aeon lies; looked up without importing it, which takes a second."""
    refuse_missing("archives", "archives", "read by aeon")
    found = importlib.util.find_spec("aeon")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _is_set(test: Path) -> bool:
    """Whether this is the test part of a set whose series have classes, with its training part beside it."""
    name = test.parent.name
    if test.name != f"{name}_TEST.ts" or not test.with_name(f"{name}_TRAIN.ts").is_file():
        return False
    with test.open(encoding="utf-8") as lines:
        header = itertools.takewhile(lambda line: not line.lower().startswith("@data"), lines)
        return any(line.lower().startswith("@classlabel true") for line in header)


def _unreadable(file: Path, error: Exception) -> InvalidArgument:
    """What is wrong with a file that aeon cannot read; by line, if a number is none."""
    for number, line in _data_lines(file):
        for cell in itertools.chain.from_iterable(part.split(",") for part in line.split(":")[:-1]):
            if not _is_number(cell):
                expected, got = (
                    "a .ts file of numbers, and a class behind the last colon",
                    f"{cell.strip()!r} in line {number}",
                )
                return InvalidArgument(str(file), expected, got, "Check that line; '?' means a missing value.")
    return InvalidArgument(
        str(file), "a .ts file that aeon reads", _in_a_line(error), "Check the program that wrote this file."
    )


def _data_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines behind `@data`, counted from the first line of the file."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        numbered = itertools.dropwhile(lambda line: not line[1].lower().startswith("@data"), enumerate(lines, start=1))
        yield from itertools.islice(numbered, 1, None)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace("?", "nan"))
    except ValueError:
        return False
    return True


def _in_a_line(error: BaseException) -> str:
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return said if len(said) <= 160 else f"{said[:157]}..."
