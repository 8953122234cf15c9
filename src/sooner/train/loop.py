"""Training: `train` and what it needs of Lightning."""

import functools
import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from lightning.fabric.plugins import ClusterEnvironment
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.strategies import Strategy

from sooner.bfloat16 import refuse_bfloat16
from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.settings import Settings, to_dict
from sooner.train.callbacks import BEST, LAST, Bar, Checkpoints, Selection, Shown, Watch
from sooner.train.examples import Source
from sooner.train.precision import Precision, precision_on, warn_of
from sooner.train.record import Outcome, TrainingRecord, versions
from sooner.train.trainee import Trainee, Validation, own_randomness
from sooner.upgrade import recorded_settings

_MAY_DIFFER = ("iterations", "patience", "device", "engine", "workers")
_CHATTER = (
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    r"Experiment logs directory .* exists and is not empty",
    r"GPU available but not used",
    r"It is recommended to use `self.log\(.*sync_dist=True\)`",
)


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
    `training.engine = "ray"` the steps are done by workers of a cluster (see `sooner.train.workers`).

    Args:
        model: with the weights to start from.
        training: every class of the model must occur.
        validation: where `sooner.evaluate.mean_accuracy` is measured.
        settings: their `model` table is only noted; the model is there already.
        folder: for checkpoints, the record, and CSV and TensorBoard logs; without it nothing is written. Machines of a cluster
            must share the disk it is on.
        resume: go on from the folder's last checkpoint, if it has one.
        verbose: show a progress bar.
        watch: told about every validation; what it raises ends the training.
    """
    task = Task(model, training, validation, settings, None if folder is None else Path(folder).resolve())
    last = _checkpoint(task.home, settings, resume=resume)
    _check_shapes(model, training, validation)
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    if settings.training.engine == "ray":
        from sooner.train.workers import fit_together

        outcome = fit_together(task, verbose=verbose, watch=watch)
    else:
        precision = precision_on(accelerator_for(settings), settings)
        warn_of(precision)
        beside = functools.partial(_beside, settings=settings, verbose=verbose, watch=watch)
        outcome = fit(task, last, beside, precision)
    model.load_state_dict(outcome.weights)
    model.to(device).eval()
    record = _record(settings, outcome)
    if task.home is not None:
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
    beside: Callable[[Selection], list[Callback]],
    precision: Precision,
    *,
    strategy: Strategy | Literal["auto"] = "auto",
    environment: ClusterEnvironment | None = None,
) -> Outcome:
    """Train in this process, alone or as one of several workers.

    Args:
        task: the model is left with the weights of the last step.
        last: the checkpoint to go on from.
        beside: callbacks that hear of a validation after it was noted and saved.
        precision: the same for all workers.
        strategy: Lightning's, for several workers.
        environment: where Lightning learns who they are.
    """
    if accelerator_for(task.settings) == "cpu":
        refuse_bfloat16(task.model, "model")
    selection = Selection(task.settings.training)
    callbacks: list[Callback] = [selection]
    if task.home is not None:
        callbacks.append(Checkpoints(task.home, selection))
    trainee = Trainee(task.model, task.training, task.validation, task.settings)
    with own_randomness(), _quiet(), _interruptible():
        trainer = _trainer(task, last, [*callbacks, *beside(selection)], precision, strategy, environment)
        task.model.train()
        trainer.fit(trainee, ckpt_path=last, weights_only=True)
    assert selection.best is not None
    return Outcome(
        best=selection.best,
        weights=selection.weights,
        history=tuple(selection.history),
        steps=trainer.global_step,
        seconds=round(selection.seconds, 3),
        device=trainer.strategy.root_device.type,
        precision=precision,
    )


def _record(settings: Settings, outcome: Outcome) -> TrainingRecord:
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


def _beside(
    selection: Selection, settings: Settings, *, verbose: bool, watch: Callable[[Validation], None] | None
) -> list[Callback]:
    callbacks: list[Callback] = []
    if verbose:
        callbacks.append(Shown(Bar(settings.training.iterations), selection))
    if watch is not None:
        callbacks.append(Watch(watch))
    return callbacks


def _trainer(
    task: Task,
    last: Path | None,
    callbacks: list[Callback],
    precision: Precision,
    strategy: Strategy | Literal["auto"],
    environment: ClusterEnvironment | None,
) -> Trainer:
    training = task.settings.training
    return Trainer(
        accelerator=accelerator_for(task.settings),
        devices=1,
        strategy=strategy,
        plugins=environment,
        precision=precision.in_lightning,
        logger=_loggers(task.home, last),
        callbacks=callbacks,
        max_epochs=-1,
        max_steps=training.iterations,
        val_check_interval=training.validate_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps=min(training.validate_every, 50),
        gradient_clip_val=None if training.gradient_clip == "none" else training.gradient_clip,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def accelerator_for(settings: Settings) -> str:
    """The device of the settings, as Lightning calls it; one that this machine lacks is refused."""
    asked = settings.training.device
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if asked == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[asked]:
        remedy = '"auto" takes what there is.'
        raise InvalidArgument("training.device", "a device of this machine", repr(asked), remedy)
    return asked


def _loggers(home: Path | None, last: Path | None) -> list[Logger] | Literal[False]:
    if home is None:
        return False
    # Each start has logs of its own: a resumed run must not delete those of its past.
    starts = len(list((home / "logs").glob("start_*"))) if last else 0
    return [
        CSVLogger(home, name="logs", version=f"start_{starts}"),
        TensorBoardLogger(home, name="logs", version=f"start_{starts}"),
    ]


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
    began = _began(last)
    if _identity(began) != _identity(settings):
        key = next(key for key, value in _identity(settings).items() if value != _identity(began)[key])
        remedy = f"The run began with {_identity(began)[key]!r}; resume it so, or name another folder."
        raise InvalidArgument(key, "what the run in the folder has", repr(_identity(settings)[key]), remedy)
    return last


def _began(last: Path) -> Settings:
    """The settings that a run began with."""
    try:
        return recorded_settings(torch.load(last, map_location="cpu", weights_only=True)["settings"])
    except (RuntimeError, UnpicklingError, EOFError, KeyError):
        remedy = f"Remove {LAST} to begin again, or put {BEST} in its place."
        raise InvalidArgument("folder", "the folder of a run", f"one whose {LAST} is damaged", remedy) from None


def _identity(settings: Settings) -> dict[str, Any]:
    """What may not change between the parts of one run."""
    tables = to_dict(settings).items()
    return {f"{name}.{key}": table[key] for name, table in tables for key in table if key not in _MAY_DIFFER}


def _check_shapes(model: Model, training: Source, validation: Source) -> None:
    for examples in (training, validation):
        model.check_observations(torch.empty(len(examples), *examples.shape, device="meta"), leading=2)
    if int(validation.labels.max()) >= model.classes:
        remedy = f"The model has {model.classes} classes."
        raise InvalidArgument("labels", f"in 0..{model.classes - 1}", int(validation.labels.max()), remedy)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let Lightning keep its news, its advice and those of its warnings that do not concern the user to itself."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for message in _CHATTER:
            warnings.filterwarnings("ignore", message=message)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt: Lightning would end the whole process, and leave the signal ignored."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as leaving:
        if not isinstance(leaving.__context__, KeyboardInterrupt):
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        raise KeyboardInterrupt from None
