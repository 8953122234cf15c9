"""Finding what the laws are to be tried on."""

import inspect
from collections.abc import Iterator
from typing import Any


def concrete_subclasses(kind: Any) -> Iterator[Any]:
    """Every subclass in the program that can be made, breadth first."""
    waiting = list(kind.__subclasses__())
    for child in waiting:
        waiting += child.__subclasses__()
        if not inspect.isabstract(child):
            yield child
