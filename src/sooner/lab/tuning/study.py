"""Tuning: Optuna's TPE searches for the settings with the best selection metric.

A study is stored in a database, and any number of processes and machines may work on it at once. TPE's proposal for trial n is
a function of (seed, n, the earlier trials), so a single process gives the same result whether or not it was interrupted.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import optuna
import torch
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import ArgumentError, DBAPIError

from sooner.errors import InvalidArgument, NoTrialFinished, TrainingDiverged, UnknownName
from sooner.inputs import as_whole
from sooner.lab.tuning.space import SearchSpace
from sooner.models.base import Model
from sooner.train import Source, Validation, train
from sooner.train.learner import isolated_rng
from sooner.train.record import versions
from sooner.train.settings import Settings, SettingsDict, changed, to_dict, write_toml
from sooner.train.upgrade import is_outdated, recorded_settings

MakeModel: TypeAlias = Callable[[Settings], Model]

PRUNERS: Mapping[str, Callable[[], BasePruner]] = {"median": MedianPruner, "none": NopPruner}
HEARTBEAT, GRACE = 20, 60
"""Seconds between heartbeats of a running trial, and seconds without one after which it counts as killed."""
_COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
_INDEX = "place"  # the name in existing databases


@dataclass(frozen=True)
class TrialRecord:
    """One trial: its settings, its metric, its final state, and its duration.

    `state` is "complete", "pruned", "diverged" (the loss was not finite), "failed" or, in another process, "running".
    `seconds` is None for a trial that did not end.
    """

    number: int
    state: str
    values: Mapping[str, Any] = field(hash=False)
    metric: float | None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "values": dict(self.values)}


@dataclass(frozen=True)
class TuningRecord:
    """The result of a study so far, over all processes."""

    study: str
    settings: Settings
    metric: float
    trials: tuple[TrialRecord, ...]
    seed: int
    seconds: float
    versions: Mapping[str, str] = field(hash=False)

    @property
    def best(self) -> TrialRecord:
        """The first trial with the best metric."""
        finished = [trial for trial in self.trials if trial.metric is not None]
        return max(finished, key=lambda trial: (trial.metric or 0.0, -trial.number))

    def to_json(self) -> str:
        """The record as JSON."""
        trials = [trial.to_dict() for trial in self.trials]
        about = {"study": self.study, "seed": self.seed, "versions": dict(self.versions), "seconds": self.seconds}
        result = {"metric": self.metric, "settings": to_dict(self.settings), "trials": trials}
        return json.dumps({**about, **result}, indent=2)

    def write(self, folder: Path) -> None:
        """Write the best settings, `best.toml`, and the record, `record.json`, into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_toml(self.settings, folder / "best.toml")
        (folder / "record.json").write_text(self.to_json() + "\n", encoding="utf-8")


def tune(
    make_model: MakeModel,
    training: Source,
    validation: Source,
    settings: Settings,
    space: SearchSpace,
    *,
    trials: int,
    study: str = "sooner",
    storage: str | None = None,
    pruner: str = "median",
    seed: int = 0,
    folder: str | PathLike[str] | None = None,
    verbose: bool = False,
    workers: int | None = None,
) -> TuningRecord:
    """Search for the settings whose training reaches the best selection metric.

    With `training.engine = "ray"` the trials run on workers of a cluster, one trial per worker.

    Args:
        make_model: returns an untrained model for the settings of a trial, with weights from torch's generator.
        training: training data, see `sooner.train.train`.
        validation: validation data for the selection metric.
        settings: settings that all trials share.
        space: the search space.
        trials: total number of trials, over all processes and resumptions; trials that crashed, or were killed more than a
            minute ago, do not count. A killed worker of a cluster is restarted at once.
        study: name of the study in the storage.
        storage: a database URL, for example "sqlite:///study.db"; by default in memory. All machines must reach it.
        pruner: "median" stops a trial that is below the median of earlier ones, "none" stops none.
        seed: random seed of the search; the seed of the trainings is in the settings.
        folder: output folder for `best.toml` and the record; without it only the storage is written.
        verbose: show Optuna's log.
        workers: number of concurrent trials on a cluster; by default one per core.
    """
    trials = as_whole(trials, name="trials", low=1, remedy="It is the total number of trials of the study.")
    if pruner not in PRUNERS:
        raise UnknownName("pruner", pruner, PRUNERS)
    if workers is not None:
        workers = as_whole(workers, name="workers", low=1, remedy="It counts trials that run at a time.")
        if settings.training.engine == "local":
            remedy = 'This process does one trial at a time: set training.engine = "ray".'
            raise InvalidArgument("workers", "None where training.engine is 'local'", workers, remedy)
    space.check(settings)
    started = time.monotonic()
    search = Search(make_model, training, validation, settings, space, trials, study, storage, pruner, seed)
    with quiet(verbose), database_at(storage) as database:
        shared = search.study_in(database, "here")
        if settings.training.engine == "ray":
            from sooner.lab.tuning.workers import search_together

            search_together(search, shared, workers)
        else:
            search.run(shared)
        record = _record(shared, settings, seed, time.monotonic() - started)
    if folder is not None:
        record.write(Path(folder))
    return record


@dataclass(frozen=True, eq=False)
class Search:
    """The arguments of `tune` after validation, as a process needs them to work on a study."""

    make_model: MakeModel
    training: Source
    validation: Source
    settings: Settings
    space: SearchSpace
    trials: int
    study: str
    storage: str | None
    pruner: str
    seed: int

    def study_in(self, database: RDBStorage | None, mark: str) -> optuna.Study:
        """The new or existing study; its trials get the mark of this worker."""
        study = optuna.create_study(
            study_name=self.study,
            storage=database,
            sampler=_NumberedTPE(self.seed, mark),
            pruner=PRUNERS[self.pruner](),
            direction="maximize",
            load_if_exists=True,
        )
        known, identity = study.user_attrs.get("searches"), _identity(self.settings, self.space)
        if known is not None and _comparable(known) != identity:
            remedy = "Its trials cannot be compared with these: name another study."
            raise InvalidArgument("study", "a study of the same settings and space", repr(self.study), remedy)
        study.set_user_attr("searches", identity)
        return study

    def run(self, study: optuna.Study, check: Callable[[], None] = lambda: None) -> None:
        """Run trials until the budget is used; `check` is called at every validation and may raise to stop."""
        with suppress(_BeyondBudget):
            while has_room(study, self.trials):
                study.optimize(lambda trial: self._metric(trial, check), n_trials=1)

    def _metric(self, trial: Trial, check: Callable[[], None]) -> float:
        """Sample settings, train, and report every validation to the pruner."""
        if trial.number not in _counted(trial.study)[: self.trials]:
            trial.set_user_attr(_BEYOND, True)
            raise _BeyondBudget
        values = self.space.draw(trial)
        try:
            settings = changed(self.settings, values)
            with isolated_rng():
                torch.manual_seed(settings.training.seed)
                model = self.make_model(settings)
        except InvalidArgument as refused:
            # An invalid combination: it uses up its index, and the study continues.
            trial.set_user_attr("refused", str(refused))
            raise optuna.TrialPruned from refused

        def report(validation: Validation) -> None:
            check()
            trial.report(validation.metric, validation.step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            return train(model, self.training, self.validation, settings, watch=report).best.metric
        except TrainingDiverged as diverged:
            trial.set_user_attr("diverged", str(diverged))
            raise optuna.TrialPruned from diverged


_BEYOND = "beyond the budget"


class _BeyondBudget(Exception):
    """Another process took the last trial of the budget at the same time; this trial is not run."""


def _free_index(study: optuna.Study, number: int) -> int:
    """The first index, from 0, that no earlier counted trial has; the index of a killed trial is reused."""
    earlier = [trial for trial in study.get_trials(deepcopy=False, states=_COUNTED) if trial.number < number]
    used = {trial.user_attrs.get(_INDEX) for trial in earlier}
    choosing = sum(_INDEX not in trial.user_attrs for trial in earlier)  # they come first
    return [index for index in range(len(used) + choosing + 1) if index not in used][choosing]


class _NumberedTPE(TPESampler):
    """TPE with a separate generator for each trial, seeded by (seed, index).

    With one generator for all, a study that is resumed, or shared by two processes, would sample the same values again.
    """

    def __init__(self, seed: int, mark: str) -> None:
        super().__init__(seed=seed)
        self._seed, self._mark = seed, mark

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        storage = study._storage
        storage.set_trial_user_attr(trial._trial_id, "worker", self._mark)
        if isinstance(storage, BaseHeartbeat):
            # Without a first heartbeat, a trial that is killed now would stay in the state "running".
            storage.record_heartbeat(trial._trial_id)
        index = _free_index(study, trial.number)
        storage.set_trial_user_attr(trial._trial_id, _INDEX, index)
        super().__init__(seed=int(np.random.SeedSequence([self._seed, index]).generate_state(1)[0]))
        super().before_trial(study, trial)


@contextmanager
def database_at(url: str | None) -> Iterator[RDBStorage | None]:
    """The storage at a URL; its connections are closed at the end."""
    if url is None:
        yield None
        return
    storage = _connected(url)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _connected(url: str) -> RDBStorage:
    # Of two processes that create the tables at the same time, one fails; its next attempt finds the tables.
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else None
    for wait in (0.2, 0.4, 0.8, 1.6, None):
        try:
            return RDBStorage(url, engine_kwargs=options, heartbeat_interval=HEARTBEAT, grace_period=GRACE)
        except ArgumentError:
            remedy = "For example sqlite:///study.db."
            raise InvalidArgument("storage", "the URL of a database", repr(url), remedy) from None
        except ImportError as error:
            remedy = "Install the driver of this database, for PostgreSQL: pip install psycopg2-binary."
            raise InvalidArgument("storage", "a database whose driver is installed", repr(url), remedy) from error
        except DBAPIError as error:
            if wait is None:
                remedy = f"The database says: {error.orig}."
                raise InvalidArgument("storage", "a database that answers", repr(url), remedy) from error
            time.sleep(wait)
    raise AssertionError


def _identity(settings: Settings, space: SearchSpace) -> dict[str, Any]:
    """The settings and the search space that all trials of a study share, as JSON types."""
    axes = {key: vars(axis) for key, axis in space.axes.items()}
    shared: dict[str, Any] = json.loads(json.dumps({"settings": _compared(settings), "space": axes}))
    return shared


def _compared(settings: Settings) -> SettingsDict:
    tables = to_dict(settings)
    for key in ("device", "engine", "workers"):  # one process trains each trial
        del tables["training"][key]
    return tables


def _comparable(known: dict[str, Any]) -> dict[str, Any] | None:
    """The shared settings of an existing study in today's meaning; None if they differ from trial to trial."""
    tables = known["settings"]
    # Trials of an earlier version scaled the weight decay by their own learning rate, and other optimizers were others.
    alike = tables["optimizer"]["name"] == "adamw" and not any(key.startswith("optimizer.") for key in known["space"])
    if is_outdated(tables) and not alike:
        return None
    return {**known, "settings": _compared(recorded_settings(tables))}


def has_room(study: optuna.Study, budget: int) -> bool:
    """Whether the budget allows another trial; trials that were killed a while ago are marked as failed first."""
    fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # Killed between its first entry and its mark, a trial has no heartbeat, so Optuna does not count it as stale. A whole
        # day, because its time is that of another machine, perhaps in another time zone.
        began = trial.datetime_start or datetime.now()
        if "worker" not in trial.user_attrs and datetime.now() - began > timedelta(days=1):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    return len(_counted(study)) < budget


def _counted(study: optuna.Study) -> list[int]:
    """The numbers of the trials that count towards the budget, ascending."""
    return sorted(trial.number for trial in study.get_trials(deepcopy=False, states=_COUNTED))


def _record(study: optuna.Study, settings: Settings, seed: int, seconds: float) -> TuningRecord:
    trials = [trial for trial in study.get_trials(deepcopy=False) if _BEYOND not in trial.user_attrs]
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if not finished:
        raise NoTrialFinished(study.study_name, len(trials))
    best = max(finished, key=lambda trial: (trial.value or 0.0, -trial.number))
    return TuningRecord(
        study=study.study_name,
        settings=changed(settings, best.params),
        metric=best.value or 0.0,
        trials=tuple(_trial(trial) for trial in trials),
        seed=seed,
        seconds=round(seconds, 3),
        versions={**versions(), "optuna": optuna.__version__},
    )


def _trial(trial: FrozenTrial) -> TrialRecord:
    names = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.RUNNING: "running"}
    state = "diverged" if "diverged" in trial.user_attrs else names.get(trial.state, "failed")
    seconds = None if trial.duration is None else round(trial.duration.total_seconds(), 1)
    return TrialRecord(trial.number, state, trial.params, trial.value if state == "complete" else None, seconds)


@contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Show Optuna's log, or only errors."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.ERROR)
    with warnings.catch_warnings():
        for feature in ("Argument ``heartbeat_interval``", ".*fail_stale_trials"):
            warnings.filterwarnings("ignore", rf"{feature} is (an )?experimental", ExperimentalWarning)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(level)
