"""The rules and models on which the laws are tried."""

import inspect
from collections.abc import Iterator
from typing import Any


def examples_of(base: Any) -> Iterator[Any]:
    """Examples of every concrete subclass in the program, breadth first."""
    waiting = list(base.__subclasses__())
    for child in waiting:
        waiting += child.__subclasses__()
        if not inspect.isabstract(child):
            yield from child.examples()
