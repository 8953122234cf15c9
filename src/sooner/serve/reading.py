"""The lines of gathered requests: read all at once, and answered request by request."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from sooner.estimator import EarlyClassifier
from sooner.estimator.columns import columns_for
from sooner.series.columns import GAP, Columns
from sooner.serve.answers import Refusal
from sooner.serve.gather import Answer
from sooner.serve.limits import ServiceLimits, TokenBucket
from sooner.stream.arrivals import Arrival, Rejection
from sooner.stream.batch import ArrivalBatch
from sooner.stream.events import Outcome
from sooner.stream.fleet import Key
from sooner.stream.lines import WHOLE, Fields, JsonLines
from sooner.stream.live import LiveSeries

LISTED = 1000
"""Rejected lines that an answer lists."""
MOST_LINES = 100_000
"""Lines of a request."""
_BURST = 10.0


@dataclass(frozen=True)
class Reading:
    """The lines of some requests.

    Args:
        arrivals: of all of them, with numbers from `starts[0] + 1` on.
        starts: how many lines come before each request, and before the end.
        counts: how many lines of each request are not blank.
        rejected: lines that a limit refused.
    """

    arrivals: ArrivalBatch | Sequence[Arrival | Rejection]
    starts: Sequence[int]
    counts: Sequence[int]
    rejected: Sequence[Rejection]

    def answers(self, outcome: Outcome, last_id: int) -> list[Answer]:
        """The answer to each request, from what became of the arrivals and the ID of the newest decision."""
        rejected = sorted((*outcome.rejected, *self.rejected))
        numbers, late = [rejection.line for rejection in rejected], sorted(outcome.late_lines)
        answers: list[Answer] = []
        for start, end, count in zip(self.starts, self.starts[1:], self.counts, strict=False):
            own = rejected[bisect_right(numbers, start) : bisect_right(numbers, end)]
            own_late = bisect_right(late, end) - bisect_left(late, start + 1)
            accepted = count - len(own) - own_late
            answers.append(
                _refusal_of_all(own, start, accepted + own_late) or _answer(own, start, accepted, own_late, last_id)
            )
        return answers


class Bodies:
    """Reads the bodies of requests.

    Unlike a file, requests come from several clients. So the fields are fixed at the start, and not by the first line: every line
    has a series ID, and a line without known channels gives its observation as `x`.

    Args:
        clf: whose channels are read.
        columns: fields with other names than in training.
        end: field that is true in the last line of a series.
        limits: of lines and of new series.
        now: the time in seconds.
    """

    def __init__(
        self, clf: EarlyClassifier, columns: Columns | None, end: str, limits: ServiceLimits, now: float
    ) -> None:
        known, gaps = columns_for(clf, columns)
        channels = tuple(name for name in known.channels or () if name != GAP)
        self.fields = Fields(known.series or "series", known.time or "time", end, channels or _channels_of(clf), gaps)
        self._limits = limits
        self._bucket = TokenBucket(limits.new_series, _BURST * limits.new_series, now)
        self._reader = JsonLines(self.fields)
        first = {self.fields.series: "a", self.fields.time: 0, WHOLE: [0.0] * len(self.fields.channels or ())}
        self._reader.read([orjson.dumps(first)])

    def read(self, bodies: Sequence[bytes]) -> Reading:
        """The lines of these bodies."""
        lines: list[bytes] = []
        starts, counts = [self._reader.lines], []
        for body in bodies:
            own = body.split(b"\n")
            if not own[-1]:
                del own[-1]  # after the last newline
            lines += own
            counts.append(sum(map(bool, map(bytes.strip, own))))
            starts.append(starts[0] + len(lines))
        refused = self._too_long(lines, starts[0])
        return Reading(self._reader.read(lines), starts, counts, refused)

    def admitted(self, reading: Reading, live: LiveSeries, now: float) -> Reading:
        """Without the lines that would open too many series; called where the series are changed."""
        arrivals = reading.arrivals
        keys = arrivals.keys if isinstance(arrivals, ArrivalBatch) else _keys(arrivals)
        room = self._limits.open_series - len(live)
        if min(room, self._bucket.left(now)) >= len(keys):  # as nearly always: no need to look which of them are new
            return reading
        fresh = live.unknown(keys)
        reasons: dict[Key | None, str] = {}
        for count, key in enumerate(fresh):
            if room <= 0:
                reasons[key] = f"{self._limits.open_series:,} series are open, the limit of this service."
            elif self._bucket.left(now) < count + 1 - len(reasons):
                reasons[key] = (
                    f"New series come faster than {self._limits.new_series:g} a second, the limit of this service."
                )
            else:
                room -= 1
        if not reasons:
            return reading
        kept, crowded = _without(arrivals, reasons)
        return replace(reading, arrivals=kept, rejected=[*reading.rejected, *crowded])

    def opened(self, count: int) -> None:
        """Count series that were opened."""
        self._bucket.spend(count)

    def _too_long(self, lines: list[bytes], start: int) -> list[Rejection]:
        """Refuse lines above the limit, and make them blank."""
        if max(map(len, lines), default=0) <= self._limits.line:
            return []
        reason = f"A line must have at most {self._limits.line:,} bytes."
        long = [index for index, line in enumerate(lines) if len(line) > self._limits.line]
        for index in long:
            lines[index] = b""
        return [Rejection(start + index + 1, reason, "size") for index in long]


def refuse_many_lines(body: bytes) -> None:
    """Refuse a body with too many lines."""
    if body.count(b"\n") > MOST_LINES:
        raise Refusal(413, f"The body has more than {MOST_LINES:,} lines, the limit of this service. Send it in parts.")


def _answer(rejected: Sequence[Rejection], start: int, accepted: int, late: int, last_id: int) -> dict[str, Any]:
    listed = [{"line": each.line - start, "reason": _renumbered(each, start)} for each in rejected[:LISTED]]
    return {"accepted": accepted, "late": late, "rejected": listed, "last_id": last_id}


def _renumbered(rejection: Rejection, start: int) -> str:
    """The reason with the number of the line in its request."""
    return rejection.reason.replace(f"`line {rejection.line}`", f"`line {rejection.line - start}`", 1)


def _refusal_of_all(rejected: Sequence[Rejection], start: int, others: int) -> Refusal | None:
    """The refusal of a request, if a limit was above all of its lines, or none of them is text."""
    kinds = {rejection.kind for rejection in rejected}
    if others or len(kinds) != 1:
        return None
    status = {"limit": 429, "size": 413, "text": 422}.get(kinds.pop())
    if status is None:
        return None
    return Refusal(status, _renumbered(rejected[0], start), retry_after=1 if status == 429 else None)


def _without(
    arrivals: ArrivalBatch | Sequence[Arrival | Rejection], reasons: dict[Key | None, str]
) -> tuple[ArrivalBatch | list[Arrival | Rejection], list[Rejection]]:
    """The arrivals without those of some series, and the rejections of these."""
    if not isinstance(arrivals, ArrivalBatch):
        lost = [a for a in arrivals if isinstance(a, Arrival) and a.key in reasons]
        kept = [a for a in arrivals if not (isinstance(a, Arrival) and a.key in reasons)]
        return kept, [Rejection(a.number, reasons[a.key], "limit") for a in lost]
    inside = np.array([key not in reasons for key in arrivals.keys])
    places = np.flatnonzero(inside).tolist()
    rejected = [
        Rejection(arrivals.numbers[index], reasons[arrivals.keys[index]], "limit")
        for index in np.flatnonzero(~inside).tolist()
    ]
    ends, order = set(arrivals.ends), dict(zip(places, range(len(places)), strict=True))
    batch = replace(
        arrivals,
        keys=[arrivals.keys[index] for index in places],
        values=arrivals.values[inside],  # a batch that was read at once has one observation in each line
        times=None if arrivals.times is None else [arrivals.times[index] for index in places],
        ats=None if arrivals.ats is None else [arrivals.ats[index] for index in places],
        ends=[order[index] for index in places if index in ends],
        numbers=[arrivals.numbers[index] for index in places],
        texts=[arrivals.texts[index] for index in places],
    )
    return batch, rejected


def _channels_of(clf: EarlyClassifier) -> tuple[str, ...]:
    """Names of channels for a model without any: `x` for one, else `x0`, `x1` and so on."""
    shape = clf.standardizer_.mean.shape
    count = shape[0] if len(shape) == 1 else 1
    return (WHOLE,) if count == 1 else tuple(f"{WHOLE}{index}" for index in range(count))


def _keys(arrivals: Sequence[Arrival | Rejection]) -> list[Key]:
    return [arrival.key for arrival in arrivals if isinstance(arrival, Arrival) and arrival.key is not None]
