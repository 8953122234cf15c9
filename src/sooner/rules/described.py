"""Rules as plain values that JSON can hold, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.rules.base import Rule
from sooner.rules.halting import Halting
from sooner.rules.msprt import MSPRT, LogOdds, ProbabilityThreshold
from sooner.rules.single_label import SingleLabel
from sooner.rules.timed import FixedTime, NotBefore, Patience

_KNOWN: Mapping[str, type[Rule]] = {
    kind.__name__: kind
    for kind in (MSPRT, LogOdds, ProbabilityThreshold, FixedTime, Halting, Patience, NotBefore, SingleLabel)
}


def description(rule: Rule) -> dict[str, Any]:
    """The kind of a rule and all that it is made of.

    >>> description(Patience(2, MSPRT(1.5)))
    {'Patience': {'count': 2, 'rule': {'MSPRT': {'threshold': 1.5}}}}
    """
    return {type(rule).__qualname__: {field: _plain(value) for field, value in vars(rule).items()}}


def rule_described(value: Mapping[str, Any]) -> Rule:
    """The rule of a description.

    >>> rule_described({"MSPRT": {"threshold": 1.5}})
    MSPRT(threshold=1.5)
    """
    name, parts = next(iter(value.items()), ("nothing", None))
    if len(value) != 1 or name not in _KNOWN or not isinstance(parts, Mapping):
        remedy = "A rule from elsewhere cannot be made from its name: set it anew after loading."
        raise InvalidArgument("rule", f"one of {', '.join(_KNOWN)}", name, remedy)
    kind = _KNOWN[name]
    # A rule is a dataclass, and its fields are its arguments.
    return kind(*(_read(parts[field.name]) for field in fields(kind) if field.init))  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return description(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, str | int | float | None) else repr(value)


def _read(value: Any) -> Any:
    return rule_described(value) if isinstance(value, Mapping) else value
