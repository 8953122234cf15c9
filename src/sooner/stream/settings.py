"""How live series end, and whether their IDs may begin anew."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.inputs import as_finite, as_whole
from sooner.stream.fold import AtEnd

Late: TypeAlias = Literal["ignore", "refuse"]

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-z]*)")


def seconds_of(text: str | float, *, name: str) -> float:
    """The seconds of a duration: a number of seconds, or text with a unit.

    >>> seconds_of("500ms", name="idle"), seconds_of("2m", name="idle"), seconds_of(30, name="idle")
    (0.5, 120.0, 30.0)
    """
    remedy = "Durations are written like 500ms, 30s, 5m or 1h; a number alone counts seconds."
    if isinstance(text, str):
        match = _DURATION.fullmatch(text.strip().lower())
        if match is None or match[2] not in _UNITS:
            raise InvalidArgument(name, "a duration", repr(text), remedy)
        text = float(match[1]) * _UNITS[match[2]]
    seconds = as_finite(text, name=name, low=0.0, remedy=remedy)
    if seconds == 0:
        raise InvalidArgument(name, "above 0", text, remedy)
    return seconds


@dataclass(frozen=True)
class Rearm:
    """Whether an ID whose series was decided may begin another one.

    Args:
        mode: "never": later observations are late; "next": the next observation begins a new run; "gap": the first observation
            after a silence of that ID of at least `gap` seconds does, and those before it are late.
        gap: seconds.

    >>> Rearm.parse("gap:10s")
    Rearm(mode='gap', gap=10.0)
    """

    mode: Literal["never", "next", "gap"] = "never"
    gap: float | None = None

    def __post_init__(self) -> None:
        refuse_unknown("rearm", self.mode, ("never", "next", "gap"))
        if (self.gap is not None) != (self.mode == "gap"):
            remedy = "Write gap:10s for a gap of ten seconds."
            raise InvalidArgument("rearm", "never, next, or gap with a duration", repr(self), remedy)
        if self.gap is not None:
            object.__setattr__(self, "gap", seconds_of(self.gap, name="rearm"))

    @classmethod
    def parse(cls, text: str) -> "Rearm":
        """From "never", "next" or "gap:10s"."""
        mode, colon, gap = text.strip().partition(":")
        if mode == "gap" and colon:
            return cls("gap", seconds_of(gap, name="rearm"))
        if mode not in ("never", "next") or colon:
            remedy = "Write gap:10s for a gap of ten seconds."
            raise InvalidArgument("rearm", "never, next, or gap with a duration", repr(text), remedy)
        return cls(mode)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LiveSettings:
    """When live series end.

    Args:
        idle: seconds of silence after which a series ends; None for never.
        rearm: whether a decided ID may begin another series.
        deadline: maximum number of observations of a series.
        deadline_seconds: maximum time from the first observation of a series to its decision.
        at_end: if the rule has not fired, "force" names the leading class, "abstain" gives None, "set" the labels left.
        coverage: of the label sets, as in `clf.stream`.
        late: "ignore" counts observations after a decision, "refuse" rejects them.
        remember: how many closed IDs are remembered; the oldest are forgotten first, and may then begin again as run 1. About
            160 bytes each.
    """

    idle: float | None = None
    rearm: Rearm = Rearm()
    deadline: int | None = None
    deadline_seconds: float | None = None
    at_end: AtEnd = "force"
    coverage: float | None = None
    late: Late = "ignore"
    remember: int = 100_000

    def __post_init__(self) -> None:
        for name in ("idle", "deadline_seconds"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, seconds_of(getattr(self, name), name=name))
        refuse_unknown("late", self.late, ("ignore", "refuse"))
        remedy = "It bounds the memory of closed series."
        object.__setattr__(self, "remember", as_whole(self.remember, name="remember", low=1, remedy=remedy))

    @property
    def reads_clock(self) -> bool:
        """Whether the end of a series, or the beginning of another one, may depend on the time of the clock."""
        return self.idle is not None or self.deadline_seconds is not None or self.rearm.mode == "gap"
