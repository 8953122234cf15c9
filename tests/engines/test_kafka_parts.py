"""What the Kafka engine does without a broker."""

import json

import pytest

pytest.importorskip("confluent_kafka", reason="needs sooner[kafka]")

from sooner.engines.kafka.records import Observation, RecordReader
from sooner.engines.kafka.settings import KafkaSettings, read_properties
from sooner.engines.kafka.state import CommittedStep, Head, Snapshot, Take, saved_in
from sooner.errors import InvalidArgument, UnreadableFile
from sooner.stream import ArrivalBatch
from sooner.stream.lines import Fields


def test_a_snapshot_in_chunks_is_put_together_again():
    records = dict(Snapshot(3, b"0123456789", 70).records(4, 3))
    steps = [CommittedStep(3, 0, (Take(80, 1.0), Take(80, 2.5)), 5), CommittedStep(3, 1, (Take(90, 3.0),), 6)]
    saved = saved_in(records | dict(step.record() for step in steps), "state")
    assert (saved.head.offset, saved.snapshot, saved.steps) == (70, b"0123456789", tuple(steps))
    assert saved.position == 90


def test_the_snapshot_before_stays_whole_while_the_next_one_is_written():
    first, second = list(Snapshot(1, b"abcdef", 5).records(4, 2)), list(Snapshot(2, b"ghi", 9).records(4, 2))
    for written in range(len(second)):
        assert saved_in(dict(first + second[:written]), "state").snapshot == b"abcdef"
    assert saved_in(dict(first + second), "state").snapshot == b"ghi"


def test_steps_of_an_older_snapshot_are_left_out():
    old = dict(Snapshot(1, b"a", 0).records(4, 9)) | dict(
        CommittedStep(1, k, (Take(k, 0.0),), 0).record() for k in range(3)
    )
    new = old | dict(Snapshot(2, b"b", 7).records(4, 9)) | dict([CommittedStep(2, 0, (Take(8, 0.0),), 0).record()])
    assert [step.number for step in saved_in(new, "state").steps] == [0]


def test_a_damaged_state_is_refused():
    records = dict(Snapshot(1, b"abcdef", 5).records(4, 2))
    assert Head(**json.loads(records[b"head"])).chunks == 3
    del records[b"chunk/1/1"]
    with pytest.raises(
        InvalidArgument, match=r"`state` must be the topic of the state of this group, got pumps\.state"
    ):
        saved_in(records, "pumps.state")


def test_an_id_comes_from_the_key_whatever_the_first_line_names():
    reader = RecordReader(Fields(channels=("hum", "flow")))
    first = [Observation(0, b"a", b'{"noise": 1}'), Observation(1, b"7", b'{"series": 7, "hum": 1, "flow": 2}')]
    kinds = [getattr(arrival, "kind", None) or arrival.key for arrival in reader.read(first)]
    assert kinds == ["channels", "7"]
    batch = reader.read(
        [Observation(2, b"a", b'{"hum": 1, "flow": 2}'), Observation(3, b"b", b' {"hum": 3, "flow": 4}')]
    )
    assert isinstance(batch, ArrivalBatch)
    assert batch.keys == ["a", "b"]


@pytest.mark.parametrize("value", [b"[1]", b"5", b'?"hum": 1, "flow": 2}', b"{}", b'"hum": 1}'])
def test_what_is_no_object_is_refused(value):
    reader = RecordReader(Fields(channels=("hum", "flow")))
    (refused,) = reader.read([Observation(0, b"a", value)])
    assert refused.kind == "json"


def test_settings_are_checked():
    with pytest.raises(InvalidArgument, match=r"`topic` must be a topic of its own, got 'o'\. `to` has the same"):
        KafkaSettings("h:1", "o", "o", "g")
    with pytest.raises(InvalidArgument, match="`group` must be a name"):
        KafkaSettings("h:1", "o", "d", " ")
    with pytest.raises(InvalidArgument, match=r"`kafka_config` must be of other properties, got isolation\.level"):
        KafkaSettings("h:1", "o", "d", "g", properties={"isolation.level": "read_uncommitted"})


def test_properties_are_read_without_showing_secrets(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("# TLS\nsecurity.protocol = SSL\n\nssl.key.password=a=b\n")
    assert read_properties(path) == {"security.protocol": "SSL", "ssl.key.password": "a=b"}
    path.write_text("hunter2\n")
    with pytest.raises(UnreadableFile, match="another one in line 1") as refused:
        read_properties(path)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(UnreadableFile):
        read_properties(tmp_path / "none")
