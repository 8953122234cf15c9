"""How the rows of a long table become series: their channels, the type of their numbers, and their names."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.series.arrays import Missing, Names, as_names
from sooner.series.columns import GAP, ColumnChoice, Gaps
from sooner.series.record import Series
from sooner.types import IntArray

if TYPE_CHECKING:
    from sooner.series.assembly import Assembly
    from sooner.series.rows import RowBatch

Dtype: TypeAlias = Literal["float32", "float64"]
Numerals: TypeAlias = Literal["text", "numbers"]

_INTEGER = re.compile("0|-?[1-9][0-9]{0,17}")  # without leading zeros


@dataclass(frozen=True)
class Layout:
    """How rows are read."""

    source: str  # the name of the table in errors
    choice: ColumnChoice
    missing: Missing = "refuse"
    gaps: Gaps = "none"
    dtype: Dtype = "float64"
    numerals: Numerals = "text"  # whether text names become numbers if all of them are integers

    def __post_init__(self) -> None:
        for name, choices in (("missing", Missing), ("gaps", Gaps), ("dtype", Dtype)):
            refuse_unknown(name, getattr(self, name), get_args(choices))
        if GAP in self.choice.channels and (self.gaps == "channel" or self.choice.label is not None):
            # A model that reads gaps is recognised by this name.
            remedy = 'It is the name of what gaps="channel" adds: rename the column, or leave it out by ignore=.'
            raise InvalidArgument("channels", f"without a {GAP!r}", f"one in {self.source}", remedy)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, with that of the gaps."""
        return (*self.choice.channels, GAP) if self.gaps == "channel" else self.choice.channels

    @property
    def mask_channels(self) -> int:
        """The number of mask channels."""
        return len(self.channels) if self.missing == "mask" else 0

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """(rows, channels): an array for the numbers of this many rows."""
        try:
            return np.empty((rows, len(self.channels) + self.mask_channels), dtype=self.dtype)
        except MemoryError:
            remedy = "Read it in chunks: `table_parts`."
            raise InvalidArgument(self.source, "a table that fits into memory", f"{rows} rows", remedy) from None

    def fill(self, batch: "RowBatch", values: npt.NDArray[Any]) -> None:
        """Write the numbers of a batch; gaps are written when the rows are sorted."""
        batch.write(values, self.choice.channels, self.missing)
        if self.gaps == "channel" and self.missing == "mask":
            values[:, -1] = 1.0

    def series(self, assembly: "Assembly", classes: Any = None, values: npt.NDArray[Any] | None = None) -> Series:
        """The series of some rows; `values` are (rows, channels) if the numbers have already been written."""
        if values is None:
            values, before = self.empty(assembly.rows), 0
            for batch in assembly.batches:
                self.fill(batch, values[before : before + len(batch)])
                before += len(batch)
        labels = known = groups = None
        observations = assembly.observations(values, len(self.choice.channels) if self.gaps == "channel" else None)
        if self.choice.label is not None:
            labels, known = self._labels(assembly, self.choice.label, classes)
        if self.choice.group is not None:
            indices, names = assembly.names([batch.groups for batch in assembly.batches], self.choice.group)
            groups = self._as_array(names)[indices]
        return Series(
            observations,
            torch.from_numpy(assembly.lengths),
            None if labels is None else torch.from_numpy(labels),  # type: ignore[arg-type]
            known,  # type: ignore[arg-type]
            self._as_array(assembly.ids),
            self.channels,
            groups,
            mask_channels=self.mask_channels,
        )

    def _as_array(self, names: Any) -> Names:
        if names.type != "string":
            numbers: Names = names.to_numpy(zero_copy_only=False)
            return numbers
        texts = names.to_pylist()
        if self.numerals == "numbers" and all(map(_INTEGER.fullmatch, texts)):
            return np.array([int(text) for text in texts])
        return np.array(texts)

    def _labels(self, assembly: "Assembly", column: str, classes: Any) -> tuple[IntArray, Names]:
        """The labels of the series as class indices, and the classes."""
        indices, names = assembly.names([batch.labels for batch in assembly.batches], column)
        known = np.unique(self._as_array(names)) if classes is None else as_names(classes, name="classes")
        if classes is None and len(known) < 2:
            expected, got = f"a table of at least 2 classes in column {column!r}", f"only {known.tolist()[0]!r}"
            raise InvalidArgument(self.source, expected, got, "With one class there is nothing to decide.")
        # If the table contains text, classes that are numbers are compared as text.
        index_of = {str(name) if names.type == "string" else name: index for index, name in enumerate(known.tolist())}
        for index, name in enumerate(names.to_pylist()):
            if name not in index_of:
                row = int(assembly.starts[np.flatnonzero(indices[assembly.codes] == index)[0]])
                expected = f"of the classes {known.tolist()} in column {column!r}"
                raise assembly.fault(row, expected, repr(name), "Drop the series, or add it to the classes.")
        return np.array([index_of[name] for name in names.to_pylist()])[indices], known
