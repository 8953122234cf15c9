"""Files: the user's cache folder, atomic writes, and locks between processes."""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_STALE = 3600.0  # seconds; older temporary files are left by processes that were killed


def cache_folder(name: str) -> Path:
    """The folder of a cache: `sooner/NAME` in XDG_CACHE_HOME, or in ~/.cache. It may not exist yet."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path is ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "sooner" / name


@contextmanager
def whole_file(target: Path, *, folder: Path | None = None) -> Iterator[Path]:
    """Write a file atomically: yields a temporary path, which is renamed to `target` on success and removed on failure.

    Args:
        target: the final path; an existing file is replaced.
        folder: folder of the temporary file, on the same disk; by default that of the target.
    """
    # Not `tempfile`: its files are readable only by their owner, whatever the umask is.
    temporary = (folder or target.parent) / f".{uuid.uuid4().hex[:16]}.part"
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_stale(folder: Path) -> None:
    """Remove the temporary files of `whole_file` that killed processes have left."""
    for temporary in folder.glob(".*.part"):
        if time.time() - temporary.stat().st_mtime > _STALE:
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write content to a file atomically."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(path: Path, *, timeout: float = -1) -> Iterator[bool]:
    """Acquire a file lock, which is released when the block or the process ends; yields whether it was acquired.

    Args:
        path: the lock file; it is not deleted.
        timeout: seconds to wait for another process; negative values wait forever.
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
