"""Stages: cached steps of an experiment, identified by a hash of their inputs.

The folder name of a stage contains the hash of its ingredients: settings, data, seed, and the hashes of the stages it depends on.
`done.json` is written last, so an interrupted stage is repeated, or resumed if it can be. Experiments share stages, and several
processes may work in one folder: each stage has a lock that is released when its process exits.
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
"""Part of every hash; increased when a change of the code invalidates old stages.

2: weight decay independent of the learning rate, RMSprop with Keras's constants, Nesterov momentum, costs of single classes,
EARLIEST with exploration.
"""


@dataclass(frozen=True, eq=False)
class Stage:
    """A step of an experiment.

    Args:
        kind: the type of the stage, one word.
        label: the label for progress messages.
        ingredients: the inputs that its result depends on, as JSON types.
        needs: the stages that it depends on.
        act: runs the stage in the given folder, which may contain files of an earlier attempt; its return value is stored in
            `done.json`.
    """

    kind: str
    label: str
    ingredients: Mapping[str, Any]
    needs: tuple["Stage", ...]
    act: Callable[[Path], Mapping[str, Any]] = field(repr=False)

    @property
    def digest(self) -> str:
        """The hash of all inputs."""
        told = [FORMAT, self.kind, self.ingredients, [stage.digest for stage in self.needs]]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def folder(self, work: Path) -> Path:
        """The folder of the stage."""
        return work / f"{self.kind}-{self.digest}"

    def outcome(self, work: Path) -> Mapping[str, Any] | None:
        """The content of `done.json`, or None if the stage is not finished."""
        path = self.folder(work) / "done.json"
        if not path.exists():
            return None
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def perform(self, work: Path) -> None:
        """Run the stage; the seconds of all attempts are added up."""
        folder = self.folder(work)
        (folder / "ingredients.json").write_text(json.dumps(self.ingredients, indent=2), encoding="utf-8")
        with _stopwatch(folder / "seconds") as seconds:
            left = self.act(folder)
        done = {**left, "label": self.label, "seconds": round(seconds(), 1)}
        write_whole(folder / "done.json", json.dumps(done, indent=2) + "\n")


@contextmanager
def taken(folder: Path) -> Iterator[bool]:
    """Try to lock a folder until the block ends; yields False if another process holds the lock."""
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
