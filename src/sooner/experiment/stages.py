"""Stages: steps of an experiment that are done once, whoever asks for them, and known by what they depend on.

A stage has a folder whose name holds the hash of its ingredients: settings, data, seed, and the hashes of the stages it
builds on. `done.json` is written there last, so a stage that was cut is begun again, or gone on with where it knows how.
Experiments that need the same stage share it, and several processes may work in one folder: each stage has a lock that its
process takes with it when it dies.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sooner.storage import locked, write_whole

FORMAT = 2
"""Part of every hash: raised when a change of the code makes stages of the past worth nothing.

2: weight decay apart from the learning rate, RMSprop with Keras's constants, Nesterov momentum, costs of single classes, EARLIEST
that explores.
"""


@dataclass(frozen=True, eq=False)
class Stage:
    """One step.

    Args:
        kind: what it does, in one word.
        label: what a person reads.
        ingredients: what its result depends on, as JSON knows it.
        needs: the stages that come first.
        act: does it in the folder it is given; what it returns is kept in `done.json`. It may find there what an earlier
            attempt has left.
    """

    kind: str
    label: str
    ingredients: Mapping[str, Any]
    needs: tuple["Stage", ...]
    act: Callable[[Path], Mapping[str, Any]] = field(repr=False)

    @property
    def digest(self) -> str:
        """The hash of all that the result depends on."""
        told = [FORMAT, self.kind, self.ingredients, [stage.digest for stage in self.needs]]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def folder(self, work: Path) -> Path:
        """Where it is done."""
        return work / f"{self.kind}-{self.digest}"

    def outcome(self, work: Path) -> Mapping[str, Any] | None:
        """What it left, or None as long as it is not done."""
        path = self.folder(work) / "done.json"
        if not path.exists():
            return None
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def perform(self, work: Path) -> None:
        """Do it; the seconds of all attempts are added up."""
        folder = self.folder(work)
        (folder / "ingredients.json").write_text(json.dumps(self.ingredients, indent=2), encoding="utf-8")
        with _stopwatch(folder / "seconds") as seconds:
            left = self.act(folder)
        done = {**left, "label": self.label, "seconds": round(seconds(), 1)}
        write_whole(folder / "done.json", json.dumps(done, indent=2) + "\n")


@contextmanager
def taken(folder: Path) -> Iterator[bool]:
    """Whether this process has the folder to itself; another one has it until it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", timeout=0) as mine:
        yield mine


@contextmanager
def _stopwatch(path: Path) -> Iterator[Callable[[], float]]:
    before = float(path.read_text()) if path.exists() else 0.0
    began = time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - began

    try:
        yield seconds
    finally:
        write_whole(path, f"{seconds()}\n")
