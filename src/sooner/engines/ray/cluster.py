"""The connection to a Ray cluster (the extra `sooner[ray]`).

Ray does the scheduling, the retries and the data transfer. All code that uses Ray connects through this module, so that Ray is
imported late, logs little, and fails with one sentence.
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

_RAY_ENV = {
    "RAY_worker_niceness": "0",  # the priority of this process; Ray's default is lower
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the future default; without it Ray warns of the change
}
_REACH_SECONDS = 10.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"  # the first bytes of an HTTP/2 client: preface, empty settings
_VERSIONS = re.compile(r"The cluster was started with: Ray: (\S+) Python: (\S+)")  # Ray's error message
_PORT_WAIT = "RAY_gcs_server_port_wait_time_s"
_ANSWER_SECONDS = 60.0  # a node may have to start Python first
POLL_SECONDS = 0.5
"""Between two polls of the workers."""
RETRIES = 5
"""Number of retries of a failed worker."""
_LEAST_STORE = 80_000_000  # Ray refuses less than 75 MiB


@contextmanager
def connected(
    address: str | None = None, *, cpus: int | None = None, object_store_bytes: int | None = None
) -> Iterator[Any]:
    """Connect to Ray; yields the module `ray`.

    Without an address, a temporary local cluster is started and stopped at the end. With an address, this process connects to a
    running cluster and disconnects at the end. If this process is already connected, that connection is used and kept, and the
    arguments are ignored.

    Args:
        address: "host:port" of the cluster that this machine belongs to, or "auto" if it belongs to only one.
        cpus: number of cores of a local cluster; by default all.
        object_store_bytes: shared memory of a local cluster; by default 30% of the free memory.
    """
    for name, value in (("cpus", cpus), ("object_store_bytes", object_store_bytes)):
        if address is not None and value is not None:
            raise InvalidArgument(name, "None with an address", value, "A running cluster has its own.")
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(
                    "local",  # otherwise Ray would connect to a cluster that is already running on this machine
                    num_cpus=cpus,
                    object_store_memory=object_store_bytes,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        else:
            _join(ray, address)
            _refuse_other_versions(ray, address)
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    for name, value in _RAY_ENV.items():
        os.environ.setdefault(name, value)
    with optional("engine", "one that is installed"):
        import ray
    logging.getLogger("ray").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"ray(\.|$)")  # about its own internals
    return ray


def _join(ray: Any, address: str) -> None:
    if address != "auto":
        _require_ray_at(address)
    try:
        with warnings.catch_warnings(), _short_wait():
            warnings.simplefilter("ignore")
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        message = " ".join(f"{error}. {error.__cause__}".split())
        versions = _VERSIONS.search(message)
        if versions:
            here = f"{ray.__version__} on Python {platform.python_version()}"
            raise OtherVersion("Ray", here, " on Python ".join(versions.groups())) from None
        reason = "no cluster runs on this machine" if address == "auto" else message.partition(". ")[0]
        if "auth" in message.lower():
            reason = "it asks for a token: set RAY_AUTH_MODE=token"
        raise UnreachableCluster(address, reason) from None


@contextmanager
def _short_wait() -> Iterator[None]:
    """Shorten Ray's timeout: a server that does not answer as Ray at once will not do so within a minute."""
    before = os.environ.get(_PORT_WAIT)
    os.environ[_PORT_WAIT] = before or "2"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PORT_WAIT]


def _require_ray_at(address: str) -> None:
    """Refuse an address without a Ray server, which Ray itself would retry for minutes."""
    if address.startswith("ray://"):
        remedy = "Ray's data and training do not work from outside: run it on a machine of the cluster, by `ray exec` or a job."
        raise InvalidArgument("address", "host:port or auto", repr(address), remedy)
    try:
        parsed = urlsplit(f"//{address}")
        host, port = parsed.hostname, parsed.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        remedy = '"auto" is the cluster that runs on this machine.'
        raise InvalidArgument("address", "host:port or auto", repr(address), remedy)
    try:
        with socket.create_connection((host, port), _REACH_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_PREFACE)
                if connection.recv(4)[3:] != b"\4":  # Ray is an HTTP/2 server, which sends its settings first
                    raise UnreachableCluster(address, "another server than Ray listens there")
    except TimeoutError:
        raise UnreachableCluster(address, f"no answer within {_REACH_SECONDS:g} s") from None
    except OSError as error:
        if isinstance(error, UnreachableCluster):
            raise
        raise UnreachableCluster(address, error.strerror or str(error)) from None


def _refuse_other_versions(ray: Any, address: str) -> None:
    """Refuse a cluster with another version of sooner on one of its machines, because functions are sent by name."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = version("sooner")
    # `version` is a function of the standard library, so it also runs where the package is missing.
    ask = ray.remote(version)
    answers = []
    for node in ray.nodes():
        if node["Alive"]:
            on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
            answers.append(ask.options(num_cpus=0, scheduling_strategy=on_node).remote("sooner"))
    for answer in answers:
        try:
            there = ray.get(answer, timeout=_ANSWER_SECONDS)
        except ray.exceptions.GetTimeoutError:
            raise UnreachableCluster(address, f"a machine of it did not answer in {_ANSWER_SECONDS:g} s") from None
        except PackageNotFoundError:
            raise OtherVersion("sooner", here, "none") from None
        if there != here:
            raise OtherVersion("sooner", here, there)
