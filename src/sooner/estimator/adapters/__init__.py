"""`sooner` inside other people's tools: as an early classifier of aeon, and as a trigger of ml_edm.

aeon is the extra `sooner[archives]` and takes a second to import, so it is imported with the one name that needs it.
"""

from typing import TYPE_CHECKING, Any

from sooner.errors import InvalidArgument
from sooner.estimator.adapters.ml_edm import Trigger as Trigger

if TYPE_CHECKING:
    from sooner.estimator.adapters.aeon import AeonEarlyClassifier as AeonEarlyClassifier


def __getattr__(name: str) -> Any:
    if name != "AeonEarlyClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from sooner.estimator.adapters.aeon import AeonEarlyClassifier
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "aeon":
            raise
        remedy = 'Install it: pip install "sooner[archives]".'
        raise InvalidArgument(name, "imported beside aeon", "no package `aeon`", remedy) from None
    return AeonEarlyClassifier
