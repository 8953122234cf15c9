"""The best weights of a training, and its checkpoints."""

import time
from pathlib import Path
from typing import Any

import torch

from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.storage import whole_file
from sooner.train.learner import Learner, StateDict, Validation, state_copy
from sooner.train.settings import TrainingSettings, to_dict
from sooner.train.upgrade import recorded_settings, upgraded_checkpoint

BEST, LAST = "best.ckpt", "last.ckpt"


class Selection:
    """All validations, and the weights of the first best one. Its state is saved in every checkpoint."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._patience = settings.patience
        self._started = time.monotonic()
        self._seconds_before = 0.0
        self.history: list[Validation] = []
        self.best: Validation | None = None
        self.weights: StateDict = {}

    @property
    def seconds(self) -> float:
        """Duration of the training, over all resumptions."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def exhausted(self) -> bool:
        """Whether there were as many validations without a new best as the patience allows."""
        if self._patience == "none" or self.best is None:
            return False
        return len(self.history) - 1 - self.history.index(self.best) >= self._patience

    def add(self, validation: Validation, model: Model) -> None:
        """Add a validation, and copy the weights if it is a new best."""
        self.history.append(validation)
        if self.best is None or validation.metric > self.best.metric:
            self.best, self.weights = validation, state_copy(model)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint, in plain types."""
        best = None if self.best is None else tuple(self.best)
        history = [tuple(validation) for validation in self.history]
        return {"history": history, "best": best, "weights": self.weights, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.history = [Validation(*validation) for validation in state["history"]]
        self.best = None if state["best"] is None else Validation(*state["best"])
        self.weights = state["weights"]
        self._seconds_before = state["seconds"]


def save_checkpoints(folder: Path, learner: Learner, selection: Selection) -> None:
    """Write the last checkpoint, and the best one if it is the last, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "settings": to_dict(learner.settings),
        "learner": learner.state_dict(),
        "selection": selection.state_dict(),
    }
    for name in (BEST, LAST) if selection.best == selection.history[-1] else (LAST,):
        with whole_file(folder / name) as temporary:
            torch.save(state, temporary)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state that `save_checkpoints` of any version wrote, with its settings as `Settings`."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state = state if "learner" in state else upgraded_checkpoint(state)
        return {**state, "settings": recorded_settings(state["settings"])}
    except Exception:  # torch's reader raises a different exception for every type of damage
        remedy = f"Remove {LAST} to begin again, or put {BEST} in its place."
        raise InvalidArgument("folder", "the folder of a run", f"one whose {LAST} is damaged", remedy) from None
