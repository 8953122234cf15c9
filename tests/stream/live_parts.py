"""Small live series, and ways to drive them, for the tests of runs and of the journal."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from hypothesis import strategies as st

from sooner.models import FrameClassifier
from sooner.models.image.encoders import Identity
from sooner.rules import MSPRT
from sooner.stream import Arrival, Fleet, LiveSeries, LiveSettings, Rearm

CHANNELS = 2


@cache
def model_of(scale=1.0):
    """Each observation is the evidence for both classes."""
    model = FrameClassifier(Identity((CHANNELS,)), 2).eval()
    model.head.weight.data.copy_(scale * torch.eye(2, CHANNELS))
    return model


def fleet_of(threshold=3.0, *, scale=1.0, **options):
    return Fleet(model_of(scale), MSPRT(threshold), classes=["up", "down"], **options)


def live_of(settings=None, *, deadline=None, **options):
    return LiveSeries(fleet_of(deadline=deadline), settings or LiveSettings(), **options)


def seen(key, *values, end=False, at=None, number=1):
    """An arrival."""
    return Arrival(number, f"line {number}", key, np.array(values, dtype=float) if values else None, None, end, at)


def ups(key, count=1, **options):
    """Arrivals that are evidence of 2 for the first class each."""
    return [seen(key, 2.0, 0.0, **options) for _ in range(count)]


@dataclass(frozen=True)
class Step:
    """Arrivals at one time."""

    now: float
    arrivals: list[Arrival]


SETTINGS = st.builds(
    LiveSettings,
    idle=st.sampled_from([None, 1.5, 4.0]),
    rearm=st.sampled_from([Rearm(), Rearm("next"), Rearm("gap", 2.0)]),
    deadline_seconds=st.sampled_from([None, 3.0]),
    late=st.sampled_from(["ignore", "refuse"]),
)
_VALUES = st.tuples(st.integers(-2, 2), st.integers(-2, 2)).map(lambda pair: np.array(pair, dtype=float))
_ODD = st.sampled_from([np.array([np.nan, 0.0]), np.zeros(3), np.zeros(1), np.array([np.inf, 1.0])])
_ARRIVAL = st.builds(
    Arrival,
    number=st.just(1),
    text=st.just("line"),
    key=st.sampled_from(["a", "b", "c", 7]),
    observation=st.one_of(_VALUES, _VALUES, _VALUES, _VALUES, _ODD, st.none()),
    time=st.none(),
    ended=st.sampled_from([False] * 7 + [True]),
    at=st.none(),
)


@st.composite
def courses(draw):
    """Steps at times that rise, with numbered lines."""
    steps, now, number = [], 0.0, 0
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=8)):
        now += draw(st.sampled_from([0.5, 1.0, 2.5]))
        drawn = draw(st.lists(_ARRIVAL, min_size=size, max_size=size))
        numbered = [replaced(arrival, number + index + 1) for index, arrival in enumerate(drawn)]
        number += size
        steps.append(Step(now, numbered))
    return steps


def replaced(arrival, number):
    """The arrival with that line number; a line without an observation ends its series."""
    ended = arrival.ended or arrival.observation is None
    return arrival._replace(number=number, ended=ended, at=number)


@dataclass
class Told:
    """What came of a course."""

    events: list
    rejected: list
    accepted: int = 0
    late: int = 0

    def add(self, outcome):
        self.events += outcome.events
        self.rejected += [rejection.line for rejection in outcome.rejected]
        self.accepted += outcome.accepted
        self.late += outcome.late


def told_by(live, steps, cuts=lambda _: []):
    """Take each step in the pieces that `cuts` says."""
    told = Told([], [])
    for step in steps:
        for start, end in pairwise([0, *cuts(len(step.arrivals)), len(step.arrivals)]):
            told.add(live.take(step.arrivals[start:end], step.now))
    return told
