"""Series that come and go under their IDs: a fleet decides them, and this module says when a run begins and ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sooner.errors import InvalidArgument
from sooner.stream.arrivals import Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.events import Ended
from sooner.stream.evidence import Posterior, margins, posteriors_of_named
from sooner.stream.fleet import Fleet, Key, closing
from sooner.stream.fleet_rows import Advance, FleetRows
from sooner.stream.fold import Decision
from sooner.stream.settings import LiveSettings
from sooner.stream.stamps import Stamps
from sooner.stream.times import Tick
from sooner.types import FloatArray, IntArray

_READABLE = "an observation that can be processed"


class Verdict(NamedTuple):
    """A decision that has no number yet; the fields are those of `Event`."""

    key: Key
    run: int
    decision: Decision
    ended: Ended
    margin: float
    posterior: float
    at: Any


@dataclass
class Processed:
    """What comes of a batch: how many arrivals were processed or came too late, and those that were refused."""

    batch: ArrivalBatch
    accepted: int = 0
    late: int = 0
    late_lines: list[int] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    found: list[tuple[int, Verdict]] = field(default_factory=list)

    def ignore(self, index: int) -> None:
        """Count an arrival that comes too late."""
        self.late += 1
        self.late_lines += self.batch.numbers[index : index + 1]

    def refuse(self, index: int, expected: str, reason: str, kind: str) -> None:
        """Refuse an arrival."""
        self.rejected.append(self.batch.refusal(index, expected, reason, kind))
        self.refused.add(index)

    def add(self, part: "Processed", indices: Sequence[int]) -> None:
        """Add what came of a part of the batch, the arrivals with these indices."""
        self.accepted += part.accepted
        self.late += part.late
        self.late_lines += part.late_lines
        self.rejected += part.rejected
        self.refused |= {indices[index] for index in part.refused}
        self.found += [(indices[index], verdict) for index, verdict in part.found]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts in the order of the arrivals, as if these were processed one by one."""
        return [verdict for _, verdict in sorted(self.found, key=lambda pair: pair[0])]


class Runs:
    """The runs of all IDs. Not thread-safe.

    Args:
        fleet: whose open series continue.
        settings: when runs end.
        posterior: the probabilities of the classes, from scores.
        now: when the open series of the fleet are said to have begun.

    Attributes:
        over: how many runs of an ID are over, where it may begin another one.
        gone: with re-arm by gap, when each closed ID was last seen.
    """

    def __init__(self, fleet: Fleet, settings: LiveSettings, posterior: Posterior, now: float) -> None:
        self.fleet = fleet
        self.rows = FleetRows(fleet)
        self.settings = settings
        self.over: dict[Key, int] = {}
        self.gone: dict[Key, float] = {}
        self._posterior = posterior
        self._arrivals = len(fleet)
        self.stamps = Stamps()
        born = np.empty(len(fleet), dtype=np.int64)
        born[self.rows.rows_of(list(fleet.keys()))] = np.arange(len(fleet))
        self.stamps.begin(born, now)
        # No run ends by silence or a deadline in seconds before.
        self._not_before = -np.inf

    def take(self, batch: ArrivalBatch, now: float) -> Processed:
        """Process some arrivals, any number for each series, in their order."""
        work = Processed(batch, rejected=list(batch.rejected))
        rows = self.rows.rows_of(batch.keys)
        if len(set(batch.keys)) == len(batch):
            self._wave(work, np.arange(len(batch)), rows, now)
        else:
            for wave in batch.waves():
                self._wave(work, np.array(wave), self.rows.rows_of([batch.keys[index] for index in wave]), now)
        self._arrivals += len(batch)
        self._evict()
        return work

    def next_due(self) -> float | None:
        """When the next run ends by silence or by its deadline in seconds, if nothing comes; None for never."""
        idle, deadline = self.settings.idle, self.settings.deadline_seconds
        if not len(self.stamps) or (idle is None and deadline is None):
            return None
        silent = np.inf if idle is None else float(self.stamps.seen.min()) + idle
        return min(silent, np.inf if deadline is None else float(self.stamps.opened.min()) + deadline)

    def due(self, now: float) -> dict[Key, Ended]:
        """The IDs whose silence or deadline in seconds is over, in the order in which that happened."""
        if now < self._not_before:
            return {}
        idle, deadline = (
            np.inf if wait is None else wait for wait in (self.settings.idle, self.settings.deadline_seconds)
        )
        silent, late = self.stamps.seen + idle, self.stamps.opened + deadline
        first = np.minimum(silent, late)
        over = np.flatnonzero(first <= now)
        # A series that begins after this has to wait at least as long.
        self._not_before = min(float(np.min(first, initial=np.inf)), now + min(idle, deadline))
        if not len(over):
            return {}
        over = over[np.lexsort((self.stamps.born[over], first[over]))]
        keys = self.rows.keys_of(over)
        return {key: "deadline" if late[row] <= silent[row] else "idle" for key, row in zip(keys, over, strict=True)}

    def end(self, ends: dict[Key, Ended]) -> list[Verdict]:
        """End some open runs."""
        if not ends:
            return []
        keys = list(ends)
        decisions, scores = self.rows.forced(keys)
        ats = self.stamps.ats[self.rows.rows_of(keys)].tolist()
        verdicts = self._verdicts(keys, decisions, scores, list(ends.values()), ats)
        self._settle(verdicts)
        self._evict()
        return verdicts

    def all(self) -> list[Key]:
        """The IDs of all open runs, in the order in which they began."""
        return self.rows.keys_of(np.argsort(self.stamps.born))

    def knows(self, key: Key) -> bool:
        """Whether anything is known of an ID."""
        return key in self.fleet or key in self.fleet.decided or key in self.over

    def forget(self, key: Key) -> None:
        """Forget an ID, open or closed."""
        self.gone.pop(key, None)
        self.over.pop(key, None)
        if key in self.fleet:
            self.stamps.move(self.rows.drop(key), len(self.fleet))
        elif key in self.fleet.decided:
            self.fleet.forget(key)

    def inherit(self, other: "Runs", keys: Sequence[Key] | None = None) -> None:
        """Take over what other runs know of closed IDs, by default of all."""
        decided = other.fleet.decided
        for key in list({**decided, **other.over}) if keys is None else keys:
            if key in other.fleet:  # its run number is still needed there
                continue
            if key in decided:
                self.rows.adopt(key, decided[key])
                other.fleet.forget(key)
            if key in other.over:
                self.over[key] = other.over.pop(key)
            if key in other.gone:
                self.gone[key] = other.gone.pop(key)
        self._arrivals = max(self._arrivals, other._arrivals)

    def number(self, key: Key) -> int:
        """The number of the run of an open ID."""
        return self.over.get(key, 0) + 1

    def silent_since(self, now: float) -> None:
        """Count the silence of all open series from now on."""
        self.stamps.seen[:] = now

    def to_json(self) -> dict[str, Any]:
        """All that is known beside the fleet, as JSON types."""
        closed = {"over": list(self.over.items()), "gone": list(self.gone.items())}
        return {"stamps": self.stamps.to_json(), "arrivals": self._arrivals, **closed}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `to_json` gave, after the fleet was restored."""
        self.stamps, self._arrivals = Stamps.of_json(state["stamps"]), state["arrivals"]
        self.over, self.gone = dict(state["over"]), dict(state["gone"])
        self._not_before = -np.inf

    def change(self, settings: LiveSettings) -> None:
        """Use other settings from now on."""
        self.settings, self._not_before = settings, -np.inf

    def _wave(self, work: Processed, indices: IntArray, rows: IntArray, now: float) -> None:
        """One arrival of each of some series."""
        observed = self._admitted(work, indices, rows, now)
        ticks = None
        if work.batch.times is not None:
            observed, ticks = self._timed(work, indices, observed)
        if len(observed):
            self._advance(work, indices[observed], rows[observed], ticks, now)
        if work.batch.ends:
            ends = work.batch.ending
            self._end(work, [index for index in indices.tolist() if index in ends and index not in work.refused])

    def _admitted(self, work: Processed, indices: IntArray, rows: IntArray, now: float) -> IntArray:
        """Which of the arrivals have an observation of a series that is open or may be opened, as places in `indices`."""
        batch, decided = work.batch, self.fleet.decided
        admitted = np.ones(len(indices), dtype=bool) if batch.rows is None else batch.rows[indices] >= 0
        for place in np.flatnonzero(admitted & (rows < 0)).tolist() if decided else ():
            index = int(indices[place])
            key = batch.keys[index]
            if key not in decided or self._rearmed(key, now):
                continue
            admitted[place] = False
            if self.settings.late == "ignore":
                work.ignore(index)
            else:
                again = "a name begins another series once a line has ended the first."
                reason = f"It was {closing(decided[key])}; {again}"
                work.refuse(index, "one of a series that is still open", reason, "late")
        return np.flatnonzero(admitted)

    def _rearmed(self, key: Key, now: float) -> bool:
        """Whether a decided ID begins another series now, after a gap."""
        gap, last = self.settings.rearm.gap, self.gone.get(key)
        if gap is None or last is None:
            return False
        if now - last >= gap:
            self._free(key)
            return True
        self.gone[key] = now
        return False

    def _timed(self, work: Processed, indices: IntArray, observed: IntArray) -> tuple[IntArray, dict[Key, Tick]]:
        """For a model that reads gaps: write them into the last channel, and refuse times that are not in order."""
        batch, kept = work.batch, []
        ticks: dict[Key, Tick] = {}
        for place in observed.tolist():
            index = int(indices[place])
            key, time = batch.keys[index], None if batch.times is None else batch.times[index]
            if time is not None:
                try:
                    ticks[key], gap = self.rows.tick_and_gap(key, time)
                except InvalidArgument as error:
                    work.refuse(index, _READABLE, str(error), "field")
                    continue
                batch.values[batch.row(index), -1] = gap
            kept.append(place)
        return np.array(kept, dtype=np.int64), ticks

    def _advance(
        self, work: Processed, indices: IntArray, rows: IntArray, ticks: dict[Key, Tick] | None, now: float
    ) -> None:
        """Let the fleet process one observation of each of these series."""
        batch = work.batch
        keys = batch.keys if len(indices) == len(batch) else [batch.keys[index] for index in indices]
        done = self.rows.advance(keys, rows, batch.values_of(indices), ticks)
        for place, error in done.refused.items():
            work.refuse(int(indices[place]), _READABLE, str(error), "model")
        work.accepted += len(done.order)
        self._stamp(batch, indices[done.order], done, now)
        if done.stopped:
            stopped = indices[done.stopped].tolist()
            ended: list[Ended] = ["rule" if decision.crossed else "deadline" for decision in done.decisions]
            ats = [None if batch.ats is None else batch.ats[index] for index in stopped]
            verdicts = self._verdicts([batch.keys[i] for i in stopped], done.decisions, done.scores, ended, ats)
            self._settle(verdicts)
            work.found += zip(stopped, verdicts, strict=True)

    def _stamp(self, batch: ArrivalBatch, indices: IntArray, done: Advance, now: float) -> None:
        """Note the times of the observations that were processed."""
        new = len(self.fleet) - len(self.stamps)
        if new:
            self.stamps.begin(self._arrivals + indices[len(indices) - new :], now)
        self.stamps.seen[done.rows] = now
        if batch.ats is not None:
            ats = batch.ats
            self.stamps.ats[done.rows] = [ats[index] for index in indices.tolist()]

    def _end(self, work: Processed, indices: list[int]) -> None:
        """End the series of these arrivals; their IDs may then begin other ones."""
        keys, rows = work.batch.keys, work.batch.rows
        running = [index for index in indices if keys[index] in self.fleet]
        work.found += zip(running, self.end({keys[index]: "end" for index in running}), strict=True)
        for index in indices:
            if keys[index] in self.fleet.decided:
                self._free(keys[index])
        work.accepted += 0 if rows is None else sum(bool(rows[index] < 0) for index in indices)

    def _verdicts(
        self,
        keys: list[Key],
        decisions: list[Decision],
        scores: FloatArray,
        ended: list[Ended],
        ats: list[Any],
    ) -> list[Verdict]:
        """The verdicts of open series that are decided now."""
        posteriors = posteriors_of_named(decisions, scores, self.fleet.classes, self._posterior)
        runs = [self.number(key) for key in keys]
        found = zip(keys, runs, decisions, ended, margins(scores).tolist(), posteriors, ats, strict=True)
        return [Verdict(*fields) for fields in found]

    def _settle(self, verdicts: list[Verdict]) -> None:
        """Close the series of these verdicts; some IDs may begin another run at once."""
        keys = [verdict.key for verdict in verdicts]
        rearm = self.settings.rearm.mode
        if rearm == "gap":
            self.gone.update(zip(keys, self.stamps.seen[self.rows.rows_of(keys)].tolist(), strict=True))
        moves = self.rows.settle(keys, [verdict.decision for verdict in verdicts])
        self.stamps.move(moves, len(self.fleet))
        for verdict in verdicts:
            if rearm == "next" or verdict.ended == "end":
                self._free(verdict.key)

    def _free(self, key: Key) -> None:
        """Let a closed ID begin another run."""
        self.fleet.forget(key)
        self.gone.pop(key, None)
        self.over[key] = self.over.pop(key, 0) + 1  # at the end, as the newest

    def _evict(self) -> None:
        """Forget the oldest closed IDs, many at once, where there are too many."""
        most, decided, fleet = self.settings.remember, self.fleet.decided, self.fleet
        if len(decided) > most:
            for key in list(islice(decided, len(decided) - most * 9 // 10)):
                self.forget(key)
        if (many := len(self.over) - len(fleet)) > most:
            for key in list(islice((key for key in self.over if key not in fleet), many - most * 9 // 10)):
                self.forget(key)
