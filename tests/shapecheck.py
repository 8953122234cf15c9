"""The type checker behind the import hook: shapes only.

Public functions take whatever a user brings and answer bad input with a sentence of their own, so plain types are mypy's
business; what is checked while tests run is every annotation that states a shape.
"""

import types
from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import AbstractArray


def shapes_only(function: Callable[..., Any]) -> Callable[..., Any]:
    shaped = {name: hint for name, hint in function.__annotations__.items() if _states_a_shape(hint)}
    if not shaped:
        return function
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__qualname__, copy.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    copy.__annotations__ = shaped
    return beartype(copy)


def _states_a_shape(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)
