"""Counts and durations, for Prometheus at `/metrics` and as JSON at `/v1/stats`. No series ID is ever a label."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import prometheus_client as prometheus

from sooner.stream.events import Event

_RECENT = 1000
_RATE_SECONDS = 10
_TIMES = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 130, 200, 500, 1000, 10_000)
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Rate:
    """Events per second over the last ten seconds.

    >>> rate = Rate()
    >>> rate.add(50, now=100.0)
    >>> rate.at(now=104.0)
    5.0
    """

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque()

    def add(self, count: int, now: float) -> None:
        """Count events."""
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            count += self._seconds.pop()[1]
        self._seconds.append((second, count))
        self._drop(now)

    def at(self, now: float) -> float:
        """The rate."""
        self._drop(now)
        return sum(count for _, count in self._seconds) / _RATE_SECONDS

    def _drop(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] <= now - _RATE_SECONDS - 1:
            self._seconds.popleft()


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.began = time.time()
        self.observations, self.decisions = 0, 0
        self.rejected: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self._recent: deque[tuple[int, bool]] = deque(maxlen=_RECENT)
        self._in, self._out = Rate(), Rate()
        own = self.registry
        self._observations = prometheus.Counter("sooner_observations", "Observations that were accepted.", registry=own)
        self._decisions = prometheus.Counter("sooner_decisions", "Decisions.", ["label", "crossed"], registry=own)
        self._rejected = prometheus.Counter("sooner_rejected", "Lines that were rejected.", ["reason"], registry=own)
        self._active = prometheus.Gauge("sooner_series_active", "Open series.", registry=own)
        self._lag = prometheus.Gauge(
            "sooner_journal_lag_seconds", "Seconds that the newest write to the journal took.", registry=own
        )
        self._update = prometheus.Histogram(
            "sooner_update_duration_seconds",
            "Seconds to process one gathering of lines.",
            buckets=_SECONDS,
            registry=own,
        )
        self._times = prometheus.Histogram(
            "sooner_decision_time_observations", "Observations that a decision read.", buckets=_TIMES, registry=own
        )
        self._alarm = prometheus.Gauge(
            "sooner_watch_alarm", "1 once the promise about the error is broken.", registry=own
        )
        prometheus.Info("sooner_build", "Version.", registry=own).info({"version": version("sooner")})
        prometheus.ProcessCollector(registry=own)

    def gathered(self, accepted: int, rejected: Counter[str], seconds: float, lag: float) -> None:
        """Count one gathering of lines: `seconds` for all of it, `lag` for the journal."""
        self.observations += accepted
        self._observations.inc(accepted)
        self._in.add(accepted, time.time())
        for reason, count in rejected.items():
            self.rejected[reason] += count
            self._rejected.labels(reason).inc(count)
        self._update.observe(seconds)
        self._lag.set(lag)

    def decided(self, events: Sequence[Event]) -> None:
        """Count decisions."""
        self.decisions += len(events)
        self._out.add(len(events), time.time())
        for event in events:
            label = "none" if event.label is None else str(event.label)
            self.labels[label] += 1
            self._decisions.labels(_encodable(label), str(event.crossed).lower()).inc()
            self._times.observe(event.time)
            self._recent.append((event.time, event.crossed))

    def alarm(self, raised: bool) -> None:
        """Whether the watch has raised an alarm."""
        self._alarm.set(raised)

    def stats(self) -> dict[str, Any]:
        """For `/v1/stats`; mean time and forced share are those of the last 1,000 decisions."""
        now, recent = time.time(), self._recent
        return {
            "observations": self.observations,
            "decisions": self.decisions,
            "rejected": dict(self.rejected),
            "labels": dict(self.labels),
            "rate_in": self._in.at(now),
            "rate_out": self._out.at(now),
            "mean_time": sum(time for time, _ in recent) / len(recent) if recent else None,
            "forced": sum(not crossed for _, crossed in recent) / len(recent) if recent else None,
            "uptime": now - self.began,
        }

    def text(self, open_series: int) -> bytes:
        """For `/metrics`, in the text format of Prometheus."""
        self._active.set(open_series)  # here, because series end by silence too
        return prometheus.generate_latest(self.registry)


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
