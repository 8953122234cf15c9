"""A decorator for functions that `torch.compile` must skip."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """Mark a function so that `torch.compile` skips it.

    This is `torch.compiler.disable` without importing the compiler, which takes a second.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = "it has a kernel of its own"  # type: ignore[attr-defined]
    return function
