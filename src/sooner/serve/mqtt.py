"""MQTT: observations from the topics of a broker, decisions to it.

A message is acknowledged only when what it contains is durable, so that the broker keeps it until then. Decisions are published
with QoS 1 from the first one that no broker has confirmed: each at least once, with its ID.
"""

import asyncio
import hashlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import aiomqtt
import orjson

from sooner.errors import InvalidArgument
from sooner.serve.answers import Refusal, json_bytes, sentence
from sooner.serve.service import Service
from sooner.stream.events import Event

PASSWORD = "SOONER_MQTT_PASSWORD"
"""Environment variable that holds the password of the broker."""
STATUS = "sooner/status"
"""Topic with the retained state of the service, `online` or `offline`."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_WAITING, _AT_ONCE = 1000, 100
_SHORTEST, _LONGEST = 1.0, 30.0
_PATIENCE = 5.0
_LOG = logging.getLogger("sooner.serve")


@dataclass(frozen=True)
class Broker:
    """A broker, and the topics of the observations.

    Args:
        host: of the broker.
        port: of the broker.
        topic: of observations; `+` stands for the series ID, as in `plant/+/obs`.
        user: at the broker; None for nobody.
        password: of the user; by default that in the environment.
        tls: whether the connection is encrypted.
    """

    host: str
    port: int
    topic: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    @classmethod
    def of(cls, url: str) -> "Broker":
        """From a URL.

        >>> Broker.of("mqtt://localhost/plant/+/obs")
        Broker(host='localhost', port=1883, topic='plant/+/obs', user=None, tls=False)
        """
        remedy = "Write mqtt://HOST/TOPIC, for example mqtt://localhost/plant/+/obs."
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgument("mqtt", "a URL", repr(url), remedy) from None
        topic = unquote(url.partition("://")[2].partition("/")[2])
        if parts.scheme not in _PORTS or not parts.hostname or not topic:
            raise InvalidArgument("mqtt", "a URL with a host and a topic", repr(url), remedy)
        levels = topic.split("/")
        if any("+" in level and level != "+" for level in levels) or "#" in topic.removesuffix("/#").removesuffix("#"):
            raise InvalidArgument("mqtt", "a topic whose wildcards are whole levels", repr(topic), remedy)
        password = None if parts.password is None else unquote(parts.password)
        user = None if parts.username is None else unquote(parts.username)
        password = os.environ.get(PASSWORD) if password is None else password
        return cls(parts.hostname, port or _PORTS[parts.scheme], topic, user, password, parts.scheme == "mqtts")

    def series_in(self, topic: str) -> str | None:
        """The series ID in a topic: the level at the first `+`; None without one."""
        levels = self.topic.split("/")
        return topic.split("/")[levels.index("+")] if "+" in levels else None

    def decision_topic(self, series: Any) -> str:
        """The topic of the decisions about a series.

        >>> Broker.of("mqtt://localhost/plant/+/obs").decision_topic("pump-7")
        'plant/pump-7/decision'
        """
        levels = self.topic.split("/")[:-1]
        if "+" in levels:
            name = "".join("_" if letter in "/+#\x00" else letter for letter in str(series))
            levels[levels.index("+")] = name.encode(errors="replace").decode() or "_"
        known = [level for level in levels if level not in ("+", "#")]
        return "/".join([*known, "decision"])


class Mqtt:
    """The connection of a service to a broker, which is renewed when it is lost."""

    def __init__(self, broker: Broker, tell: Callable[[str], None]) -> None:
        self._broker, self._tell = broker, tell
        self._sent = 0

    async def run(self, service: Service) -> None:
        """Receive and publish until the service has drained."""
        self._sent = service.delivered
        where, pause, told = f"{self._broker.host}:{self._broker.port}", _SHORTEST, False
        while not service.ended.is_set():
            try:
                async with self._client(service) as client:
                    self._tell(f"Connected to the MQTT broker {where}; observations come from {self._broker.topic}.")
                    pause, told = _SHORTEST, False
                    await self._connected(client, service)
            except (aiomqtt.MqttError, OSError) as error:
                if not told:
                    self._tell(f"The MQTT broker {where} cannot be reached ({sentence(error)}); trying again.")
                told = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(service.ended.wait(), pause)
                pause = min(2 * pause, _LONGEST)

    def _client(self, service: Service) -> aiomqtt.Client:
        # The same name after a restart, so that the broker keeps what has come meanwhile.
        about = f"{socket.gethostname()} {self._broker.topic} {service.folder}"
        client = aiomqtt.Client(
            self._broker.host,
            self._broker.port,
            username=self._broker.user,
            password=self._broker.password,
            identifier=f"sooner-{hashlib.sha256(about.encode()).hexdigest()[:12]}",
            clean_session=False,
            will=aiomqtt.Will(STATUS, "offline", qos=1, retain=True),
            tls_context=ssl.create_default_context() if self._broker.tls else None,
        )
        client._client.manual_ack_set(True)  # aiomqtt has no name for it
        return client

    async def _connected(self, client: aiomqtt.Client, service: Service) -> None:
        await client.publish(STATUS, "online", qos=1, retain=True)
        await client.subscribe(self._broker.topic, qos=1)
        receiving = asyncio.create_task(self._receive(client, service))
        sending = asyncio.create_task(self._send(client, service))
        stopping = asyncio.create_task(service.stopping.wait())
        try:
            await asyncio.wait({receiving, sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if service.stopping.is_set():
                receiving.cancel()
                await asyncio.wait_for(sending, _PATIENCE + 10.0)  # ends when the service has drained
                await client.publish(STATUS, "offline", qos=1, retain=True, timeout=_PATIENCE)
            else:
                await asyncio.gather(*(task for task in (receiving, sending) if task.done()))
        finally:
            for task in (receiving, sending, stopping):
                task.cancel()
            await asyncio.gather(receiving, sending, stopping, return_exceptions=True)

    async def _receive(self, client: aiomqtt.Client, service: Service) -> None:
        """Hand messages over in their order; so many wait at a time."""
        room = asyncio.Semaphore(_WAITING)
        tasks: set[asyncio.Task[None]] = set()

        def done(task: asyncio.Task[None]) -> None:
            room.release()
            tasks.discard(task)

        try:
            async for message in client.messages:
                await room.acquire()
                task = asyncio.create_task(self._take(client, service, message))
                tasks.add(task)
                task.add_done_callback(done)
        finally:
            if not service.stopping.is_set():  # the broker sends them again
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, client: aiomqtt.Client, service: Service, message: aiomqtt.Message) -> None:
        """Acknowledge a message once it is durable; what can never be taken is acknowledged too, and logged."""
        body = self._lines_of(service, str(message.topic), message.payload)
        while True:
            try:
                await service.observe(body)
                break
            except Refusal as refusal:
                if refusal.status not in (429, 507):
                    _LOG.warning("a message of the topic %s is refused: %s", message.topic, refusal.detail)
                    if refusal.status == 503:  # stopping: the broker keeps it
                        return
                    break
                await asyncio.sleep(refusal.retry_after or 1)
        client._client.ack(message.mid, message.qos)

    def _lines_of(self, service: Service, topic: str, payload: Any) -> bytes:
        """The lines of a message, with the series ID of its topic where they have none."""
        body = payload if isinstance(payload, bytes) else str(payload or "").encode()
        series = self._broker.series_in(topic)
        if series is None:
            return body
        return b"\n".join(_with_series(line, series, service.series_field) for line in body.split(b"\n"))

    async def _send(self, client: aiomqtt.Client, service: Service) -> None:
        """Publish decisions; what the broker has confirmed is noted in the journal."""
        published = service.published
        while True:
            events = await published.after(self._sent, _AT_ONCE)
            if events:
                await self._publish(client, events)
                self._sent = events[-1].id
                await service.deliver(self._sent)
            elif published.stopped:
                return
            else:
                await published.wait(self._sent, 60.0)

    async def _publish(self, client: aiomqtt.Client, events: Sequence[Event]) -> None:
        topics = [self._broker.decision_topic(event.series) for event in events]
        contents = [json_bytes(event.record()) for event in events]
        await asyncio.gather(*(client.publish(*pair, qos=1) for pair in zip(topics, contents, strict=True)))


def _with_series(line: bytes, series: str, name: str) -> bytes:
    """A line with the series ID; a number, or a list of numbers, is an observation."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line  # blank, or refused with a reason
    if isinstance(record, int | float | list) and not isinstance(record, bool):
        record = {"x": record if isinstance(record, list) else [record]}
    if not isinstance(record, dict) or name in record:
        return line
    return json_bytes({name: series, **record})
