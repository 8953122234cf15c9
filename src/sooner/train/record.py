"""The record of a training run."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from sooner.train.learner import Validation
from sooner.train.precision import Precision
from sooner.train.settings import Settings, to_dict


def versions() -> dict[str, str]:
    """The versions of the packages that the numbers depend on."""
    return {"python": platform.python_version(), "torch": version("torch"), "sooner": version("sooner")}


@dataclass(frozen=True)
class TrainingRecord:
    """Settings, versions and numbers of one run.

    `best` is the first validation with the highest metric, whose weights the model has; `history` are all validations. `seconds`
    counts all resumptions. `precision` is the one in use since the last resumption.
    """

    settings: Settings
    best: Validation
    history: tuple[Validation, ...]
    steps: int
    seconds: float
    device: str
    precision: Precision = field(default=Precision("32"))
    versions: Mapping[str, str] = field(default_factory=versions, hash=False)

    @property
    def seed(self) -> int:
        """The seed of the settings."""
        return self.settings.training.seed

    def to_json(self) -> str:
        """The record as JSON; a loss that overflowed is null."""
        best, *history = (
            {key: None if value is None or not math.isfinite(value) else value for key, value in each._asdict().items()}
            for each in (self.best, *self.history)
        )
        record = {
            "settings": to_dict(self.settings),
            "seed": self.seed,
            "device": self.device,
            **self.precision.to_dict(),
            "versions": dict(self.versions),
            "best": best,
            "history": history,
            "steps": self.steps,
            "seconds": self.seconds,
        }
        return json.dumps(record, indent=2, allow_nan=False)
