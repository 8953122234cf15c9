"""What an input is, and what comes of it."""

import os
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOOD = ("accepted", "sentences")
BAD = ("tracebacks", "noise", "wrong", "hangs", "memory", "crashes")


@dataclass(frozen=True)
class Case:
    """One input.

    Args:
        payload: what is kept of it if it fails; a file, or text that describes it.
        run: hands it in.
        judge: what is wrong with what came back, or None.
        refusals: what else than an error of ours is a refusal in proper form.
    """

    payload: bytes
    run: Callable[[], Any]
    judge: Callable[[Any], str | None]
    refusals: Callable[[BaseException], bool] = lambda _error: False


@dataclass(frozen=True)
class Target:
    """A door: `make` draws an input for it; `share` says how often, against the others."""

    name: str
    share: float
    make: Callable[[random.Random, Path], Case]


@dataclass(frozen=True)
class Outcome:
    """What came of an input: one of `GOOD` or `BAD`, and what there is to say about it."""

    kind: str
    said: str = ""


def drawn(targets: list[Target], seed: int, index: int) -> tuple[Target, random.Random]:
    """The target of an input, and the randomness that makes it."""
    chance = random.Random(f"{seed}/{index}")
    return chance.choices(targets, [target.share for target in targets])[0], chance


def outcome(case: Case) -> Outcome:
    """Hand an input in, and judge what comes back."""
    try:
        result = case.run()
    except Exception as error:
        return _refused(error, case)
    try:
        fault = case.judge(result)
    except Exception as error:
        return Outcome("wrong", f"the plain reader fails: {_told(error)}")
    return Outcome("accepted") if fault is None else Outcome("wrong", fault)


def _refused(error: Exception, case: Case) -> Outcome:
    ours = sys.modules.get("sooner.errors")  # not imported here: that takes seconds, and an error of ours brings it
    if ours is None or not isinstance(error, ours.SoonerError):
        return Outcome("sentences") if case.refusals(error) else Outcome("tracebacks", _told(error))
    said = str(error)
    try:
        said.encode()
    except UnicodeEncodeError:
        return Outcome("tracebacks", f"a message that cannot be printed: {said!r}")
    if len(said.splitlines()) != 1:
        return Outcome("tracebacks", f"a message of {len(said.splitlines())} lines: {said!r}")
    return Outcome("sentences", said)


def _told(error: Exception) -> str:
    return "".join(traceback.format_exception(error)[-12:])


class Quiet:
    """Both standard streams, kept aside in a file, so that what is written to them is seen."""

    def __init__(self) -> None:
        self._file = os.memfd_create("noise") if hasattr(os, "memfd_create") else None
        if self._file is not None:
            self._kept = [os.dup(1), os.dup(2)]
            for stream in (1, 2):
                os.dup2(self._file, stream)

    def noise(self) -> str:
        """What was written since the last call."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self._file is None or not (size := os.lseek(self._file, 0, os.SEEK_CUR)):
            return ""
        text = os.pread(self._file, min(size, 10_000), 0).decode(errors="replace")
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        return text

    def end(self) -> None:
        """Give the streams back."""
        if self._file is not None:
            for stream, kept in zip((1, 2), self._kept, strict=True):
                os.dup2(kept, stream)
                os.close(kept)
            os.close(self._file)
