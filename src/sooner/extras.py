"""Optional dependencies (extras): imported where they are used, with a clear error if they are missing."""

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sooner.errors import InvalidArgument

EXTRAS = {
    "archives": ("aeon",),
    "kafka": ("confluent_kafka", "orjson"),
    "lab": ("statsmodels", "matplotlib", "optuna", "plotly", "sqlalchemy"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ray": ("ray",),
    "report": ("plotly", "matplotlib"),
    "serve": ("aiomqtt", "fastapi", "httptools", "orjson", "prometheus_client", "uvicorn", "uvloop", "websockets"),
    "spark": ("pandas", "pyspark"),
    "tune": ("optuna", "sqlalchemy"),
    "video": ("av",),
}
"""The packages of each extra that sooner imports; errors name the last extra that has the package."""


@contextmanager
def optional(argument: str, expected: str) -> Iterator[None]:
    """Import packages of extras within this block; a missing package raises an error that names the extra.

    Args:
        argument: the argument in the error.
        expected: the expected value in the error, with the package.

    >>> with optional("videos", "decoded by PyAV"):
    ...     raise ModuleNotFoundError(name="av")
    Traceback (most recent call last):
    sooner.errors.InvalidArgument: `videos` must be decoded by PyAV, got no package `av`. Install it: pip install "sooner[video]".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA_OF:  # something that the package itself lacks
            raise
        raise _missing(argument, expected, package, _EXTRA_OF[package]) from None


def engine_module(engine: str, job: str) -> Any:
    """The module for a job on an engine, for example "training" on "ray".

    Engines are a higher layer than the code that uses them, so they are imported by name.
    """
    return importlib.import_module(f"sooner.engines.{engine}.{job}")


def refuse_missing(extra: str, argument: str, expected: str) -> None:
    """Raise the same error for an extra without importing its packages, which may take a second."""
    for package in EXTRAS[extra]:
        if importlib.util.find_spec(package) is None:
            raise _missing(argument, expected, package, extra)


def is_installed(extra: str) -> bool:
    """Whether all packages of an extra are installed."""
    return all(importlib.util.find_spec(package) is not None for package in EXTRAS[extra])


def _missing(argument: str, expected: str, package: str, extra: str) -> InvalidArgument:
    return InvalidArgument(argument, expected, f"no package `{package}`", f'Install it: pip install "sooner[{extra}]".')


_EXTRA_OF = {package: extra for extra, packages in EXTRAS.items() for package in packages}
