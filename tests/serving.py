"""A real service on loopback, in a thread of the tests."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx

from sooner.serve.access import Access
from sooner.serve.limits import ServiceLimits
from sooner.serve.reading import Bodies
from sooner.serve.run import Address, listening, server_of
from sooner.serve.service import Service, ServiceSettings
from sooner.stream import LiveSeries, LiveSettings
from sooner.stream.journal import Journal


@contextmanager
def serving(clf, *, live=None, limits=None, token=None, journal=None, sources=(), **settings):
    """The service: its address, a client, and what it says; it stops at the end of the block."""
    limits = limits or ServiceLimits()
    listener = listening(Address(port=0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = SimpleNamespace(url=url, said=[], service=None, server=None, failed=None)
    began = threading.Event()

    async def serve():
        now = time.time()
        series = LiveSeries(clf, live or LiveSettings(), journal=None if journal is None else Journal(journal), now=now)
        options = ServiceSettings(limits, **settings)
        running.service = Service(clf, series, Bodies(clf, None, "end", limits, now), options)
        running.server = server_of(running.service, Address(), Access(token), tell, sources)
        await running.server.serve([listener])
        running.said.append(running.service.farewell())

    def tell(text):
        running.said.append(text)
        began.set()

    def thread():
        try:
            asyncio.run(serve())
        except BaseException as error:
            running.failed = error
            began.set()
            raise

    worker = threading.Thread(target=thread)
    worker.start()
    assert began.wait(20)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=10) as client:
            running.client = client
            yield running
    finally:
        running.server.should_exit = True
        worker.join(20)
        listener.close()
    assert running.failed is None
    assert not worker.is_alive()


def line(series, x, **more):
    return json.dumps({"series": series, "x": list(map(float, x)), **more})


def lines_at(x, time, names=None):
    """One observation of each series, as lines."""
    names = names or [f"s{index}" for index in range(len(x))]
    return "\n".join(line(name, case[:, time]) for name, case in zip(names, x, strict=True))


def post(client, body, **options):
    answer = client.post("/v1/observations", content=body, **options)
    return answer.json() if answer.status_code == 200 else answer


def events_of(client, *, after=0, count=None, format="plain", **headers):  # noqa: A002
    """Server-sent events, as pairs of ID and data."""
    found = []
    accept = {"accept": "text/event-stream", **headers}
    with client.stream("GET", "/v1/decisions", params={"after": after, "format": format}, headers=accept) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = None
        for text in answer.iter_lines():
            if text.startswith("id: "):
                number = int(text[4:])
            elif text.startswith("data: "):
                found.append((number, json.loads(text[6:])))
                if count is not None and len(found) >= count:
                    return found
    return found


class Process:
    """`sooner serve` as a process, which may be killed and started again at the same port."""

    def __init__(self, folder, model, *options, before=None):
        self.log, self.model, self.options, self.port, self.before = folder / "log", model, options, 0, before

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *failure):
        self.process.kill()
        self.process.wait()

    @property
    def said(self):
        return self.log.read_text().splitlines()

    def start(self):
        words = [sys.executable, "-m", "sooner", "serve", self.model, "--port", self.port, *self.options]
        environment, before = {**os.environ, "OMP_NUM_THREADS": "1"}, len(self.said) if self.log.exists() else 0
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [str(word) for word in words], stderr=log, stdout=log, env=environment, preexec_fn=self.before
            )
        while not (found := re.search(r"Listening on (http://127.0.0.1:(\d+))", "\n".join(self.said[before:]))):
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        self.url, self.port = found[1], int(found[2])

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(30)


class Sender:
    """Sends the observations of some series, and asks how far they came whenever a request fails."""

    def __init__(self, url, x, names, *, lines=40):
        self.url, self.x, self.names, self.lines = url, x, names, lines
        self.sent = dict.fromkeys(range(len(x)), 0)
        self.refused = []

    def run(self, until=None):
        """Until all series are over, or `until()` says so."""
        with httpx.Client(base_url=self.url, timeout=10) as client:
            unsure = set()
            while self.sent and not (until is not None and until()):
                try:
                    for index in sorted(unsure):
                        self.ask(client, index)
                        unsure.discard(index)
                    chosen = list(self.sent)[: self.lines]
                    unsure = set(chosen)
                    answer = client.post("/v1/observations", content="\n".join(map(self.next_line, chosen)))
                    if answer.status_code != 200:
                        self.refused.append(answer)
                        unsure = set()
                        time.sleep(0.05)
                        continue
                    assert answer.json()["rejected"] == [], answer.text
                    unsure = set()
                    for index in chosen:
                        self.count(index, self.sent.pop(index) + 1)
                except httpx.HTTPError:
                    time.sleep(0.1)

    def next_line(self, index):
        time = self.sent[index]
        last = time == self.x.shape[2] - 1
        return line(self.names[index], self.x[index, :, time], **({"end": True} if last else {}))

    def count(self, index, sent):
        if sent < self.x.shape[2]:
            self.sent[index] = sent

    def ask(self, client, index):
        answer = client.get(f"/v1/series/{self.names[index]}")
        self.sent.pop(index)
        if answer.status_code == 404:
            self.count(index, 0)
        elif answer.json()["state"] == "open":
            self.count(index, answer.json()["time"])
