"""The files of a long table: which ones they are, which columns they have, and their rows, a batch at a time.

Only what reads tables imports this module, and late: it needs pyarrow, which others need not wait for.
"""

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

from sooner.errors import InvalidArgument, UnreadableFile
from sooner.series.columns import ColumnChoice
from sooner.series.rows import kind_of, read_as

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

_ROWS = 2**16  # of a Parquet file at a time
_BUFFER = 2**18  # bytes of each Parquet column at a time, where pyarrow would read a whole row group
_LARGE = 2**24  # bytes of a row group; smaller ones are read whole, and no damaged page can claim more than it has
_BYTES = 2**20  # of a CSV file at a time; pyarrow reads up to 32 times as much ahead
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # how pyarrow says it
_FAILURES = (pa.ArrowException, OSError, UnicodeError)
_CODED = pa.dictionary(pa.int32(), pa.string())


def table_files(path: str | Path) -> list[Path]:
    """The files that a path means: itself, all tables in a folder (and below), or what a pattern like `*.csv` matches."""
    place, remedy = Path(path).expanduser(), f"A table ends in one of {', '.join(PARQUET + CSV)}."
    if place.is_dir():
        # What is hidden, or half written by another program, is not meant.
        found = [
            file for file in place.rglob("*") if not any(part[0] in "._" for part in file.relative_to(place).parts)
        ]
        got = "a folder without one"
    elif place.exists():
        found, got = [place], f"a file {place.suffix!r}" if place.suffix else "a file without a suffix"
    else:
        found, got = [Path(name) for name in glob.iglob(str(place), recursive=True)], "nothing there"
        remedy = "Check the name and the current folder."
    files = sorted(file for file in found if file.is_file() and is_table(file))
    if not files:
        raise InvalidArgument(str(path), "a table", got, remedy)
    if len({is_parquet(file) for file in files}) > 1:
        raise InvalidArgument(
            str(path), "tables of one kind", "Parquet and CSV", "Name one file type: *.parquet or *.csv."
        )
    return files


def is_table(path: Path) -> bool:
    """By its suffix."""
    return path.name.lower().endswith(PARQUET + CSV)


def is_parquet(path: Path) -> bool:
    """By its suffix; the other tables are CSV."""
    return path.name.lower().endswith(PARQUET)


def _group_sizes(path: Path, footer: Any) -> list[int]:
    """The rows of each row group; a damaged footer may state another sum."""
    sizes = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
    if min(sizes, default=0) < 0:
        raise UnreadableFile(str(path), "a Parquet file of row groups with rows", f"one of {min(sizes)}")
    return sizes


class FileSchema(NamedTuple):
    """What a file says of itself.

    `kinds` are its columns in their order, and what each one holds: "number", or a word for anything else. `types` says it as
    pyarrow does, and `groups` are the rows in each row group of a Parquet file; a CSV file has neither.
    """

    kinds: dict[str, str]
    types: dict[str, Any]
    groups: list[int]


def parquet_schema(path: Path) -> FileSchema:
    """The schema of a Parquet file, from its footer."""
    _refuse_empty_file(path)
    footer = _footer(path)
    fields = list(footer.schema.to_arrow_schema())
    kinds = _different(path, [(field.name, kind_of(field.type)) for field in fields])
    return FileSchema(kinds, {field.name: field.type for field in fields}, _group_sizes(path, footer))


def _different(path: Path, kinds: list[tuple[str, str]]) -> dict[str, str]:
    twice = [name for name, count in Counter(name for name, _ in kinds).items() if count > 1]
    if twice:
        expected = "a table whose columns have different names"
        raise InvalidArgument(str(path), expected, f"{twice[0]!r} twice", "Rename one of them.")
    return dict(kinds)


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
    """These columns of a Parquet file, a record batch at a time; only of these row groups, if they are named."""
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
                batch.validate(full=True)  # most files have no checksums: text may be damaged, and readable
                rows += len(batch)
                if rows > stated:
                    break
                yield batch
    except _FAILURES as error:
        raise _unreadable(path, "Parquet", error) from None
    if rows != stated:  # where a damaged column ends early, pyarrow ends too, without a word
        raise UnreadableFile(
            str(path), f"a Parquet file of {stated} rows, as its footer says", "another number of rows"
        )


class CsvFile:
    """A CSV file that is opened once: its first block shows the schema, then it is read from the start.

    By the first rows; what turns out to be no number further down is found when it is read.
    """

    def __init__(self, path: Path) -> None:
        _refuse_empty_file(path)
        self.path = path
        try:
            self._file = open_file(path)
            self._head = self._stream()  # kept: a gzip stream closes the file below it when it is freed
            # In Arrow's own memory: a thread of pyarrow may be the last to let go of the block, and for bytes of Python it
            # would need the interpreter, and abort the process if that has ended.
            block = self._head.read_buffer(_BYTES)
        except _FAILURES as error:
            raise _unreadable(path, "CSV", error) from None
        if block.size == _BYTES:  # the last row may not be whole
            text = block.to_pybytes()
            block = block.slice(0, max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 or _BYTES)
        convert = csv.ConvertOptions(strings_can_be_null=True)
        with _csv_reader(pa.BufferReader(block), path, convert) as reader:
            batch = next(iter(reader), None)
            fields = [(field.name, field.type) for field in reader.schema]
        kinds = [(name, kind_of(kind)) for name, kind in fields]
        kinds = [
            (name, _described(batch, index) if kind == "text" else kind) for index, (name, kind) in enumerate(kinds)
        ]
        self.schema = FileSchema(_different(path, kinds), {}, [])
        self._flags = {name for name, kind in fields if kind == pa.bool_()}

    def batches(self, choice: ColumnChoice, names: Sequence[str]) -> Iterator[Any]:
        """These columns, a record batch at a time; to be called once."""
        texts = dict.fromkeys(filter(None, (choice.series, choice.label, choice.group)), _CODED)
        types = {choice.time: pa.string(), **texts}
        types |= {name: pa.bool_() if name in self._flags else pa.float64() for name in choice.channels}
        types = {name: kind for name, kind in types.items() if name in names}
        convert = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)
        with _csv_reader(self._stream(), self.path, convert) as reader:
            yield from reader

    def _stream(self) -> Any:
        self._file.seek(0)
        return pa.CompressedInputStream(self._file, "gzip") if self.path.suffix.lower() == ".gz" else self._file


def open_file(path: Path) -> Any:
    """The bytes of a file."""
    return pa.OSFile(str(path))


@contextmanager
def _csv_reader(source: Any, path: Path, convert: Any) -> Iterator[Any]:
    """A reader of record batches; what pyarrow says about a bad file becomes our sentence."""
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    # One thread: only then pyarrow counts the rows that it refuses. It could also hand them to a function of ours, but a thread
    # of its own would hold that function, and abort the process if Python has ended by the time it lets go.
    reading = csv.ReadOptions(block_size=_BYTES, use_threads=False)
    try:
        with csv.open_csv(source, reading, csv.ParseOptions(delimiter=delimiter), convert) as reader:
            yield reader
    except _FAILURES as error:
        ragged = _RAGGED.search(str(error))
        if ragged:
            row, expected, got = map(int, ragged.groups())
            place = f"{got} at row {row - 1}"  # the line of names is its first
            remedy = "Check that line for a missing or extra separator."
            raise InvalidArgument(str(path), f"a table of {expected} cells a row", place, remedy) from None
        numbers = [name for name, kind in (convert.column_types or {}).items() if kind == pa.float64()]
        raise _text_among(path, numbers) or _unreadable(path, "CSV", error) from None


def _text_among(path: Path, numbers: list[str]) -> InvalidArgument | None:
    """Where the first text stands in these columns of numbers, said in a sentence."""
    if not numbers:
        return None
    wanted, before = dict.fromkeys(numbers, pa.string()), 0
    convert = csv.ConvertOptions(column_types=wanted, include_columns=numbers, strings_can_be_null=True)
    with _csv_reader(path, path, convert) as reader:
        for batch in reader:
            found = [(row, name) for name in numbers if (row := _first_text(batch.column(name))) is not None]
            if found:
                row, name = min(found)
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


def _described(batch: Any, index: int) -> str:
    row = None if batch is None else _first_text(batch.column(index))
    return "text" if batch is None or row is None else f"text ({batch.column(index)[row].as_py()!r} at row {row + 1})"


def _unreadable(path: Path, kind: str, error: BaseException) -> InvalidArgument:
    said = " ".join(str(error).split()).rstrip(".")
    if "Empty CSV" in said:
        return no_rows(str(path))
    if isinstance(error, UnicodeError) or "invalid UTF8" in said:
        return InvalidArgument(str(path), "text in UTF-8", "other bytes", "Save it as UTF-8.")
    said = said if len(said) <= 160 else f"{said[:157]}..."
    return UnreadableFile(str(path), f"a readable {kind} file", said)


def no_rows(path: str) -> InvalidArgument:
    """What to say of a table without data."""
    return InvalidArgument(path, "a table with at least 1 row", "none", "Check the program that wrote this file.")
