"""Gaps of live series are those that the readers of tables count."""

import datetime
from itertools import pairwise

import numpy as np
import pytest
import torch

from sooner.data.tables import reading as tables
from sooner.errors import InvalidArgument
from sooner.models import FrameClassifier
from sooner.models.image.encoders import Identity
from sooner.rules import MSPRT
from sooner.stream import Fleet, Stream
from sooner.stream.times import tick_of

WRITTEN = {
    "whole numbers": ["1", "2", "9007199254740993", "9007199254740996"],
    "numbers": ["0.1", "0.3", "1e3", "1700000000.123456"],
    "timestamps": ["2026-11-15", "2026-11-15 00:00:00.1", "2026-11-15T00:00:00.123456789", "2026-12-01 10:00"],
    "timestamps with a zone": ["2026-11-15T00:00:00Z", "2026-11-15T02:00:01+02:00", "2026-11-15T00:00:05Z"],
}


def fleet_of(kind=Fleet):
    model = FrameClassifier(Identity((2,)), 2).eval()
    model.head.weight.data.copy_(torch.eye(2))
    return kind(model, MSPRT(100.0))


@pytest.mark.parametrize("written", WRITTEN.values(), ids=list(WRITTEN))
def test_gaps_are_those_of_a_table_to_the_last_bit(tmp_path, written):
    rows = "\n".join(f"a,{time},0" for time in written)
    (tmp_path / "t.csv").write_text(f"series,time,p\n{rows}\n")
    read = tables.read_observations(tmp_path / "t.csv", gaps="channel", dtype="float64").observations[0, :, 1]
    ticks = [tick_of(time, name="time") for time in written]
    gaps = [now.since(before, name="time") for before, now in pairwise(ticks)]
    assert [0.0, *gaps] == read.tolist()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (np.int32(4), np.float32(5.5)),
        (datetime.datetime(2026, 11, 15, 10), datetime.datetime(2026, 11, 15, 10, 0, 1, 500_000)),
        (np.datetime64("2026-11-15T10:00:00"), "2026-11-15 10:00:01.5"),
        (datetime.timedelta(seconds=1), datetime.timedelta(seconds=2.5)),
    ],
)
def test_a_time_may_be_what_python_calls_one(earlier, later):
    assert tick_of(later, name="time").since(tick_of(earlier, name="time"), name="time") == 1.5


@pytest.mark.parametrize("value", [None, True, "", "noon", "nan", float("inf"), [1], 2**70])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(InvalidArgument, match="`time` must be a number or a timestamp, got "):
        tick_of(value, name="time")


def test_times_make_the_last_channel():
    fleet, by_hand = fleet_of(), fleet_of()
    for t, gap in ((2, 0.0), (5, 3.0), (5.5, 0.5)):
        fleet.update({"a": [1.0], "b": 1.0}, times={"a": t, "b": t})
        by_hand.update({"a": [1.0, gap], "b": [1.0, gap]})
    assert fleet.scores("a").tolist() == by_hand.scores("a").tolist() == by_hand.scores("b").tolist() == [3.0, 3.5]
    live = fleet_of(Stream)
    live.update([1.0], time="2026-11-15 10:00")
    live.update([1.0], time="2026-11-15 10:01")
    assert live.scores.tolist() == [2.0, 60.0]


def test_the_newest_times_are_in_a_snapshot():
    fleet, again = fleet_of(), fleet_of()
    fleet.update({"a": [1.0], "b": [1.0], 3: [1.0]}, times={"a": "2026-11-15 10:00:00.000000001", "b": 0.1, 3: 2**62})
    fleet.finish("b")
    again.restore(fleet.snapshot())
    assert again._times.newest == fleet._times.newest
    for each in (fleet, again):
        each.update({"a": [1.0], 3: [1.0]}, times={"a": "2026-11-15 10:00:01", 3: 2**62 + 1})
    assert again.scores("a").tolist() == fleet.scores("a").tolist()
    assert again.scores("a")[1] == pytest.approx(1.0)
    assert again.scores(3).tolist() == [2.0, 1.0]


def test_a_closed_series_leaves_no_time_behind():
    fleet = fleet_of()
    fleet.update({key: [1.0] for key in "abc"}, times=dict.fromkeys("abc", 5))
    fleet.finish("a")
    fleet.forget("b")
    fleet.update({"c": [500.0]}, times={"c": 6})  # decided by the rule
    assert fleet._times.newest == {}
    for key in "ac":
        fleet.forget(key)
    fleet.update({key: [1.0] for key in "abc"}, times=dict.fromkeys("abc", 1))  # each begins anew, with a gap of 0
    assert fleet.scores("a").tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            {"a": 5},
            "`times['a']` must be later than 5, got 5. The observations of a series must be in the order of time.",
        ),
        (
            {"a": "2026-11-15"},
            "`times['a']` must be a number, as the previous time, got a timestamp. Write all times in the same way.",
        ),
        ({}, "`times` must be one for each observation, got none for 'a'. Give it."),
        ([6], '`times` must be a dict, got a list. {"sensor-7": 12.5} is one.'),
        ({"a": "noon"}, "`times['a']` must be a number or a timestamp, got 'noon'. Timestamps are written like "),
    ],
)
def test_a_bad_time_is_refused_and_nothing_is_taken_in(times, message):
    fleet = fleet_of()
    fleet.update({"a": [1.0]}, times={"a": 5})
    with pytest.raises(InvalidArgument) as caught:
        fleet.update({"a": [1.0]}, times=times)
    assert str(caught.value).startswith(message)
    assert fleet.scores("a").tolist() == [1.0, 0.0]
    fleet.update({"a": [1.0]}, times={"a": 6})
    assert fleet.scores("a").tolist() == [2.0, 1.0]


def test_a_series_that_began_without_times_goes_on_without():
    fleet = fleet_of()
    fleet.update({"a": [1.0, 0.0]})
    with pytest.raises(InvalidArgument, match="`times` must be given from the first observation of a series"):
        fleet.update({"a": [1.0]}, times={"a": 5})
    fleet.update({"b": [1.0]}, times={"b": 5})
    fleet.update({"b": [1.0, 3.0]})  # its sender counts from now on
    with pytest.raises(InvalidArgument, match="one for 'b', which began without"):
        fleet.update({"b": [1.0]}, times={"b": 9})
