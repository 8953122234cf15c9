"""Arrivals are gathered for a few milliseconds, and the fleet is updated once for all of them.

A gathering passes three stages, each in a thread of its own: its lines are read, the fleet takes them, and the journal is put on
disk. While one is taken the next one is read and the one before is written. Under load the gatherings grow by themselves, and an
update of many series costs little more than one of a few. What waits is bounded; beyond the bound a request is refused, and its
client retries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sooner.serve.answers import Refusal

Answer = dict[str, Any] | Refusal
R = TypeVar("R")
T = TypeVar("T")
_PLENTY, _LARGEST = 2**15, 2**20
_LOG = logging.getLogger("sooner.serve")


class GatherStages(NamedTuple, Generic[R, T]):
    """What is done with the bodies of gathered requests.

    Attributes:
        read: reads their lines.
        take: hands the lines to the fleet.
        write: puts what was taken on disk, and returns the answer to each request.
    """

    read: Callable[[Sequence[bytes]], Awaitable[R]]
    take: Callable[[R], Awaitable[T]]
    write: Callable[[T], Awaitable[Sequence[Answer]]]


class _Request(NamedTuple):
    body: bytes
    answered: "asyncio.Future[dict[str, Any]]"


class Gatherer(Generic[R, T]):
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
        stages: GatherStages[R, T],
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
        # One gathering waits before each of the later stages; None ends a stage.
        self._read: asyncio.Queue[tuple[list[_Request], R] | None] = asyncio.Queue(1)
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
        self.refuse_if_full()
        request = _Request(body, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._bytes += len(body)
        self._arrived.set()
        return await request.answered

    async def run(self) -> None:
        """Process requests until `close`."""
        later = [asyncio.create_task(self._take_all()), asyncio.create_task(self._write_all())]
        while not (self._closed and not self._requests):
            try:
                async with asyncio.timeout(max(0.001, self._pause())):
                    await self._arrived.wait()
            except TimeoutError:
                await self._idle()
                continue
            if self._bytes < _PLENTY and not self._closed:
                await asyncio.sleep(self._window)
            await self._read_next()
        await self._read.put(None)
        await asyncio.gather(*later)

    def close(self) -> None:
        """Accept nothing more; `run` ends when all that waits is processed."""
        self._closed = True
        self._arrived.set()

    async def _read_next(self) -> None:
        requests = self._next()
        if requests:
            with _Answering(requests) as failing:
                read = await self._stages.read([request.body for request in requests])
            if not failing.failed:
                await self._read.put((requests, read))

    async def _take_all(self) -> None:
        while (entry := await self._read.get()) is not None:
            requests, read = entry
            with _Answering(requests) as failing:
                taken = await self._stages.take(read)
            if not failing.failed:
                await self._taken.put((requests, taken))
        await self._taken.put(None)

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
            if request.answered.done():  # the client has gone
                continue
            if isinstance(found, Refusal):
                request.answered.set_exception(found)
            else:
                request.answered.set_result(found)

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
