"""The Kafka engine: on a small broker with transactions, and on librdkafka's mock cluster."""

import json
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

import sooner
from engines.many_series import task_in
from sooner.errors import InvalidArgument
from sooner.rules import MSPRT
from sooner.stream import LiveSettings

pytest.importorskip("confluent_kafka", reason="needs sooner[kafka]")

from engines.kafka_kills import killed, settings_for
from engines.on_kafka import (
    DEAD,
    MOCK,
    PARTITIONS,
    STATE,
    TOPIC,
    broker,
    by_series,
    decisions,
    member,
    read,
    records_of,
    send,
    taken,
    wait_for,
)
from sooner.engines.kafka.client import KafkaFailed
from sooner.engines.kafka.follow import follow
from sooner.engines.kafka.settings import KafkaSettings
from sooner.estimator.columns import fields_for

pytestmark = pytest.mark.engines
SERIES = 60


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_in(tmp_path_factory.mktemp("kafka"), SERIES)


@pytest.fixture(scope="module")
def records(task):
    return list(records_of(task.table))


@pytest.fixture(scope="module")
def clf(task):
    return sooner.load(task.model_file)


def run(clf, address, until, *, live=None, said=None, **more):
    """A member of the group in this process, until something holds."""
    end = time.monotonic() + 40
    said = [] if said is None else said

    def stopped():
        assert time.monotonic() < end, "it did not happen in time"
        return until()

    settings = settings_for(address, **more)
    return follow(clf, live or LiveSettings(), fields_for(clf, None), settings, tell=said.append, stopped=stopped)


def seconds(number):
    """Whether so many seconds are over."""
    end = time.monotonic() + number
    return lambda: time.monotonic() > end


def decided(address, count):
    return lambda: len(decisions(address)) >= count


@contextmanager
def beside(*arguments, **more):
    """A member of the group in a thread, until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=lambda: run(*arguments, ended.is_set, **more))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_restart_goes_on_where_the_group_stopped(clf, task, records):
    with broker() as address:
        send(address, records[:500])
        run(clf, address, lambda: taken(address) == 500)
        run(clf, address, seconds(1.5))
        send(address, records[500:])
        worker = run(clf, address, decided(address, SERIES))
        assert worker.observations == len(records) - 500
        assert by_series(decisions(address)) == task.decided


def test_two_members_share_the_partitions_and_hand_them_over(clf, task, records):
    with broker() as address:
        send(address, records[:600])
        with beside(clf, address):
            wait_for(lambda: read(address, STATE, PARTITIONS))
            with beside(clf, address):
                send(address, records[600:1200])
                time.sleep(2.5)
            send(address, records[1200:])
            wait_for(decided(address, SERIES))
        assert by_series(decisions(address)) == task.decided


def test_members_that_are_killed_lose_and_double_nothing(task):
    found = killed(task, 2, seconds=6)
    assert by_series(found.records) == task.decided


def test_a_member_that_was_left_behind_commits_nothing(task, records, tmp_path, clf):
    with broker("--end-delay=0.03") as address:
        paused = member(address, task.model_file, tmp_path, "--commit-every", "50ms")
        try:
            send(address, records[:300])
            wait_for(lambda: taken(address) == 300)
            os.kill(paused.pid, signal.SIGSTOP)
            send(address, records[300:])
            run(clf, address, decided(address, SERIES))
            os.kill(paused.pid, signal.SIGCONT)
            time.sleep(2.5)
        finally:
            os.kill(paused.pid, signal.SIGCONT)
            paused.terminate()
            said = paused.communicate(timeout=30)[1]
        assert paused.returncode == 0, said
        assert by_series(decisions(address)) == task.decided


def test_bad_records_go_to_another_topic_with_the_reason(clf, task, records):
    bad = [
        ("p00001", "{broken"),
        ("p00002", '{"hum": 1}'),
        ("p00003", '{"hum": "wet", "flow": 2}'),
        (None, '{"hum": 1, "flow": 2}'),
        ("p00004", '{"series": "p00005", "hum": 1, "flow": 2}'),
        ("p00006", ""),
        (b"\xff\xfe", '{"hum": 1, "flow": 2}'),
        ("p00007", b'{"hum": 1, "flow": "\xff"}'),
    ]
    with broker() as address:
        send(address, [*bad, *records[:900], *bad, *records[900:]])
        worker = run(clf, address, decided(address, SERIES))
        refused = read(address, DEAD, 1)
        assert by_series(decisions(address)) == task.decided
    kinds = {"json": 4, "channels": 2, "number": 2, "id": 6, "text": 2}
    assert worker.refused == kinds
    assert len(refused) == 16
    for record in refused:
        about = {name: value.decode() for name, value in record.headers()}
        assert about["reason"].startswith(f"`offset {about['offset']}` must be ")
        assert about["topic"] == TOPIC
    assert {record.value() for record in refused} >= {b"{broken", b'{"hum": 1}'}


def test_silence_ends_series_while_nothing_comes(clf, records):
    with broker() as address:
        send(address, records[:SERIES])  # the first observation of each
        run(clf, address, decided(address, SERIES), live=LiveSettings(idle=1.0))
        assert {record["ended"] for record in decisions(address)} <= {"idle", "rule"}
        assert {record["time"] for record in decisions(address)} == {1}


def test_an_id_begins_another_run_after_its_decision(clf, task, records):
    with broker() as address:
        send(address, [*records, *records])
        run(clf, address, decided(address, 2 * SERIES))
        found = decisions(address)
    for number in (1, 2):
        assert by_series([record for record in found if record["run"] == number]) == task.decided


def test_a_crash_repeats_the_steps_since_the_snapshot(clf, task, records, monkeypatch):
    from sooner.engines.kafka.worker import Worker

    with broker() as address, monkeypatch.context() as patched:
        send(address, records[:900])
        patched.setattr(Worker, "_revoked", lambda self, consumer, partitions: self._drop(consumer, partitions))
        run(clf, address, lambda: taken(address) == 900)
        steps = [record for record in read(address, STATE, PARTITIONS) if record.key().startswith(b"step/")]
        assert steps
        patched.undo()
        send(address, records[900:])
        run(clf, address, decided(address, SERIES))
        assert by_series(decisions(address)) == task.decided


def test_a_snapshot_may_be_larger_than_a_message(clf, task, records):
    with broker() as address:
        send(address, records[:600])
        run(clf, address, lambda: len(read(address, STATE, PARTITIONS)) > 20, chunk_bytes=1000, snapshot_bytes=1)
        send(address, records[600:])
        run(clf, address, decided(address, SERIES), chunk_bytes=700)
        assert by_series(decisions(address)) == task.decided


def test_another_threshold_is_taken_after_a_restart(clf, task, records):
    other = sooner.load(task.model_file)
    other.threshold = 1e9
    with broker() as address:
        send(address, records[:SERIES])
        run(other, address, lambda: taken(address) == SERIES)
        send(address, records[SERIES:])
        run(clf, address, decided(address, SERIES))
        assert other.rule_ == MSPRT(1e9)
        assert {record["ended"] for record in decisions(address)} == {"rule", "end"}


@pytest.mark.parametrize("program", [("-m", "engines.broker"), MOCK])
def test_without_transactions_it_is_at_least_once_and_says_so(clf, task, records, program):
    said = []
    with broker("--without-transactions", program=program) as address:
        send(address, records[:900])
        run(clf, address, lambda: taken(address) == 900, said=said)
        send(address, records[900:])
        run(clf, address, decided(address, SERIES), said=said)
        found = {record["id"]: record for record in decisions(address)}
    assert all("no transactions" in sentence and "at least once" in sentence for sentence in said)
    assert said
    assert by_series(list(found.values())) == task.decided


def test_the_mock_cluster_of_librdkafka_is_enough(clf, task, records):
    with broker(program=MOCK) as address:
        send(address, records[:900])
        run(clf, address, lambda: taken(address) == 900)
        send(address, records[900:])
        run(clf, address, decided(address, SERIES))
        assert by_series(decisions(address)) == task.decided


def test_another_model_does_not_go_on_with_the_state(clf, task, records):
    other = sooner.load(task.model_file)
    for weights in other.model_.state_dict().values():
        if weights.is_floating_point():
            weights.add_(0.5)
    with broker() as address:
        send(address, records[:300])
        run(clf, address, lambda: taken(address) == 300)
        with pytest.raises(InvalidArgument, match="`group` must be one whose state is of this model and these options"):
            run(other, address, seconds(10))
        with pytest.raises(InvalidArgument, match="`group` must be one whose state is of this model and these options"):
            run(clf, address, seconds(10), live=LiveSettings(deadline=5))


def test_a_changed_number_of_partitions_is_refused(clf):
    topics = {TOPIC: PARTITIONS + 2, "decisions": 2, STATE: PARTITIONS, DEAD: 1}
    with (
        broker(topics=topics) as address,
        pytest.raises(InvalidArgument, match="`topic` must be of 4 partitions, as the"),
    ):
        run(clf, address, seconds(10))


def test_topics_of_its_own_are_created_and_others_must_exist(clf, records):
    with broker(topics={TOPIC: 2, "decisions": 2}) as address:
        send(address, records[:100])
        run(clf, address, lambda: taken(address, 2) == 100)
        settings = KafkaSettings(address, "pressures", "decisions", "pumps")
        with pytest.raises(InvalidArgument, match="`topic` must be a topic of these brokers, got 'pressures'"):
            follow(clf, LiveSettings(), fields_for(clf, None), settings, tell=print, stopped=lambda: True)


def test_offsets_without_a_state_are_refused(clf, records):
    from confluent_kafka import Consumer, TopicPartition

    with broker() as address:
        send(address, records[:100])
        consumer = Consumer({"bootstrap.servers": address, "group.id": "pumps"})
        consumer.commit(offsets=[TopicPartition(TOPIC, index, 3) for index in range(PARTITIONS)], asynchronous=False)
        consumer.close()
        import sooner.engines.kafka.restore as module

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "_SETTLED", 1.0)
            with pytest.raises(InvalidArgument, match="got offset 3 without a state"):
                run(clf, address, seconds(10))


def test_an_unreachable_broker_is_one_sentence(clf, monkeypatch):
    import sooner.engines.kafka.client as module

    monkeypatch.setattr(module, "WAIT", 1.0)
    with pytest.raises(KafkaFailed, match=r"Kafka at 127\.0\.0\.1:9 failed: .* Check the address"):
        run(clf, "127.0.0.1:9", seconds(1))


def test_bad_input_of_the_command_is_one_sentence_and_exit_code_2(task, tmp_path):
    with broker() as address:
        process = member(address, task.model_file, tmp_path, "--topic", "pressures")
        said = process.communicate(timeout=60)[1].strip()
    assert process.returncode == 2
    assert "error: `--topic` must be a topic of these brokers, got 'pressures'. Create it first" in said
    assert "Traceback" not in said


def test_the_command_stops_with_sigterm_and_counts(task, records, tmp_path):
    with broker() as address:
        send(address, [("p00001", "{broken"), *records])
        process = member(address, task.model_file, tmp_path)
        wait_for(decided(address, SERIES))
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=30)[1]
        assert process.returncode == 0
        assert f"Stopped. {len(records) + 1:,} observations were read and {SERIES} decisions written." in said
        assert f"1 records were refused (1 json). They are in the topic {DEAD}." in said
        line = json.loads(read(address, "decisions", 2)[0].value())
        assert set(line) == {
            *("series", "label", "time", "crossed", "margin", "posterior", "at", "run", "ended", "event", "id")
        }
