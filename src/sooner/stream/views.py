"""Open series as a page shows them."""

from typing import Literal, NamedTuple, TypeAlias

from sooner.stream.fleet import Key
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
