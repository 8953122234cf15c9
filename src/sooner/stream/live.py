"""Live series as services and pipes need them: runs, silence, deadlines in seconds, numbered decisions, a journal.

It has no clock of its own: `now` is passed in, in seconds.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument, JournalFailed
from sooner.inputs import as_finite
from sooner.rules.base import Rule
from sooner.rules.described import rule_described
from sooner.stream.arrivals import UNNAMED, Arrival, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.event_log import EventLog
from sooner.stream.events import Event, Outcome
from sooner.stream.fleet import Fleet, Key
from sooner.stream.generations import Generations
from sooner.stream.journal import Journal
from sooner.stream.journal.entries import packed, packed_batch, packed_key, packed_rule, unpacked, unpacked_batch
from sooner.stream.journal.state import SavedState, packed_state, unpacked_state
from sooner.stream.runs import Verdict
from sooner.stream.settings import LiveSettings
from sooner.stream.sources import Streamable, resume, runs_named, runs_of, saved_runs
from sooner.stream.views import OpenPage, OpenSeries, Sort, page_of, shown

_CLOCK = "It is a time in seconds, for example time.time()."


class LiveSeries:
    """Live series with runs, silence, deadlines in seconds and numbered decisions. Not thread-safe, but for `sync`.

    One observation that is refused costs only itself. The events of some arrivals are those of the same arrivals in any other
    division into calls of `take` at the same times.

    Memory is bounded: `settings.remember` closed IDs are kept, and the newest 10,000 events.

    With a journal, each call that changes anything is written down before it does. What was taken is safe after the next `sync`;
    acknowledge it and deliver its events only then. After a restart the state is the same, and so are the IDs of the events.
    Only the silence of open series is counted anew, because nothing could arrive meanwhile. If the journal cannot be written,
    `JournalFailed` is raised, and nothing is changed.

    Args:
        source: a fitted classifier, or a fleet, whose open series continue and whose own deadline and end are used.
        settings: when series end.
        journal: it is restored first, with its rule; the model, `deadline`, `at_end` and `coverage` must be the same as before.
        model: the name of the source, for the journal of live series whose model is changed.
        models: finds a classifier by such a name; a journal goes on with the model that was its newest.
        now: the time at which it starts, in seconds.

    >>> import torch
    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> _ = model.head.weight.data.copy_(torch.eye(2))
    >>> live = LiveSeries(Fleet(model, MSPRT(3.0), classes=["calm", "storm"]), LiveSettings(idle=30.0))
    >>> x = np.array([0.0, 2.0])
    >>> live.take([Arrival(1, "", "north", x, None, False), Arrival(2, "", "south", -x, None, False)], now=0.0).accepted
    2
    >>> [(event.series, event.label, event.ended) for event in live.take([Arrival(3, "", "north", x, None, False)], 5.0).events]
    [('north', 'storm', 'rule')]
    >>> live.next_tick()
    30.0
    >>> [(event.series, event.label, event.ended) for event in live.tick(30.0)]
    [('south', 'calm', 'idle')]
    """

    def __init__(
        self,
        source: Streamable | Fleet,
        settings: LiveSettings | None = None,
        *,
        journal: Journal | None = None,
        model: str = "",
        models: Callable[[str], Streamable] | None = None,
        now: float = 0.0,
    ) -> None:
        settings = LiveSettings() if settings is None else settings
        self.journal = journal
        self._now = as_finite(now, name="now", low=-np.inf, remedy=_CLOCK)
        self._models = models
        self._runs = Generations(runs_of(source, settings, self._now), model)
        self._log = EventLog(journal)
        self._delivered = 0
        self._begun = False  # whether the journal has a snapshot of this process
        if journal is not None:
            self._restore(journal, settings)

    def take(self, arrivals: ArrivalBatch | Sequence[Arrival | Rejection], now: float) -> Outcome:
        """Process some arrivals, any number for each series, in their order."""
        check = self._runs.newest.rows.shape_error
        batch = arrivals.checked(check) if isinstance(arrivals, ArrivalBatch) else ArrivalBatch.of(arrivals, check)
        if not len(batch):
            return Outcome(0, sorted(batch.rejected), self.tick(now), self._position)
        self._clock(now)
        if self.journal is not None:
            self._write(packed_batch(batch, self._now))
        outcome = self._take(batch)
        self._keep()
        return outcome

    def tick(self, now: float) -> list[Event]:
        """End the series whose silence or deadline in seconds is over."""
        self._clock(now)
        if not self._runs.due(self._now):
            return []
        if self.journal is not None:
            self._write(packed("tick", self._now))
        events = self._expire()
        self._keep()
        return events

    def next_tick(self) -> float | None:
        """The time at which the next series ends by silence or deadline, if no observation comes; None for never."""
        return self._runs.next_due()

    def finish(self, series: Key | None, now: float) -> Event:
        """End an open series; its ID may then begin another one."""
        key = _key(series)
        if key not in self._runs:
            remedy = "It may have been decided already."
            raise InvalidArgument("series", "the ID of an open series", repr(series), remedy)
        self._clock(now)
        if self.journal is not None:
            self._write(packed_key("finish", key, self._now))
        (event,) = self._publish(self._runs.end({key: "end"}))
        self._keep()
        return event

    def finish_all(self, now: float) -> list[Event]:
        """End all open series, in the order in which they were opened."""
        self._clock(now)
        if self.journal is not None and len(self):
            self._write(packed("finish_all", self._now))
        events = self._finish_all()
        self._keep()
        return events

    def forget(self, series: Key | None, now: float) -> None:
        """Drop a series, open or closed, without a decision; its ID then begins again as run 1."""
        key = _key(series)
        if not self._runs.knows(key):
            raise InvalidArgument("series", "the ID of a series", repr(series), "There is nothing to forget.")
        self._clock(now)
        if self.journal is not None:
            self._write(packed_key("forget", key, self._now))
        self._runs.forget(key)

    def set_rule(self, rule: Rule, now: float) -> None:
        """Change the rule of all series, from the next observation on."""
        self._newest.check_rule(rule)
        self._clock(now)
        if self.journal is not None:
            self._write(packed_rule(rule, self._now))
        self._runs.set_rule(rule)

    def swap(self, source: Streamable, model: str, now: float) -> None:
        """Change the model: new series take this one, with its rule, and open ones end with theirs.

        The classes must be the same. After a restart, `models` finds the source by its name.
        """
        runs = runs_of(source, self.settings, self._now)
        self._runs.check(runs)
        self._clock(now)
        if self.journal is not None:
            self._write(packed("swap", self._now, {"model": model}))
        self._runs.replace(runs, model)

    def deliver(self, number: int) -> None:
        """Note in the journal that the events up to this ID have been delivered, which `delivered` says after a restart."""
        if number > self._delivered:
            if self.journal is not None:
                self._write(packed("deliver", self._now, {"number": number}))
            self._delivered = number

    def sync(self) -> None:
        """Put all that was taken on disk. It may be called from another thread, between and during calls of other methods."""
        if self.journal is not None:
            last = self.last_id  # read before, so that no later event is counted
            self.journal.sync()
            self._log.durable_id = max(self._log.durable_id, last)

    def snapshot(self) -> None:
        """Replace the entries of the journal by the state, which happens from time to time by itself."""
        if self.journal is not None:
            self.journal.wait()
            position, content = self._frozen(self.journal)
            self.journal.install(content, position)
            self._begun = True

    def close(self) -> None:
        """Write a snapshot, and let other processes use the journal. Open series stay open in it."""
        if self.journal is not None:
            try:
                self.snapshot()
            finally:
                self.journal.close()

    def open(self, offset: int = 0, limit: int = 50, *, search: str = "", sort: Sort = "opened") -> OpenPage:
        """A page of the open series.

        Args:
            offset: how many are skipped.
            limit: at most so many are shown.
            search: text that their IDs contain, in upper or lower case.
            sort: "opened" for the oldest first, "age" for those with the most observations first, "margin" for the largest first.
        """
        return page_of(self._runs, offset, limit, search=search, sort=sort)

    def show(self, series: Key | None) -> OpenSeries | None:
        """One open series, or None if it is not open."""
        key = _key(series)
        return shown(self._runs, [key])[0] if key in self._runs else None

    def unknown(self, keys: Sequence[Key]) -> list[Key]:
        """The IDs among these of which no series is open or closed, each once, in their order."""
        return self._runs.unknown(keys)

    def accepts(self, arrivals: ArrivalBatch | Sequence[Arrival | Rejection]) -> bool:
        """Whether `take` will surely refuse none of these arrivals, but for overflows in the model."""
        check = self._runs.newest.rows.shape_error
        batch = arrivals.checked(check) if isinstance(arrivals, ArrivalBatch) else ArrivalBatch.of(arrivals, check)
        safe = not batch.rejected and batch.times is None and self.settings.late == "ignore"
        return safe and self._runs.newest.rows.reads(batch.values)

    def closed(self, series: Key | None) -> bool:
        """Whether an ID is closed, so that its observations are late."""
        return _key(series) in self._newest.decided

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """The events with larger IDs than `after`, the oldest first; those before `first_id` are forgotten.

        With a journal, those up to `durable_id` are on disk.
        """
        return self._log.after(after, limit)

    @property
    def last_id(self) -> int:
        """The ID of the newest event; 0 if there is none."""
        return self._log.last_id

    @property
    def first_id(self) -> int:
        """The ID of the oldest event that is kept."""
        return self._log.first_id

    @property
    def durable_id(self) -> int:
        """The ID of the newest event that a restart will not change: with a journal, that of the last `sync`."""
        return self.last_id if self.journal is None else self._log.durable_id

    @property
    def delivered(self) -> int:
        """The ID of the last event of which `deliver` was told."""
        return self._delivered

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self._newest.rule

    @property
    def model(self) -> str:
        """The name of the model that new series take."""
        return self._runs.model

    @property
    def settings(self) -> LiveSettings:
        """When series end."""
        return self._runs.settings

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes."""
        return self._newest.classes

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<LiveSeries: {len(self)} open, {self.last_id} decisions, {self.rule!r}>"

    @property
    def _newest(self) -> Fleet:
        return self._runs.newest.fleet

    @property
    def _position(self) -> int:
        return 0 if self.journal is None else self.journal.position

    def _clock(self, now: float) -> None:
        """Take the time; a clock that was set back stands still."""
        self._now = max(self._now, as_finite(now, name="now", low=-np.inf, remedy=_CLOCK))

    def _take(self, batch: ArrivalBatch) -> Outcome:
        events = self._expire()
        taken = self._runs.take(batch, self._now)
        events += self._publish(taken.verdicts)
        return Outcome(taken.accepted, sorted(taken.rejected), events, self._position, taken.late, taken.late_lines)

    def _expire(self) -> list[Event]:
        """End the series whose silence or deadline in seconds is over."""
        return self._publish(self._runs.end(self._runs.due(self._now)))

    def _finish_all(self) -> list[Event]:
        return self._publish(self._runs.end(dict.fromkeys(self._runs.all(), "close")))

    def _publish(self, verdicts: Sequence[Verdict]) -> list[Event]:
        return self._log.publish(verdicts, self._now)

    def _restore(self, journal: Journal, settings: LiveSettings) -> None:
        """Continue from a journal; begin a new one with a snapshot."""
        if (snapshot := journal.snapshot) is not None:
            started = self._now
            self._resume(unpacked_state(snapshot))
            for entry in journal.entries():
                self._repeat(entry)
            self._runs.change(settings)
            self._clock(started)
            self._runs.silent_since(self._now)
            self._log.begin_after_files()
        with suppress(JournalFailed):  # on a full disk, it is tried again before the first entry
            self.snapshot()

    def _resume(self, state: SavedState) -> None:
        """Continue from a snapshot."""
        newest = state.newest
        if self._models is not None and newest.model not in ("", self.model):
            self._runs = Generations(runs_named(newest.model, self._models, state.settings, self._now), newest.model)
        for saved in state.older:
            runs = runs_named(saved.model, self._models, state.settings, self._now)
            resume(runs, saved, state.settings)
            self._runs.older.append((saved.model, runs))
        resume(self._runs.newest, newest, state.settings)
        self._now, self._delivered = state.now, state.delivered
        self._log.begin(state.last_id)

    def _repeat(self, entry: bytes) -> None:
        """Do again what an entry of the journal says."""
        about, data = unpacked(entry)
        self._now = about["now"]
        match about["operation"]:
            case "take":
                self._take(unpacked_batch(about, data))
            case "tick":
                self._expire()
            case "finish":
                self._publish(self._runs.end({about["key"]: "end"}))
            case "finish_all":
                self._finish_all()
            case "forget":
                self._runs.forget(about["key"])
            case "set_rule":
                self._runs.set_rule(rule_described(about["rule"]))
            case "swap":
                name = about["model"]
                self._runs.replace(runs_named(name, self._models, self.settings, self._now), name)
            case "deliver":
                self._delivered = about["number"]

    def _write(self, entry: bytes) -> None:
        """Add an entry to the journal, before anything is changed."""
        assert self.journal is not None
        if not self._begun:
            self.snapshot()
        if self._log.is_full:
            self.sync()
            with self.journal.refusing():
                self._log.save()
        self.journal.append(entry)

    def _keep(self) -> None:
        """Write decisions to their files, and a snapshot in another thread, when it is time."""
        if self.journal is None:
            return
        with suppress(OSError):  # raised by the next entry, if it matters
            if self._log.saves_soon:
                self._log.save()
            if self.journal.due:
                position, content = self._frozen(self.journal)
                self.journal.install_later(content, position)

    def _frozen(self, journal: Journal) -> tuple[int, Callable[[], bytes]]:
        """The position in the journal, and a function that gives the snapshot of the state there."""
        self.sync()
        with journal.refusing():
            self._log.save()
            self._log.sync()
        position, newest = journal.rotate(), saved_runs(self._runs.model, self._runs.newest)
        older = [saved_runs(*each) for each in self._runs.older]
        settings, numbers = self.settings, (self._now, self.last_id, self._delivered)
        return position, lambda: packed_state(SavedState(newest(), settings, *numbers, [each() for each in older]))


def _key(series: Key | None) -> Key:
    return UNNAMED if series is None else series
