"""What a worker of Spark does with the rows of a shard, without Spark: order, refusals, silence, restarts."""

import numpy as np
import pytest

from sooner import EarlyClassifier
from sooner.data import Columns, Series
from sooner.errors import InvalidArgument, NearChance
from sooner.extras import is_installed
from sooner.stream import LiveSettings
from sooner.stream.settings import Rearm
from waves import waves

if not is_installed("spark"):
    pytest.skip("no Spark: install sooner[spark]", allow_module_level=True)

import pandas as pd

from sooner.engines.spark.failures import reason
from sooner.engines.spark.rows import RowReader, decision_type, label_type
from sooner.engines.spark.shards import ShardProcessor, ShardWork, state_type

LENGTH = 30
PLAIN = RowReader(2, timed=False, counts_micros=False, reads_text=False)


@pytest.fixture(scope="module")
def clf():
    x, y = waves(90, LENGTH, seed=1)
    clf = EarlyClassifier().fit(Series.from_aeon(x, y))
    clf.columns_ = Columns(series="series", time="time", channels=("hum", "flow"))
    return clf


class Model:
    """In place of the reference that Spark sends."""

    def __init__(self, clf):
        self._clf = clf

    def classifier(self):
        return self._clf


class Handle:
    """The state and the timer of one shard, as Spark keeps them."""

    def __init__(self):
        self.value, self.timers = None, set()

    def getValueState(self, name, schema):  # noqa: ARG002, N802
        return self

    def exists(self):
        return self.value is not None

    def get(self):
        return self.value

    def update(self, value):
        self.value = value

    def registerTimer(self, moment):  # noqa: N802
        self.timers.add(moment)

    def deleteTimer(self, moment):  # noqa: N802
        self.timers.remove(moment)


class At:
    """The clock of a batch."""

    def __init__(self, seconds):
        self._seconds = seconds

    def getCurrentProcessingTimeInMs(self):  # noqa: N802
        return round(1000 * self._seconds)


class Shard:
    """A shard of which every batch has its own worker, as after a crash."""

    def __init__(self, clf, handle=None, *, bad_rows="keep", reader=PLAIN, **settings):
        names = tuple(decision_type(clf.classes_.tolist(), settings.get("at_end", "force")).names)
        self._work = ShardWork(Model(clf), LiveSettings(**settings), reader, bad_rows, names)
        self.handle = Handle() if handle is None else handle

    def take(self, rows, seconds):
        return self._said(self._worker().handleInputRows((0,), iter([rows]), At(seconds)))

    def fire(self, seconds):
        (timer,) = self.handle.timers
        assert timer <= 1000 * seconds
        found = self._said(self._worker().handleExpiredTimer((0,), At(seconds), None))
        self.handle.timers.discard(timer)
        return found

    def _worker(self):
        worker = ShardProcessor(self._work, 4)
        worker.init(self.handle)
        return worker

    def _said(self, frames):
        return [row for frame in frames for row in frame.to_dict("records")]


def rows(*given, **columns):
    """Rows of (series, time, hum, flow)."""
    series, at, hum, flow = zip(*given, strict=True)
    frame = {"series": series, "at": list(map(str, at)), "order": at, "x0": hum, "x1": flow, "width": 2}
    return pd.DataFrame({**frame, "end": False, "broken": None, **columns})


def table_of(x):
    return rows(*((f"p{n}", t, *x[n, :, t]) for t in range(x.shape[2]) for n in range(len(x))))


def test_rows_are_sorted_by_time_in_a_batch(clf):
    x = waves(40, LENGTH, seed=3)[0]
    mixed = table_of(x).sample(frac=1, random_state=0)
    found = Shard(clf, deadline=LENGTH).take(mixed, 0.0)
    decided = clf.decide(x)
    assert {row["series"]: (row["label"], row["time"]) for row in found} == {
        f"p{n}": (decided.labels[n], decided.times[n]) for n in range(40)
    }
    assert [row["event"] for row in found] == list(range(1, 41))


def test_the_order_of_rows_changes_nothing_even_among_equal_times(clf):
    table = rows(*(("a", 0, n / 7, 1.0) for n in range(20)))
    first, second = (Shard(clf, deadline=9).take(table.iloc[order], 0.0) for order in (range(20), range(19, -1, -1)))
    assert len(first) == 1
    assert first == second


def test_text_is_sorted_as_numbers_or_as_timestamps():
    reader = RowReader(1, timed=False, counts_micros=False, reads_text=True)
    for times in (["9", "10", "1e2"], ["2026-01-01", "2026-01-01T05:00:00", "2026-01-01T05:00:00.5"]):
        backwards = pd.DataFrame(
            {"series": "a", "at": times[::-1], "x0": 0.0, "width": 1, "end": False, "broken": None}
        )
        assert reader.arrivals(backwards.assign(order=0)).ats == times


def test_gaps_are_seconds_between_timestamps_and_differences_of_numbers():
    timed = pd.DataFrame(
        {"series": "a", "at": ["2500000"], "order": [0], "x0": 0.0, "width": 1, "end": False, "broken": None}
    )
    assert RowReader(1, timed=True, counts_micros=True, reads_text=False).arrivals(timed).times == [
        "1970-01-01T00:00:02.500000"
    ]
    assert RowReader(1, timed=True, counts_micros=False, reads_text=False).arrivals(timed).times == ["2500000"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"series": None}, "Name the series in every row."),
        ({"series": ""}, "Name the series in every row."),
        ({"at": None}, "Give its time: Spark does not keep the order of rows."),
        ({"width": 3}, "The model reads 2 numbers."),
        ({"broken": "{x"}, "got '{x'. Spark could not read it with the types of its columns."),
        ({"x0": np.nan}, "`observations['a']` must be finite, got nan at 0 (counted from 0)."),
    ],
)
def test_a_row_that_cannot_be_used_costs_itself_and_no_other(clf, bad, said):
    table = pd.concat([rows(("a", 0, 1.0, 1.0)).assign(**bad), rows(("b", 0, 1.0, 1.0))])
    shard = Shard(clf, deadline=1)
    refused, good = sorted(shard.take(table, 0.0), key=lambda row: row["refused"] is None)
    assert said in refused["refused"]
    assert refused["series"] is None
    assert good["series"] == "b"
    assert not shard.handle.timers
    with pytest.raises(InvalidArgument, match="must be an observation that can be"):
        Shard(clf, deadline=1, bad_rows="stop").take(table, 0.0)


def test_a_row_may_end_a_series_with_or_without_an_observation(clf):
    shard = Shard(clf)
    table = rows(("a", 0, 1.0, 1.0), ("a", 1, np.nan, np.nan), ("b", 0, 1.0, 1.0), end=[False, True, True])
    found = shard.take(table.assign(width=[2, -1, 2]), 0.0)
    assert [(row["series"], row["time"], row["ended"]) for row in found] == [("b", 1, "end"), ("a", 1, "end")]


def test_silence_ends_a_series_by_a_timer_and_observations_move_the_timer(clf):
    shard = Shard(clf, idle=30.0)
    assert shard.take(rows(("a", 0, 5.0, 5.0), ("b", 0, 5.0, 5.0)), 100.0) == []
    assert shard.handle.timers == {130_000}
    assert shard.take(rows(("b", 1, 5.0, 5.0)), 120.0) == []
    (found,) = shard.fire(131.0)
    assert (found["series"], found["ended"], found["crossed"]) == ("a", "idle", False)
    assert shard.handle.timers == {150_000}


def test_what_comes_in_the_batch_in_which_its_silence_is_over_was_not_silent(clf):
    shard = Shard(clf, idle=30.0)
    shard.take(rows(("a", 0, 5.0, 5.0)), 100.0)
    assert shard.take(rows(("a", 1, 5.0, 5.0)), 135.0) == []
    assert shard.handle.timers == {165_000}


def test_a_time_in_which_the_query_did_not_run_is_no_silence(clf):
    shard = Shard(clf, idle=30.0)
    shard.take(rows(("a", 0, 5.0, 5.0), ("b", 0, 5.0, 5.0)), 100.0)
    assert shard.take(rows(("b", 1, 5.0, 5.0)), 4_000.0) == []
    assert [row["series"] for row in shard.fire(4_030.0)] == ["a", "b"]


def test_an_id_may_begin_again_and_its_decisions_are_numbered(clf):
    shard = Shard(clf, deadline=1, rearm=Rearm("next"))
    found = [row for t in range(3) for row in shard.take(rows(("a", t, 5.0, 5.0)), float(t))]
    assert [(row["run"], row["event"], row["ended"]) for row in found] == [
        (1, 1, "deadline"),
        (2, 2, "deadline"),
        (3, 3, "deadline"),
    ]


def test_a_deadline_in_seconds_is_a_timer(clf):
    shard = Shard(clf, deadline_seconds=10.0, at_end="abstain")
    shard.take(rows(("a", 0, 5.0, 5.0)), 100.0)
    (found,) = shard.fire(110.0)
    assert (found["label"], found["ended"]) == (None, "deadline")


def test_another_threshold_is_taken_and_another_deadline_or_model_is_refused(clf):
    handle = Handle()
    Shard(clf, handle, deadline=9).take(rows(("a", 0, 5.0, 5.0)), 0.0)
    before = clf.threshold
    try:
        with pytest.warns(NearChance):
            clf.threshold = 0.0
        (found,) = Shard(clf, handle, deadline=9).take(rows(("a", 1, 5.0, 5.0)), 1.0)
    finally:
        clf.threshold = before
    assert (found["time"], found["crossed"]) == (2, True)
    Shard(clf, handle, deadline=9).take(rows(("b", 0, 5.0, 5.0)), 2.0)
    with pytest.raises(InvalidArgument, match="`deadline` must be that of the snapshot, 9, got 8"):
        Shard(clf, handle, deadline=8).take(rows(("b", 1, 5.0, 5.0)), 3.0)
    other = EarlyClassifier().fit(*waves(90, LENGTH, seed=9))
    with pytest.raises(InvalidArgument, match="`state` must be of this model and these classes, got one of others"):
        Shard(other, handle, deadline=9).take(rows(("b", 1, 5.0, 5.0)), 3.0)


def test_each_number_of_shards_has_its_own_type_of_state():
    types = {tuple(field.dataType.simpleString() for field in state_type(n).fields) for n in range(1, 2_000)}
    assert len(types) == 1_999


def test_labels_keep_their_type_and_mixed_ones_are_refused():
    assert [label_type(each).simpleString() for each in (["a"], [1, 2], [0.5], [True])] == [
        "string",
        "bigint",
        "double",
        "boolean",
    ]
    with pytest.raises(InvalidArgument, match="`model` must be one whose classes are of one type"):
        label_type(["a", 1])


def test_spark_itself_refuses_another_number_of_shards_and_that_becomes_a_sentence():
    text = (
        "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Existing value_schema=StructType(StructField(of_4_shards_0,X,true)) "
        "and new value_schema=StructType(StructField(of_8_shards_0,Y,true))"
    )
    assert str(reason(RuntimeError(text))).startswith("`shards` must be 4, as in the checkpoint, got 8.")
    assert reason(RuntimeError("No space left on device")) is None
