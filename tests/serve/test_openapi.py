"""What schemathesis makes of the OpenAPI document, and bodies and frames of any bytes: no answer is a 5xx."""

import json
import random

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from websockets.sync.client import connect

from serving import line, post


@pytest.fixture(scope="module")
def document(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    del ctx
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


OPERATIONS = 17


def test_no_request_that_the_document_allows_fails(document):
    tried = 0
    for found in document.get_all_operations():
        operation = found.ok()
        tried += 1

        @given(case=operation.as_strategy())
        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
        def never_fails(case):
            if case.path == "/v1/decisions":
                case.headers = {}  # an event stream would not end
            case.call_and_validate(checks=(not_a_server_error,), timeout=10)

        never_fails()
    assert tried == OPERATIONS


def mutated(random_, good):
    """A line that is broken in one of many ways, or good."""
    text = bytearray(good.encode())
    for _ in range(random_.randrange(4)):
        way = random_.randrange(5)
        at = random_.randrange(len(text) + 1)
        if way == 0:
            text[at:at] = bytes(random_.randrange(256) for _ in range(random_.randrange(1, 4)))
        elif way == 1:
            del text[at : at + random_.randrange(1, 10)]
        elif way == 2:
            text[at:at] = random_.choice(
                [b'"', b"{", b"[", b"null", b"1e999", b"NaN", b"\\ud800", b"true", b"\x00", b"-", b'"end": true,']
            )
        elif way == 3:
            text[at:at] = text[: random_.randrange(20)]
        else:
            text[at:at] = b"[" * random_.randrange(2000)
    return bytes(text).replace(b"\n", b" ")


@pytest.mark.parametrize("seed", range(3))
def test_fuzzed_bodies_and_frames_cost_no_neighbour(service, seed):
    check_fuzzed(service, random.Random(seed), rounds=25)


@pytest.mark.slow
def test_many_fuzzed_bodies_and_frames_cost_no_neighbour(service):
    check_fuzzed(service, random.Random(99), rounds=5000)


def check_fuzzed(service, random_, rounds):
    """Each body has a good line of a series of its own, which must be taken; each frame too."""
    with connect(service.url.replace("http", "ws") + "/v1/observations", max_size=None) as socket:
        for index in range(rounds):
            name = f"neighbour-{random_.random()}"
            lines = [mutated(random_, line(f"f{random_.randrange(50)}", [random_.random(), 1])) for _ in range(20)]
            lines.insert(random_.randrange(20), line(name, [1, 2]).encode())
            body = b"\n".join(lines)
            if index % 2:
                answer = post(service.client, body)
            else:
                socket.send(body)
                answer = json.loads(socket.recv())
            assert answer["accepted"] >= 1, body
            assert answer["accepted"] + answer["late"] + len(answer["rejected"]) <= 21
            assert all("Traceback" not in each["reason"] for each in answer["rejected"])
            shown = service.client.get(f"/v1/series/{name}").json()
            assert shown["time"] == 1, body
    for _ in range(rounds):
        raw = bytes(random_.randrange(256) for _ in range(random_.randrange(300)))
        assert service.client.post("/v1/observations", content=raw).status_code < 500
        for path in ("/v1/labels", "/v1/threshold"):
            method = "POST" if path == "/v1/labels" else "PUT"
            assert service.client.request(method, path, content=raw).status_code < 500
    assert not any("Traceback" in said for said in service.said)
