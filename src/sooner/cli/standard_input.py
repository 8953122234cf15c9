"""Lines from standard input, with the time to notice that none come."""

import codecs
import io
import os
import queue
import sys
import threading
import time
from typing import TextIO

_CHUNK = 1 << 16
_AHEAD = 16
"""Chunks that are read before they are asked for."""


class StandardInput:
    """The lines of standard input as they arrive, many at once where many have come.

    Bytes that are no text are kept by `surrogateescape`. A thread reads, because there is no way to wait for a file, a pipe and a
    terminal alike on all systems.

    Attributes:
        encoding: of the lines.
        stopped: whether `stop` has ended them, and not the end of the input.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        self.encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self.stopped = False
        self._left = ""
        # `put` of a SimpleQueue may be called by a signal handler.
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        bare = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        self._decoder = io.IncrementalNewlineDecoder(bare, translate=True)
        self._ended = False
        self._begin()

    def lines(self, until: float | None) -> list[str] | None:
        """The next lines; none if there are none by `until` (seconds of `time.time`), None at the end."""
        if self._ended:
            return None
        try:
            chunks = [self._chunks.get(timeout=None if until is None else max(until - time.time(), 0.0))]
        except queue.Empty:
            return []
        while chunks[-1] is not None and not self._chunks.empty():
            chunks.append(self._chunks.get())
        text = self._left + "".join(map(self._text, chunks))
        *lines, self._left = text.split("\n")
        if chunks[-1] is None:
            self._ended = True
            lines += [self._left] if self._left and not self.stopped else []
        return lines

    def stop(self) -> None:
        """End the lines behind those that have been read already."""
        self.stopped = True
        self._chunks.put(None)

    def _text(self, chunk: bytes | None) -> str:
        if chunk is None:
            return self._decoder.decode(b"", final=True)
        self._room.release()
        return self._decoder.decode(chunk)

    def _begin(self) -> None:
        try:
            descriptor = self._stream.fileno()
        except OSError:  # it is in memory
            text = self._stream.buffer.read() if isinstance(self._stream, io.TextIOWrapper) else self._stream.read()
            self._chunks.put(text if isinstance(text, bytes) else text.encode(self.encoding, "surrogateescape"))
            self._chunks.put(None)
            return
        threading.Thread(target=self._read, args=[descriptor], daemon=True).start()

    def _read(self, descriptor: int) -> None:
        while True:
            self._room.acquire()
            try:
                # Not through `sys.stdin.buffer`, whose lock would be held when the program ends.
                chunk = os.read(descriptor, _CHUNK)
            except OSError:
                chunk = b""
            self._chunks.put(chunk or None)
            if not chunk:
                return
