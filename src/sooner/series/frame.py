"""DataFrames of pandas, Polars and pyarrow: long ones by the names of their columns, wide ones where nothing else is possible.

Any library is read through the Arrow C stream, so none of them is imported here.
"""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.errors import InvalidArgument
from sooner.series.arrays import Missing
from sooner.series.columns import Columns, choose, spellings
from sooner.series.record import Series

_NUMBERED = re.compile(r"(.*?)(\d+(?:\.\d+)?)")
_SHOWN = 8  # names of columns


def is_frame(value: Any) -> bool:
    """Whether this is a DataFrame of any library."""
    return hasattr(value, "columns") and (hasattr(value, "__arrow_c_stream__") or hasattr(value, "iloc"))


def read_frame(frame: Any, columns: Columns, *, classes: Any = None, missing: Missing = "refuse") -> Series:
    """The series of a DataFrame with one row per observation; without a column of labels they have none."""
    from sooner.series.assembly import Assembly
    from sooner.series.layout import Layout
    from sooner.series.rows import Origin, kind_of, row_batch

    table = _as_arrow(frame)
    kinds = {field.name: kind_of(field.type) for field in table.schema}
    free = kinds.keys() - {*columns.ignore, *(columns.channels or ())}
    labelled = columns.label is not None or any(name in free for name in spellings("label", free))
    choice = choose(columns, kinds, "X", "labelled" if labelled else "unlabelled")
    if not len(table):
        raise InvalidArgument("X", "a DataFrame with at least 1 row", "none", "Check what made it.")
    batches, first = [], 0
    for batch in table.select(choice.names()).to_batches():
        if len(batch):
            batches.append(row_batch(batch, choice, Origin("X", first)))
        first += len(batch)
    return Layout("X", choice, missing).series(Assembly.of(batches, choice), classes)


def wide_array(frame: Any) -> npt.NDArray[Any]:
    """(rows, columns) of a DataFrame with one row per series; one that could be a long table is refused."""
    refuse_ambiguous(frame)
    return np.column_stack([column.to_numpy() for column in _as_arrow(frame).columns])


def refuse_ambiguous(frame: Any) -> None:
    """Refuse a DataFrame unless its columns are numbers, and numbered in order: 0, 1, 2, or t0, t1, t2."""
    from sooner.series.rows import kind_of

    table = _as_arrow(frame)
    if all(kind_of(field.type) == "number" for field in table.schema) and _numbered(table.column_names):
        return
    names = ", ".join(map(repr, table.column_names[:_SHOWN]))
    got = f"a DataFrame with the columns {names}{', ...' if table.num_columns > _SHOWN else ''}"
    remedy = (
        "If each row is one observation, pass Series.of(df, series=..., time=..., label=...) with the names of these "
        "columns; if each row is one series, pass df.to_numpy()."
    )
    raise InvalidArgument("X", "an array or a Series", got, remedy)


def _numbered(names: list[str]) -> bool:
    """Whether these are numbers, or one prefix with numbers, that ascend.

    >>> _numbered(["feature 0", "feature 1"]), _numbered(["1", "2"]), _numbered(["hum", "flow"])
    (True, True, False)
    """
    found = [_NUMBERED.fullmatch(name) for name in names]
    if not all(found) or len({match[1] for match in found if match}) != 1:
        return False
    return all(low < high for low, high in pairwise(float(match[2]) for match in found if match))


def _as_arrow(frame: Any) -> Any:
    import pyarrow as pa

    if hasattr(frame, "iloc") and not any(frame.index.names):
        frame = frame.reset_index(drop=True)  # pandas would add row numbers that are not in order as a column
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        got = " ".join(str(error).split()).rstrip(".")[:160]
        remedy = "Give columns different names, and each one type."
        raise InvalidArgument("X", "a DataFrame that Arrow can read", got, remedy) from None
