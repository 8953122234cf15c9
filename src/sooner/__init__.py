"""Early classification of time series, with a speed-accuracy trade-off that is set after training.

Public names are loaded when they are first used, so `import sooner` alone is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sooner import checks as checks
    from sooner import data as data
    from sooner import errors as errors
    from sooner import evaluate as evaluate
    from sooner import losses as losses
    from sooner import models as models
    from sooner import report as report
    from sooner import rules as rules
    from sooner import scores as scores
    from sooner import stream as stream
    from sooner import types as types
    from sooner.estimator import EarlyClassifier as EarlyClassifier
    from sooner.estimator import load as load
    from sooner.lab import statistics as statistics
    from sooner.series import Series as Series
    from sooner.train import settings as settings

_ROOMS = {
    name: f"sooner.{name}"
    for name in (
        "checks",
        "data",
        "errors",
        "evaluate",
        "losses",
        "models",
        "report",
        "rules",
        "scores",
        "stream",
        "types",
    )
} | {"settings": "sooner.train.settings", "statistics": "sooner.lab.statistics"}
_NAMES = {"EarlyClassifier": "sooner.estimator", "Series": "sooner.series", "load": "sooner.estimator"}
__all__ = [*_ROOMS, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    if name in _NAMES:
        found = globals()[name] = getattr(import_module(_NAMES[name]), name)
        return found
    raise AttributeError(f"module 'sooner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
