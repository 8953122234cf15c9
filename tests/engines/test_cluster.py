"""The door to Ray: a cluster while it is needed, in silence, or one sentence. Without the extra these tests are left out."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from sooner.cli import main
from sooner.engines.ray import cluster
from sooner.engines.ray.cluster import connected
from sooner.errors import InvalidArgument, UnreachableCluster

ray = pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = pytest.mark.ray

STORE = 100_000_000
HEAD = """
import sys, ray
about = ray.init("local", num_cpus=1, object_store_memory=100_000_000, include_dashboard=False, logging_level="ERROR")
print(about.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
JOIN = """
import sys
from sooner.engines.ray.cluster import connected
from sooner.errors import SoonerError
import ray
ray.__version__ = sys.argv[2] or ray.__version__
try:
    with connected(sys.argv[1]):
        print("joined")
except SoonerError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.cluster
def test_a_local_cluster_is_started_and_stopped_in_silence_even_by_an_error(capfd):
    def broken_off():
        with connected(cpus=1, object_store_bytes=STORE) as found:
            assert found is ray
            assert ray.cluster_resources()["CPU"] == 1
            assert ray.cluster_resources()["object_store_memory"] == STORE
            assert ray.get(ray.remote(os.path.join).remote("a", "b")) == os.path.join("a", "b")
            with connected("nowhere:1"):  # the one that is there is used, and kept
                pass
            assert ray.is_initialized()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken_off()
    assert not ray.is_initialized()
    said = capfd.readouterr()
    assert said.out + said.err == ""


SENTENCES = {
    "no port": (
        {"address": "head"},
        "`address` must be host:port or auto, got 'head'. \"auto\" is the cluster that runs on this machine.",
    ),
    "no number": ({"address": "head:x"}, "`address` must be host:port or auto, got 'head:x'."),
    "from outside": (
        {"address": "ray://head:10001"},
        "`address` must be host:port or auto, got 'ray://head:10001'. Ray's data and training do not work from outside: run it "
        "on a machine of the cluster, by `ray exec` or a job.",
    ),
    "cores of others": (
        {"address": "auto", "cpus": 2},
        "`cpus` must be None with an address, got 2. A running cluster has",
    ),
    "store of others": ({"address": "auto", "object_store_bytes": STORE}, "`object_store_bytes` must be None with an"),
    "no cores": ({"cpus": 0}, "`cpus` must be at least 1, got 0.0. It counts cores."),
    "a tiny store": (
        {"object_store_bytes": 1000},
        "`object_store_bytes` must be at least 8e+07, got 1000.0. Ray needs that",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_gets_this_sentence(case):
    given, sentence = SENTENCES[case]
    with pytest.raises(InvalidArgument) as caught, connected(**given):
        pass
    assert str(caught.value).startswith(sentence)


def answering(what):
    """The port of a server that says this to whoever comes; None says nothing."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with server:
            door, _ = server.accept()
            with door:
                if what is not None:
                    door.sendall(what)
                door.recv(1000)
                time.sleep(1)

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def test_an_unreachable_address_fails_soon(monkeypatch):
    monkeypatch.setattr(cluster, "_REACH_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    for port, reason in (
        (closed, "Connection refused"),
        (answering(b"220 mail ready\r\n"), "another server than Ray listens there"),
        (answering(None), "no answer within 0.5 s"),
    ):
        start, address = time.perf_counter(), f"127.0.0.1:{port}"
        with pytest.raises(UnreachableCluster) as caught, connected(address):
            pass
        assert time.perf_counter() - start < 20
        assert str(caught.value) == (
            f"No cluster answers at {address!r} ({reason}). Check the address and the firewall, and whether `ray status` "
            "there shows one."
        )
    assert not ray.is_initialized()


def test_the_command_line_says_the_sentence(tmp_path, monkeypatch, capsys):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sooner import EarlyClassifier
    from waves import waves

    EarlyClassifier().fit(*waves(60)).save(tmp_path / "m.sooner")
    table = {"series": [1, 1], "time": [1, 2], "a": np.zeros(2), "b": np.zeros(2)}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    given = [tmp_path / "m.sooner", tmp_path / "in.parquet", tmp_path / "out.parquet", "--address", "127.0.0.1:1"]
    monkeypatch.setattr("sys.argv", ["sooner", "score", *map(str, given), "--engine", "ray", "--quiet"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("error: No cluster answers at '127.0.0.1:1' (Connection refused).")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.parquet", "m.sooner"]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The address of a cluster whose machines have another version of the package."""
    folder = tmp_path_factory.mktemp("elsewhere")
    about = folder / "sooner-0.0.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sooner\nVersion: 0.0.7\n")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "RAY_worker_niceness": "0"}
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    yield head.stdout.readline().strip()
    head.communicate(timeout=60)


def joining(address, *, version="", auth="token"):
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    environment |= {"RAY_AUTH_MODE": auth} if auth else {}
    command = [sys.executable, "-c", JOIN, address, version]
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert "Traceback" not in said.stderr
    return said.stdout.strip()


@pytest.mark.cluster
def test_a_cluster_with_another_version_of_the_package_says_both(elsewhere):
    assert joining(elsewhere) == (
        f"OtherVersion The cluster has sooner 0.0.7, and this machine has sooner {cluster.version('sooner')}. "
        "Install the same version on all of them."
    )


@pytest.mark.cluster
def test_a_cluster_with_another_version_of_ray_says_both(elsewhere):
    said = joining(elsewhere, version="1.2.3")
    assert said.startswith(f"OtherVersion The cluster has Ray {ray.__version__} on Python ")
    assert "and this machine has Ray 1.2.3 on Python " in said


@pytest.mark.cluster
def test_a_guarded_cluster_asks_for_its_token(elsewhere):
    assert "(it asks for a token: set RAY_AUTH_MODE=token)" in joining(elsewhere, auth="")
