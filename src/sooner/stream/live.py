"""Live series as services and pipes need them: runs, silence, deadlines in seconds, numbered decisions.

A fleet decides; this module says when a series begins and ends. It has no clock of its own: `now` is passed in, in seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.inputs import as_finite
from sooner.rules.base import Rule
from sooner.stream.arrivals import UNNAMED, Arrival, Rejection
from sooner.stream.batch import Batch
from sooner.stream.events import Ended, Event, Outcome, RecentEvents
from sooner.stream.evidence import Posterior, margins, posteriors_of_named, softmax
from sooner.stream.fleet import Fleet, Key, closing
from sooner.stream.fold import AtEnd, Decision
from sooner.stream.settings import LiveSettings
from sooner.stream.times import Tick
from sooner.stream.views import OpenPage, OpenSeries, Sort
from sooner.types import FloatArray

RECENT = 10_000
"""How many events are kept in memory."""
_READABLE = "an observation that can be processed"


class Classifier(Protocol):
    """A fitted classifier."""

    def stream(self, *, keyed: Any, deadline: int | None, at_end: AtEnd, coverage: float | None) -> Any:
        """A fleet."""
        ...


class Verdict(NamedTuple):
    """An event that has no number yet."""

    key: Key
    run: int
    decision: Decision
    ended: Ended
    margin: float
    posterior: float
    at: Any


@dataclass
class _Work:
    """What comes of a batch."""

    batch: Batch
    ends: frozenset[int]
    rejected: list[Rejection]
    refused: set[int] = field(default_factory=set)
    verdicts: list[tuple[int, Verdict]] = field(default_factory=list)
    accepted: int = 0
    late: int = 0
    late_lines: list[int] = field(default_factory=list)

    def ignore(self, index: int) -> None:
        """Count a late arrival."""
        self.late += 1
        if self.batch.numbers:
            self.late_lines.append(self.batch.numbers[index])

    def refuse(self, index: int, expected: str, reason: str, kind: str) -> None:
        """Refuse an arrival."""
        self.rejected.append(self.batch.refusal(index, expected, reason, kind))
        self.refused.add(index)

    def in_order(self) -> list[Verdict]:
        """The verdicts in the order of the arrivals, as if these were processed one by one."""
        return [verdict for _, verdict in sorted(self.verdicts, key=lambda pair: pair[0])]


class LiveSeries:
    """Live series with runs, silence, deadlines in seconds and numbered decisions. Not thread-safe.

    One observation that is refused costs only itself. The events of some arrivals are those of the same arrivals in any other
    division into calls of `take` at the same times.

    Memory is bounded: `settings.remember` closed IDs are kept, and the newest 10,000 events.

    Args:
        source: a fitted classifier, or a fleet, whose open series continue and whose own deadline and end are used.
        settings: when series end.
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

    def __init__(self, source: Classifier | Fleet, settings: LiveSettings | None = None, *, now: float = 0.0) -> None:
        self.settings = LiveSettings() if settings is None else settings
        self._fleet = source if isinstance(source, Fleet) else _fleet_of(source, self.settings)
        self._posterior: Posterior = getattr(source, "live_posterior", softmax)
        self._now = now
        # Open IDs, in the order of opening, and of the last observation.
        self._opened: dict[Key, float] = dict.fromkeys(self._fleet.keys(), now)
        self._seen: dict[Key, float] = dict(self._opened)
        self._ats: dict[Key, Any] = {}
        # How many runs of an ID are over, where it may begin another one; with re-arm by gap, the last observation of closed IDs.
        self._runs: dict[Key, int] = {}
        self._gone: dict[Key, float] = {}
        self._recent = RecentEvents(RECENT)

    def take(self, arrivals: Batch | Sequence[Arrival | Rejection], now: float) -> Outcome:
        """Process some arrivals, any number for each series, in their order."""
        batch = arrivals if isinstance(arrivals, Batch) else Batch.of(arrivals, self._fleet.check)
        self._clock(now)
        events = self._published(self._due())
        work = _Work(batch, frozenset(batch.ends), list(batch.rejected))
        for wave in batch.waves():
            self._process(work, wave)
        self._evict()
        events += self._published(work.in_order())
        return Outcome(work.accepted, sorted(work.rejected), events, 0, work.late, work.late_lines)

    def tick(self, now: float) -> list[Event]:
        """End the series whose silence or deadline in seconds is over."""
        self._clock(now)
        return self._published(self._due())

    def next_tick(self) -> float | None:
        """The time at which the next series ends by silence or deadline, if no observation comes; None for never."""
        idle, deadline = self.settings.idle, self.settings.deadline_seconds
        silent = [next(iter(self._seen.values())) + idle] if idle is not None and self._seen else []
        over = [next(iter(self._opened.values())) + deadline] if deadline is not None and self._opened else []
        return min(silent + over, default=None)

    def finish(self, series: Key | None, now: float) -> Event:
        """End an open series; its ID may then begin another one."""
        key = _key(series)
        if key not in self._opened:
            remedy = "It may have been decided already."
            raise InvalidArgument("series", "the ID of an open series", repr(series), remedy)
        self._clock(now)
        (event,) = self._published(self._conclude([key], "end"))
        return event

    def finish_all(self, now: float) -> list[Event]:
        """End all open series, in the order in which they were opened."""
        self._clock(now)
        return self._published(self._conclude(list(self._opened), "close"))

    def forget(self, series: Key | None, now: float) -> None:
        """Drop a series, open or closed, without a decision; its ID then begins again as run 1."""
        key = _key(series)
        if self._runs.pop(key, None) is None or key in self._fleet or key in self._fleet.decided:
            self._fleet.forget(key)
        self._clock(now)
        self._drop([key])
        self._gone.pop(key, None)

    def set_rule(self, rule: Rule, now: float) -> None:
        """Change the rule of all series, from the next observation on."""
        self._fleet.rule = rule
        self._clock(now)

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self._fleet.rule

    def open(self, offset: int = 0, limit: int = 50, *, search: str = "", sort: Sort = "opened") -> OpenPage:
        """A page of the open series.

        Args:
            offset: how many are skipped.
            limit: at most so many are shown.
            search: text that their IDs contain, in upper or lower case.
            sort: "opened" for the oldest first, "age" for those with the most observations first, "margin" for the largest first.
        """
        refuse_unknown("sort", sort, ("opened", "age", "margin"))
        keys = [key for key in self._opened if search.lower() in str(key).lower()] if search else list(self._opened)
        found = len(keys)
        if sort != "opened" and keys:
            scores, ages = self._fleet.peek(keys)
            by = ages.astype(np.float64) if sort == "age" else margins(scores)
            keys = [keys[index] for index in np.argsort(-by, kind="stable")[offset : offset + limit]]
        else:
            keys = keys[offset : offset + limit]
        return OpenPage(len(self), found, self._shown(keys))

    def show(self, series: Key | None) -> OpenSeries | None:
        """One open series, or None if it is not open."""
        key = _key(series)
        return self._shown([key])[0] if key in self._opened else None

    def unknown(self, keys: Sequence[Key]) -> list[Key]:
        """The IDs among these of which no series is open or remembered, each once, in their order."""
        return list(dict.fromkeys(key for key in keys if key not in self._opened and key not in self._fleet.decided))

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """The events with larger IDs than `after`, the oldest first; those before `first_id` are forgotten."""
        return self._recent.after(after, limit)

    @property
    def last_id(self) -> int:
        """The ID of the newest event; 0 if there is none."""
        return self._recent.last_id

    @property
    def first_id(self) -> int:
        """The ID of the oldest event that is kept."""
        return self._recent.first_id

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes."""
        return self._fleet.classes

    def __len__(self) -> int:
        return len(self._opened)

    def __repr__(self) -> str:
        return f"<LiveSeries: {len(self)} open, {self.last_id} decisions, {self.rule!r}>"

    def _clock(self, now: float) -> None:
        """Take the time; a clock that was set back stands still."""
        remedy = "It is a time in seconds, for example time.time()."
        self._now = max(self._now, as_finite(now, name="now", low=-np.inf, remedy=remedy))

    def _process(self, work: _Work, wave: Sequence[int]) -> None:
        """One arrival of each of some series."""
        indices, ticks = self._timed(work, self._admitted(work, wave))
        if indices:
            self._advance(work, indices, ticks)
        if work.ends:
            self._end(work, [index for index in wave if index in work.ends and index not in work.refused])

    def _admitted(self, work: _Work, wave: Sequence[int]) -> Sequence[int]:
        """The arrivals with an observation of a series that is open or may be opened."""
        keys, rows, decided = work.batch.keys, work.batch.rows, self._fleet.decided
        if rows is not None:
            wave = [index for index in wave if rows[index] >= 0]
        if not decided or decided.keys().isdisjoint(map(keys.__getitem__, wave)):
            return wave
        admitted = []
        for index in wave:
            if keys[index] not in decided or self._rearmed(keys[index]):
                admitted.append(index)
            elif self.settings.late == "ignore":
                work.ignore(index)
            else:
                reason = f"It was {closing(decided[keys[index]])}; a name begins another series once a line has ended the first."
                work.refuse(index, "one of a series that is still open", reason, "late")
        return admitted

    def _rearmed(self, key: Key) -> bool:
        """Whether a decided ID begins another series now, after a gap."""
        gap, last = self.settings.rearm.gap, self._gone.get(key)
        if gap is None or last is None:
            return False
        if self._now - last >= gap:
            self._free([key])
            return True
        self._gone[key] = self._now
        return False

    def _timed(self, work: _Work, indices: Sequence[int]) -> tuple[Sequence[int], dict[Key, Tick] | None]:
        """For a model that reads gaps: write them into the last channel, and refuse times that are not in order."""
        batch = work.batch
        if batch.times is None:
            return indices, None
        kept, ticks = [], {}
        for index in indices:
            key, time = batch.keys[index], batch.times[index]
            if time is not None:
                try:
                    ticks[key], gap = self._fleet.tick_and_gap(key, time)
                except InvalidArgument as error:
                    work.refuse(index, _READABLE, str(error), "field")
                    continue
                batch.values[batch.row(index), -1] = gap
            kept.append(index)
        return kept, ticks

    def _advance(self, work: _Work, indices: Sequence[int], ticks: dict[Key, Tick] | None) -> None:
        """Let the fleet process one observation of each of these series."""
        batch, now = work.batch, self._now
        keys = batch.keys if len(indices) == len(batch) else [batch.keys[index] for index in indices]
        done = self._fleet.advance(keys, batch.values_of(indices), ticks)
        stopped = [indices[at] for at in done.stopped]
        for at, error in done.refused.items():
            work.refuse(indices[at], _READABLE, str(error), "model")
        if done.refused:
            indices = [index for at, index in enumerate(indices) if at not in done.refused]
            keys = [batch.keys[index] for index in indices]
        work.accepted += len(keys)
        self._opened.update(dict.fromkeys(done.fresh, now))
        seen = self._seen
        for key in keys:
            seen.pop(key, None)  # so that the order is that of the last observation
            seen[key] = now
        if batch.ats is not None:
            self._ats.update((key, batch.ats[index]) for key, index in zip(keys, indices, strict=True))
        if done.stopped:
            ended: list[Ended] = ["rule" if decision.crossed else "deadline" for decision in done.decisions]
            decided = [batch.keys[index] for index in stopped]
            work.verdicts += zip(stopped, self._verdicts(decided, done.decisions, done.scores, ended), strict=True)

    def _end(self, work: _Work, indices: list[int]) -> None:
        """End the series of these arrivals; their IDs may then begin other ones."""
        keys = work.batch.keys
        running = [index for index in indices if keys[index] in self._opened]
        work.verdicts += zip(running, self._conclude([keys[index] for index in running], "end"), strict=True)
        self._free([keys[index] for index in indices if keys[index] in self._fleet.decided])
        rows = work.batch.rows
        work.accepted += 0 if rows is None else sum(bool(rows[index] < 0) for index in indices)

    def _due(self) -> list[Verdict]:
        """End the series whose silence or deadline in seconds is over, in the order in which that happened."""
        due: dict[Key, tuple[float, Ended]] = {}
        if (deadline := self.settings.deadline_seconds) is not None:
            for key, opened in self._opened.items():
                if opened + deadline > self._now:
                    break
                due[key] = (opened + deadline, "deadline")
        if (idle := self.settings.idle) is not None:
            for key, seen in self._seen.items():
                if seen + idle > self._now:
                    break
                due[key] = min(due.get(key, (np.inf, "deadline")), (seen + idle, "idle"))
        if not due:
            return []
        ordered = sorted(due, key=lambda key: due[key][0])
        decisions, scores = self._fleet.conclude(ordered)
        return self._verdicts(ordered, decisions, scores, [due[key][1] for key in ordered])

    def _conclude(self, keys: list[Key], ended: Ended) -> list[Verdict]:
        """End some open series."""
        if not keys:
            return []
        decisions, scores = self._fleet.conclude(keys)
        return self._verdicts(keys, decisions, scores, [ended] * len(keys))

    def _verdicts(
        self, keys: list[Key], decisions: list[Decision], scores: FloatArray, ended: list[Ended]
    ) -> list[Verdict]:
        """The verdicts of series that the fleet has just closed."""
        posteriors = posteriors_of_named(decisions, scores, self.classes, self._posterior)
        runs, ats = [self._runs.get(key, 0) + 1 for key in keys], [self._ats.get(key) for key in keys]
        if self.settings.rearm.mode == "gap":
            self._gone.update((key, self._seen[key]) for key in keys)
        self._drop(keys)
        every = self.settings.rearm.mode == "next"
        self._free([key for key, how in zip(keys, ended, strict=True) if every or how == "end"])
        found = zip(keys, runs, decisions, ended, margins(scores).tolist(), posteriors, ats, strict=True)
        return [Verdict(*fields) for fields in found]

    def _drop(self, keys: list[Key]) -> None:
        """Forget what is known of open series only."""
        for key in keys:
            self._opened.pop(key, None)
            self._seen.pop(key, None)
            self._ats.pop(key, None)

    def _free(self, keys: list[Key]) -> None:
        """Let closed IDs begin another run."""
        for key in keys:
            self._fleet.forget(key)
            self._gone.pop(key, None)
            self._runs[key] = self._runs.pop(key, 0) + 1  # at the end, as the newest

    def _evict(self) -> None:
        """Forget the oldest closed IDs, many at once, where there are too many."""
        most = self.settings.remember
        if len(self._fleet.decided) > most:
            for key in list(islice(self._fleet.decided, len(self._fleet.decided) - most * 9 // 10)):
                self._fleet.forget(key)
                self._gone.pop(key, None)
                self._runs.pop(key, None)
        if len(self._runs) - len(self) > most:
            closed = (key for key in self._runs if key not in self._opened)
            for key in list(islice(closed, len(self._runs) - len(self) - most * 9 // 10)):
                del self._runs[key]

    def _published(self, verdicts: list[Verdict]) -> list[Event]:
        """Number the events."""
        events = [
            Event(
                number,
                None if key == UNNAMED else key,
                run,
                decision.label,
                decision.time,
                decision.crossed,
                ended,
                margin,
                posterior,
                at,
                self._now,
            )
            for number, (key, run, decision, ended, margin, posterior, at) in enumerate(verdicts, self.last_id + 1)
        ]
        self._recent.extend(events)
        return events

    def _shown(self, keys: list[Key]) -> list[OpenSeries]:
        if not keys:
            return []
        scores, ages = self._fleet.peek(keys)
        found = zip(keys, scores, ages.tolist(), scores.argmax(axis=1), margins(scores).tolist(), strict=True)
        return [
            OpenSeries(
                None if key == UNNAMED else key,
                self._runs.get(key, 0) + 1,
                age,
                self.classes[leader],
                margin,
                self._opened[key],
                self._seen[key],
                row,
            )
            for key, row, age, leader, margin in found
        ]


def _key(series: Key | None) -> Key:
    return UNNAMED if series is None else series


def _fleet_of(classifier: Classifier, settings: LiveSettings) -> Fleet:
    fleet: Fleet = classifier.stream(
        keyed=True, deadline=settings.deadline, at_end=settings.at_end, coverage=settings.coverage
    )
    return fleet
