"""Checks for the fields of settings; errors name a field by its dotted key in a settings file."""

import math
from numbers import Real
from typing import Any, Literal

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_number, as_whole


def check_choice(record: object, dotted: str, choices: tuple[str, ...]) -> None:
    """Refuse a field that is not one of the choices."""
    value = getattr(record, dotted.split(".")[-1])
    if value not in choices:
        if isinstance(value, str):
            raise UnknownName(dotted, value, choices)
        expected = f"one of {', '.join(map(repr, choices))}"
        raise InvalidArgument(dotted, expected, repr(value), "It is a text, in quotes.")


def check_whole(record: object, dotted: str, low: int, remedy: str, *, word: str | None = None) -> None:
    """Convert a field to a whole number of at least `low`, or leave it if it is `word`."""
    key = dotted.split(".")[-1]
    value = getattr(record, key)
    if word is None or value != word:
        expected = "a whole number" if word is None else f"a whole number or {word!r}"
        _refuse_non_numbers(value, dotted, expected, remedy)
        object.__setattr__(record, key, as_whole(value, name=dotted, low=low, remedy=remedy))


def check_number(
    record: object,
    dotted: str,
    remedy: str,
    *,
    high: float = math.inf,
    above_zero: Literal["strictly", "or zero"] = "or zero",
    word: str | None = None,
) -> None:
    """Convert a field to a number from 0 to `high`, or leave it if it is `word`."""
    key = dotted.split(".")[-1]
    value = getattr(record, key)
    if word is not None and value == word:
        return
    number = checked_number(value, dotted, remedy, high=high, word=word)
    if above_zero == "strictly" and number == 0:
        raise InvalidArgument(dotted, "above 0", number, remedy)
    object.__setattr__(record, key, number)


def checked_number(value: Any, dotted: str, remedy: str, *, high: float = math.inf, word: str | None = None) -> float:
    """The value of a field as a number from 0 to `high`."""
    _refuse_non_numbers(value, dotted, "a number" if word is None else f"a number or {word!r}", remedy)
    return as_number(value, name=dotted, low=0.0, high=high, remedy=remedy)


def _refuse_non_numbers(value: Any, dotted: str, expected: str, remedy: str) -> None:
    infinite = isinstance(value, float) and math.isinf(value)  # a whole number of any size is not
    if isinstance(value, bool) or not isinstance(value, Real) or infinite:
        raise InvalidArgument(dotted, expected, repr(value), remedy)
