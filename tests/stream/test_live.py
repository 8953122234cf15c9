"""Live series with runs: silence, deadlines in seconds, re-arm, numbered decisions; a law for any division into batches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner.errors import InvalidArgument
from sooner.rules import MSPRT, GiveUp
from sooner.stream import Event, LiveSeries, LiveSettings, Rearm, Rejection
from sooner.stream.lines import Fields, reader_of
from stream.live_parts import CHANNELS, SETTINGS, courses, fleet_of, live_of, seen, told_by, ups


def briefly(events):
    return [(event.series, event.run, event.label, event.time, event.ended) for event in events]


@settings(max_examples=40, deadline=None)
@given(steps=courses(), how=SETTINGS, deadline=st.sampled_from([None, 3]), third=st.integers(0, 12))
def test_any_division_into_batches_gives_the_same_events(steps, how, deadline, third):
    def cuts(size):
        return sorted({min(third, size), size // 2})

    whole = told_by(live_of(how, deadline=deadline), steps)
    single = told_by(live_of(how, deadline=deadline), steps, cuts=range)
    parts = told_by(live_of(how, deadline=deadline), steps, cuts=cuts)
    assert whole == single
    assert whole == parts
    assert [event.id for event in whole.events] == list(range(1, len(whole.events) + 1))


@settings(max_examples=30, deadline=None)
@given(steps=courses(), data=st.data())
def test_the_decisions_are_those_of_a_bare_fleet(steps, data):
    rearm = data.draw(st.sampled_from([Rearm(), Rearm("next")]))
    told = told_by(live_of(LiveSettings(rearm=rearm)), steps)
    fleet, expected, refused = fleet_of(), [], []
    for arrival in (arrival for step in steps for arrival in step.arrivals):
        decisions = {}
        if arrival.observation is not None and arrival.observation.shape != (CHANNELS,):
            refused.append(arrival.number)  # also after the decision
            continue
        if arrival.observation is not None and arrival.key not in fleet.decided:
            try:
                decisions = fleet.update({arrival.key: arrival.observation})
            except InvalidArgument:
                refused.append(arrival.number)
                continue
        if arrival.ended and arrival.key in fleet:
            decisions = {arrival.key: fleet.finish(arrival.key)}
        expected += [(key, decision.label, decision.time) for key, decision in decisions.items()]
        if arrival.key in fleet.decided and (arrival.ended or rearm.mode == "next"):
            fleet.forget(arrival.key)
    assert [(event.series, event.label, event.time) for event in told.events] == expected
    assert told.rejected == refused


class TestSilence:
    def test_ends_a_series_although_nothing_arrives(self):
        live = live_of(LiveSettings(idle=10.0))
        assert live.next_tick() is None
        live.take([*ups("b", 2), *ups("c")], 5.0)
        assert live.next_tick() == 15.0
        assert live.tick(14.9) == []
        assert briefly(live.tick(15.0)) == [("c", 1, "up", 1, "idle")]

    def test_is_counted_from_the_last_observation(self):
        live = live_of(LiveSettings(idle=10.0))
        live.take([seen("a", 1, 0), seen("b", 0, 1)], 0.0)
        live.take([seen("a", 1, 0)], 6.0)
        assert briefly(live.tick(12.0)) == [("b", 1, "down", 1, "idle")]
        assert live.next_tick() == 16.0

    def test_that_was_over_before_an_arrival_ends_the_series_first(self):
        live = live_of(LiveSettings(idle=10.0, rearm=Rearm("next")))
        live.take([seen("a", 1, 0)], 0.0)
        outcome = live.take([seen("a", 0, 1)], 30.0)
        assert briefly(outcome.events) == [("a", 1, "up", 1, "idle")]
        assert live.show("a").run == 2


class TestDeadlines:
    def test_in_seconds_count_from_the_first_observation(self):
        live = live_of(LiveSettings(deadline_seconds=10.0))
        live.take([seen("a", 1, 0)], 0.0)
        live.take([seen("a", 1, 0), seen("b", 1, 0)], 9.0)
        assert live.next_tick() == 10.0
        (event,) = live.tick(11.0)
        assert (event.series, event.time, event.crossed, event.ended) == ("a", 2, False, "deadline")
        assert event.arrived == 11.0

    def test_in_observations_say_deadline_too(self):
        events = live_of(deadline=2).take([seen("a", 1, 0), seen("a", 0, 0.5)], 0.0).events
        assert briefly(events) == [("a", 1, "up", 2, "deadline")]

    def test_the_one_that_is_over_first_is_named(self):
        live = live_of(LiveSettings(idle=5.0, deadline_seconds=8.0))
        live.take([seen("a", 1, 0), seen("b", 1, 0)], 0.0)
        live.take([seen("a", 1, 0)], 4.0)
        assert [(event.series, event.ended) for event in live.tick(100.0)] == [("b", "idle"), ("a", "deadline")]


class TestRearm:
    def test_never_counts_what_is_late(self):
        live = live_of()
        outcome = live.take(ups("a", 4), 0.0)
        assert briefly(outcome.events) == [("a", 1, "up", 2, "rule")]
        assert (outcome.accepted, outcome.late, outcome.rejected) == (2, 2, [])
        assert live.closed("a")

    def test_late_observations_may_be_refused(self):
        outcome = live_of(LiveSettings(late="refuse")).take(ups("a", 3), 0.0)
        assert (outcome.accepted, outcome.late) == (2, 0)
        ((line, reason, kind),) = outcome.rejected
        assert (line, kind) == (1, "late")
        assert "was decided at time 2 as 'up'" in reason

    def test_next_begins_another_run_at_once(self):
        outcome = live_of(LiveSettings(rearm=Rearm("next"))).take(ups("a", 5), 0.0)
        assert briefly(outcome.events) == [("a", 1, "up", 2, "rule"), ("a", 2, "up", 2, "rule")]
        assert outcome.accepted == 5

    def test_gap_begins_another_run_after_a_silence_of_that_series(self):
        live = live_of(LiveSettings(rearm=Rearm.parse("gap:10s")))
        live.take(ups("a", 2), 0.0)
        assert live.take(ups("a"), 9.0).late == 1
        assert live.take(ups("a"), 18.0).late == 1  # 9 seconds after the one before
        assert live.take(ups("a"), 28.0).late == 0
        assert briefly(live.take(ups("a"), 28.0).events) == [("a", 2, "up", 2, "rule")]

    def test_an_end_always_lets_the_id_begin_anew(self):
        live = live_of()
        assert live.take(ups("a", 2, end=False), 0.0).events[0].run == 1
        live.take([seen("a", end=True)], 1.0)
        assert live.take(ups("a", 2), 2.0).events[0].run == 2

    @pytest.mark.parametrize("text", ["often", "gap", "gap:", "gap:soon", "next:3s", "gap:0s", ""])
    def test_what_is_none_is_a_sentence(self, text):
        with pytest.raises(InvalidArgument, match="`rearm` must be"):
            Rearm.parse(text)


class TestRefusals:
    def test_cost_the_line_and_never_its_neighbours(self):
        live = live_of()
        lines = [
            Rejection(1, "`line 1` must be a JSON object.", "json"),
            seen("a", 2, 0, number=2),
            seen("a", math.nan, 0, number=3),
            seen("b", 1, 2, 3, number=4),
            seen("a", 2, 0, number=5),
            seen("c", 0, math.inf, number=6),
        ]
        outcome = live.take(lines, 0.0)
        assert briefly(outcome.events) == [("a", 1, "up", 2, "rule")]
        assert [(rejection.line, rejection.kind) for rejection in outcome.rejected] == [
            (1, "json"),
            (3, "model"),
            (4, "channels"),
            (6, "model"),
        ]
        assert "must be finite, got nan at 0" in outcome.rejected[1].reason
        assert "`line 4` must be an observation" in outcome.rejected[2].reason
        assert list(live.events()) == outcome.events
        assert len(live) == 0

    def test_an_overflow_in_the_model_costs_that_observation_only(self):
        live = live_of()
        outcome = live.take([seen("a", 1e39, 0, number=1), *ups("b", 2, number=2)], 0.0)
        assert [rejection.line for rejection in outcome.rejected] == [1]
        assert briefly(outcome.events) == [("b", 1, "up", 2, "rule")]

    def test_a_batch_of_one_wrong_shape_names_each_series(self):
        outcome = live_of().take([seen("a", 1, 2, 3, number=1), seen("b", 1, 2, 3, number=2)], 0.0)
        assert "observations['a']" in outcome.rejected[0].reason
        assert "observations['b']" in outcome.rejected[1].reason

    def test_observations_may_be_lists_and_keys_are_names(self):
        live = live_of()
        assert live.take([seen("a")._replace(observation=[2, 0], ended=False)], 0.0).accepted == 1
        with pytest.raises(InvalidArgument, match=r"`key` must be a string or a whole number, got \('a',\), a tuple"):
            live.take([seen(("a",), 1, 0)], 0.0)

    def test_a_refused_first_observation_opens_no_series(self):
        live = live_of()
        live.take([seen("a", math.nan, 0)], 0.0)
        assert len(live) == 0
        assert live.unknown(["a", "b", "a"]) == ["a", "b"]


class TestEvents:
    def test_carry_margin_posterior_and_the_time_of_the_deciding_observation(self):
        lines = [seen("a", 2, 0, at="2026-11-15"), seen("a", 2, 1, at="2026-11-16"), seen("a", 2, 0, at="2026-11-17")]
        (event,) = live_of().take(lines, 5.0).events
        assert event == Event(1, "a", 1, "up", 2, True, "rule", 3.0, event.posterior, "2026-11-16", 5.0)
        assert event.posterior == pytest.approx(1 / (1 + math.exp(-3)))
        assert Event.of(event.record()) == event

    def test_of_ended_series_carry_the_time_of_their_last_observation(self):
        live = live_of()
        live.take([seen("a", 1, 0, at=3), seen("b", 1, 0)], 0.0)
        assert [event.at for event in live.finish_all(1.0)] == [3, None]

    def test_of_given_up_series_name_no_class(self):
        live = LiveSeries(fleet_of())
        live.set_rule(GiveUp(MSPRT(9.0), 2, 0.5), 0.0)
        (event,) = live.take([seen("a", 0.1, 0), seen("a", 0.1, 0)], 0.0).events
        assert (event.label, event.crossed, event.ended) == (None, True, "rule")
        assert event.posterior == pytest.approx(1 / (1 + math.exp(-0.2)), rel=1e-6)

    def test_abstaining_ends_without_a_class(self):
        live = LiveSeries(fleet_of(at_end="abstain"), LiveSettings(idle=1.0))
        live.take([seen("a", 1, 0)], 0.0)
        assert briefly(live.tick(1.0)) == [("a", 1, None, 1, "idle")]

    def test_can_be_read_again_from_any_number(self):
        live = live_of(LiveSettings(rearm=Rearm("next")))
        live.take(ups("a", 10), 0.0)
        assert [event.id for event in live.events(after=3)] == [4, 5]
        assert [event.id for event in live.events(after=0, limit=2)] == [1, 2]
        assert (live.first_id, live.last_id, live.durable_id) == (1, 5, 5)


class TestSingleSeries:
    def test_can_be_finished_and_begin_anew(self):
        live = live_of()
        live.take([seen("a", 1, 0)], 0.0)
        assert briefly([live.finish("a", 1.0)]) == [("a", 1, "up", 1, "end")]
        with pytest.raises(InvalidArgument, match="`series` must be the ID of an open series, got 'a'"):
            live.finish("a", 1.0)
        live.take([seen("a", 1, 0)], 2.0)
        assert live.show("a").run == 2

    def test_can_be_forgotten(self):
        live = live_of(LiveSettings(rearm=Rearm("next")))
        live.take([*ups("a", 3), seen("b", 1, 0)], 0.0)
        live.forget("a", 1.0)
        assert [shown.series for shown in live.open().series] == ["b"]
        live.take(ups("a"), 2.0)
        assert live.show("a").run == 1
        with pytest.raises(InvalidArgument, match="There is nothing to forget"):
            live.forget("nobody", 3.0)

    def test_without_a_name_is_none(self):
        live = live_of()
        live.take([seen(None, 1, 0)], 0.0)
        assert live.show(None).series is None
        assert live.finish(None, 1.0).series is None


class TestViews:
    def test_are_paged_searched_and_sorted(self):
        live = live_of()
        for index in range(30):
            live.take([seen(f"pump-{index:02d}", 0.01 * index, 0)] * (1 + index % 3), float(index))
        page = live.open(offset=5, limit=3)
        assert (page.open, page.found, [shown.series for shown in page.series]) == (
            30,
            30,
            ["pump-05", "pump-06", "pump-07"],
        )
        assert [shown.series for shown in live.open(search="UMP-2", limit=2).series] == ["pump-20", "pump-21"]
        assert live.open(search="UMP-2").found == 10
        assert live.open(sort="margin", limit=1).series[0].series == "pump-29"
        assert [shown.time for shown in live.open(sort="age", limit=11).series] == [3] * 10 + [2]
        shown = live.show("pump-07")
        assert (shown.leader, shown.time, shown.opened, shown.seen) == ("up", 2, 7.0, 7.0)
        assert shown.margin == pytest.approx(0.14)
        assert shown.scores.shape == (2,)
        assert live.show("nobody") is None

    def test_a_clock_that_is_set_back_stands_still(self):
        live = live_of(LiveSettings(idle=5.0))
        live.take([seen("a", 1, 0)], 100.0)
        live.take([seen("b", 1, 0)], 50.0)
        assert live.show("b").opened == 100.0
        with pytest.raises(InvalidArgument, match="`now` must be finite"):
            live.tick(math.inf)


class TestMemory:
    def test_closed_series_are_forgotten_from_the_oldest_on(self):
        live = live_of(LiveSettings(remember=100))
        for index in range(300):
            live.take(ups(f"s{index}", 2), float(index))
        assert live.closed("s299")
        assert not live.closed("s0")
        assert live.last_id == 300
        assert sum(live.closed(f"s{index}") for index in range(300)) <= 100

    def test_so_are_the_numbers_of_runs(self):
        live = live_of(LiveSettings(remember=100, rearm=Rearm("next")))
        for index in range(300):
            live.take(ups(f"s{index}", 2), float(index))
        assert live.unknown(["s299"]) == ["s299"]
        live.take([*ups("s299"), *ups("s0")], 300.0)
        assert (live.show("s299").run, live.show("s0").run) == (2, 1)
        assert len(live._runs.newest.over) <= 110


def test_the_dial_takes_effect_with_the_next_observation():
    live = live_of()
    live.take(ups("a"), 0.0)
    live.set_rule(MSPRT(1.0), 1.0)
    assert len(live) == 1
    assert briefly(live.take([seen("a", 0, 0)], 2.0).events) == [("a", 1, "up", 2, "rule")]


def test_lines_that_are_read_at_once_are_those_that_are_read_one_by_one():
    lines = [f'{{"series": "s{i % 5}", "x": [{i}, 0.5], "time": {i}, "end": {str(i == 7).lower()}}}' for i in range(20)]
    fast, slow = reader_of(Fields()), reader_of(Fields())
    fast.read(lines[:1]), slow.read(lines[:1])
    batch, arrivals = fast.read([*lines[1:], ""]), slow._one_by_one([*lines[1:], ""])
    assert batch.keys == [arrival.key for arrival in arrivals]
    assert np.array_equal(batch.values, [arrival.observation for arrival in arrivals])
    assert batch.values.shape == (19, CHANNELS)
    assert batch.ats == [arrival.at for arrival in arrivals]
    assert batch.ends == [index for index, arrival in enumerate(arrivals) if arrival.ended]
    assert list(batch.numbers) == [arrival.number for arrival in arrivals]
    assert fast.lines == slow.lines == 21


@pytest.mark.parametrize(
    "odd",
    [
        "{",
        "[1]",
        '{"series": "a"}',
        '{"series": "", "x": [1, 2]}',
        '{"series": 1.5, "x": [1, 2]}',
        '{"series": true, "x": [1, 2]}',
        '{"x": [1, 2]}',
        '{"series": "a", "x": [1, "b"]}',
        '{"series": "a", "x": [1, 2], "end": 1}',
        '{"series": "a", "x": [[1, 2]]}',
        '{"series": "a", "x": {"y": 1}}',
        '{"series": "\udc80", "x": [1, 2]}',
        '{"series": "a", "x": [1, 2, 3]}',
        '{"series": "a", "x": [1e999, 2]}',
        '{"series": "a", "x": [1, 2], "time": [1]}',
        '{"series": "a", "x": [1, 2]},{"series": "b", "x": [1, 2]}',
    ],
)
def test_one_odd_line_leaves_its_neighbours_as_they_are(odd):
    good = [f'{{"series": "s{i}", "x": [{i}, 0.5]}}' for i in range(6)]
    reader, live = reader_of(Fields()), live_of(LiveSettings())
    live.take(reader.read(good[:1]), 0.0)
    outcome = live.take(reader.read([*good[1:3], odd, *good[3:]]), 0.0)
    refused = [rejection.line for rejection in outcome.rejected]
    assert refused == ([] if '"time"' in odd else [4])
    assert outcome.accepted == 6 - len(refused)
