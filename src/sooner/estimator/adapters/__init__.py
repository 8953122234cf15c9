"""`sooner` inside other tools: as an early classifier of aeon, and as a trigger of ml_edm; and triggers of ml_edm as rules.

aeon, of the extra `sooner[archives]`, is imported only with `AeonEarlyClassifier`, because it takes a second.
"""

from typing import TYPE_CHECKING, Any

from sooner.estimator.adapters.ml_edm import Trigger as Trigger
from sooner.estimator.adapters.ml_edm_rule import TriggerFitter as TriggerFitter
from sooner.extras import optional

if TYPE_CHECKING:
    from sooner.estimator.adapters.aeon import AeonEarlyClassifier as AeonEarlyClassifier


def __getattr__(name: str) -> Any:
    if name != "AeonEarlyClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional(name, "imported beside aeon"):
        from sooner.estimator.adapters.aeon import AeonEarlyClassifier
    return AeonEarlyClassifier
