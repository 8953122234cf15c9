"""The files of a long table: their names, their columns, and their rows in record batches (imported late: it needs pyarrow)."""

import glob
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from sooner.errors import InvalidArgument, UnreadableFile, short_reason
from sooner.series.columns import ColumnChoice
from sooner.series.rows import read_as, type_name

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

_ROWS = 2**16  # rows in a record batch of a Parquet file
_BUFFER = 2**18  # bytes of each Parquet column in memory, where pyarrow would read a whole row group
_LARGE = 2**24  # bytes of a row group; smaller ones are read whole, and no damaged page can claim more than it has
_BYTES = 2**20  # bytes in a block of a CSV file; pyarrow reads up to 32 times as much ahead
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # pyarrow's message
_FAILURES = (pa.ArrowException, OSError, UnicodeError)
_TEXT = pa.dictionary(pa.int32(), pa.string())


def table_files(path: str | Path) -> list[Path]:
    """The files of a path: itself, all tables in a folder (and below), or the matches of a pattern like `*.csv`."""
    source, remedy = Path(path).expanduser(), f"A table ends in one of {', '.join(PARQUET + CSV)}."
    if source.is_dir():
        got = "a folder without one"
        # Hidden files, and files that another program is writing, are left out.
        paths = ((file, file.relative_to(source).parts) for file in source.rglob("*"))
        matches = [file for file, names in paths if not any(name[0] in "._" for name in names)]
    elif source.exists():
        matches, got = [source], f"a file {source.suffix!r}" if source.suffix else "a file without a suffix"
    else:
        matches, got = [Path(name) for name in glob.iglob(str(source), recursive=True)], "nothing there"
        remedy = "Check the name and the current folder."
    files = sorted(file for file in matches if file.is_file() and is_table(file))
    if not files:
        raise InvalidArgument(str(path), "a table", got, remedy)
    if len({is_parquet(file) for file in files}) > 1:
        remedy = "Name one file type: *.parquet or *.csv."
        raise InvalidArgument(str(path), "tables of one file type", "Parquet and CSV", remedy)
    return files


def is_table(path: Path) -> bool:
    """Whether the suffix is that of a table."""
    return path.name.lower().endswith(PARQUET + CSV)


def is_parquet(path: Path) -> bool:
    """Whether the suffix is that of a Parquet file; all other tables are CSV."""
    return path.name.lower().endswith(PARQUET)


class FileSchema(NamedTuple):
    """The schema of a file.

    `columns` are the types of the columns in words ("number" or another), in their order; `types` are pyarrow's, and `groups` the
    numbers of rows of the row groups, both only for Parquet files.
    """

    columns: dict[str, str]
    types: dict[str, Any]
    groups: list[int]


def parquet_schema(path: Path) -> FileSchema:
    """The schema of a Parquet file, from its footer."""
    _refuse_empty_file(path)
    footer = _footer(path)
    fields = list(footer.schema.to_arrow_schema())
    columns = _by_name(path, [(field.name, type_name(field.type)) for field in fields])
    groups = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
    if min(groups, default=0) < 0:
        raise UnreadableFile(str(path), "a Parquet file of row groups with rows", f"one of {min(groups)}")
    return FileSchema(columns, {field.name: field.type for field in fields}, groups)


def _by_name(path: Path, columns: list[tuple[str, str]]) -> dict[str, str]:
    for name, count in Counter(name for name, _ in columns).items():
        if count > 1:
            expected = "a table whose columns have different names"
            raise InvalidArgument(str(path), expected, f"{name!r} twice", "Rename one of them.")
    return dict(columns)


def _refuse_empty_file(path: Path) -> None:
    if path.stat().st_size == 0:
        raise UnreadableFile(str(path), "a table", "an empty file")


def _footer(path: Path) -> Any:
    try:
        return pq.read_metadata(path)
    except _FAILURES as error:
        raise _unreadable(path, "Parquet", error) from None


def parquet_batches(
    path: Path, choice: ColumnChoice, names: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """The record batches of these columns of a Parquet file; `groups` are the row groups to read, by default all."""
    _refuse_empty_file(path)
    footer = _footer(path)
    wanted = [footer.row_group(group) for group in (range(footer.num_row_groups) if groups is None else groups)]
    stated, rows = sum(group.num_rows for group in wanted), 0
    large = any(group.total_byte_size > _LARGE for group in wanted)
    try:
        with pq.ParquetFile(
            path,
            metadata=footer,
            read_dictionary=[name for name in (choice.series, choice.label, choice.group) if name in names],
            buffer_size=_BUFFER if large else 0,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file:
            for batch in file.iter_batches(_ROWS, row_groups=groups, columns=list(names)):
                batch.validate(full=True)  # most files have no checksums: damaged text may be readable
                rows += len(batch)
                if rows > stated:
                    break
                yield batch
    except _FAILURES as error:
        raise _unreadable(path, "Parquet", error) from None
    if rows != stated:  # pyarrow stops without an error if a damaged column ends early
        expected = f"a Parquet file of {stated} rows, as its footer says"
        raise UnreadableFile(str(path), expected, "another number of rows")


class CsvFile:
    """A CSV file that is opened once: its first block gives the schema, then it is read from the start.

    A column whose first rows are numbers may contain text further down: `batches` refuses it there.
    """

    def __init__(self, path: Path) -> None:
        _refuse_empty_file(path)
        self.path = path
        try:
            self._file = pa.OSFile(str(path))
            self._head = self._stream()  # kept: a gzip stream closes its file when it is freed
            # In Arrow's own memory: a thread of pyarrow may free the block last, and to free Python's bytes it would need
            # the interpreter, and abort the process if that has ended.
            block = self._head.read_buffer(_BYTES)
        except _FAILURES as error:
            raise _unreadable(path, "CSV", error) from None
        if block.size == _BYTES:  # the last row may not be whole
            text = block.to_pybytes()
            block = block.slice(0, max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 or _BYTES)
        convert = csv.ConvertOptions(strings_can_be_null=True)
        with _csv_reader(pa.BufferReader(block), path, convert) as reader:
            batch = next(iter(reader), None)
            fields = list(enumerate(reader.schema))
            columns = [(field.name, _csv_type(batch, index, field.type)) for index, field in fields]
        self.schema = FileSchema(_by_name(path, columns), {}, [])
        self._booleans = {field.name for _, field in fields if field.type == pa.bool_()}

    def batches(self, choice: ColumnChoice, names: Sequence[str]) -> Iterator[Any]:
        """The record batches of these columns; to be called once."""
        types = {choice.time: pa.string()}
        types |= dict.fromkeys(filter(None, (choice.series, choice.label, choice.group)), _TEXT)
        types |= {name: pa.bool_() if name in self._booleans else pa.float64() for name in choice.channels}
        types = {name: arrow_type for name, arrow_type in types.items() if name in names}
        convert = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)
        with _csv_reader(self._stream(), self.path, convert) as reader:
            yield from reader

    def _stream(self) -> Any:
        self._file.seek(0)
        return pa.CompressedInputStream(self._file, "gzip") if self.path.suffix.lower() == ".gz" else self._file


def _csv_type(batch: Any, index: int, arrow_type: Any) -> str:
    """`type_name`, with the first text of a column of text."""
    name = type_name(arrow_type)
    row = _first_text(batch.column(index)) if name == "text" and batch is not None else None
    return name if row is None else f"text ({batch.column(index)[row].as_py()!r} at row {row + 1})"


@contextmanager
def _csv_reader(source: Any, path: Path, convert: Any) -> Iterator[Any]:
    """A reader of record batches, with our errors instead of pyarrow's."""
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    # One thread: only then pyarrow counts the rows that it refuses. It could also pass them to a Python function, but one of its
    # threads would hold that function, and abort the process if Python has ended by the time it lets go.
    reading = csv.ReadOptions(block_size=_BYTES, use_threads=False)
    try:
        with csv.open_csv(source, reading, csv.ParseOptions(delimiter=delimiter), convert) as reader:
            yield reader
    except _FAILURES as error:
        ragged = _RAGGED.search(str(error))
        if ragged:
            row, expected, cells = map(int, ragged.groups())
            got = f"{cells} at row {row - 1}"  # pyarrow counts the header
            remedy = "Check that line for a missing or extra separator."
            raise InvalidArgument(str(path), f"a table of {expected} cells a row", got, remedy) from None
        numbers = [name for name, arrow_type in (convert.column_types or {}).items() if arrow_type == pa.float64()]
        raise _text_among(path, numbers) or _unreadable(path, "CSV", error) from None


def _text_among(path: Path, numbers: list[str]) -> InvalidArgument | None:
    """The error that names the first text in these columns of numbers."""
    if not numbers:
        return None
    types, before = dict.fromkeys(numbers, pa.string()), 0
    convert = csv.ConvertOptions(column_types=types, include_columns=numbers, strings_can_be_null=True)
    with _csv_reader(path, path, convert) as reader:
        for batch in reader:
            texts = [(row, name) for name in numbers if (row := _first_text(batch.column(name))) is not None]
            if texts:
                row, name = min(texts)
                got = f"{batch.column(name)[row].as_py()!r} at row {before + row + 1}"
                remedy = "Check that row, or leave this column out."
                return InvalidArgument(str(path), f"a table of numbers in column {name!r}", got, remedy)
            before += len(batch)
    return None


def _first_text(column: Any) -> int | None:
    """The first row of a column of text that is not a number."""
    column = pc.utf8_trim_whitespace(column)
    if read_as(column, pa.float64()) is not None:
        return None
    return next(row for row in range(len(column)) if read_as(column[row], pa.float64()) is None)


def _unreadable(path: Path, file_type: str, error: Exception) -> InvalidArgument:
    message = str(error)
    if "Empty CSV" in message:
        return no_rows(str(path))
    if isinstance(error, UnicodeError) or "invalid UTF8" in message:
        return InvalidArgument(str(path), "text in UTF-8", "other bytes", "Save it as UTF-8.")
    return UnreadableFile(str(path), f"a readable {file_type} file", short_reason(error))


def no_rows(path: str) -> InvalidArgument:
    """The error for a table without rows."""
    return InvalidArgument(path, "a table with at least 1 row", "none", "Check the program that wrote this file.")
