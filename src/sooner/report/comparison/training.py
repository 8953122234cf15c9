"""The figure of trainings: loss and error on the validation set over the steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sooner.errors import InvalidArgument
from sooner.inputs import as_real
from sooner.report.figures import COLOURS, as_text, blank_figure, save
from sooner.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True, eq=False)
class Course:
    """The course of one model's training, averaged over seeds.

    Args:
        name: the model.
        steps: the validated steps, ascending.
        losses: the loss on the validation set; NaN where there is none.
        errors: the balanced error at the last observation in percent; NaN where there is none.
        loss_sem, error_sem: standard errors of the mean; NaN where there is none, as with a single seed.
    """

    name: str
    steps: FloatArray
    losses: FloatArray
    errors: FloatArray
    loss_sem: FloatArray
    error_sem: FloatArray

    def __post_init__(self) -> None:
        for name in ("steps", "losses", "errors", "loss_sem", "error_sem"):
            array = as_real(getattr(self, name), name=name)
            if array.shape != np.shape(self.steps) or array.ndim != 1 or not array.size:
                expected, remedy = "one number for each of at least 1 step", "Write NaN where there is none."
                raise InvalidArgument(name, expected, f"shape {array.shape}", remedy)
            object.__setattr__(self, name, array)

    @property
    def relative(self) -> tuple[FloatArray, FloatArray]:
        """The losses over the first finite one, and their standard errors on the same scale."""
        finite = self.losses[np.isfinite(self.losses)]
        scale = abs(float(finite[0])) if len(finite) and finite[0] else 1.0
        return self.losses / scale, self.loss_sem / scale


def write_training_figure(path: Path, title: str, courses: Sequence[Course], *, observation: str = "frame") -> Path:
    """Write two panels: the relative loss, and the error at the last observation, over the steps of training."""
    if not courses:
        raise InvalidArgument("courses", "at least 1", "none", "Ask for the history of a model.")
    figure, _ = blank_figure(9.0, 3.9, panels=2)
    left, right = figure.axes
    for index, course in enumerate(courses):
        look = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
        _draw(left, course, *course.relative, look)
        _draw(right, course, course.errors, course.error_sem, look)
    left.set_ylabel("validation loss / its first value")
    right.set_ylabel(f"balanced error at the last {observation} (%)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("training steps")
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
    left.set_title(as_text(title, 80), fontsize=11, loc="left")
    figure.legend(handles=left.lines, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, path)
    return path


def _draw(axes: "Axes", course: Course, values: FloatArray, sem: FloatArray, look: tuple[str, str]) -> None:
    colour, dashes = look
    axes.plot(course.steps, values, color=colour, linestyle=dashes, linewidth=1.8, label=as_text(course.name, 60))
    if np.isfinite(sem).any():
        axes.fill_between(course.steps, values - sem, values + sem, color=colour, alpha=0.2, linewidth=0)
