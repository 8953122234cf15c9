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
"""Included in every hash; increased when a change of the code invalidates old stages.

2: weight decay independent of the learning rate, RMSprop with Keras's constants, Nesterov momentum, costs of single classes,
EARLIEST with exploration.
"""


@dataclass(frozen=True, eq=False)
class Stage:
    """A step of an experiment: its name (one word), a label for progress messages, and what its result depends on.

    `act` runs the stage in a folder, which may contain files of an earlier attempt; its return value is stored in `done.json`.
    """

    name: str
    label: str
    ingredients: Mapping[str, Any]
    needs: tuple["Stage", ...]
    act: Callable[[Path], Mapping[str, Any]] = field(repr=False)

    @property
    def digest(self) -> str:
        """The hash of all inputs."""
        inputs = [FORMAT, self.name, self.ingredients, [stage.digest for stage in self.needs]]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]

    def folder(self, work: Path) -> Path:
        """The folder of the stage."""
        return work / f"{self.name}-{self.digest}"

    def outcome(self, work: Path) -> Any:
        """The content of `done.json`, a dict, or None if the stage is not finished."""
        path = self.folder(work) / "done.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def perform(self, work: Path) -> None:
        """Run the stage; the seconds of all attempts are added up."""
        folder = self.folder(work)
        (folder / "ingredients.json").write_text(json.dumps(self.ingredients, indent=2), encoding="utf-8")
        path = folder / "seconds"
        before = float(path.read_text()) if path.exists() else 0.0
        started = time.monotonic()
        try:
            outcome = self.act(folder)
        finally:
            seconds = before + time.monotonic() - started
            write_whole(path, f"{seconds}\n")
        done = {**outcome, "label": self.label, "seconds": round(seconds, 1)}
        write_whole(folder / "done.json", json.dumps(done, indent=2) + "\n")


@contextmanager
def taken(folder: Path) -> Iterator[bool]:
    """Try to lock a folder until the block ends; yields False if another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", timeout=0) as mine:
        yield mine
