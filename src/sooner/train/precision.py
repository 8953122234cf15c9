"""The precision that a training computes in: that of its settings, where the device can be trusted with it."""

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
    """What a training computes in.

    Args:
        used: "32", "bf16-mixed" or "16-mixed".
        note: why it is not the one of the settings; empty if it is.
    """

    used: str
    note: str = ""

    def autocast(self, device: str) -> AbstractContextManager[None]:
        """The context of a forward pass."""
        if self.used == "32":
            return nullcontext()
        return torch.autocast(device, torch.bfloat16 if self.used == "bf16-mixed" else torch.float16)

    def to_dict(self) -> dict[str, str]:
        """What records say of it."""
        return {"precision": self.used, "precision_note": self.note}


def precision_on(accelerator: str, settings: Settings) -> Precision:
    """The precision of the settings, or float32 on a CPU whose bfloat16 fails a trial.

    >>> precision_on("cpu", Settings())
    Precision(used='32', note='')
    """
    refuse_half_on_cpu(accelerator, settings)
    asked = settings.training.precision
    if accelerator != "cpu" or asked != "bf16-mixed" or bfloat16_support().works:
        return Precision(asked)
    return Precision("32", f"Training in float32 instead of bf16-mixed. {bfloat16_support()}")


def refuse_half_on_cpu(accelerator: str, settings: Settings) -> None:
    """Refuse float16 where it is far too slow."""
    asked = settings.training.precision
    if asked == "16-mixed" and accelerator == "cpu":
        remedy = "Half precision needs a GPU."
        raise InvalidArgument("training.precision", "'32' or 'bf16-mixed' on a CPU", repr(asked), remedy)


@functools.cache
def warn_of(precision: Precision) -> None:
    """Warn of a precision that is not the one of the settings, once: a study or an experiment trains many times."""
    # Python's own "once for each place" begins anew whenever some filter is changed.
    if precision.note:
        warnings.warn(precision.note, PrecisionChanged, stacklevel=3)
