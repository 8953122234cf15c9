"""A load of HTTP requests on loopback: prepared bytes over a few open connections, which costs the client next to nothing."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

HEAD = b"POST /v1/observations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"


@dataclass
class Load:
    """What became of the requests: seconds of each, status of each that was not 200, and seconds in all."""

    seconds: list[float] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    whole: float = 0.0

    def percentile(self, share: float) -> float:
        """Milliseconds that a share of the requests did not exceed."""
        ordered = sorted(self.seconds)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def request_of(lines: Sequence[str]) -> bytes:
    """A request with these lines."""
    body = "\n".join(lines).encode()
    return HEAD % len(body) + body


async def _answered(reader: asyncio.StreamReader) -> int:
    """Read an answer; returns its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    for row in head.split(b"\r\n"):
        if row.lower().startswith(b"content-length:"):
            await reader.readexactly(int(row.split(b":")[1]))
    return int(head.split(b" ", 2)[1])


async def _connection(port: int, requests: Iterator[bytes], load: Load, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for request in requests:
            start = time.perf_counter()
            if start >= until:
                return
            writer.write(request)
            status = await _answered(reader)
            if status == 200:
                load.seconds.append(time.perf_counter() - start)
            else:
                load.refused.append(status)
    finally:
        writer.close()


async def _loaded(port: int, per_connection: Sequence[Iterator[bytes]], seconds: float) -> Load:
    load, start = Load(), time.perf_counter()
    await asyncio.gather(*(_connection(port, requests, load, start + seconds) for requests in per_connection))
    load.whole = time.perf_counter() - start
    return load


def load_of(port: int, per_connection: Sequence[Iterator[bytes]], seconds: float) -> Load:
    """Send the requests of each connection one after the other, for so many seconds at most."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_loaded(port, per_connection, seconds))
