"""One service: the live series and what surrounds them. All that touches the series runs in one worker thread."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sooner.errors import InvalidArgument, JournalFailed
from sooner.estimator import EarlyClassifier
from sooner.estimator.promises import fingerprint
from sooner.serve.answers import Refusal, sentence
from sooner.serve.decisions import KEPT, Published
from sooner.serve.dial import Dial, threshold_of
from sooner.serve.gather import Answer, Gatherer, GatherStages
from sooner.serve.labels import labels_of
from sooner.serve.limits import ServiceLimits
from sooner.serve.metrics import Metrics
from sooner.serve.model import ModelFolder, classifier_of, description_of, refuse_other
from sooner.serve.reading import Bodies, Reading, refuse_many_lines
from sooner.serve.series import SeriesView
from sooner.stream.events import Event, Outcome
from sooner.stream.live import LiveSeries

T = TypeVar("T")
_NOT_READY = 10.0
Source: TypeAlias = Callable[["Service"], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class ServiceSettings:
    """How a service runs.

    Attributes:
        limits: how much it takes.
        window: seconds for which arrivals are gathered.
        watched_error: error that the labels are compared with; by default that of the promise.
        deadlines: whether the series have deadlines, with which the promise of a threshold does not hold.
    """

    limits: ServiceLimits = field(default_factory=ServiceLimits)
    window: float = 0.003
    watched_error: float | None = None
    deadlines: bool = False


class Gathering(NamedTuple):
    """Lines that the fleet has taken, what became of them, and how many seconds that took."""

    reading: Reading
    outcome: Outcome
    seconds: float


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
        self.live, self.settings = live, settings
        self.folder: Path | None = None if live.journal is None else live.journal.folder
        self.limits, self.metrics = settings.limits, Metrics()
        self.published = Published(live.events(max(0, live.last_id - KEPT), KEPT), self._older)
        self._use(clf)
        self.series = SeriesView(self)
        self.stopping, self.ended = asyncio.Event(), asyncio.Event()
        self._gathering: asyncio.Task[None] | None = None
        self.gatherer = Gatherer(
            GatherStages(self._take, self._write),
            self._tick,
            self._pause,
            window=settings.window,
            waiting=self.limits.waiting,
        )
        self._bodies = bodies
        self._worker, self._writer = (ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("fleet", "writer"))
        self._durable: dict[int, Event] = {}
        self._connections, self._lag = 0, 0.0
        self._failed: tuple[float, str] | None = None  # when the journal could not be written, and why

    @property
    def source(self) -> str:
        """The source in CloudEvents."""
        return "/sooner"

    async def call(self, work: Callable[[float], T]) -> T:
        """The result of a function of the time, in the worker thread."""
        return await self._in(self._worker, lambda: work(time.time()))

    async def change(self, work: Callable[[float], tuple[T, Sequence[Event]]]) -> T:
        """As `call`, for what changes the series: the result and its decisions are durable before they are published."""

        def changed(now: float) -> tuple[T, Sequence[Event]]:
            result = work(now)
            self._sync()
            return result

        try:
            result, events = await self.call(changed)
        except OSError as error:
            raise self._unwritable(error) from None
        self._publish(events)
        return result

    async def observe(self, body: bytes) -> dict[str, Any]:
        """What became of lines of observations, once it is durable."""
        refuse_many_lines(body)
        return await self.gatherer.submit(body)

    def hand_over(self, body: bytes, answer: Callable[[Answer], None]) -> None:
        """As `observe`, for callers that do not wait."""
        try:
            refuse_many_lines(body)
        except Refusal as refusal:
            answer(refusal)
        else:
            self.gatherer.hand_over(body, answer)

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
            raise self._unwritable(error) from None
        self.metrics.alarm(self.labels.state()["state"] == "alarm")
        return taken

    def stats(self) -> dict[str, Any]:
        """For `GET /v1/stats`."""
        journal = None if self.folder is None else {"folder": str(self.folder), "lag": self._lag}
        threshold = threshold_of(self.live.rule)
        return {"open": len(self.live), **self.metrics.stats(), "threshold": threshold, "journal": journal}

    @property
    def delivered(self) -> int:
        """The ID of the last decision that a source with confirmation has delivered."""
        return self.live.delivered

    @property
    def series_field(self) -> str:
        """The field with the series ID."""
        return self._bodies.fields.series or "series"

    async def deliver(self, number: int) -> None:
        """Note that decisions up to this ID have been delivered."""
        with suppress(OSError):  # they are delivered again
            await self.call(lambda _: self.live.deliver(number))

    @asynccontextmanager
    async def running(self, sources: Sequence[Source] = ()) -> AsyncIterator[None]:
        """Process what arrives, also from these sources; at the end drain, take a snapshot and close."""
        self._gathering = asyncio.create_task(self.gatherer.run())
        reading = [asyncio.create_task(source(self)) for source in sources]
        try:
            yield
        finally:
            await self.drain()
            await asyncio.gather(*reading)
            await self.call(lambda _: self.live.close())
            for executor in (self._worker, self._writer):
                executor.shutdown()

    async def drain(self) -> None:
        """Accept nothing more, process what waits, then end the event streams and WebSockets."""
        self.stopping.set()
        self.gatherer.close()
        if self._gathering is not None:
            await self._gathering
        self.published.stop()
        self.ended.set()

    async def swap(self, content: bytes) -> dict[str, Any]:
        """For `PUT /v1/model`."""

        def swapped(now: float) -> tuple[dict[str, Any], Sequence[Event]]:
            clf = classifier_of(content)
            try:
                refuse_other(self.clf, clf)
            except InvalidArgument as error:
                raise Refusal(409, sentence(error)) from None
            name = fingerprint(clf) if self.folder is None else ModelFolder(self.folder).keep(clf)
            self.live.swap(clf, name, now)
            self._use(clf)
            return description_of(clf), ()

        return await self.change(swapped)

    def _use(self, clf: EarlyClassifier) -> None:
        """Use the dial and the promise of a model."""
        self.clf, self.dial = clf, Dial(clf, promises=not self.settings.deadlines)
        log = None if self.folder is None else self.folder / "labels.jsonl"
        self.labels = labels_of(clf, self.settings.watched_error, self.published.find, log)

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

    async def _take(self, bodies: Sequence[bytes]) -> Gathering:
        """The first stage: in the worker, the lines are read and the fleet takes them."""
        began = time.perf_counter()

        def taken(now: float) -> tuple[Reading, Outcome]:
            admitted = self._bodies.admitted(self._bodies.read(bodies), self.live, now)
            before = len(self.live)
            outcome = self.live.take(admitted.arrivals, now)
            self._bodies.opened(len(self.live) - before + len(outcome.events))  # each event has closed one
            self.series.sample()
            return admitted, outcome

        try:
            return Gathering(*await self.call(taken), time.perf_counter() - began)
        except OSError as error:
            raise self._unwritable(error) from None

    async def _write(self, gathering: Gathering) -> Sequence[Answer]:
        """The second stage: the answers, once all is on disk."""
        try:
            if self.folder is not None:
                await self._in(self._writer, self._sync)
        except OSError as error:
            raise self._unwritable(error) from None
        self._failed = None
        reading, outcome, seconds = gathering
        self._publish(outcome.events)
        rejected = Counter(rejection.kind for rejection in (*outcome.rejected, *reading.rejected))
        self.metrics.gathered(outcome.accepted, rejected, seconds, self._lag)
        return reading.answers(outcome, self.published.last_id)

    def refuse_unless_ready(self) -> None:
        """Refuse while the service stops, and for some seconds after the journal could not be written."""
        self.gatherer.refuse_if_stopping()
        if self._failed is not None and time.time() < self._failed[0] + _NOT_READY:
            raise Refusal(503, self._failed[1], retry_after=10)

    async def _tick(self) -> None:
        """End series by silence or deadline."""
        with suppress(Refusal):  # what cannot be written is tried again
            await self.change(lambda now: (None, self.live.tick(now)))

    def _pause(self) -> float:
        """Seconds until a series ends although nothing arrives; at most one."""
        due = self.live.next_tick()
        return 1.0 if due is None else min(1.0, due - time.time())

    def _publish(self, events: Sequence[Event]) -> None:
        """Publish decisions in the order of their IDs: those of a gathering and of other changes may come out of order."""
        self._durable.update((event.id, event) for event in events)
        ready: list[Event] = []
        while (event := self._durable.pop(self.published.last_id + len(ready) + 1, None)) is not None:
            ready.append(event)
        self.metrics.decided(ready)
        self.published.add(ready)

    async def _in(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    def _unwritable(self, error: OSError) -> Refusal:
        """The refusal of what could not be written."""
        text = sentence(error)
        if not isinstance(error, JournalFailed):
            text = f"The folder of the journal cannot be written: {text}."
        self._failed = time.time(), text
        return Refusal(507, text, retry_after=10)

    async def _older(self, after: int, limit: int) -> list[Event]:
        return await self.call(lambda _: self.live.events(after, limit))

    def _sync(self) -> None:
        began = time.perf_counter()
        self.live.sync()
        self._lag = 0.0 if self.folder is None else time.perf_counter() - began
