"""The folder of a journal: one process at a time, appending, putting on disk, replacing entries by snapshots."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sooner.errors import InvalidArgument, JournalFailed, UnreadableFile
from sooner.storage import locked, remove_stale, whole_file
from sooner.stream.journal.decisions import DecisionFiles
from sooner.stream.journal.segments import (
    MAGIC,
    framed,
    frames_of,
    number_of,
    segment_path,
    segments_in,
    sync_folder,
    write_all,
)

SEGMENT = 4 << 20
"""Bytes after which a new segment is begun."""
SNAPSHOT = 4 * SEGMENT
"""Bytes of entries after which a snapshot is due."""
_SNAPSHOT_SHARE = 4  # so that the cost of large snapshots is a part of that of the entries
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Journal:
    """The journal in a folder, which is created; another process must not use it at the same time.

    `sync` may be called from another thread than the rest.

    Args:
        folder: with nothing else in it.
        segment_bytes: size of a segment.
        snapshot_bytes: bytes of entries after which `due` says that a snapshot should replace them.

    Attributes:
        findings: sentences about what was repaired when it was opened.
        position: the number of the last entry.
        durable: the number of the last entry that is on disk.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> journal = Journal(folder.name)
    >>> journal.install(lambda: b"nothing yet", journal.rotate())
    >>> journal.append(b"an entry"), journal.durable
    (1, 0)
    >>> journal.sync()
    >>> journal.durable
    1
    >>> journal.close()
    >>> again = Journal(folder.name)
    >>> again.snapshot, list(again.entries())
    (b'nothing yet', [b'an entry'])
    >>> again.close(); folder.cleanup()
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, segment_bytes: int = SEGMENT, snapshot_bytes: int = SNAPSHOT
    ) -> None:
        self.folder = Path(folder)
        self._segment_bytes, self._snapshot_bytes = segment_bytes, snapshot_bytes
        self.findings: list[str] = []
        self._file: int | None = None
        self._size = 0  # of the current segment
        self._since = self._snapshot_size = 0  # bytes of entries since the snapshot, and of the snapshot
        self._failed: str | None = None
        self._lock = threading.Lock()
        self._installer = threading.Thread()  # that of the last snapshot
        self._open = ExitStack()
        self._take_folder()
        try:
            self.position = self.durable = self._mended(self._newest_snapshot()[1])
            self.decisions = DecisionFiles(self.folder)
        except BaseException:
            self._open.close()
            raise

    @property
    def snapshot(self) -> bytes | None:
        """The newest snapshot; None in a new journal."""
        return self._newest_snapshot()[0]

    def entries(self) -> Iterator[bytes]:
        """The entries after the snapshot."""
        _, base = self._newest_snapshot()
        for path in segments_in(self.folder):
            yield from (frame.content for frame in frames_of(path) if frame.number > base)

    def append(self, content: bytes) -> int:
        """Add an entry; returns its number. It is on disk after the next `sync`, and refused as a whole if the disk is full."""
        self._refuse_failed()
        frame = framed(self.position + 1, content)
        if self._file is None or self._size + len(frame) > self._segment_bytes:
            self._begin()
        assert self._file is not None
        try:
            write_all(self._file, frame)
        except OSError as error:
            self._undo(error)
        self.position += 1
        self._size += len(frame)
        self._since += len(frame)
        return self.position

    def sync(self) -> None:
        """Put all entries on disk."""
        with self._lock:
            self._refuse_failed()
            position = self.position
            if self._file is not None and position > self.durable:
                try:
                    _sync_data(self._file)
                except OSError as error:
                    # What the system had in its memory may be lost: later calls would not say so.
                    self._failed = error.strerror or str(error)
                    self._refuse_failed()
            self.durable = max(self.durable, position)

    @property
    def due(self) -> bool:
        """Whether a snapshot should replace the entries: they are many, also beside the newest snapshot."""
        enough = self._since >= max(self._snapshot_bytes, _SNAPSHOT_SHARE * self._snapshot_size)
        return enough and not self._installer.is_alive()

    def rotate(self) -> int:
        """Put everything on disk, and let the next entry begin a new segment; returns the number of the last entry."""
        self.sync()
        with self._lock:
            self._end()
        self._since = 0  # if the snapshot fails, the next attempt comes after as many bytes again
        return self.position

    def install(self, content: Callable[[], bytes], position: int) -> None:
        """Write a snapshot of the state at a rotation, and drop the entries before it."""
        snapshot = content()
        path = self.folder / f"snapshot-{position:020d}.sooner"
        with self.refusing(), whole_file(path) as temporary:
            temporary.write_bytes(snapshot)
        sync_folder(self.folder)
        self._snapshot_size = len(snapshot)
        old = [path for path in segments_in(self.folder) if number_of(path) <= position]
        for superseded in [*old, *(other for other in self._snapshots() if number_of(other) < position)]:
            superseded.unlink(missing_ok=True)

    def install_later(self, content: Callable[[], bytes], position: int) -> None:
        """As `install`, in another thread; where it fails, the entries stay."""

        def attempt() -> None:
            with suppress(JournalFailed):
                self.install(content, position)

        self.wait()
        self._installer = threading.Thread(target=attempt)
        self._installer.start()

    def wait(self) -> None:
        """Wait for the end of `install_later`."""
        if self._installer.is_alive():
            self._installer.join()

    def close(self) -> None:
        """Put everything on disk, and let other processes use the folder."""
        self.wait()
        try:
            if self._failed is None:
                self.sync()
        finally:
            self._end()
            self.decisions.close()
            self._open.close()

    def _take_folder(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidArgument("journal", "a folder", f"the file {self.folder}", "Name another one.")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._open.enter_context(locked(self.folder / "lock", timeout=0)):
            remedy = "Stop that process, or name another folder."
            raise InvalidArgument("journal", "a folder that no other process uses", str(self.folder), remedy)
        remove_stale(self.folder)

    def _newest_snapshot(self) -> tuple[bytes | None, int]:
        """The newest snapshot, and the number of the last entry in it."""
        paths = self._snapshots()
        if paths:
            return paths[-1].read_bytes(), number_of(paths[-1])
        if segments_in(self.folder):
            raise UnreadableFile(str(self.folder), "a journal with a snapshot", "segments without one")
        return None, 0

    def _snapshots(self) -> list[Path]:
        return sorted(self.folder.glob("snapshot-*.sooner"), key=number_of)

    def _mended(self, base: int) -> int:
        """Check all segments, and cut the torn end of the last one; returns the number of the last entry."""
        last, paths = base, segments_in(self.folder)
        for path in paths:
            if number_of(path) > last + 1:
                got = f"one that begins with entry {number_of(path):,} after entry {last:,}: a segment is missing"
                raise UnreadableFile(str(path), "the next segment of the journal", got)
            end, number = 0, number_of(path) - 1
            for frame in frames_of(path):
                end, number = frame.end, frame.number
            if end < path.stat().st_size and not (end == 0 and path.read_bytes() == MAGIC):
                if path != paths[-1]:
                    got = f"one whose entry {number + 1:,} is damaged, at byte {end:,}"
                    raise UnreadableFile(str(path), "a whole segment of the journal", got)
                self._cut(path, end, number + 1)
            last = max(last, number)
            self._since += end
        return last

    def _cut(self, path: Path, end: int, number: int) -> None:
        """Remove the end of a segment; its bytes are set aside."""
        data = path.read_bytes()
        aside = self.folder / f"cut-{number}.bin"
        aside.write_bytes(data[end:])
        if end == 0:
            path.unlink()
        else:
            os.truncate(path, end)
        self.findings.append(
            f"The end of the journal was torn: {len(data) - end:,} bytes from entry {number:,} on could not be read and were cut "
            f"off. They are in {aside}."
        )

    def _begin(self) -> None:
        """Begin a new segment, or go on with the last one; the previous one is on disk then."""
        with self.refusing():
            self.sync()
            with self._lock:
                self._end()
            path = segment_path(self.folder, self.position + 1)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
            try:
                write_all(descriptor, MAGIC)
            except OSError:
                os.close(descriptor)
                path.unlink(missing_ok=True)
                raise
            sync_folder(self.folder)
        self._file, self._size = descriptor, len(MAGIC)

    def _end(self) -> None:
        """Close the current segment."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _undo(self, error: OSError) -> None:
        """Take back a frame of which only a part could be written."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
        except OSError:
            self._failed = error.strerror or str(error)
        raise self._refusal(error) from None

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn errors of the operating system into sentences."""
        try:
            yield
        except OSError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: OSError) -> JournalFailed:
        return JournalFailed(str(self.folder), error.strerror or str(error), full=error.errno in _FULL)

    def _refuse_failed(self) -> None:
        if self._failed is not None:
            raise JournalFailed(str(self.folder), self._failed, full=False, final=True)
