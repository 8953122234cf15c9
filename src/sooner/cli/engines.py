"""What verbs that can work on a cluster ask for in the same words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeAlias

import typer

from sooner.errors import InvalidArgument
from sooner.settings import Settings, changed

_CLUSTER = "On a cluster"

Engine: TypeAlias = Annotated[
    Literal["local", "ray"] | None,
    typer.Option(
        "--engine", help="`ray` shares the work on a cluster: the extra `sooner[ray]`.", rich_help_panel=_CLUSTER
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
    typer.Option("--workers", min=1, help="Processes that share the work, each with a core.", rich_help_panel=_CLUSTER),
]


@contextmanager
def cluster(engine: str, workers: int | None, address: str | None) -> Iterator[None]:
    """The cluster at an address, as long as it is needed; without an address, whoever needs one starts it."""
    refuse_alone(engine, workers, address)
    if address is None:
        yield
        return
    from sooner.cluster import connected

    with connected(address):
        yield


def refuse_alone(engine: str, workers: int | None, address: str | None) -> None:
    """Workers and an address belong to a cluster."""
    for name, value in (("workers", workers), ("address", address)):
        if engine == "local" and value is not None:
            raise InvalidArgument(f"--{name}", "given together with --engine ray", "alone", "Say both.")


def on_engine(settings: Settings, engine: str | None, workers: int | None) -> Settings:
    """The settings with what a person said instead."""
    training = settings.training
    said = training.engine if engine is None else engine
    many = workers or (training.workers if said == training.engine else 1)
    return changed(settings, {"training.engine": said, "training.workers": many})
