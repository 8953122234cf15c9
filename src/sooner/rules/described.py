"""Rules as plain values that JSON can hold, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.rules import FITTED_RULES, RULES
from sooner.rules.base import Rule

_KNOWN: Mapping[str, type[Rule]] = {rule.__name__: rule for rule in (*RULES.values(), *FITTED_RULES)}


def description(rule: Rule) -> dict[str, Any]:
    """The class name of a rule, and its fields.

    >>> from sooner.rules import MSPRT, Patience
    >>> description(Patience(2, MSPRT(1.5)))
    {'Patience': {'count': 2, 'rule': {'MSPRT': {'threshold': 1.5}}}}
    """
    return {type(rule).__qualname__: {field: _plain(value) for field, value in vars(rule).items()}}


def rule_described(value: Mapping[str, Any]) -> Rule:
    """The rule of a description.

    >>> rule_described({"MSPRT": {"threshold": 1.5}})
    MSPRT(threshold=1.5)
    """
    name, values = next(iter(value.items()), ("nothing", None))
    if len(value) != 1 or name not in _KNOWN or not isinstance(values, Mapping):
        remedy = "A rule from elsewhere cannot be made from its name: set it anew after loading."
        raise InvalidArgument("rule", f"one of {', '.join(_KNOWN)}", name, remedy)
    arguments = (values[field.name] for field in fields(_KNOWN[name]) if field.init)  # type: ignore[arg-type]
    return _KNOWN[name](*(rule_described(given) if isinstance(given, Mapping) else given for given in arguments))


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return description(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, str | int | float | None) else repr(value)
