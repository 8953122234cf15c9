"""Names the class of a series as early as the evidence allows.

Public names are loaded when they are first used: `import sooner` alone takes no time, whatever it leads to.
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
    from sooner import settings as settings
    from sooner import statistics as statistics
    from sooner import stream as stream
    from sooner import types as types
    from sooner.estimator import EarlyClassifier as EarlyClassifier
    from sooner.estimator import load as load

_ROOMS = (
    *(
        "checks",
        "data",
        "errors",
        "evaluate",
        "losses",
        "models",
        "report",
        "rules",
        "scores",
        "settings",
        "statistics",
    ),
    *("stream", "types"),
)
_NAMES = {"EarlyClassifier": "sooner.estimator", "load": "sooner.estimator"}
__all__ = [*_ROOMS, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"sooner.{name}")
    if name in _NAMES:
        found = globals()[name] = getattr(import_module(_NAMES[name]), name)
        return found
    raise AttributeError(f"module 'sooner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
