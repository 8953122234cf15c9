"""MQTT against a real broker: mosquitto, as Debian packages it."""

import asyncio
import json
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import aiomqtt
import pytest

from serving import line, serving
from sooner.errors import InvalidArgument
from sooner.serve.mqtt import Broker, Mqtt
from waves import waves

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
with_broker = pytest.mark.skipif(MOSQUITTO is None, reason="no MQTT broker: install Debian's package mosquitto")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def broker(folder, port):
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
    )
    process = subprocess.Popen([MOSQUITTO, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def port(tmp_path):
    port = free_port()
    with broker(tmp_path, port):
        yield port


def source(port, said):
    return Mqtt(Broker.of(f"mqtt://127.0.0.1:{port}/plant/+/obs"), said.append).run


class Plant:
    """Sends observations, and keeps what comes back."""

    def __init__(self, port):
        self.port, self.heard, self.states = port, [], []

    async def run(self, work, enough):
        async with aiomqtt.Client("127.0.0.1", self.port) as client:
            await client.subscribe("plant/+/decision", qos=1)
            await client.subscribe("sooner/status", qos=1)
            hearing = asyncio.create_task(self.hear(client))
            await work(client)
            for _ in range(500):
                if enough(self):
                    break
                await asyncio.sleep(0.02)
            hearing.cancel()
        assert enough(self), (self.heard, self.states)

    async def hear(self, client):
        async for message in client.messages:
            if str(message.topic) == "sooner/status":
                self.states.append((message.payload.decode(), message.retain))
            else:
                self.heard.append((str(message.topic), json.loads(message.payload)))


@with_broker
def test_messages_are_decided_and_decisions_are_published(clf, port):
    x, _ = waves(12, 20, seed=11)
    said, plant = [], Plant(port)

    async def work(client):
        for t in range(20):
            for index in range(12):
                await client.publish(f"plant/pump-{index}/obs", json.dumps({"x": x[index, :, t].tolist()}), qos=1)
        for index in range(12):
            await client.publish(f"plant/pump-{index}/obs", '{"end": true}', qos=1)

    with serving(clf, sources=[source(port, said)]) as running:
        while not said:
            time.sleep(0.01)
        asyncio.run(plant.run(work, lambda plant: len(plant.heard) >= 12))
        assert plant.states == [("online", True)]
        records = [record for _, record in plant.heard]
        assert running.client.get("/v1/decisions").json()["decisions"] == records
    assert {topic for topic, _ in plant.heard} == {f"plant/pump-{index}/decision" for index in range(12)}
    found, decided = {record["series"]: record for record in records}, clf.decide(x)
    assert [found[f"pump-{index}"]["label"] for index in range(12)] == decided.labels.tolist()
    assert [found[f"pump-{index}"]["time"] for index in range(12)] == decided.times.tolist()
    late = Plant(port)
    asyncio.run(late.run(nothing, lambda plant: plant.states == [("offline", True)]))


async def nothing(client):
    del client


@with_broker
def test_bad_messages_cost_nothing_and_several_forms_are_read(clf, port):
    said = []

    async def work(client):
        for payload in (b"\xff\xfe", b"{bad", b"null", b"", b"[1, 2, 3]", b'{"x": "no"}', b"true"):
            await client.publish("plant/bad/obs", payload, qos=1)
        await client.publish("plant/list/obs", "[5, 5]", qos=1)
        await client.publish("plant/many/obs", line("other", [5, 5]) + '\n{"x": [5, 5]}\n[5, 5]', qos=1)
        await client.publish("plant/list/obs", '{"x": [5, 5], "end": true}', qos=1)

    with serving(clf, sources=[source(port, said)]) as running:
        running.client.put("/v1/threshold", json={"threshold": 1e6})
        asyncio.run(Plant(port).run(work, lambda plant: len(plant.heard) == 1))
        shown = running.client.get("/v1/series").json()["series"]
        assert {each["series"]: each["time"] for each in shown} == {"many": 2, "other": 1}


@with_broker
def test_the_broker_keeps_what_comes_while_the_service_is_away_and_nothing_is_lost(clf, tmp_path, port):
    said, journal = [], tmp_path / "journal"
    first, second, third = Plant(port), Plant(port), Plant(port)

    def send(name, **more):
        async def work(client):
            await client.publish(f"plant/{name}/obs", json.dumps({"x": [5, 5], **more}), qos=1)

        return work

    with serving(clf, sources=[source(port, said)], journal=journal) as running:
        running.client.put("/v1/threshold", json={"threshold": 1e6})
        asyncio.run(first.run(send("a"), lambda plant: plant.states))
        while running.client.get("/v1/stats").json()["open"] < 1:
            time.sleep(0.01)
    asyncio.run(second.run(send("a", end=True), lambda plant: plant.states))
    with serving(clf, sources=[source(port, said)], journal=journal):
        asyncio.run(third.run(nothing, lambda plant: plant.heard or third.states))
        with_decisions = Plant(port)
        asyncio.run(
            with_decisions.run(send("b", end=True), lambda plant: any(r["series"] == "b" for _, r in plant.heard))
        )
    heard = [record for _, record in third.heard + with_decisions.heard]
    found = {record["series"]: (record["id"], record["time"]) for record in heard}
    assert found["b"] == (2, 1)
    with serving(clf, journal=journal) as running:
        decisions = running.client.get("/v1/decisions").json()["decisions"]
        assert [(each["series"], each["time"]) for each in decisions] == [("a", 2), ("b", 1)]
        assert running.service.delivered == 2


@with_broker
def test_a_broker_that_comes_late_or_goes_away_is_waited_for(clf, tmp_path):
    said, port = [], free_port()
    with serving(clf, sources=[source(port, said)]) as running:
        while not said:
            time.sleep(0.01)
        assert f"The MQTT broker 127.0.0.1:{port} cannot be reached" in said[0]
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            with broker(folder, port):

                async def work(client, name=name):
                    while not said[-1].startswith("Connected"):
                        await asyncio.sleep(0.02)
                    await client.publish(f"plant/{name}/obs", '{"x": [5, 5], "end": true}', qos=1)

                asyncio.run(Plant(port).run(work, lambda plant: plant.heard))
            while said[-1].startswith("Connected"):
                time.sleep(0.01)
        assert running.client.get("/v1/decisions").json()["last_id"] == 2


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost/plant", "a URL with a host and a topic"),
        ("mqtt://localhost", "a URL with a host and a topic"),
        ("http://localhost/plant", "a URL with a host and a topic"),
        ("mqtt://localhost:x/plant", "must be a URL, got"),
        ("mqtt://localhost/plant/a+/obs", "wildcards are whole levels"),
        ("mqtt://localhost/#/obs", "wildcards are whole levels"),
    ],
)
def test_bad_addresses_are_refused_in_a_sentence(url, says):
    with pytest.raises(InvalidArgument, match=says):
        Broker.of(url)


def test_topics_name_series_and_passwords_are_not_shown(monkeypatch):
    broker = Broker.of("mqtts://me:s%40cret@host:99/plant/+/obs")
    assert (broker.user, broker.password, broker.port, broker.tls) == ("me", "s@cret", 99, True)
    assert "cret" not in repr(broker)
    assert broker.series_in("plant/pump-7/obs") == "pump-7"
    assert broker.decision_topic("a/b+#") == "plant/a_b__/decision"
    assert Broker.of("mqtt://h/plant/#").decision_topic("x") == "plant/decision"
    monkeypatch.setenv("SOONER_MQTT_PASSWORD", "hidden")
    assert Broker.of("mqtt://me@h/obs").password == "hidden"
