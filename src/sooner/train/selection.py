"""The best weights of a training, when it ends, and the checkpoints that let it go on."""

import time
from pathlib import Path
from typing import Any

import torch

from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.storage import whole_file
from sooner.train.learner import Learner, StateDict, Validation, copied
from sooner.train.settings import TrainingSettings, to_dict
from sooner.train.upgrade import recorded_settings, upgraded_checkpoint

BEST, LAST = "best.ckpt", "last.ckpt"


class Selection:
    """Keeps the history and the weights of the first best validation, and says when patience has run out.

    All of it goes into every checkpoint, so a resumed run knows what an unbroken one would.
    """

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self._started = time.monotonic()
        self._seconds_before = 0.0
        self.history: list[Validation] = []
        self.best: Validation | None = None
        self.weights: StateDict = {}

    @property
    def seconds(self) -> float:
        """The time spent, over all resumptions."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        patience = self._settings.patience
        if patience == "none" or self.best is None:
            return False
        return len(self.history) - 1 - self.history.index(self.best) >= patience

    def note(self, found: Validation, model: Model) -> None:
        """Add a validation, with the weights where it is a new best."""
        self.history.append(found)
        if self.best is None or found.metric > self.best.metric:
            self.best, self.weights = found, copied(model)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint, in plain types."""
        best = None if self.best is None else tuple(self.best)
        history = [tuple(found) for found in self.history]
        return {"history": history, "best": best, "weights": self.weights, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.history = [Validation(*found) for found in state["history"]]
        self.best = None if state["best"] is None else Validation(*state["best"])
        self.weights = state["weights"]
        self._seconds_before = state["seconds"]


def save_checkpoints(folder: Path, learner: Learner, selection: Selection) -> None:
    """Write the last state, and the best one where it is the last. A file is replaced in one move: a kill leaves the old
    one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "settings": to_dict(learner.settings),
        "learner": learner.state_dict(),
        "selection": selection.state_dict(),
    }
    for name in (BEST, LAST) if selection.best == selection.history[-1] else (LAST,):
        with whole_file(folder / name) as part:
            torch.save(state, part)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `save_checkpoints` wrote, whichever version, its settings as such; what is damaged is refused."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state = state if "learner" in state else upgraded_checkpoint(state)
        return {**state, "settings": recorded_settings(state["settings"])}
    except Exception:  # torch's reader has an exception for every kind of damage
        remedy = f"Remove {LAST} to begin again, or put {BEST} in its place."
        raise InvalidArgument("folder", "the folder of a run", f"one whose {LAST} is damaged", remedy) from None
