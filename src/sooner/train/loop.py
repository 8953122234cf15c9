"""Training: `train`, and the loop of its steps.

The loop is written without a training framework: the batch of a step and its random numbers are functions of (seed, step), so
there is neither a loader nor a random state to save.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from sooner.bfloat16 import refuse_bfloat16
from sooner.errors import InvalidArgument
from sooner.extras import engine_module
from sooner.models.base import Model
from sooner.series import Series
from sooner.train.learner import Learner, StateDict, Validation, device_of, isolated_rng
from sooner.train.observers import Bar, Callback, Log, Observer
from sooner.train.precision import Precision, precision_on, warn_of
from sooner.train.record import TrainingRecord, versions
from sooner.train.selection import LAST, Selection, read_checkpoint, save_checkpoints
from sooner.train.settings import Settings, to_dict
from sooner.train.sources import Source
from sooner.train.team import Team

_MAY_DIFFER = ("iterations", "patience", "device", "engine", "workers")
"""Keys of [training] that may change when a run is resumed."""


@dataclass(frozen=True, eq=False)
class Task:
    """A model, its data and its settings, and the folder for checkpoints, if there is one."""

    model: Model
    training: Source
    validation: Source
    settings: Settings
    folder: Path | None


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

    On a CPU the same model, data and settings give the same weights, whether or not the run was interrupted and resumed. With
    `training.engine = "ray"` the workers of a cluster share each step (see `sooner.engines.ray.training`).

    Args:
        model: with its initial weights.
        training: a `Series` in which every class of the model occurs, or series that are `Drawn` on the fly.
        validation: the set on which `sooner.evaluate.mean_accuracy` is measured.
        settings: the `model` table is only recorded.
        folder: for checkpoints, the record, and a CSV log; without it nothing is written. With a cluster, a folder on a shared
            disk.
        resume: continue from the last checkpoint in the folder, if there is one.
        verbose: show a progress bar.
        watch: called with every validation; an exception in it ends the training.
    """
    task = Task(model, training, validation, settings, None if folder is None else Path(folder).resolve())
    last = _checkpoint(task.folder, settings, resume=resume)
    _check_data(model, training, validation)
    device = device_of(model)
    record: TrainingRecord
    if settings.training.engine == "ray":
        record, weights = engine_module("ray", "training").fit_together(task, verbose=verbose, watch=watch)
        record = replace(record, settings=settings, versions=versions())
    else:
        precision = precision_on(device_for(settings), settings)
        warn_of(precision)
        observers = [*([Bar(settings.training.iterations)] if verbose else []), *([Callback(watch)] if watch else [])]
        record, weights = fit(task, last, observers, precision)
    model.load_state_dict(weights)
    model.to(device).eval()
    if task.folder is not None:
        task.folder.mkdir(parents=True, exist_ok=True)
        (task.folder / "record.json").write_text(record.to_json() + "\n", encoding="utf-8")
    return record


def fit(
    task: Task,
    last: Path | None,
    observers: Sequence[Observer],
    precision: Precision,
    team: Team = Team(),  # noqa: B008
) -> tuple[TrainingRecord, StateDict]:
    """Train in this process, alone or as one of a team, from the last checkpoint; returns the record and the best weights."""
    device, folder = device_for(task.settings), task.folder
    if device == "cpu":
        refuse_bfloat16(task.model, "model")
    if folder is not None and team.leads:
        every = min(task.settings.training.validate_every, 50)
        observers = [Log(folder, every, resumed=last is not None), *observers]
    with isolated_rng():
        learner = Learner(task.model.to(device).train(), task.training, task.validation, task.settings, precision, team)
        selection = Selection(task.settings.training)
        if last is not None:
            state = read_checkpoint(last)
            learner.load_state_dict(state["learner"])
            selection.load_state_dict(state["selection"])
        _run(learner, selection, folder, observers)
    assert selection.best is not None
    record = TrainingRecord(
        settings=task.settings,
        best=selection.best,
        history=tuple(selection.history),
        steps=learner.steps,
        seconds=round(selection.seconds, 3),
        device=device,
        precision=precision,
    )
    return record, selection.weights


def _run(learner: Learner, selection: Selection, folder: Path | None, observers: Sequence[Observer]) -> None:
    """The loop; a run that had already ended does no step."""
    training, continues = learner.settings.training, not selection.exhausted
    try:
        for observer in observers:
            observer.began(learner)
        while continues and learner.steps < training.iterations:
            learner.step()
            for observer in observers:
                observer.stepped(learner)
            if learner.steps % training.validate_every and learner.steps < training.iterations:
                continue
            validation = learner.validate()
            selection.add(validation, learner.model)
            if folder is not None and learner.team.leads:
                save_checkpoints(folder, learner, selection)
            assert selection.best is not None
            answers = [observer.validated(validation, selection.best) for observer in observers]
            continues = all(answers) and not selection.exhausted
    finally:
        for observer in observers:
            observer.ended()


def device_for(settings: Settings) -> str:
    """The device of the settings, refused if this machine lacks it."""
    device = settings.training.device
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name in available if available[name])
    if not available[device]:
        remedy = '"auto" takes what there is.'
        raise InvalidArgument("training.device", "a device of this machine", repr(device), remedy)
    return device


def _checkpoint(folder: Path | None, settings: Settings, *, resume: bool) -> Path | None:
    """The checkpoint to continue from; a folder with another run in it is refused."""
    if folder is None:
        if resume:
            expected, remedy = "the folder of the run to resume", "Without one there is nothing saved."
            raise InvalidArgument("folder", expected, None, remedy)
        return None
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument("folder", "a folder", f"the file {folder}", "Name another one.")
    last = folder / LAST
    if not last.exists():
        return None
    if not resume:
        remedy = "Pass resume=True to go on with it, or name another folder."
        raise InvalidArgument("folder", "without a run in it", f"a folder with {LAST}", remedy)
    before, now = _fixed_keys(read_checkpoint(last)["settings"]), _fixed_keys(settings)
    for key, value in now.items():
        if value != before[key]:
            remedy = f"The run began with {before[key]!r}; resume it so, or name another folder."
            raise InvalidArgument(key, "what the run in the folder has", repr(value), remedy)
    return last


def _fixed_keys(settings: Settings) -> dict[str, Any]:
    """The settings that may not change when a run is resumed, by dotted key."""
    tables = to_dict(settings).items()
    return {f"{name}.{key}": table[key] for name, table in tables for key in table if key not in _MAY_DIFFER}


def _check_data(model: Model, training: Source, validation: Source) -> None:
    for source in (training, validation):
        model.check_observations(torch.empty(len(source), *source.shape, device="meta"), leading=2)
    if isinstance(training, Series) and isinstance(validation, Series):
        expected = training.require_labels().classes.tolist()
        got = validation.require_labels().classes.tolist()
        if got != expected:  # an index must mean the same class in both
            remedy = "Pass classes= to both where one of them lacks a class."
            raise InvalidArgument("validation", f"of the classes of the training set, {expected}", f"{got}", remedy)
    highest = int(validation.labels.max())
    if highest >= model.classes:
        remedy = f"The model has {model.classes} classes."
        raise InvalidArgument("labels", f"in 0..{model.classes - 1}", highest, remedy)
