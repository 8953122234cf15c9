"""The short way of `POST /v1/observations`: whatever way a request takes, it is answered once, in order."""

import socket

import pytest

from serving import line, serving


@pytest.fixture
def connection(service):
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        yield connection


def request(body, *headers, target="/v1/observations"):
    head = [f"POST {target} HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body.encode()


def answer(connection):
    """The next answer: its status line and headers, and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1)
    length = int(data.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return data.decode(), body.decode()


def test_requests_on_one_connection_are_answered_in_order(connection):
    good, health = request(line("ordered", [1, 2])), b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection.sendall(good + health + good + request("{"))
    bodies = [answer(connection)[1] for _ in range(4)]
    assert ["accepted" in body for body in bodies] == [True, False, True, True]
    assert '"rejected":[{"line":1' in bodies[3]
    connection.sendall(good)
    assert '"accepted":1' in answer(connection)[1]


@pytest.mark.parametrize("cut", [1, 20, 60, -20, -1])
def test_a_request_that_comes_in_two_pieces_is_answered(connection, cut):
    whole = request(line(f"cut{cut}", [1, 2]))
    connection.sendall(whole[:cut])
    connection.settimeout(0.1)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(5)
    connection.sendall(whole[cut:])
    assert '"accepted":1' in answer(connection)[1]


def test_a_connection_is_closed_after_its_answer_where_that_is_asked_for(connection):
    connection.sendall(request(line("closing", [1, 2]), "Connection: close"))
    head, body = answer(connection)
    assert "connection: close" in head.lower()
    assert '"accepted":1' in body
    assert connection.recv(1) == b""


def test_what_is_unusual_takes_the_long_way(connection):
    body = line("unusual", [1, 2])
    for sent, status in [
        (request(body, "Content-Encoding: gzip"), "415"),
        (request(body, "Origin: http://evil.example"), "403"),
        (request(body, target="/v1/observations?x=1"), "200"),
        (request(body, target="/v1/observation%73"), "200"),
        (request(body, target="/v1/series"), "405"),
        (request("\n" * 100_001), "413"),
    ]:
        connection.sendall(sent)
        assert answer(connection)[0].split()[1] == status, sent[:100]


def test_a_client_that_goes_away_costs_nothing(clf):
    with serving(clf) as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(request(line("gone", [1, 2])))
        with running.client.stream("GET", "/v1/series/none"):
            pass
        while not running.client.get("/v1/stats").json()["observations"]:
            pass
        assert running.client.get("/v1/series/gone").json()["time"] == 1
    assert not any("Traceback" in said for said in running.said)


def test_requests_that_wait_are_answered_before_a_stop(clf):
    with serving(clf, window=0.3) as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(request(line("last", [1, 2])))
            while not running.service.gatherer.waiting:
                pass
            running.server.should_exit = True
            head, body = answer(connection)
            assert '"accepted":1' in body, head
