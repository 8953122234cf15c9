"""Who is let in: everybody on loopback but foreign pages, and elsewhere only the holder of the token."""

import socket

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from serving import line, post, serving
from sooner.errors import InvalidArgument
from sooner.serve.access import Access, is_loopback, read_token
from sooner.serve.answers import Refusal

TOKEN = "a-token-of-some-length"
PATHS = [
    "/v1/decisions",
    "/v1/series",
    "/v1/series/a",
    "/v1/threshold",
    "/v1/stats",
    "/v1/watch",
    "/v1/model",
    "/metrics",
    "/docs",
]


@pytest.fixture(scope="module")
def guarded(clf):
    with serving(clf, token=TOKEN) as running:
        yield running


def test_other_addresses_than_loopback_demand_a_token():
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.com"):
        with pytest.raises(InvalidArgument, match=r"`token_file` must be given to listen on"):
            Access(None, host)
        Access(TOKEN, host)
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert is_loopback(host)
        Access(None, host)


def test_a_token_is_long_enough_and_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    with pytest.raises(InvalidArgument, match="at least 16 ASCII characters"):
        Access("short")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="`token_file` must be a text file with a token"):
        read_token(file)
    monkeypatch.setenv("SOONER_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    monkeypatch.delenv("SOONER_TOKEN")
    assert read_token(None) is None


def test_without_the_token_only_health_and_the_empty_page_answer(guarded):
    with httpx.Client(base_url=guarded.url) as stranger:
        for path in PATHS:
            answer = stranger.get(path)
            assert answer.status_code == 401, path
            assert "Authorization: Bearer" in answer.json()["detail"]
        assert stranger.post("/v1/observations", content=line("a", [1, 2])).status_code == 401
        assert stranger.put("/v1/threshold", json={"threshold": 1}).status_code == 401
        for path in ("/", "/livez", "/readyz"):
            assert stranger.get(path).status_code == 200
    for path in PATHS[3:]:
        assert guarded.client.get(path).status_code == 200, path
    assert post(guarded.client, line("a", [1, 2]))["accepted"] == 1


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer x {TOKEN}",
        TOKEN,
        "Bearer ünïcödé",
    ],
)
def test_other_credentials_are_refused(guarded, value):
    answer = httpx.get(f"{guarded.url}/v1/stats", headers={"authorization": value.encode()})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "target",
    ["//v1/stats", "/v1//stats", "/./v1/stats", "/livez/../v1/stats", "/livez/..%2fv1/stats", "/V1/STATS",
     "/v1/stats/", "/v1/stats%00",
     "/livez;/v1/stats", "/livez?/v1/stats", "http://127.0.0.1/v1/stats", "/%76%31/stats", "/readyz%2f..%2fv1%2fstats"],
)  # fmt: skip
def test_tricks_with_paths_show_nothing(guarded, target):
    answer = raw(guarded, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    status = answer.split()[1]
    assert status in (b"401", b"400") or b'"status":"ok"' in answer, answer[:80]
    assert b"uptime" not in answer


def test_tricks_with_headers_show_nothing(guarded):
    for extra in (
        f"Authorization: Bearer wrong\r\nAuthorization: Bearer {TOKEN}",
        "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1",
        "X-Original-URL: /v1/stats\r\nX-Rewrite-URL: /v1/stats",
        "X-HTTP-Method-Override: GET",
    ):
        answer = raw(guarded, f"GET /v1/stats HTTP/1.1\r\nHost: x\r\n{extra}\r\nConnection: close\r\n\r\n")
        assert answer.split()[1] == b"401", extra


def raw(running, text):
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(text.encode("latin-1"))
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def test_a_foreign_host_or_origin_is_refused_on_loopback(service):
    port = service.url.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.nip.io", "", "[::2]:80"):
        answer = service.client.get("/v1/stats", headers={"host": host})
        assert answer.status_code in (400, 403), host
    for origin in ("http://evil.example", "null", f"http://localhost:{int(port) + 1}", "http://127.0.0.1", "file://"):
        answer = service.client.post("/v1/observations", content=line("o", [1, 2]), headers={"origin": origin})
        assert answer.status_code == 403, origin
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST:1"):
        assert service.client.get("/v1/stats", headers={"host": host}).status_code == 200, host
    assert service.client.get("/v1/stats", headers={"origin": service.url}).status_code == 200


def test_a_request_with_two_hosts_or_none_is_refused():
    access = Access()
    for hosts in ([], [b"localhost", b"evil.example"]):
        with pytest.raises(Refusal, match="The Host header must name this machine"):
            access.check("/", [(b"host", host) for host in hosts])


def test_websockets_are_guarded_too(service, guarded):
    with pytest.raises(InvalidStatus):
        connect(guarded.url.replace("http", "ws") + "/v1/observations")
    with pytest.raises(InvalidStatus):
        connect(service.url.replace("http", "ws") + "/v1/observations", origin="http://evil.example")
    headers = {"authorization": f"Bearer {TOKEN}"}
    with connect(guarded.url.replace("http", "ws") + "/v1/observations", additional_headers=headers) as socket:
        socket.send(line("ws", [1, 2]))
        assert '"accepted":1' in socket.recv()


def test_answers_to_browsers_are_not_guessed_or_framed(service):
    page = service.client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "unsafe-inline" not in page.headers["content-security-policy"].split("style-src")[0]
