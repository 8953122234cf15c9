"""DataFrames of pandas, Polars and pyarrow, read through the Arrow C stream, so that none of the libraries is imported."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.errors import InvalidArgument, short_reason
from sooner.series.arrays import Missing
from sooner.series.columns import Columns, choose, spellings
from sooner.series.record import Series

_NUMBERED = re.compile(r"(.*?)(\d+(?:\.\d+)?)")
_SHOWN = 8  # columns in an error


def is_frame(value: Any) -> bool:
    """Whether this is a DataFrame of any library."""
    return hasattr(value, "columns") and (hasattr(value, "__arrow_c_stream__") or hasattr(value, "iloc"))


def read_frame(frame: Any, columns: Columns, *, classes: Any = None, missing: Missing = "refuse") -> Series:
    """The series of a DataFrame with one row per observation, labelled if it has a column of labels."""
    from sooner.series.assembly import Assembly
    from sooner.series.layout import Layout
    from sooner.series.rows import Origin, row_batch, type_name

    table = _as_arrow(frame)
    types = {field.name: type_name(field.type) for field in table.schema}
    unassigned = types.keys() - {*columns.ignore, *(columns.channels or ())}
    labelled = columns.label is not None or any(name in unassigned for name in spellings("label", unassigned))
    choice = choose(columns, types, "X", "labelled" if labelled else "unlabelled")
    if not len(table):
        raise InvalidArgument("X", "a DataFrame with at least 1 row", "none", "Check what made it.")
    batches, first = [], 0
    for batch in table.select(choice.names()).to_batches():
        if len(batch):
            batches.append(row_batch(batch, choice, Origin.of("X", first, len(batch))))
        first += len(batch)
    return Layout("X", choice, missing).series(Assembly.of(batches, choice), classes)


def wide_array(frame: Any) -> npt.NDArray[Any]:
    """(rows, columns) of a DataFrame with one row per series; a possibly long table is refused."""
    refuse_ambiguous(frame)
    return np.column_stack([column.to_numpy() for column in _as_arrow(frame).columns])


def refuse_ambiguous(frame: Any) -> None:
    """Refuse a DataFrame unless its columns are numbers, and numbered in order: 0, 1, 2, or t0, t1, t2."""
    from sooner.series.rows import type_name

    table = _as_arrow(frame)
    if all(type_name(field.type) == "number" for field in table.schema) and _numbered(table.column_names):
        return
    names = ", ".join(map(repr, table.column_names[:_SHOWN]))
    got = f"a DataFrame with the columns {names}{', ...' if table.num_columns > _SHOWN else ''}"
    remedy = (
        "If each row is one observation, pass Series.of(df, series=..., time=..., label=...) with the names of these "
        "columns; if each row is one series, pass df.to_numpy()."
    )
    raise InvalidArgument("X", "an array or a Series", got, remedy)


def _numbered(names: list[str]) -> bool:
    """Whether these are ascending numbers, or one prefix with ascending numbers.

    >>> _numbered(["feature 0", "feature 1"]), _numbered(["1", "2"]), _numbered(["hum", "flow"])
    (True, True, False)
    """
    matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    if len(matches) < len(names) or len({match[1] for match in matches}) != 1:
        return False
    return all(low < high for low, high in pairwise(float(match[2]) for match in matches))


def _as_arrow(frame: Any) -> Any:
    import pyarrow as pa

    if hasattr(frame, "iloc") and not any(frame.index.names):
        frame = frame.reset_index(drop=True)  # pandas would add row numbers that are not in order as a column
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        remedy = "Give columns different names, and each one type."
        raise InvalidArgument("X", "a DataFrame that Arrow can read", short_reason(error), remedy) from None
