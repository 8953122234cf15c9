"""Open series as a page shows them."""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from sooner.errors import refuse_unknown
from sooner.stream.arrivals import UNNAMED
from sooner.stream.evidence import margins
from sooner.stream.fleet import Key
from sooner.stream.generations import Generations
from sooner.types import FloatArray

Sort: TypeAlias = Literal["opened", "age", "margin"]


class OpenSeries(NamedTuple):
    """An open series.

    Attributes:
        series: its ID; None where lines have none.
        run: the number of the series under that ID.
        time: how many observations were read.
        leader: the name of the leading class.
        margin: the largest minus the second largest score.
        opened: when its first observation came.
        seen: when its last observation came.
        scores: (classes,), as the rule reads them.
    """

    series: Key | None
    run: int
    time: int
    leader: object
    margin: float
    opened: float
    seen: float
    scores: FloatArray


class OpenPage(NamedTuple):
    """A page of open series: how many are open, how many of them fit the search, and those of this page."""

    open: int
    found: int
    series: list[OpenSeries]


def page_of(runs: Generations, offset: int, limit: int, *, search: str, sort: Sort) -> OpenPage:
    """A page of the open series, as `LiveSeries.open` says."""
    refuse_unknown("sort", sort, ("opened", "age", "margin"))
    keys = runs.all()
    if search:
        keys = [key for key in keys if search.lower() in str(key).lower()]
    found = len(keys)
    if sort != "opened" and keys:
        scores, ages = runs.peek(keys)
        by = ages.astype(np.float64) if sort == "age" else margins(scores)
        keys = [keys[index] for index in np.argsort(-by, kind="stable")[offset : offset + limit]]
    else:
        keys = keys[offset : offset + limit]
    return OpenPage(len(runs), found, shown(runs, keys))


def shown(runs: Generations, keys: list[Key]) -> list[OpenSeries]:
    """These open series."""
    if not keys:
        return []
    scores, ages = runs.peek(keys)
    classes = runs.newest.fleet.classes
    leaders = [classes[leader] for leader in scores.argmax(axis=1)]
    names = [None if key == UNNAMED else key for key in keys]
    numbers = [runs.number(key) for key in keys]
    times = runs.times(keys)
    found = zip(names, numbers, ages.tolist(), leaders, margins(scores).tolist(), *times, scores, strict=True)
    return [OpenSeries(*fields) for fields in found]
