"""A real service on loopback, in a thread of the tests."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx

from sooner.serve.access import Access
from sooner.serve.limits import Limits
from sooner.serve.reading import Bodies
from sooner.serve.run import Address, listening, server_of
from sooner.serve.service import Service, ServiceSettings
from sooner.stream import LiveSeries, LiveSettings


@contextmanager
def serving(clf, *, live=None, limits=None, token=None, **settings):
    """The service: its address, a client, and what it says; it stops at the end of the block."""
    limits = limits or Limits()
    listener = listening(Address(port=0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = SimpleNamespace(url=url, said=[], service=None, server=None, failed=None)
    began = threading.Event()

    async def serve():
        now = time.time()
        series = LiveSeries(clf, live or LiveSettings(), now=now)
        options = ServiceSettings(limits, **settings)
        running.service = Service(clf, series, Bodies(clf, None, "end", limits, now), options)
        running.server = server_of(running.service, Address(), Access(token), tell)
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
