"""The UCR and UEA archives and their .ts files, read by aeon: the extra `sooner[archives]`.

Some sets are inside the aeon package (see `embedded`); aeon downloads the others into its own cache. Series keep their unequal
lengths and missing values ("?" in a file). aeon writes the names of classes in lower case.
"""

import difflib
import importlib.util
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sooner.errors import FetchFailed, InvalidArgument, short_reason
from sooner.extras import refuse_missing
from sooner.series import Missing, Names, Series

_FAILURES = (OSError, ValueError, TypeError, IndexError, KeyError)


class Archive(NamedTuple):
    """The two splits of a set as it is published, with the same classes."""

    train: Series
    test: Series


def embedded() -> list[str]:
    """The names of the sets inside the aeon package.

    >>> "JapaneseVowels" in embedded()
    True
    """
    folder = _aeon_folder() / "datasets" / "data"
    return sorted(test.parent.name for test in folder.glob("*/*_TEST.ts") if _is_set(test))


def load(name: str, *, missing: Missing = "refuse") -> Archive:
    """A set of the archives.

    Args:
        name: its name in the archives, for example "JapaneseVowels" or "GunPoint".
        missing: as in `Series.from_aeon`.

    >>> vowels = load("JapaneseVowels")
    >>> len(vowels.train), len(vowels.test), vowels.train.features, vowels.train.lengths.unique().tolist()[:3]
    (270, 370, (12,), [7, 9, 10])
    """
    splits = cases(name)
    return Archive(*(Series.from_aeon(x, y, classes=classes_of(splits), missing=missing) for x, y in splits))


def cases(name: str) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The training and the test set in aeon's layout: (X, y), (X_test, y_test).

    `X` is an array (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints).
    """
    return _loaded(name, "train"), _loaded(name, "test")


def classes_of(splits: Sequence[tuple[Any, Any]]) -> Names:
    """The classes of all splits of a set, sorted."""
    return np.unique(np.concatenate([labels for _, labels in splits]))


def read_ts(path: str | Path) -> tuple[Any, Any]:
    """The cases of a .ts file, as in `cases`, and its labels; None if it has none."""
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
        remedy = "Check the program that wrote this file."
        raise InvalidArgument(str(path), "a .ts file of at least 1 series", "none", remedy)
    if header["targetlabel"]:
        remedy = "It is a set for regression."
        raise InvalidArgument(str(path), "a .ts file of classes", "one of numbers to be predicted", remedy)
    if not header["classlabel"]:
        return x, None
    labels: Names = np.char.strip(y)
    missing = np.flatnonzero(np.char.lower(labels) == "nan")  # aeon's name of the class "?"
    if len(missing):
        got, remedy = f"none at series {missing[0]} (counted from 0)", "Name its class, or drop the series."
        raise InvalidArgument(str(file), "a .ts file with a class for every series", got, remedy)
    return x, labels


def _loaded(name: str, split: str) -> tuple[Any, Any]:
    inside = embedded()
    from aeon.datasets import load_classification
    from aeon.datasets.tsc_datasets import tsc_zenodo

    try:
        # Not the versions that were cut to equal lengths or filled in.
        x, y = load_classification(str(name), split=split, load_equal_length=False, load_no_missing=False)
        return x, y
    except _FAILURES as error:
        known = {*tsc_zenodo, *inside}
        offer = f"Inside the aeon package, without a network, there are {', '.join(inside)}."
        if name in known:
            raise FetchFailed(name, [short_reason(error)], offer) from None
        nearest = difflib.get_close_matches(str(name), sorted(known), n=1)
        remedy = f"Did you mean {nearest[0]!r}? {offer}" if nearest else offer
        raise InvalidArgument("name", "a set of the UCR or UEA archives", repr(name), remedy) from None


def _aeon_folder() -> Path:
    """The folder of the aeon package, without importing it, which takes a second."""
    refuse_missing("archives", "archives", "read by aeon")
    spec = importlib.util.find_spec("aeon")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _is_set(test: Path) -> bool:
    """Whether this is the test file of a set with classes, next to its training file."""
    name = test.parent.name
    if test.name != f"{name}_TEST.ts" or not test.with_name(f"{name}_TRAIN.ts").is_file():
        return False
    with test.open(encoding="utf-8") as lines:
        header = itertools.takewhile(lambda line: not line.lower().startswith("@data"), lines)
        return any(line.lower().startswith("@classlabel true") for line in header)


def _unreadable(file: Path, error: Exception) -> InvalidArgument:
    """The error for a file that aeon cannot read; it names the line if a cell is not a number."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        numbered = itertools.dropwhile(lambda line: not line[1].lower().startswith("@data"), enumerate(lines, start=1))
        for number, line in itertools.islice(numbered, 1, None):
            for cell in itertools.chain.from_iterable(channel.split(",") for channel in line.split(":")[:-1]):
                if not _is_number(cell):
                    expected, got = "numbers, and a class behind the last colon", f"{cell.strip()!r} in line {number}"
                    remedy = "Check that line; '?' means a missing value."
                    return InvalidArgument(str(file), f"a .ts file of {expected}", got, remedy)
    remedy = "Check the program that wrote this file."
    return InvalidArgument(str(file), "a .ts file that aeon reads", short_reason(error), remedy)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace("?", "nan"))
    except ValueError:
        return False
    return True
