"""The precision of a training: that of its settings, unless bfloat16 fails on this CPU."""

import functools
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from sooner.bfloat16 import bfloat16_support
from sooner.errors import InvalidArgument, PrecisionChanged
from sooner.train.settings import Settings


@dataclass(frozen=True)
class Precision:
    """The precision of a training; the note says why it is not that of the settings, or is empty."""

    used: str
    note: str = ""

    def autocast(self, device: str) -> AbstractContextManager[None]:
        """The context of a forward pass."""
        if self.used == "32":
            return nullcontext()
        return torch.autocast(device, torch.bfloat16 if self.used == "bf16-mixed" else torch.float16)

    def to_dict(self) -> dict[str, str]:
        """The entries of a record."""
        return {"precision": self.used, "precision_note": self.note}


def precision_on(device: str, settings: Settings) -> Precision:
    """The precision of the settings, or float32 on a CPU whose bfloat16 fails a trial.

    >>> precision_on("cpu", Settings())
    Precision(used='32', note='')
    """
    refuse_half_on_cpu(device, settings)
    precision = settings.training.precision
    if device != "cpu" or precision != "bf16-mixed" or bfloat16_support().works:
        return Precision(precision)
    return Precision("32", f"Training in float32 instead of bf16-mixed. {bfloat16_support()}")


def refuse_half_on_cpu(device: str, settings: Settings) -> None:
    """Refuse float16 on a CPU, where it is far too slow."""
    if settings.training.precision == "16-mixed" and device == "cpu":
        remedy = "Half precision needs a GPU."
        raise InvalidArgument("training.precision", "'32' or 'bf16-mixed' on a CPU", "'16-mixed'", remedy)


@functools.cache
def warn_of(precision: Precision) -> None:
    """Warn once for all trainings of a process if the precision is not that of the settings."""
    # Not Python's own "once": it starts anew whenever a filter changes.
    if precision.note:
        warnings.warn(precision.note, PrecisionChanged, stacklevel=3)
