"""Settings of the losses: the table `[loss]` of a settings file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sooner.errors import InvalidArgument, UnknownName
from sooner.fields import check_choice, check_number, checked_number
from sooner.losses import LOSSES


@dataclass(frozen=True)
class LossSettings:
    """The weighted sum of losses that is minimised.

    Args:
        weights: weight of each loss, by its name in `sooner.losses`.
        gamma: weight of the constraint inside `lsifwc` and `barr`, which is a mean over each class; where it is summed over a
            batch of B series, as in the published runs, the same gamma is B times as large here.
        costs: class costs: "uniform", "inverse_frequency" or "effective_number". `cost_sensitive_lsel`, `nga_lsel` and
            `c_logistic` take C_y, that of the true class; `lscel` and `logistic_c` take C_y / C_l for the rival l.
        beta: parameter of "effective_number".
    """

    weights: Mapping[str, float] = field(default_factory=lambda: {"multiplet": 1.0, "lsel": 1.0}, hash=False)
    gamma: float = 1.0
    costs: str = "uniform"
    beta: float = 0.9999

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _as_weights(self.weights))
        check_number(self, "loss.gamma", "A negative weight would reward a broken constraint.")
        check_choice(self, "loss.costs", ("uniform", "inverse_frequency", "effective_number"))
        check_number(self, "loss.beta", "0 weighs classes alike, 1 by inverse frequency.", high=1.0)


def _as_weights(weights: Any) -> dict[str, float]:
    remedy = "Name each loss with its weight: multiplet = 1.0, lsel = 10.0."
    if not isinstance(weights, Mapping):
        raise InvalidArgument("loss.weights", "a table", repr(weights), remedy)
    for name in weights:
        if name not in LOSSES:
            raise UnknownName("key in [loss.weights]", str(name), LOSSES)
    about = "It weighs the loss in the sum."
    checked = {name: checked_number(weight, f"loss.weights.{name}", about) for name, weight in weights.items()}
    if not any(checked.values()):
        raise InvalidArgument("loss.weights", "at least one weight above 0", checked, remedy)
    return checked
