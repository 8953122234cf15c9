"""The clients, the simulator, and the files for operation."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from command import run
from serving import events_of, line, serving

HOME = Path(__file__).parents[2]
CLIENTS = HOME / "examples" / "live"
TOKEN = "a-token-of-some-length"
ENVIRONMENT = {**os.environ, "SOONER_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def guarded(clf):
    with serving(clf, token=TOKEN) as running:
        yield running


def test_the_client_in_python_sends_lines_and_prints_decisions(guarded):
    lines = "\n".join(line(f"py-{index}", [5, 5], end=True) for index in range(30)) + "\n"
    command = [sys.executable, str(CLIENTS / "client.py"), guarded.url]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    with client:
        client.stdin.write(lines)
        client.stdin.close()
        records = [json.loads(client.stdout.readline()) for _ in range(30)]
        client.kill()
    assert {record["series"] for record in records} >= {"py-0", "py-29"}


def test_the_client_in_python_asks_how_far_it_came_when_a_connection_breaks(guarded, monkeypatch):
    client = {"__name__": "client"}
    exec(compile((CLIENTS / "client.py").read_text(), "client.py", "exec"), client)
    monkeypatch.setitem(client, "TOKEN", TOKEN)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    sound, calls = client["open_url"], []

    def broken(url, body=None, **headers):
        """The first two posts arrive, but their answers do not."""
        answer = sound(url, body, **headers)
        if body is not None and len(calls) < 2:
            calls.append(url)
            raise ConnectionResetError
        return answer

    monkeypatch.setitem(client, "open_url", broken)
    guarded.client.put("/v1/threshold", json={"threshold": 1e6})
    client["send"](guarded.url, [line(f"twice-{index % 2}", [5, 5]) for index in range(6)], 3)
    assert [guarded.client.get(f"/v1/series/twice-{index}").json()["time"] for index in range(2)] == [3, 3]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_client_with_curl(guarded):
    command = ["bash", str(CLIENTS / "client.sh"), guarded.url]
    said = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    assert said.returncode == 0, said.stderr
    assert '"accepted":2' in said.stdout
    assert re.search(r"event: decision\nid: \d+\ndata: \{.*\"pump-7\"", said.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js")
def test_the_client_in_javascript(guarded):
    command = ["node", str(CLIENTS / "client.mjs"), guarded.url]
    said = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    assert said.returncode == 0, said.stderr
    assert "accepted: 2" in said.stdout
    assert "series: 'pump-9'" in said.stdout


@pytest.mark.slow
def test_make_live_shows_decisions_within_a_minute(tmp_path):
    command = [sys.executable, str(CLIENTS / "simulate.py"), "--folder", str(tmp_path), "--port", "0", "--rate", "5"]
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as live:
        url = next(found[1] for said in live.stdout if (found := re.search(r"Listening on (\S+) ", said)))
        with httpx.Client(base_url=url, timeout=30) as client:
            assert len(events_of(client, count=20)) == 20
            assert time.monotonic() - began < 60
            assert "promised" in client.get("/v1/threshold").json()["promise"]
        live.send_signal(signal.SIGINT)
        said = live.stdout.read()
    assert "Stopped after" in said


def test_the_dashboard_shows_metrics_that_exist(service):
    board = json.loads((HOME / "deploy" / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = set(re.findall(r"(?:sooner|process)_\w+", " ".join(expressions)))
    assert len(named) >= 9
    service.client.post("/v1/observations", content=line("board", [5, 5], end=True) + "\n{")
    known = set(re.findall(r"^((?:sooner|process)_\w+)", service.client.get("/metrics").text, flags=re.MULTILINE))
    assert named - known == set()


def test_the_options_in_the_unit_and_the_container_exist():
    said = run("serve", "--help")
    for name in ("sooner.service", "Containerfile"):
        text = (HOME / "deploy" / name).read_text()
        typed = re.findall(r"(?<![\w-])(--(?:host|port|journal|idle|token-file)[\w-]*)", text)
        assert len(typed) >= 3
        assert [option for option in typed if option not in said] == []
