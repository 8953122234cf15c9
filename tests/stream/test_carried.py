"""Live series that an engine carries from process to process: the same events, or one sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner.errors import InvalidArgument
from sooner.rules import MSPRT
from sooner.stream import CarriedSeries, LiveSettings
from stream.live_parts import SETTINGS, Told, courses, fleet_of, live_of, told_by, ups


@settings(max_examples=40, deadline=None)
@given(steps=courses(), how=SETTINGS, deadline=st.sampled_from([None, 3]))
def test_a_new_process_for_each_batch_gives_the_same_events(steps, how, deadline):
    whole = told_by(live_of(how, deadline=deadline), steps)
    carried, state = Told([], []), None
    for step in steps:
        live = CarriedSeries(fleet_of(deadline=deadline), how, state)
        carried.add(live.take(step.arrivals, step.now))
        state = live.state()
    assert carried == whole


def test_the_same_state_and_arrivals_give_the_same_events_with_the_same_numbers():
    first = CarriedSeries(fleet_of(), LiveSettings())
    first.take(ups("a") + ups("b"), 1.0)
    repeated = []
    for _ in range(2):
        live = CarriedSeries(fleet_of(), LiveSettings(), first.state())
        repeated.append(live.take(ups("a"), 2.0).events)
    assert repeated[0] == repeated[1]
    assert [event.id for event in repeated[0]] == [1]


def test_what_was_heard_is_not_silent_and_the_others_are():
    live = CarriedSeries(fleet_of(), LiveSettings(idle=30.0))
    live.take(ups("a") + ups("b"), 0.0)
    live.hear(["a", "unknown"], 30.0)
    assert [event.series for event in live.tick(30.0)] == ["b"]
    live.silent_since(59.0)
    assert live.tick(60.0) == []
    assert [event.series for event in live.tick(89.0)] == ["a"]


def test_another_rule_is_taken_with_the_next_observation():
    first = CarriedSeries(fleet_of(9.0), LiveSettings())
    assert first.take(ups("a", 2), 0.0).events == []
    live = CarriedSeries(fleet_of(5.0), LiveSettings(), first.state())
    assert live.rule == MSPRT(5.0)
    assert [(event.time, event.ended) for event in live.take(ups("a"), 1.0).events] == [(3, "rule")]


def test_another_model_and_other_bytes_are_refused():
    first = CarriedSeries(fleet_of(), LiveSettings())
    first.take(ups("a"), 0.0)
    with pytest.raises(InvalidArgument, match="`state` must be of this model and these classes, got one of others"):
        CarriedSeries(fleet_of(scale=2.0), LiveSettings(), first.state())
    with pytest.raises(InvalidArgument, match="`state` must be that of live series, got 3 bytes of something else"):
        CarriedSeries(fleet_of(), LiveSettings(), b"abc")
