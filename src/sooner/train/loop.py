"""Training: `train`, and the loop of its steps.

The loop is written out, without a training framework: the batch of a step and its random numbers are functions of (seed, step),
so there is no loader and no random state to keep, and what is left of a trainer is a dozen lines. With Lightning's, most of it
was switched off, its warnings filtered and its handling of Ctrl-C repaired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from sooner.bfloat16 import refuse_bfloat16
from sooner.errors import InvalidArgument
from sooner.extras import engine_module
from sooner.models.base import Model
from sooner.series import Series
from sooner.train.learner import Learner, Validation, own_randomness
from sooner.train.observers import Bar, Log, Observer, Watch
from sooner.train.precision import Precision, precision_on, warn_of
from sooner.train.record import TrainingOutcome, TrainingRecord, versions
from sooner.train.selection import LAST, Selection, read_checkpoint, save_checkpoints
from sooner.train.settings import Settings, to_dict
from sooner.train.sources import Source
from sooner.train.team import Team

_MAY_DIFFER = ("iterations", "patience", "device", "engine", "workers")


def train(
    model: Model,
    training: Source,
    validation: Source,
    settings: Settings,
    *,
    folder: str | PathLike[str] | None = None,
    resume: bool = False,
    verbose: bool = False,
    watch: Callable[[Validation], None] | None = None,
) -> TrainingRecord:
    """Train a model, and leave it with the weights of its best validation, in evaluation mode.

    On a CPU the same model, data and settings give the same weights, whether or not the run was killed and resumed. With
    `training.engine = "ray"` the steps are done by workers of a cluster (see `sooner.engines.ray.training`).

    Args:
        model: with the weights to start from.
        training: a `Series` in which every class of the model occurs, or series that are `Drawn` on the fly.
        validation: where `sooner.evaluate.mean_accuracy` is measured.
        settings: their `model` table is only noted; the model is there already.
        folder: for checkpoints, the record, and a CSV log; without it nothing is written. Machines of a cluster must share the
            disk it is on.
        resume: go on from the folder's last checkpoint, if it has one.
        verbose: show a progress bar.
        watch: told about every validation; what it raises ends the training.
    """
    task = Task(model, training, validation, settings, None if folder is None else Path(folder).resolve())
    last = _checkpoint(task.home, settings, resume=resume)
    _check_shapes(model, training, validation)
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    if settings.training.engine == "ray":
        outcome: TrainingOutcome = engine_module("ray", "training").fit_together(task, verbose=verbose, watch=watch)
    else:
        precision = precision_on(accelerator_for(settings), settings)
        warn_of(precision)
        observers = [*([Bar(settings.training.iterations)] if verbose else []), *([Watch(watch)] if watch else [])]
        outcome = fit(task, last, observers, precision)
    model.load_state_dict(outcome.weights)
    model.to(device).eval()
    record = _record(settings, outcome)
    if task.home is not None:
        task.home.mkdir(parents=True, exist_ok=True)
        (task.home / "record.json").write_text(record.to_json() + "\n", encoding="utf-8")
    return record


@dataclass(frozen=True, eq=False)
class Task:
    """What is trained, on what and how, and where its checkpoints are kept, if anywhere."""

    model: Model
    training: Source
    validation: Source
    settings: Settings
    home: Path | None


def fit(
    task: Task,
    last: Path | None,
    observers: Sequence[Observer],
    precision: Precision,
    team: Team = Team(),  # noqa: B008
) -> TrainingOutcome:
    """Train in this process, alone or as one of several workers.

    Args:
        task: the model is left with the weights of the last step.
        last: the checkpoint to go on from.
        observers: hear of a validation after it was noted and saved.
        precision: the same for all workers.
        team: the workers.
    """
    device = accelerator_for(task.settings)
    if device == "cpu":
        refuse_bfloat16(task.model, "model")
    with own_randomness():
        learner = Learner(task.model.to(device).train(), task.training, task.validation, task.settings, precision, team)
        selection = Selection(task.settings.training)
        if last is not None:
            state = read_checkpoint(last)
            learner.load_state_dict(state["learner"])
            selection.load_state_dict(state["selection"])
        _run(learner, selection, task.home, _heard_by(observers, task, team, resumed=last is not None))
    assert selection.best is not None
    return TrainingOutcome(
        best=selection.best,
        weights=selection.weights,
        history=tuple(selection.history),
        steps=learner.steps,
        seconds=round(selection.seconds, 3),
        device=device,
        precision=precision,
    )


def _run(learner: Learner, selection: Selection, home: Path | None, observers: Sequence[Observer]) -> None:
    """The loop: a run that had already ended stays ended."""
    training, goes_on = learner.settings.training, not selection.exhausted
    try:
        for each in observers:
            each.began(learner)
        while goes_on and learner.steps < training.iterations:
            learner.step()
            for each in observers:
                each.stepped(learner)
            if learner.steps % training.validate_every and learner.steps < training.iterations:
                continue
            found = learner.validate()
            selection.note(found, learner.model)
            if home is not None and learner.team.leads:
                save_checkpoints(home, learner, selection)
            assert selection.best is not None
            heard = [each.validated(found, selection.best) for each in observers]
            goes_on = all(heard) and not selection.exhausted
    finally:
        for each in observers:
            each.ended()


def _heard_by(observers: Sequence[Observer], task: Task, team: Team, *, resumed: bool) -> Sequence[Observer]:
    if task.home is None or not team.leads:
        return observers
    every = min(task.settings.training.validate_every, 50)
    return [Log(task.home, every, resumed=resumed), *observers]


def _record(settings: Settings, outcome: TrainingOutcome) -> TrainingRecord:
    return TrainingRecord(
        settings=settings,
        seed=settings.training.seed,
        best=outcome.best,
        history=outcome.history,
        steps=outcome.steps,
        seconds=outcome.seconds,
        device=outcome.device,
        versions=versions(),
        precision=outcome.precision,
    )


def accelerator_for(settings: Settings) -> str:
    """The device of the settings; one that this machine lacks is refused."""
    asked = settings.training.device
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if asked == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[asked]:
        remedy = '"auto" takes what there is.'
        raise InvalidArgument("training.device", "a device of this machine", repr(asked), remedy)
    return asked


def _checkpoint(home: Path | None, settings: Settings, *, resume: bool) -> Path | None:
    """The checkpoint to go on from; a folder with another run in it is refused."""
    if home is None:
        if resume:
            raise InvalidArgument(
                "folder", "the folder of the run to resume", None, "Without one there is nothing saved."
            )
        return None
    if home.exists() and not home.is_dir():
        raise InvalidArgument("folder", "a folder", f"the file {home}", "Name another one.")
    last = home / LAST
    if not last.exists():
        return None
    if not resume:
        remedy = "Pass resume=True to go on with it, or name another folder."
        raise InvalidArgument("folder", "without a run in it", f"a folder with {LAST}", remedy)
    began: Settings = read_checkpoint(last)["settings"]
    if _identity(began) != _identity(settings):
        key = next(key for key, value in _identity(settings).items() if value != _identity(began)[key])
        remedy = f"The run began with {_identity(began)[key]!r}; resume it so, or name another folder."
        raise InvalidArgument(key, "what the run in the folder has", repr(_identity(settings)[key]), remedy)
    return last


def _identity(settings: Settings) -> dict[str, Any]:
    """What may not change between the parts of one run."""
    tables = to_dict(settings).items()
    return {f"{name}.{key}": table[key] for name, table in tables for key in table if key not in _MAY_DIFFER}


def _check_shapes(model: Model, training: Source, validation: Source) -> None:
    for source in (training, validation):
        model.check_observations(torch.empty(len(source), *source.shape, device="meta"), leading=2)
    if isinstance(training, Series) and isinstance(validation, Series):
        _check_classes(training.require_labels(), validation.require_labels())
    if int(validation.labels.max()) >= model.classes:
        remedy = f"The model has {model.classes} classes."
        raise InvalidArgument("labels", f"in 0..{model.classes - 1}", int(validation.labels.max()), remedy)


def _check_classes(training: Series, validation: Series) -> None:
    """The same index must mean the same class in both."""
    known, other = training.classes.tolist(), validation.classes.tolist()
    if known != other:
        remedy = "Pass classes= to both where one of them lacks a class."
        raise InvalidArgument("validation", f"of the classes of the training set, {known}", f"{other}", remedy)
