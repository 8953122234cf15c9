"""Decisions out: JSON, event streams that resume, CloudEvents, and the end of a service."""

import json
import socket
import threading
import time

import pytest
from websockets.sync.client import connect

from serving import events_of, line, lines_at, post, serving
from sooner.serve import decisions
from sooner.stream import LiveSettings
from waves import waves


@pytest.fixture(scope="module")
def decided(clf):
    """A service with some 30 decisions."""
    with serving(clf) as running:
        x, _ = waves(30, 20, seed=2)
        for t in range(20):
            post(running.client, lines_at(x, t))
        yield running


def test_pages_of_decisions_follow_each_other(decided):
    whole = decided.client.get("/v1/decisions").json()
    assert whole["last_id"] == whole["decisions"][-1]["id"] >= 20
    last, found = 0, []
    while page := decided.client.get("/v1/decisions", params={"after": last, "limit": 7}).json()["decisions"]:
        assert len(page) <= 7
        last, found = page[-1]["id"], found + page
    assert found == whole["decisions"]
    assert set(found[0]) == {
        "id",
        "series",
        "run",
        "label",
        "time",
        "crossed",
        "ended",
        "margin",
        "posterior",
        "at",
        "arrived",
    }


def test_an_event_stream_resumes_where_it_was_cut(decided):
    whole = decided.client.get("/v1/decisions").json()["decisions"]
    first = events_of(decided.client, count=5)
    assert [number for number, _ in first] == [1, 2, 3, 4, 5]
    rest = events_of(decided.client, count=len(whole) - 5, **{"last-event-id": "5"})
    assert [data for _, data in first + rest] == whole


def test_an_event_stream_gets_what_comes_later(decided):
    last = decided.client.get("/v1/decisions").json()["last_id"]
    found = []
    reader = threading.Thread(target=lambda: found.extend(events_of(decided.client, after=last, count=1)))
    reader.start()
    time.sleep(0.2)
    post(decided.client, line("later", [5, 5], end=True))
    reader.join(5)
    assert [(number, data["series"]) for number, data in found] == [(last + 1, "later")]


def test_cloud_events(decided):
    params = {"limit": 1, "format": "cloudevents"}
    (event,) = decided.client.get("/v1/decisions", params=params).json()["decisions"]
    assert (event["specversion"], event["id"], event["type"]) == ("1.0", "1", "sooner.decision")
    assert event["data"]["id"] == 1
    assert event["subject"] == event["data"]["series"]
    ((_, streamed),) = events_of(decided.client, count=1, format="cloudevents")
    assert streamed["data"]["id"] >= 1


def test_a_slow_reader_is_told_what_is_no_longer_kept(clf, monkeypatch):
    monkeypatch.setattr(decisions, "KEPT", 5)
    monkeypatch.setattr("sooner.stream.event_log.RECENT", 8)
    with serving(clf) as running:
        for index in range(40):
            post(running.client, line(f"s{index}", [1, 2], end=True))
        page = running.client.get("/v1/decisions", params={"after": 1}).json()["decisions"]
        assert page[-1]["id"] <= 40
        ids = [each["id"] for each in page]
        assert ids == list(range(ids[0], ids[-1] + 1))
        with running.client.stream("GET", "/v1/decisions?after=1", headers={"accept": "text/event-stream"}) as answer:
            texts = answer.iter_lines()
            while next(texts) != "event: lost":
                pass
            lost = json.loads(next(texts).removeprefix("data: "))
            assert lost["first"] == 2
            assert next(line for line in texts if line.startswith("id: ")) == f"id: {lost['last'] + 1}"


def test_bad_resumptions_are_refused(service):
    accept = {"accept": "text/event-stream"}
    for value in ("x", "-1", "1.5", "²"):
        answer = service.client.get("/v1/decisions", headers={**accept, "last-event-id": value.encode()})
        assert answer.status_code == 400, value
    assert service.client.get("/v1/decisions", params={"after": -1}).status_code == 422
    assert service.client.get("/v1/decisions", params={"after": 2**70}).status_code == 422


def test_silence_ends_a_series_although_nothing_arrives(clf):
    with serving(clf, live=LiveSettings(idle=0.2)) as running:
        post(running.client, line("quiet", [5, 5]))
        ((_, event),) = events_of(running.client, count=1)
        assert (event["series"], event["ended"], event["crossed"]) == ("quiet", "idle", False)


def test_frames_are_answered_in_order(service):
    with connect(service.url.replace("http", "ws") + "/v1/observations") as socket:
        for index in range(50):
            socket.send("\n".join([line(f"ws-{index}", [1, 2])] * (1 + index % 3)) + "\n{")
        answers = [json.loads(socket.recv()) for _ in range(50)]
        assert [each["accepted"] for each in answers] == [1 + index % 3 for index in range(50)]
        assert [each["rejected"][0]["line"] for each in answers] == [2 + index % 3 for index in range(50)]
        socket.send(b"\xff\x00")
        refused = json.loads(socket.recv())
        assert (refused["status"], refused["detail"].partition(" must")[0]) == (422, "`line 1`")
        socket.send("")
        assert json.loads(socket.recv())["accepted"] == 0


def test_a_stop_ends_streams_and_sockets_and_says_what_becomes_of_open_series(clf):
    with serving(clf) as running:
        post(running.client, line("open", [5, 5]) + "\n" + line("closed", [5, 5], end=True))
        found = []
        reader = threading.Thread(target=lambda: found.extend(events_of(running.client)))
        reader.start()
        with connect(running.url.replace("http", "ws") + "/v1/observations") as socket:
            socket.send(line("ws", [1, 2]))
            socket.recv()
            running.server.should_exit = True
            with pytest.raises(Exception, match=r"10(01|12)"):
                socket.recv(5)
        reader.join(5)
        assert [data["series"] for _, data in found] == ["closed"]
    assert running.said[1] == "Stopping: no new observations are taken."
    assert running.said[2] == "Stopped after 1 decisions: 2 open series are dropped (--journal FOLDER would keep them)."


def test_a_reader_that_stands_still_costs_nobody_anything_and_misses_nothing(clf, monkeypatch, tmp_path):
    """Its events are not kept for it: when it reads on, they come from the journal."""
    monkeypatch.setattr(decisions, "KEPT", 1000)
    with serving(clf, journal=tmp_path / "journal") as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as still:
            still.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            still.sendall(b"GET /v1/decisions?after=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            for start in range(0, 6_000, 1000):
                names = range(start, start + 1000)
                post(running.client, "\n".join(line(f"s{index}", [5, 5], end=True) for index in names))
            assert running.client.get("/v1/decisions", params={"after": 5_990}).json()["last_id"] == 6_000
            assert len(running.service.published._events) <= 2000
            read, ids = b"", []
            while len(ids) < 6_000:
                read += still.recv(1 << 20)
                lines, _, read = read.rpartition(b"\n")
                ids += [int(each[4:]) for each in lines.split(b"\n") if each.startswith(b"id: ")]
            assert ids == list(range(1, 6_001))
