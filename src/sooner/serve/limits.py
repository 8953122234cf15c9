"""Limits: how much of everything one service takes before it refuses in a sentence."""

import asyncio
from dataclasses import dataclass
from typing import Any

from sooner.inputs import as_finite, as_whole
from sooner.serve.answers import Refusal

MIB = 2**20


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of a service.

    Attributes:
        body: bytes of a request or a WebSocket frame.
        line: bytes of a line of observations.
        open_series: series that are open at a time.
        new_series: series that are opened in a second, on average; ten seconds' worth may come at once.
        waiting: bytes of requests that wait for the fleet.
        connections: event streams and WebSockets that are open at a time.
        model: bytes of a model file.
    """

    body: int = 16 * MIB
    line: int = 64 * 1024
    open_series: int = 1_000_000
    new_series: float = 50_000.0
    waiting: int = 64 * MIB
    connections: int = 512
    model: int = 512 * MIB

    def __post_init__(self) -> None:
        for name in ("body", "line", "open_series", "waiting", "connections", "model"):
            object.__setattr__(self, name, as_whole(getattr(self, name), name=name, low=1, remedy="It is a limit."))
        rate = as_finite(self.new_series, name="new_series", low=1e-3, remedy="It is a rate per second.")
        object.__setattr__(self, "new_series", rate)


class TokenBucket:
    """A rate with bursts: `take` says whether one more is allowed.

    >>> bucket = TokenBucket(2.0, burst=1.0, now=0.0)
    >>> bucket.take(0.0), bucket.take(0.1), bucket.take(0.6)
    (True, False, True)
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate, self.burst, self._left, self._then = rate, burst, burst, now

    def left(self, now: float) -> float:
        """How many more are allowed at this time in seconds."""
        self._left = min(self.burst, self._left + self.rate * max(0.0, now - self._then))
        self._then = max(self._then, now)
        return self._left

    def spend(self, count: float) -> None:
        """Count some that were allowed."""
        self._left -= count

    def take(self, now: float) -> bool:
        """Whether one more is allowed, which is counted."""
        if self.left(now) < 1.0:
            return False
        self.spend(1.0)
        return True


async def read_body(scope: Any, receive: Any, limit: int, *, seconds: float = 30.0) -> bytes:
    """The body of a request; refused if it is larger than `limit` bytes, or takes longer than `seconds`."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise too_large("body", limit)
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":  # most bodies come in one piece
        body: bytes = message.get("body", b"")
    else:
        try:
            async with asyncio.timeout(seconds):
                body = await _rest(message, receive, limit)
        except TimeoutError:
            raise Refusal(408, f"The body did not arrive within {seconds:g} seconds. Send it again.") from None
    if len(body) > limit:
        raise too_large("body", limit)
    return body


async def _rest(message: Any, receive: Any, limit: int) -> bytes:
    chunks, size = [], 0
    while True:
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The client closed the connection before the end of the body.")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise too_large("body", limit)
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


def too_large(what: str, limit: int) -> Refusal:
    """The refusal of something above its limit in bytes."""
    size = f"{limit / MIB:g} MiB" if limit >= MIB else f"{limit:,} bytes"
    return Refusal(413, f"The {what} is larger than {size}, the limit of this service. Send it in parts.")
