"""The user's cache: where it is, and how a file gets into it whole."""

import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Folder of one cache: `sooner/NAME` in XDG_CACHE_HOME, or in ~/.cache. It need not exist yet."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification: a relative path is to be ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "sooner" / name


def write_whole(path: Path, content: bytes) -> None:
    """All or nothing: a temporary name until the last byte is on the disk; whatever interrupts removes it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp keeps a file to its owner; caches are shared
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
