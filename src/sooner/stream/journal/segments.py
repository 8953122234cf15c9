"""Segments: append-only files of numbered frames, each with a checksum.

A segment is called `segment-N.log`, where N is the number of its first frame. It begins with a line that names the format. A
frame is a header (length, CRC-32, number) and its content; the checksum covers number and content. Only the last segment may have
a torn end: a new one is begun after the previous one is on disk.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sooner.errors import UnreadableFile

MAGIC = b"sooner journal 1\n"
_FORMAT = b"sooner journal "
_HEADER = struct.Struct("<IIQ")
_NUMBER = struct.Struct("<Q")


class Frame(NamedTuple):
    """A frame: its number, its content, and the offset at which it ends."""

    number: int
    content: bytes
    end: int


def framed(number: int, content: bytes) -> bytes:
    """The bytes of a frame."""
    return _HEADER.pack(len(content), _checksum(number, content), number) + content


def frames_of(path: Path) -> Iterator[Frame]:
    """The frames of a segment, up to the first one that cannot be read."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        version = data[len(_FORMAT) :].partition(b"\n")[0]
        if data.startswith(_FORMAT) and version.isdigit() and b"\n" in data[:32]:
            raise UnreadableFile(str(path), "a segment of version 1 of its format", f"version {version.decode()}")
        return
    number, offset = number_of(path), len(MAGIC)
    while len(data) - offset >= _HEADER.size:
        length, checksum, found = _HEADER.unpack_from(data, offset)
        end = offset + _HEADER.size + length
        content = data[offset + _HEADER.size : end]
        if end > len(data) or found != number or _checksum(number, content) != checksum:
            return
        yield Frame(number, content, end)
        number, offset = number + 1, end


def segments_in(folder: Path) -> list[Path]:
    """The segments of a folder, the oldest first."""
    return sorted(folder.glob("segment-*.log"), key=number_of)


def segment_path(folder: Path, number: int) -> Path:
    """The segment that begins with this frame."""
    return folder / f"segment-{number:020d}.log"


def number_of(path: Path) -> int:
    """The number in the name of a segment, a snapshot or a file of decisions."""
    digits = path.stem.rpartition("-")[2]
    if not digits.isdigit():
        raise UnreadableFile(str(path), "a file of a journal, with a number in its name", "another name")
    return int(digits)


def sync_folder(folder: Path) -> None:
    """Put the names of new and removed files on disk, where the system can do that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _checksum(number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(_NUMBER.pack(number)))
