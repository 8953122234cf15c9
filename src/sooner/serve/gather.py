"""Arrivals are gathered for a few milliseconds, and the fleet is updated once for all of them.

While one gathering is processed, the next one collects: under load the gatherings grow by themselves, and an update of many
series costs little more than one of a few. What waits is bounded; beyond the bound a request is refused, and its client retries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from sooner.serve.answers import Refusal

Answer = dict[str, Any] | Refusal
_LARGEST = 4 * 2**20
_LOG = logging.getLogger("sooner.serve")


class _Request(NamedTuple):
    body: bytes
    answered: "asyncio.Future[dict[str, Any]]"


class Gatherer:
    """Collects requests, and hands them over together.

    Args:
        process: processes the bodies of some requests, and returns an answer for each.
        idle: called when nothing has arrived for `pause()` seconds.
        pause: seconds until something is due although nothing arrives.
        window: seconds for which arrivals are gathered.
        waiting: bytes that may wait.
    """

    def __init__(
        self,
        process: Callable[[Sequence[bytes]], Awaitable[Sequence[Answer]]],
        idle: Callable[[], Awaitable[None]],
        pause: Callable[[], float],
        *,
        window: float,
        waiting: int,
    ) -> None:
        self._process, self._idle, self._pause = process, idle, pause
        self._window, self._limit = window, waiting
        self._requests: list[_Request] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Bytes that wait."""
        return self._bytes

    def refuse_if_stopping(self) -> None:
        """Refuse a request while the service stops."""
        if self._closed:
            raise Refusal(503, "The service is stopping. Send it again in a few seconds.", retry_after=5)

    def refuse_if_full(self) -> None:
        """Refuse a request before its body is read, if there is no room for it."""
        self.refuse_if_stopping()
        if self._bytes >= self._limit:
            raise Refusal(429, "More arrives than can be processed. Send it again in a second.", retry_after=1)

    async def submit(self, body: bytes) -> dict[str, Any]:
        """The answer to a request, once what it contains is durable."""
        self.refuse_if_full()
        request = _Request(body, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._bytes += len(body)
        self._arrived.set()
        return await request.answered

    async def run(self) -> None:
        """Process requests until `close`."""
        while not (self._closed and not self._requests):
            try:
                async with asyncio.timeout(max(0.001, self._pause())):
                    await self._arrived.wait()
            except TimeoutError:
                await self._idle()
                continue
            if self._bytes < _LARGEST and not self._closed:
                await asyncio.sleep(self._window)
            await self._answer(self._next())

    def close(self) -> None:
        """Accept nothing more; `run` ends when all that waits is processed."""
        self._closed = True
        self._arrived.set()

    def _next(self) -> list[_Request]:
        """The requests of the next gathering, in the order of their arrival."""
        size, count = 0, 0
        for request in self._requests:
            if count and size + len(request.body) > _LARGEST:
                break
            size += len(request.body)
            count += 1
        taken, self._requests = self._requests[:count], self._requests[count:]
        self._bytes -= size
        if not self._requests and not self._closed:
            self._arrived.clear()
        return taken

    async def _answer(self, requests: Sequence[_Request]) -> None:
        if not requests:
            return
        try:
            answers: Sequence[Answer] = await self._process([request.body for request in requests])
        except Refusal as refusal:
            answers = [refusal] * len(requests)
        except Exception:
            _LOG.exception("a gathering of %d requests failed", len(requests))
            answers = [Refusal(500, "The service failed to process this request; its log says why.")] * len(requests)
        for request, answer in zip(requests, answers, strict=True):
            if request.answered.done():  # the client has gone
                continue
            if isinstance(answer, Refusal):
                request.answered.set_exception(answer)
            else:
                request.answered.set_result(answer)
