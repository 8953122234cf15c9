"""A model that is changed while series are open: new ones take it, open ones end with theirs, also after a restart."""

import pytest

import sooner
from sooner.errors import InvalidArgument
from sooner.stream import Arrival, LiveSeries, LiveSettings, Rearm
from sooner.stream.journal import Journal
from waves import waves


@pytest.fixture(scope="module")
def models():
    """Two models of the same classes, whose decisions differ."""
    x, y = waves(60, 20, seed=1)
    other, _ = waves(60, 20, seed=77)
    return {
        "one": sooner.EarlyClassifier(random_state=0).fit(x, y),
        "two": sooner.EarlyClassifier("prefix").fit(other, y),
    }


def arrivals(x, names, time):
    return [Arrival(0, "", name, case[:, time], None, False) for name, case in zip(names, x, strict=True)]


def found(events):
    return {(event.series, event.run): (event.label, event.time) for event in events}


def of_batch(clf, x, names):
    decided = clf.decide(x)
    return {(name, 1): pair for name, *pair in zip(names, decided.labels.tolist(), decided.times.tolist(), strict=True)}


@pytest.mark.parametrize("restart", [False, True], ids=["in one go", "with restarts"])
def test_open_series_end_with_their_model_and_new_ones_take_the_other(models, tmp_path, restart):
    x, _ = waves(40, 20, seed=5)
    old, new = [f"old-{index}" for index in range(20)], [f"new-{index}" for index in range(20)]

    def live_of():
        journal = Journal(tmp_path)
        return LiveSeries(models["one"], journal=journal, model="one", models=models.__getitem__)

    live, events = live_of(), []

    def maybe_restarted():
        if not restart:
            return live
        live.sync()
        live.journal.close()  # without a snapshot: the entries are repeated
        return live_of()

    for time in range(20):
        if time == 3:
            live.swap(models["two"], "two", 3.0)
            assert live.model == "two"
        if time in (4, 8):
            live = maybe_restarted()
        if time == 6 and restart:
            live.close()  # with one
            live = live_of()
        events += live.take(arrivals(x[:20], old, time), float(time)).events
        if time >= 3:
            events += live.take(arrivals(x[20:], new, time - 3), float(time)).events
    for time in range(17, 20):
        events += live.take(arrivals(x[20:], new, time), 30.0).events
    events += live.finish_all(40.0)
    expected = of_batch(models["one"], x[:20], old) | of_batch(models["two"], x[20:], new)
    assert {key: list(value) for key, value in found(events).items()} == expected
    assert [event.id for event in events] == list(range(1, 41))
    assert live._runs.older == []
    live.close()


def test_both_generations_are_shown_ended_and_forgotten(models):
    x, _ = waves(4, 20, seed=6)
    live = LiveSeries(models["one"], LiveSettings(idle=50.0))
    live.set_rule(sooner.rules.MSPRT(1e6), 0.0)
    live.take(arrivals(x[:2], ["a", "b"], 0), 0.0)
    live.swap(models["two"], "two", 1.0)
    live.set_rule(sooner.rules.MSPRT(1e6), 1.0)
    live.take(arrivals(x, ["a", "b", "c", "d"], 1), 2.0)
    assert [(row.series, row.time, row.opened) for row in live.open().series] == [
        ("a", 2, 0.0),
        ("b", 2, 0.0),
        ("c", 1, 2.0),
        ("d", 1, 2.0),
    ]
    assert len(live) == 4
    assert [row.series for row in live.open(search="C").series] == ["c"]
    assert live.show("a").scores.tolist() != live.show("c").scores.tolist()
    assert [row.series for row in live.open(sort="age").series][:2] == ["a", "b"]
    assert live.unknown(["a", "c", "e"]) == ["e"]
    assert live.finish("a", 3.0).run == 1
    live.forget("b", 3.0)
    assert len(live) == 2
    assert [(event.series, event.ended) for event in live.tick(60.0)] == [("c", "idle"), ("d", "idle")]


def test_what_is_closed_stays_closed_and_runs_are_counted_on(models):
    x, _ = waves(1, 20, seed=6)
    never = LiveSeries(models["one"])
    never.set_rule(sooner.rules.MSPRT(0.0), 0.0)
    assert never.take(arrivals(x, ["a"], 0), 0.0).events[0].run == 1
    never.swap(models["two"], "two", 1.0)
    assert never.take(arrivals(x, ["a"], 1), 1.0).late == 1
    again = LiveSeries(models["one"], LiveSettings(rearm=Rearm("next")))
    again.set_rule(sooner.rules.MSPRT(0.0), 0.0)
    again.take(arrivals(x, ["a"], 0), 0.0)
    again.set_rule(sooner.rules.MSPRT(1e6), 0.0)
    again.take(arrivals(x, ["a"], 0), 0.0)  # run 2 is open, of the first model
    again.swap(models["two"], "two", 1.0)
    end = [arrival._replace(ended=True) for arrival in arrivals(x, ["a"], 1)]
    twice = [*end, *arrivals(x, ["a"], 2)]
    assert [event.run for event in again.take(twice, 2.0).events] == [2]
    assert (again.show("a").run, again._runs.older) == (3, [])


def test_other_classes_and_unknown_models_are_refused(models, tmp_path):
    x, y = waves(40, 12, seed=1)
    other = sooner.EarlyClassifier().fit(x, ["x" if name == "calm" else "y" for name in y])
    live = LiveSeries(models["one"], journal=Journal(tmp_path), model="one", models=models.__getitem__)
    with pytest.raises(InvalidArgument, match="`source` must be a model of the classes"):
        live.swap(other, "other", 0.0)
    live.swap(models["two"], "two", 0.0)
    live.close()
    with pytest.raises(InvalidArgument, match="`journal` must be of this model"):
        LiveSeries(models["one"], journal=Journal(tmp_path))
