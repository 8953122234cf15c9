"""Targets that come to every end there is: what the driver itself is tested with."""

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.case import Case, Target


def _hangs() -> None:
    time.sleep(60)


def _eats() -> bytes:
    return b"1" * 400_000_000


def _target(name: str, run: Callable[[], Any], fault: str | None = None) -> Target:
    def make(chance: random.Random, _folder: Path) -> Case:
        refused = lambda error: isinstance(error, ZeroDivisionError)  # noqa: E731
        return Case(f"{name} {chance.random()}".encode(), run, lambda _result: fault, refused)

    return Target(name, 1, make)


TARGETS = [
    _target("accepted", lambda: None),
    _target("sentences", lambda: 1 / 0),
    _target("tracebacks", lambda: {}["a"]),
    _target("noise", lambda: sys.stderr.write("Exception ignored in")),
    _target("wrong", lambda: None, "another result"),
    _target("hangs", _hangs),
    _target("memory", _eats),
    _target("crashes", os.abort),
]
