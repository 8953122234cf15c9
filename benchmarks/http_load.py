"""A load of HTTP requests on loopback: prepared bytes over a few open connections, which costs the client next to nothing."""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
HEAD = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


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


def request_of(lines: Sequence[str], path: str = "/v1/observations") -> bytes:
    """A request with these lines."""
    body = "\n".join(lines).encode()
    return HEAD.format(path, len(body)).encode() + body


class _Connection(asyncio.Protocol):
    """One connection that sends its requests one after the other."""

    def __init__(self, requests: Iterator[bytes], load: Load, until: float) -> None:
        self.requests, self.load, self.until = requests, load, until
        self.ended = asyncio.get_running_loop().create_future()
        self.found = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.start = time.perf_counter()
        request = next(self.requests, None) if self.start < self.until else None
        if request is None:
            self.transport.close()
            return
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.found += data
        head, _, body = self.found.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return
        if (status := int(head[9:12])) == 200:
            self.load.seconds.append(time.perf_counter() - self.start)
        else:
            self.load.refused.append(status)
        self.found = b""
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


async def _loaded(port: int, per_connection: Sequence[Iterator[bytes]], seconds: float) -> Load:
    load, start = Load(), time.perf_counter()

    async def connection(requests: Iterator[bytes]) -> None:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(
            lambda: _Connection(requests, load, start + seconds), "127.0.0.1", port
        )
        await protocol.ended

    await asyncio.gather(*map(connection, per_connection))
    load.whole = time.perf_counter() - start
    return load


def load_of(port: int, per_connection: Sequence[Iterator[bytes]], seconds: float) -> Load:
    """Send the requests of each connection one after the other, for so many seconds at most."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_loaded(port, per_connection, seconds))
