"""The door to Ray, the extra `sooner[ray]`: a cluster for as long as it is needed.

Ray does the scheduling, the retrying and the moving of data. Whoever wants it asks here, so that it is imported late, speaks
little, and fails with one sentence.
"""

import logging
import os
import platform
import re
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit

from sooner.errors import InvalidArgument, OtherVersion, UnreachableCluster
from sooner.extras import optional
from sooner.inputs import as_whole

_HABITS = {
    "RAY_worker_niceness": "0",  # workers are as urgent as this process would be; Ray's own would wait for all others
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what becomes the default; without it Ray warns of the change
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
_REACH_SECONDS = 10.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"  # and empty settings: how a client of HTTP/2 begins
_VERSIONS = re.compile(r"The cluster was started with: Ray: (\S+) Python: (\S+)")  # Ray's own words
_TRIES = "RAY_gcs_server_port_wait_time_s"
_ANSWER_SECONDS = 60.0  # a node may have to start Python first
RETRIES = 5
"""How often a worker that died is started again."""
_LEAST_STORE = 80_000_000  # Ray refuses less than 75 MiB


@contextmanager
def connected(
    address: str | None = None, *, cpus: int | None = None, object_store_bytes: int | None = None
) -> Iterator[Any]:
    """Ray, connected: the module `ray`, to be used inside.

    Without an address a cluster of this machine alone is started, and stopped at the end. With one, this process joins a
    running cluster, and leaves it at the end. Where this process is connected already, that connection is used and kept, and
    the arguments are not read.

    Args:
        address: "host:port" of the cluster that this machine belongs to, or "auto" where it belongs to one alone.
        cpus: how many cores a cluster of this machine uses; by default all of them.
        object_store_bytes: the shared memory of such a cluster; by default Ray takes 30 % of what is free.
    """
    if address is not None:
        _refuse_shape("cpus", cpus)
        _refuse_shape("object_store_bytes", object_store_bytes)
    if cpus is not None:
        cpus = as_whole(cpus, name="cpus", low=1, remedy="It counts cores.")
    if object_store_bytes is not None:
        remedy = "Ray needs that much shared memory."
        object_store_bytes = as_whole(object_store_bytes, name="object_store_bytes", low=_LEAST_STORE, remedy=remedy)
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    try:
        if address is None:
            _start(ray, cpus, object_store_bytes)
        else:
            _join(ray, address)
            _refuse_other_versions(ray, address)
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    for name, value in _HABITS.items():
        os.environ.setdefault(name, value)
    with optional("engine", "one that is installed"):
        import ray
    logging.getLogger("ray").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"ray(\.|$)")  # of its own parts to each other
    return ray


def _start(ray: Any, cpus: int | None, object_store_bytes: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            "local",  # without a word, Ray would join a cluster that happens to run here
            num_cpus=cpus,
            object_store_memory=object_store_bytes,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )


def _join(ray: Any, address: str) -> None:
    if address != "auto":
        _refuse_silence(address)
    try:
        with warnings.catch_warnings(), _few_tries():
            warnings.simplefilter("ignore")
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(f"{error}. {error.__cause__}".split())
        found = _VERSIONS.search(said)
        if found:
            here = f"{ray.__version__} on Python {platform.python_version()}"
            raise OtherVersion("Ray", here, " on Python ".join(found.groups())) from None
        reason = "no cluster runs on this machine" if address == "auto" else said.partition(". ")[0]
        if "auth" in said.lower():
            reason = "it asks for a token: set RAY_AUTH_MODE=token"
        raise UnreachableCluster(address, reason) from None


@contextmanager
def _few_tries() -> Iterator[None]:
    """Somebody listens there: whoever does not answer as Ray at once will not do so in a minute."""
    before = os.environ.get(_TRIES)
    os.environ[_TRIES] = before or "2"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TRIES]


def _refuse_silence(address: str) -> None:
    """Ray itself would try for minutes where nobody listens, or where it is somebody else."""
    if address.startswith("ray://"):
        remedy = "Ray's data and training do not work from outside: run it on a machine of the cluster, by `ray exec` or a job."
        raise InvalidArgument("address", "host:port or auto", repr(address), remedy)
    try:
        place = urlsplit(f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        remedy = '"auto" is the cluster that runs on this machine.'
        raise InvalidArgument("address", "host:port or auto", repr(address), remedy)
    try:
        with socket.create_connection((host, port), _REACH_SECONDS) as door:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                door.sendall(_PREFACE)
                if door.recv(4)[3:] != b"\4":  # a server of HTTP/2, which Ray is, begins with its settings
                    raise UnreachableCluster(address, "something else than Ray listens there")
    except TimeoutError:
        raise UnreachableCluster(address, f"silence for {_REACH_SECONDS:g} s") from None
    except OSError as error:
        if isinstance(error, UnreachableCluster):
            raise
        raise UnreachableCluster(address, error.strerror or str(error)) from None


def _refuse_other_versions(ray: Any, address: str) -> None:
    """Every machine of the cluster must have this version of the package: code is sent by its name alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = version("sooner")
    # The task is a function of Python's own library, so that it runs where the package is not.
    ask = ray.remote(version)
    asked = []
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
            asked.append(ask.options(num_cpus=0, scheduling_strategy=there).remote("sooner"))
    for answer in asked:
        try:
            there = ray.get(answer, timeout=_ANSWER_SECONDS)
        except ray.exceptions.GetTimeoutError:
            raise UnreachableCluster(address, f"a machine of it did not answer in {_ANSWER_SECONDS:g} s") from None
        except PackageNotFoundError:
            raise OtherVersion("sooner", here, "none") from None
        if there != here:
            raise OtherVersion("sooner", here, there)


def _refuse_shape(name: str, value: int | None) -> None:
    if value is not None:
        raise InvalidArgument(name, "None with an address", value, "A running cluster has its own.")
