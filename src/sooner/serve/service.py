"""One service: the live series and what surrounds them. All that touches the series runs in one worker thread."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sooner.errors import JournalFailed
from sooner.estimator import EarlyClassifier
from sooner.serve.answers import Refusal, sentence
from sooner.serve.decisions import KEPT, Published
from sooner.serve.dial import Dial
from sooner.serve.gather import Answer, Gatherer
from sooner.serve.labels import labels_of
from sooner.serve.limits import Limits
from sooner.serve.metrics import Metrics
from sooner.serve.model import classifier_of, refuse_other
from sooner.serve.reading import Bodies, refuse_many_lines
from sooner.serve.series import SeriesView
from sooner.stream.events import Event
from sooner.stream.live import LiveSeries

T = TypeVar("T")


@dataclass(frozen=True)
class ServiceSettings:
    """How a service runs.

    Attributes:
        limits: how much it takes.
        window: seconds for which arrivals are gathered.
        watched_error: error that the labels are compared with; by default that of the promise.
        deadlines: whether the series have deadlines, with which the promise of a threshold does not hold.
    """

    limits: Limits = field(default_factory=Limits)
    window: float = 0.003
    watched_error: float | None = None
    deadlines: bool = False


class Service:
    """The state of a service; its methods are called in the event loop.

    Args:
        clf: the model.
        live: its live series, perhaps continued from a journal.
        bodies: reads the lines of requests.
        settings: how it runs.
    """

    def __init__(
        self,
        clf: EarlyClassifier,
        live: LiveSeries,
        bodies: Bodies,
        settings: ServiceSettings,
    ) -> None:
        self.clf, self.live, self.settings = clf, live, settings
        self.folder: Path | None = None if live.journal is None else live.journal.folder
        self.limits, self.metrics = settings.limits, Metrics()
        self.dial = Dial(clf, promises=not settings.deadlines)
        self.published = Published(live.events(max(0, live.last_id - KEPT), KEPT), self._older)
        log = None if self.folder is None else self.folder / "labels.jsonl"
        self.labels = labels_of(clf, settings.watched_error, self.published.find, log)
        self.series = SeriesView(self)
        self.ended = asyncio.Event()
        self.gatherer = Gatherer(
            self._process, self._tick, self._pause, window=settings.window, waiting=self.limits.waiting
        )
        self._bodies = bodies
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="fleet")
        self._connections, self._lag = 0, 0.0

    @property
    def source(self) -> str:
        """The source in CloudEvents."""
        return "/sooner"

    async def call(self, work: Callable[[float], T]) -> T:
        """The result of a function of the time, in the worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: work(time.time()))

    async def change(self, work: Callable[[float], tuple[T, Sequence[Event]]]) -> T:
        """As `call`, for what changes the series: the result and its decisions are durable before they are published."""

        def changed(now: float) -> tuple[T, Sequence[Event]]:
            result = work(now)
            self._sync()
            return result

        try:
            result, events = await self.call(changed)
        except OSError as error:
            raise _unwritable(error) from None
        self._publish(events)
        return result

    async def observe(self, body: bytes) -> dict[str, Any]:
        """What became of lines of observations, once it is durable."""
        refuse_many_lines(body)
        return await self.gatherer.submit(body)

    async def threshold(self) -> dict[str, Any]:
        """For `GET /v1/threshold`."""
        return await self.call(lambda _: self.dial.state(self.live.rule))

    async def preview(self, value: float) -> dict[str, Any]:
        """For `GET /v1/threshold/preview`."""
        return await self.call(lambda _: self.dial.preview(self.clf.rule_named_by(value)))

    async def set_threshold(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """For `PUT /v1/threshold`."""

        def changed(now: float) -> tuple[dict[str, Any], Sequence[Event]]:
            rule = self.dial.rule(wanted)
            self.live.set_rule(rule, now)
            return self.dial.state(rule), ()

        return await self.change(changed)

    async def label(self, entries: list[Any]) -> dict[str, Any]:
        """For `POST /v1/labels`."""
        try:
            taken = await self.call(lambda _: self.labels.take(entries))
        except OSError as error:
            raise _unwritable(error) from None
        self.metrics.alarm(self.labels.state()["state"] == "alarm")
        return taken

    def stats(self) -> dict[str, Any]:
        """For `GET /v1/stats`."""
        journal = None if self.folder is None else {"folder": str(self.folder), "lag": self._lag}
        return {"open": len(self.live), **self.metrics.stats(), "journal": journal}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Process what arrives; at the end drain, snapshot and close."""
        gathering = asyncio.create_task(self.gatherer.run())
        try:
            yield
        finally:
            self.stop()
            await gathering
            await self.call(lambda _: self.live.close())
            self._worker.shutdown()

    def stop(self) -> None:
        """Accept nothing more, and end the event streams and WebSockets."""
        self.gatherer.close()
        self.published.stop()
        self.ended.set()

    async def swap(self, content: bytes) -> dict[str, Any]:
        """For `PUT /v1/model`."""
        refuse_other(self.clf, classifier_of(content))
        raise Refusal(409, "The model of a running service cannot be changed yet. Start another service for it.")

    def farewell(self) -> str:
        """What to say at the end."""
        series, decisions = len(self.live), self.live.last_id
        if self.folder is None:
            lost = (
                f"{series:,} open series are dropped (--journal FOLDER would keep them)" if series else "none is open"
            )
            return f"Stopped after {decisions:,} decisions: {lost}."
        return f"Stopped after {decisions:,} decisions: {series:,} open series are kept in {self.folder}."

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Count a long connection while it lasts."""
        self._connections += 1
        try:
            yield
        finally:
            self._connections -= 1

    def refuse_connection(self) -> None:
        """Refuse a long connection, if there are too many."""
        if self._connections >= self.limits.connections:
            text = f"{self.limits.connections:,} event streams and WebSockets are open, the limit of this service."
            raise Refusal(429, text, retry_after=10)

    async def _process(self, bodies: Sequence[bytes]) -> Sequence[Answer]:
        """The answers to some requests, in the order of the requests."""
        began = time.perf_counter()
        try:
            answers, events, accepted, rejected = await self.call(lambda now: self._take(bodies, now))
        except OSError as error:
            raise _unwritable(error) from None
        self._publish(events)
        seconds = time.perf_counter() - began
        self.metrics.gathered(accepted, rejected, len(self.live), seconds, self._lag)
        return answers

    def _take(self, bodies: Sequence[bytes], now: float) -> tuple[list[Answer], Sequence[Event], int, Counter[str]]:
        """In the worker: what became of the lines of some requests."""
        reading, counts = self._bodies.read(bodies, self.live, now)
        outcome = self.live.take(reading.arrivals, now)
        self._sync()
        self.series.sample()
        answers = reading.answers(outcome, counts, self.live.last_id)
        rejected = Counter(rejection.kind for rejection in (*outcome.rejected, *reading.rejected))
        return answers, outcome.events, outcome.accepted, rejected

    async def _tick(self) -> None:
        """End series by silence or deadline."""
        events = await self.change(lambda now: (found := self.live.tick(now), found))
        self.metrics.gathered(0, Counter(), len(self.live), 0.0, self._lag) if events else None

    def _pause(self) -> float:
        """Seconds until a series ends although nothing arrives; at most one."""
        due = self.live.next_tick()
        return 1.0 if due is None else min(1.0, due - time.time())

    def _publish(self, events: Sequence[Event]) -> None:
        self.metrics.decided(events)
        self.published.add(events)

    async def _older(self, after: int, limit: int) -> list[Event]:
        return await self.call(lambda _: self.live.events(after, limit))

    def _sync(self) -> None:
        began = time.perf_counter()
        self.live.sync()
        self._lag = 0.0 if self.folder is None else time.perf_counter() - began


def _unwritable(error: OSError) -> Refusal:
    """The refusal of what could not be written."""
    if isinstance(error, JournalFailed):
        return Refusal(507, sentence(error), retry_after=10)
    return Refusal(507, f"The folder of the journal cannot be written: {sentence(error)}.", retry_after=10)
