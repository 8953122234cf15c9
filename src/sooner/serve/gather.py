"""Arrivals are gathered for a few milliseconds, and the fleet is updated once for all of them.

A gathering passes two stages, each in a thread of its own: its lines are read and the fleet takes them, and the journal is put on
disk. While one is taken the one before is written. Under load the gatherings grow by themselves, and an update of many series
costs little more than one of a few. What waits is bounded; beyond the bound a request is refused, and its client retries.

A third thread, which read lines, was rejected: it and the fleet waited for each other's interpreter lock, and it gained nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sooner.serve.answers import Refusal

Answer = dict[str, Any] | Refusal
T = TypeVar("T")
_PLENTY, _LARGEST = 2**15, 2**20
_LOG = logging.getLogger("sooner.serve")


class GatherStages(NamedTuple, Generic[T]):
    """What is done with the bodies of gathered requests.

    Attributes:
        take: reads their lines, and hands them to the fleet.
        write: puts what was taken on disk, and returns the answer to each request.
    """

    take: Callable[[Sequence[bytes]], Awaitable[T]]
    write: Callable[[T], Awaitable[Sequence[Answer]]]


class _Request(NamedTuple):
    body: bytes
    answer: Callable[[Answer], None]


class Gatherer(Generic[T]):
    """Collects requests, and passes them on together.

    Args:
        stages: what is done with them.
        idle: called when nothing has arrived for `pause()` seconds.
        pause: seconds until something is due although nothing arrives.
        window: seconds for which arrivals are gathered.
        waiting: bytes that may wait.
    """

    def __init__(
        self,
        stages: GatherStages[T],
        idle: Callable[[], Awaitable[None]],
        pause: Callable[[], float],
        *,
        window: float,
        waiting: int,
    ) -> None:
        self._stages, self._idle, self._pause = stages, idle, pause
        self._window, self._limit = window, waiting
        self._requests: list[_Request] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._closed = False
        # One gathering waits to be written; None ends that.
        self._taken: asyncio.Queue[tuple[list[_Request], T] | None] = asyncio.Queue(1)

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
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(found: Answer) -> None:
            if answered.done():  # the client has gone
                return
            if isinstance(found, Refusal):
                answered.set_exception(found)
            else:
                answered.set_result(found)

        self.refuse_if_full()
        self.hand_over(body, answer)
        return await answered

    def hand_over(self, body: bytes, answer: Callable[[Answer], None]) -> None:
        """Process a request; its answer goes to a function, once what the request contains is durable."""
        self._requests.append(_Request(body, answer))
        self._bytes += len(body)
        self._arrived.set()

    async def run(self) -> None:
        """Process requests until `close`."""
        writing = asyncio.create_task(self._write_all())
        while not (self._closed and not self._requests):
            try:
                async with asyncio.timeout(max(0.001, self._pause())):
                    await self._arrived.wait()
            except TimeoutError:
                await self._idle()
                continue
            if self._bytes < _PLENTY and not self._closed:
                await asyncio.sleep(self._window)
            await self._take_next()
        await self._taken.put(None)
        await writing

    def close(self) -> None:
        """Accept nothing more; `run` ends when all that waits is processed."""
        self._closed = True
        self._arrived.set()

    async def _take_next(self) -> None:
        requests = self._next()
        if requests:
            with _Answering(requests) as failing:
                taken = await self._stages.take([request.body for request in requests])
            if not failing.failed:
                await self._taken.put((requests, taken))

    async def _write_all(self) -> None:
        while (entry := await self._taken.get()) is not None:
            requests, taken = entry
            with _Answering(requests) as answering:
                answering.answer(await self._stages.write(taken))

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


class _Answering:
    """Answers the requests of a gathering; where its block fails, with the reason."""

    def __init__(self, requests: Sequence[_Request]) -> None:
        self._requests, self.failed = requests, False

    def answer(self, answers: Sequence[Answer]) -> None:
        """Give each request its answer."""
        for request, found in zip(self._requests, answers, strict=True):
            request.answer(found)

    def __enter__(self) -> "_Answering":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        if not isinstance(error, Refusal):
            _LOG.error("a gathering of %d requests failed", len(self._requests), exc_info=error)
            error = Refusal(500, "The service failed to process this request; its log says why.")
        self.answer([error] * len(self._requests))
        return True
