"""Files of one's own: the user's cache, files that appear whole or not at all, and locks between processes."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


def cache_folder(name: str) -> Path:
    """Folder of one cache: `sooner/NAME` in XDG_CACHE_HOME, or in ~/.cache. It need not exist yet."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification: a relative path is to be ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "sooner" / name


@contextmanager
def whole_file(target: Path, *, folder: Path | None = None) -> Iterator[Path]:
    """A temporary file to write, which gets its name when the block has ended well, and is removed otherwise.

    Args:
        target: the name; what was there is replaced in one move, when all is on the disk.
        folder: where the temporary file is, on the same disk; by default beside the target.
    """
    # Not `tempfile`: its files are their owner's alone, whatever the user's umask says.
    part = (folder or target.parent) / f".{uuid.uuid4().hex[:16]}.part"
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """All of it or nothing."""
    with whole_file(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(path: Path, *, timeout: float = -1) -> Iterator[bool]:
    """Whether this process has the lock of a file, which is released when the block or the process ends.

    Args:
        path: the file of the lock; it stays.
        timeout: seconds to wait for another process; below 0, as long as it takes.
    """
    lock = FileLock(path, timeout=timeout)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
