"""Lines in, records out: each decision the moment it is made, each error with the number of its line."""

import json

import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.models import FrameClassifier
from sooner.models.image.encoders import Identity
from sooner.rules import MSPRT
from sooner.series import with_mask
from sooner.stream import Fleet, decisions_of
from sooner.stream.lines import Fields, reader_of


def fleet_of(channels=2, **options):
    model = FrameClassifier(Identity((channels,)), 2).eval()
    model.head.weight.data.copy_(torch.eye(2, channels))
    return Fleet(model, MSPRT(3.0), classes=["up", "down"], **options)


def record(series, label, time, crossed):
    return {"series": series, "label": label, "time": time, "crossed": crossed}


def decided_by(lines, fleet, **options):
    """The decisions, without what they rest on."""
    return [briefly(line) for line in decisions_of(lines, fleet, **options)]


def briefly(line):
    name = next(iter(line))
    return record(line[name], line["label"], line["time"], line["crossed"])


def said_by(lines, fleet=None, **options):
    with pytest.raises(InvalidArgument) as caught:
        list(decisions_of(lines, fleet or fleet_of(), **options))
    return str(caught.value)


def objects(*lines):
    return [json.dumps(line) for line in lines]


def test_a_decision_comes_before_the_next_line_is_read():
    read = []

    def lines():
        for number, line in enumerate(
            objects(*[{"series": "a", "x": [2, 0]}] * 2, {"series": "b", "x": [0, 2]}), start=1
        ):
            read.append(number)
            yield line

    records = decisions_of(lines(), fleet_of())
    assert briefly(next(records)) == record("a", "up", 2, True)
    assert read == [1, 2]
    assert [briefly(line) for line in records] == [record("b", "down", 1, False)]


def test_a_csv_line_is_decided_before_the_next_one_is_read():
    read = []

    def lines():
        for line in ("series,p,q\n", "a,2,0\n", "a,2,0\n", "b,0,1\n"):
            read.append(line)
            yield line

    records = decisions_of(lines(), fleet_of(), layout="csv")
    assert briefly(next(records)) == record("a", "up", 2, True)
    assert len(read) == 3
    assert [briefly(line) for line in records] == [record("b", "down", 1, False)]


def test_late_observations_are_skipped_or_refused():
    lines = objects(*[{"series": "a", "x": [2, 0]}] * 3)
    assert decided_by(lines, fleet_of()) == [record("a", "up", 2, True)]
    assert said_by(lines, late="refuse") == (
        """`line 3` must be one of a series that is still open, got '{"series": "a", "x": [2, 0]}'. It was decided at time """
        "2 as 'up'; a name begins another series once a line has ended the first."
    )


def test_an_end_finishes_a_series_and_frees_its_name():
    fleet = fleet_of()
    lines = objects(
        {"series": "a", "x": [0, 1]},
        {"series": "a", "end": True},
        {"series": "a", "end": True},
        {"series": "a", "x": [2, 0], "end": False},
        {"series": "a", "x": [2, 0], "end": True},
        {"series": "a", "x": [0, 1], "end": True},
    )
    assert decided_by(lines, fleet) == [
        record("a", "down", 1, False),
        record("a", "up", 2, True),
        record("a", "down", 1, False),
    ]
    assert fleet.decided == {}


def test_without_names_there_is_one_series_after_another():
    lines = objects({"x": [1, 0]}, {"x": [1, 0], "end": True}, {"x": [0, 4]}, {"x": [0, 4]})
    expected = [record(None, "up", 2, False), record(None, "down", 1, True)]
    assert decided_by(lines, fleet_of()) == expected
    lines = ["p,q,end\n", "1,0,\n", "1,0,true\n", "0,4,0\n", "0,4,no\n"]
    assert decided_by(lines, fleet_of(), layout="csv") == expected


def test_at_the_end_all_open_series_are_finished():
    lines = objects({"series": 1, "x": [0, 1]}, {"series": "1", "x": [1, 0]})
    assert decided_by(lines, fleet_of(at_end="abstain")) == [
        record(1, None, 1, False),
        record("1", None, 1, False),
    ]


def test_channels_are_fields_by_name():
    fleet = fleet_of()
    lines = objects({"series": 1, "time": 5, "p": 2, "q": 0}, {"series": 1, "q": 0, "p": 2})
    assert decided_by(lines, fleet) == [record(1, "up", 2, True)]
    lines = objects({"id": 1, "host": "h", "p": 2, "q": 0}, {"q": 0, "p": 2, "id": 1})
    swapped = decided_by(lines, fleet_of(), series="id", channels=["q", "p"])
    assert swapped == [record(1, "down", 2, True)]
    header = ["id,when,q,host,p\n", "7,noon,0,h,2\n", "7,later,0,h,2\n"]
    read = decided_by(header, fleet_of(), layout="csv", series="id", time="when", channels=["p", "q"])
    assert read == [record("7", "up", 2, True)]


def test_a_channel_may_be_called_x():
    assert decided_by(objects({"x": 4, "y": 0}), fleet_of()) == [record(None, "up", 1, True)]
    assert decided_by(objects({"x": 4}), fleet_of(channels=1)) == [record(None, "up", 1, True)]
    assert decided_by(objects({"x": [4, 0], "host": "h"}), fleet_of()) == [record(None, "up", 1, True)]


def test_missing_values_reach_what_prepares_them():
    fleet = fleet_of(channels=4, prepare=with_mask)
    lines = objects({"x": [2, None]}, {"x": [None, None]}, {"x": [1.5, 0]})
    assert decided_by(lines, fleet) == [record(None, "up", 3, True)]
    fleet = fleet_of(channels=4, prepare=with_mask)
    assert decided_by(["p,q", "2,", "1.5,0"], fleet, layout="csv") == [record(None, "up", 2, True)]


def test_blank_lines_and_byte_order_marks_are_nothing():
    lines = ["", *objects({"x": [4, 0]}), "  \n"]
    assert decided_by(lines, fleet_of()) == [record(None, "up", 1, True)]
    lines = ["\ufeffseries, p, q\n", "\n", ",,\n", "a, 4, 0\n"]
    assert decided_by(lines, fleet_of(), layout="csv") == [record("a", "up", 1, True)]
    assert decided_by([], fleet_of()) == []


def test_what_the_fleet_holds_already_goes_on():
    fleet = fleet_of()
    fleet.update({"a": [2, 0], "b": [0, 1]})
    assert decided_by(objects({"series": "a", "x": [2, 0]}), fleet) == [
        record("a", "up", 2, True),
        record("b", "down", 1, False),
    ]


def test_after_an_error_the_rest_of_the_lines_can_be_read():
    fleet = fleet_of()
    lines = iter(objects({"series": "a", "x": [2, 0]}, {"series": "a", "x": [2]}, {"series": "a", "x": [2, 0]}))
    with pytest.raises(InvalidArgument, match="`line 2` must be"):
        list(decisions_of(lines, fleet))
    assert decided_by(lines, fleet) == [record("a", "up", 2, True)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ['{"x": [1, 0]}', "{broken"],
            "`line 2` must be a JSON object, got '{broken'. It cannot be read: Expecting property name enclosed in double "
            "quotes: line 1 column 2 (char 1).",
        ),
        (["[1, 2]"], """`line 1` must be a JSON object, got '[1, 2]'. For example {"series": "a", "x": [0.5]}."""),
        (
            objects({"x": [1, 0]}, {}, {"x": [1, 0]}),
            "`line 2` must be one with an observation, got '{}'. Give it as 'x'.",
        ),
        (
            objects({"x": ["one", 0]}),
            """`line 1` must be one with numbers, got '{"x": ["one", 0]}'. A missing value is null, or an empty cell.""",
        ),
        (
            objects({"x": [1, 0], "end": 1}),
            """`line 1` must be one with true or false as 'end', got '{"x": [1, 0], "end": 1}'. Leave it out for false.""",
        ),
        *(
            (
                [*objects({"series": "a", "x": [1, 0]}), text],
                "`line 2` must be one with a name (a string or a whole number) as 'series', got "
                f"'{text}'. Name the series in all lines, or in none.",
            )
            for text in objects(
                {"x": [1, 0]}, {"series": "", "x": [1, 0]}, {"series": [1], "x": [1, 0]}, {"series": True}
            )
        ),
        (
            objects({"x": [1, 0]}, {"series": "a", "x": [1, 0]}),
            "`line 2` must be one with a name (a string or a whole number) as 'series', got "
            """'{"series": "a", "x": [1, 0]}'. Name the series in all lines, or in none.""",
        ),
        (
            objects({"p": 1, "q": 0}, {"p": 1}),
            """`line 2` must be one with the channels 'p', 'q', got '{"p": 1}'. Give 'q' too; a missing value is null.""",
        ),
        (
            objects({"p": 1, "q": 0}, {"p": 1, "q": 0, "r": 0}),
            "`line 2` must be one with the channels 'p', 'q', got "
            """'{"p": 1, "q": 0, "r": 0}'. Name the channels, and 'r' will not be read.""",
        ),
        (
            objects({"x": [1, None]}),
            "`line 1` must be an observation that can be processed, got "
            """'{"x": [1, null]}'. `observations['']` must be finite, got nan at 1 (counted from 0). """
            "Leave it out, or use a model that was fitted with missing values.",
        ),
    ],
)
def test_a_bad_json_line_is_told_by_its_number(lines, message):
    assert said_by(lines) == message


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["series,p,q", "a,1"], "`line 2` must be one of 3 cells, got 'a,1'. The header has series, p, q."),
        (
            ["series,p,q", ",1,0"],
            "`line 2` must be one with a name in 'series', got ',1,0'. Name the series in every line.",
        ),
        (
            ["series,p,q", "a,1,2", "", "a,1,two"],
            "`line 4` must be one with numbers, got 'a,1,two'. A missing value is null, or an empty cell.",
        ),
        (
            ["p,q,end", "1,0,maybe"],
            "`line 2` must be one with true or false in 'end', got '1,0,maybe'. An empty cell is false.",
        ),
        (["p,p"], "`line 1` must be a header of different names, got 'p,p'. Name each column once."),
        (
            ["series,time"],
            "`line 1` must be a header with a channel, got 'series,time'. The first line names the columns.",
        ),
        ([], "`line 1` must be a header with a channel, got ''. The first line names the columns."),
    ],
)
def test_a_bad_csv_line_is_told_by_its_number(lines, message):
    assert said_by(lines, layout="csv") == message


def test_what_is_no_csv_is_told_by_its_number():
    assert said_by(["p,q", "1,0\r1"], layout="csv").startswith("`line 2` must be CSV, got something else. It says: ")


def test_a_long_line_is_not_repeated_in_full():
    said = said_by(objects({"x": [1.0] * 500}))
    assert "1.0, ...'. `observations['']` must be of shape (2,), got shape (500,)." in said


def test_options_are_checked_before_a_line_is_read():
    with pytest.raises(InvalidArgument, match="`layout` must be one of 'csv', 'jsonl', got 'xml'"):
        decisions_of([], fleet_of(), layout="xml")
    with pytest.raises(InvalidArgument, match="`late` must be one of 'ignore', 'refuse', got 'drop'"):
        decisions_of([], fleet_of(), late="drop")
    with pytest.raises(InvalidArgument, match="`gaps` must be one of 'channel', 'none', got 'yes'"):
        decisions_of([], fleet_of(), gaps="yes")


def test_all_channels_that_a_line_lacks_are_named_at_once():
    assert said_by(["series,p"], layout="csv", channels=["q", "p", "r"]) == (
        "`line 1` must be a header with 'q', 'r' too, got 'series,p'. They are the channels that were asked for."
    )
    assert said_by(objects({"p": 1}), channels=["q", "p", "r"]).endswith("Give 'q', 'r' too; a missing value is null.")


class TestGaps:
    """The second channel is the time since the previous observation."""

    LINES = (
        {"series": "a", "time": 3, "p": 1},
        {"series": "b", "time": 3, "p": 1},
        {"series": "a", "time": 7.5, "p": 1},
    )

    def test_are_counted_from_the_times_of_each_series(self):
        expected = [record("a", "down", 2, False), record("b", "up", 1, False)]  # 4.5 of gaps against 2 of p
        rule = {"channels": ["p"], "gaps": "channel"}
        fleet = fleet_of()
        fleet.rule = MSPRT(9.0)
        assert decided_by(objects(*self.LINES), fleet, **rule) == expected
        whole = objects({"series": "a", "time": 3, "x": [1]}, {"series": "a", "time": "7.5", "x": [9]})
        assert decided_by(whole, fleet_of(), **rule) == [record("a", "up", 2, True)]
        table = ["id,t,p\n", "a,2026-11-15 00:00:00,1\n", "a,2026-11-15 00:00:04.5,1\n"]
        read = decided_by(table, fleet_of(), layout="csv", series=None, time=None, **rule)
        assert read == [record("a", "down", 2, False)]

    def test_may_come_from_the_sender_where_there_is_no_time(self):
        rule = {"channels": ["p"], "gaps": "channel"}
        lines = objects({"p": 1, "gap": 0}, {"p": 1, "gap": 4.5})
        assert decided_by(lines, fleet_of(), **rule) == [record(None, "down", 2, False)]
        assert decided_by(["p,gap", "1,0", "1,4.5"], fleet_of(), layout="csv", **rule) == [
            record(None, "down", 2, False)
        ]
        whole = objects({"time": 1, "x": [1, 0]}, {"time": 2, "x": [1, 4.5]})
        assert decided_by(whole, fleet_of(), **rule) == [record(None, "down", 2, False)]

    def test_go_on_in_the_next_run_and_begin_anew_with_the_next_series_of_a_name(self):
        rule = {"channels": ["p"], "gaps": "channel"}
        fleet = fleet_of()
        lines = iter(objects({"time": 3, "p": 1}, {"time": 3, "p": 1}, {"time": 7.5, "p": 1}))
        with pytest.raises(
            InvalidArgument, match=r"must be later than 3, got 3\. The observations of a series must be in"
        ):
            list(decisions_of(lines, fleet, **rule))
        assert decided_by(lines, fleet, **rule) == [record(None, "down", 2, False)]
        lines = objects({"time": 9, "p": 1, "end": True}, {"time": 2, "p": 1, "end": True}, {"time": 1, "p": 1})
        assert [said["label"] for said in decisions_of(lines, fleet_of(), **rule)] == ["up"] * 3

    def test_need_a_time_in_every_line(self):
        rule = {"channels": ["p"], "gaps": "channel"}
        assert said_by(objects({"p": 1}), **rule) == (
            """`line 1` must be one with a time as 'time', got '{"p": 1}'. The model reads the time since the previous """
            "observation: give the time, or that as 'gap'."
        )
        assert "`line 2` must be one with a time as 'time'" in said_by(objects({"p": 1, "time": 1}, {"p": 1}), **rule)
        assert said_by(["p"], layout="csv", **rule).startswith("`line 1` must be a header with 'time' too, got 'p'.")
        assert "`line 2` must be one with a time as 't'" in said_by(["p,t", "1,"], layout="csv", time="t", **rule)
        assert "`times['']` must be a number or a timestamp, got 'noon'" in said_by(
            objects({"p": 1, "time": "noon"}), **rule
        )


def test_lines_with_and_without_a_time_are_read_together():
    reader = reader_of(Fields(series="series", time="time", channels=("a", "b")))
    assert reader.read([b'{"series": "first", "x": [0, 0]}'])
    batch = reader.read([b'{"series": "p", "x": [1, 2]}', b'{"series": "q", "x": [3, 4], "time": "12:00"}'])
    assert batch.ats == [None, "12:00"]
    assert batch.values.tolist() == [[1, 2], [3, 4]]


def test_many_lines_are_read_as_few_are():
    lines = [
        b'{"series": "s%d", "x": [%d, 1], "end": %s}' % (i, i, b"true" if i % 7 == 0 else b"false") for i in range(3000)
    ]
    reader = reader_of(Fields(series="series", channels=("a", "b")))
    reader.read([lines[0]])
    batch = reader.read(lines)
    assert batch.keys == [f"s{i}" for i in range(3000)]
    assert batch.values.tolist() == [[i, 1] for i in range(3000)]
    assert batch.ends == list(range(0, 3000, 7))
    wider = reader.read([*lines[:2000], b'{"series": "wide", "x": [1, 2, 3]}'])
    assert [arrival.number for arrival in wider] == list(range(3002, 5003))
    assert wider[-1].observation.tolist() == [1, 2, 3]
