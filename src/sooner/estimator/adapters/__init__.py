"""`sooner` inside other people's tools: as an early classifier of aeon, and as a trigger of ml_edm.

aeon is the extra `sooner[archives]` and takes a second to import, so it is imported with the one name that needs it.
"""

from typing import TYPE_CHECKING, Any

from sooner.estimator.adapters.ml_edm import Trigger as Trigger
from sooner.extras import optional

if TYPE_CHECKING:
    from sooner.estimator.adapters.aeon import AeonEarlyClassifier as AeonEarlyClassifier


def __getattr__(name: str) -> Any:
    if name != "AeonEarlyClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional(name, "imported beside aeon"):
        from sooner.estimator.adapters.aeon import AeonEarlyClassifier
    return AeonEarlyClassifier
