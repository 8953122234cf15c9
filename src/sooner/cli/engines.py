"""Options of the commands that can run on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeAlias

import typer

from sooner.errors import InvalidArgument
from sooner.train.settings import Settings, changed

_CLUSTER = "On a cluster"

Engine: TypeAlias = Annotated[
    Literal["local", "ray"] | None,
    typer.Option(
        "--engine",
        help="`ray` runs on a Ray cluster (extra `sooner[ray]`). Default: `local`.",
        rich_help_panel=_CLUSTER,
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Ray address (host:port or auto). Default: a temporary local cluster.",
        rich_help_panel=_CLUSTER,
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Number of worker processes, with one core each.", rich_help_panel=_CLUSTER),
]


@contextmanager
def cluster(engine: str, workers: int | None, address: str | None) -> Iterator[None]:
    """Connect to the cluster at an address; without an address, a local cluster is started where it is needed."""
    refuse_alone(engine, workers, address)
    if address is None:
        yield
        return
    from sooner.engines.ray.cluster import connected

    with connected(address):
        yield


def refuse_alone(engine: str, workers: int | None, address: str | None) -> None:
    """Refuse `--workers` and `--address` without a cluster."""
    for name, value in (("workers", workers), ("address", address)):
        if engine == "local" and value is not None:
            raise InvalidArgument(f"--{name}", "given together with --engine ray", "alone", "Give both options.")


def on_engine(settings: Settings, engine: str | None, workers: int | None) -> Settings:
    """The settings with the engine and workers of the command line."""
    training = settings.training
    said = training.engine if engine is None else engine
    many = workers or (training.workers if said == training.engine else 1)
    return changed(settings, {"training.engine": said, "training.workers": many})
