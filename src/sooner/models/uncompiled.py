"""Functions that `torch.compile` leaves alone."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """Mark a function so that compiling a model works around it.

    What `torch.compiler.disable` does, without importing the compiler: that takes a second of every start.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = "it has a kernel of its own"  # type: ignore[attr-defined]
    return function
