"""Decisions on disk, for consumers that were away: files of JSON lines, at most a million decisions."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from sooner.stream.events import Event
from sooner.stream.journal.segments import number_of, write_all

PER_FILE = 10_000
FILES = 100


class DecisionFiles:
    """The decisions in a folder: `decisions-N.jsonl` begins with the event N. The oldest files are removed.

    Only decisions whose observations are on disk are added, so that a number never gets another meaning.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._count = 0
        self.last_id = self._mended()

    @property
    def first_id(self) -> int:
        """The ID of the oldest decision, or of the next one."""
        paths = self._paths()
        return number_of(paths[0]) if paths else self.last_id + 1

    def add(self, events: Sequence[Event]) -> None:
        """Append decisions; those that are there already are left out."""
        events = [event for event in events if event.id > self.last_id]
        while events:
            if self._file is None or self._count >= PER_FILE:
                self._begin(events[0].id)
            now, events = events[: PER_FILE - self._count], events[PER_FILE - self._count :]
            assert self._file is not None
            size = os.fstat(self._file).st_size
            try:
                write_all(self._file, b"".join(json.dumps(event.record()).encode() + b"\n" for event in now))
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._file, size)
                    os.lseek(self._file, size, os.SEEK_SET)
                raise
            self._count += len(now)
            self.last_id = now[-1].id

    def sync(self) -> None:
        """Put them on disk."""
        if self._file is not None:
            os.fsync(self._file)

    def after(self, number: int, limit: int) -> Iterator[Event]:
        """The decisions with larger IDs, the oldest first."""
        paths = self._paths()
        begin = max((index for index, path in enumerate(paths) if number_of(path) <= number + 1), default=0)
        for path in paths[begin:]:
            with path.open("rb") as file:
                for event in _events_in(file):
                    if limit <= 0:
                        return
                    if event.id > number:
                        yield event
                        limit -= 1

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _begin(self, number: int) -> None:
        self.sync()
        self.close()
        path = self._folder / f"decisions-{number:020d}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
        self._count = 0
        for old in self._paths()[:-FILES]:
            old.unlink(missing_ok=True)

    def _mended(self) -> int:
        """Cut a torn end; returns the ID of the last decision. What is cut comes again from the journal."""
        paths = self._paths()
        if not paths:
            return 0
        last, end = number_of(paths[-1]) - 1, 0
        with paths[-1].open("rb") as file:
            for event in _events_in(file):
                last, end = event.id, file.tell()
                self._count += 1
        os.truncate(paths[-1], end)
        self._file = os.open(paths[-1], os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        return last

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("decisions-*.jsonl"), key=number_of)


def _events_in(file: BinaryIO) -> Iterator[Event]:
    """The decisions in a file, up to a line that is not whole."""
    while (line := file.readline()).endswith(b"\n"):
        try:
            yield Event.of(json.loads(line))
        except (ValueError, TypeError, KeyError):
            return
