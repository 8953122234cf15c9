"""What `sooner stream` hands to an engine, and the check that options of one engine are given with it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import FrameType
from typing import Any

from sooner.cli.options import EndOptions, FieldOptions
from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier
from sooner.stream.decisions import BadLines
from sooner.stream.lines import Layout


@dataclass(frozen=True)
class StreamJob:
    """What to decide, whichever engine does it.

    Args:
        classifier: with the threshold that was asked for.
        layout: of the observations.
        bad_lines: "stop" at what cannot be used, or "skip" it.
        ends: when series end.
        names: the fields of an observation.
        tell: prints a sentence on standard error.
    """

    classifier: EarlyClassifier
    layout: Layout
    bad_lines: BadLines
    ends: EndOptions
    names: FieldOptions
    tell: Callable[[str], None]

    @contextmanager
    def stopping(self) -> Iterator[threading.Event]:
        """An event that SIGTERM and Ctrl-C set."""
        stopped = threading.Event()
        with stopped_by_signals(stopped.set):
            yield stopped


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C call a function instead of ending the process."""

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def refuse_of_other_engines(engine: str, options: dict[str, Any]) -> None:
    """Refuse options that belong to another engine than the one that was asked for.

    Args:
        engine: its name.
        options: the option group of each engine, by its name.
    """
    for name, group in options.items():
        for field in fields(group) if name != engine else ():
            if getattr(group, field.name) != field.default:
                option = "--" + field.name.replace("_", "-")
                raise InvalidArgument(option, f"given together with --engine {name}", "alone", "Give both options.")
