"""What a training run leaves behind, beside the model."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple

from sooner.train.learner import StateDict, Validation
from sooner.train.precision import Precision
from sooner.train.settings import Settings, to_dict


class TrainingOutcome(NamedTuple):
    """What a run came to, wherever it ran: the first best validation and its weights, all validations, and where it ended."""

    best: Validation
    weights: StateDict
    history: tuple[Validation, ...]
    steps: int
    seconds: float
    device: str
    precision: Precision


@dataclass(frozen=True)
class TrainingRecord:
    """Settings, seed, versions and numbers of one run.

    `best` is the first validation with the highest metric, whose weights the model has; `history` are all of them, and
    `steps` is where the run ended. `seconds` counts all resumptions. `precision` is the one that was really used, since the last
    resumption, which need not be the one of the settings.
    """

    settings: Settings
    seed: int
    best: Validation
    history: tuple[Validation, ...]
    steps: int
    seconds: float
    device: str
    versions: Mapping[str, str] = field(hash=False)
    precision: Precision = field(default=Precision("32"))

    def to_json(self) -> str:
        """The record as JSON; a loss that overflowed is null."""
        best, *history = (_plain(found) for found in (self.best, *self.history))
        numbers = {"best": best, "history": history, "steps": self.steps, "seconds": self.seconds}
        about = {"settings": to_dict(self.settings), "seed": self.seed, "device": self.device}
        about = {**about, **self.precision.to_dict(), "versions": dict(self.versions)}
        return json.dumps({**about, **numbers}, indent=2, allow_nan=False)


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "sooner")},
    }


def _plain(found: Validation) -> dict[str, Any]:
    return {key: value if math.isfinite(value) else None for key, value in found._asdict().items()}
