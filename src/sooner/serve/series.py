"""The open series: pages of them, and one series with the course of its scores while somebody looks at it."""

import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sooner.rules import FixedTime, Halting, Rule, ThresholdRule
from sooner.serve.answers import Refusal
from sooner.stream.events import Event
from sooner.stream.views import OpenSeries, Sort

if TYPE_CHECKING:
    from sooner.serve.service import Service

_WATCHED, _POINTS, _SECONDS = 64, 500, 60.0


class Courses:
    """The scores over time of series that were asked for within the last minute; at most 64 series."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[Any, int], float] = OrderedDict()
        self._points: dict[tuple[Any, int], deque[tuple[int, float, list[float]]]] = {}

    def ask(self, shown: OpenSeries, now: float) -> list[tuple[int, float, list[float]]]:
        """The points so far; the series is watched from now on."""
        key = shown.series, shown.run
        self._asked[key] = now
        self._asked.move_to_end(key)
        self._points.setdefault(key, deque(maxlen=_POINTS))
        while len(self._asked) > _WATCHED:
            self._drop(next(iter(self._asked)))
        self.see(shown)
        return list(self._points[key])

    def watched(self, now: float) -> list[Any]:
        """The IDs of the watched series."""
        while self._asked and (oldest := next(iter(self._asked.items())))[1] < now - _SECONDS:
            self._drop(oldest[0])
        return [series for series, _ in self._asked]

    def see(self, shown: OpenSeries) -> None:
        """Add a point, if the series has a new observation."""
        points = self._points.get((shown.series, shown.run))
        if points and points[-1][0] > shown.time:  # the series was forgotten, and its ID began again
            points.clear()
        if points is not None and (not points or points[-1][0] < shown.time):
            points.append((shown.time, shown.margin, shown.scores.tolist()))

    def last(self, event: Event) -> list[tuple[int, float, list[float]]]:
        """The points of a series that was decided while it was watched."""
        return list(self._points.get((event.series, event.run), ()))

    def _drop(self, key: tuple[Any, int]) -> None:
        del self._asked[key], self._points[key]


class SeriesView:
    """What clients see of the series of a service, and how they end single ones."""

    def __init__(self, service: "Service") -> None:
        self._service, self._courses = service, Courses()

    async def page(self, *, offset: int, limit: int, search: str, sort: Sort) -> dict[str, Any]:
        """A page of the open series."""
        live = self._service.live

        def found(_: float) -> dict[str, Any]:
            page = live.open(offset, limit, search=search, sort=sort)
            statistics = statistics_of(live.rule, page.series)
            rows = [{**_row(shown), "statistic": value} for shown, value in zip(page.series, statistics, strict=True)]
            return {"open": page.open, "found": page.found, "series": rows}

        return await self._service.call(found)

    async def one(self, name: str, after: int = 0) -> dict[str, Any]:
        """One series, open or decided, with the part of its course after so many observations."""

        def shown(now: float) -> dict[str, Any]:
            about = self._one(name, now)
            return {**about, "trajectory": [point for point in about["trajectory"] if point[0] > after]}

        return await self._service.call(shown)

    async def finish(self, name: str) -> dict[str, Any]:
        """End a series."""

        def finished(now: float) -> tuple[dict[str, Any], Sequence[Event]]:
            event = self._service.live.finish(self._open(name).series, now)
            return event.record(), [event]

        return await self._service.change(finished)

    async def forget(self, name: str) -> None:
        """Drop a series."""

        def forgotten(now: float) -> tuple[None, Sequence[Event]]:
            shown = self._shown(name)
            event = self._decided(name)
            if shown is None and event is None:
                raise _unknown(name)
            self._service.live.forget(shown.series if shown is not None else event.series, now)  # type: ignore[union-attr]
            return None, ()

        await self._service.change(forgotten)

    def sample(self) -> None:
        """Add the newest scores of the watched series; called in the worker after each gathering."""
        for series in self._courses.watched(time.time()):
            if (shown := self._service.live.show(series)) is not None:
                self._courses.see(shown)

    def _one(self, name: str, now: float) -> dict[str, Any]:
        classes = list(self._service.live.classes)
        if (shown := self._shown(name)) is not None:
            trajectory = self._courses.ask(shown, now)
            about = {"state": "open", "scores": shown.scores.tolist(), "decision": None}
            return {**_row(shown), **about, "classes": classes, "trajectory": trajectory}
        if (event := self._decided(name)) is not None:
            known = {name: getattr(event, name) for name in ("series", "run", "time", "margin")}
            about = {"state": "decided", "scores": None, "decision": event.record(), "leader": event.label}
            about |= {"opened": None, "seen": event.arrived}
            return {**known, **about, "classes": classes, "trajectory": self._courses.last(event)}
        raise _unknown(name)

    def _open(self, name: str) -> OpenSeries:
        if (shown := self._shown(name)) is not None:
            return shown
        if self._decided(name) is not None:
            raise Refusal(409, f"The series {name!r} has been decided already.")
        raise _unknown(name)

    def _shown(self, name: str) -> OpenSeries | None:
        for key in keys_named(name):
            if (shown := self._service.live.show(key)) is not None:
                return shown
        return None

    def _decided(self, name: str) -> Event | None:
        found = (self._service.published.find(key) for key in keys_named(name))
        return next((event for event in found if event is not None), None)


def keys_named(name: str) -> list[str | int]:
    """The IDs that a name in a path may stand for: text, or a whole number.

    >>> keys_named("7"), keys_named("pump-7")
    (['7', 7], ['pump-7'])
    """
    whole = name.removeprefix("-")
    return [name, int(name)] if whole.isascii() and whole.isdigit() and len(whole) < 40 else [name]


def statistics_of(rule: Rule, shown: Sequence[OpenSeries]) -> list[float | None]:
    """What a rule compares with its threshold, for some series; None where it has none, or where scores do not contain it."""
    if isinstance(rule, FixedTime):
        return [float(series.time) for series in shown]
    if not shown or not isinstance(rule, ThresholdRule) or isinstance(rule, Halting):
        return [None] * len(shown)
    scores = torch.from_numpy(np.stack([series.scores for series in shown]))
    found: list[float | None] = rule.statistic(scores[:, None])[:, 0].tolist()
    return found


def _row(shown: OpenSeries) -> dict[str, Any]:
    return {name: value for name, value in shown._asdict().items() if name != "scores"}


def _unknown(name: str) -> Refusal:
    text = name if len(name) <= 80 else name[:77] + "..."
    return Refusal(404, f"There is no series {text!r}: it was never seen, or its decision is no longer in memory.")
