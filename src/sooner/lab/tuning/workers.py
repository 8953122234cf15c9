"""A study shared by workers of a Ray cluster: each asks the study for a trial, trains it, and reports the result."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import optuna
from optuna.trial import TrialState

from sooner.engines.ray.cluster import connected
from sooner.engines.ray.workers import settings_on, share_out
from sooner.errors import InvalidArgument, WorkersLost
from sooner.lab.tuning.study import Search, database_at, has_room, quiet
from sooner.train.settings import changed

_ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def search_together(search: Search, study: optuna.Study, workers: int | None) -> None:
    """Run the trials on workers of a cluster, each with one core and, if there are enough, one GPU."""
    if search.storage is None:
        remedy = "For example postgresql://host/studies, or on one machine sqlite:///study.db."
        raise InvalidArgument("storage", "a database that all workers reach", None, remedy)
    known = {trial.number for trial in study.get_trials(deepcopy=False)}

    def log_finished() -> None:
        for trial in study.get_trials(deepcopy=False, states=_ENDED):
            if trial.number not in known:
                known.add(trial.number)
                result = trial.number, trial.state.name.lower(), trial.value, trial.params
                optuna.logging.get_logger("optuna").info("Trial %d: %s, %s, %s", *result)

    with connected(cpus=workers) as ray:
        needed = "GPU" if search.settings.training.device == "cuda" else "CPU"
        count = max(1, int(ray.cluster_resources().get(needed, 0))) if workers is None else workers
        alone = changed(search.settings, {"training.engine": "local", "training.workers": 1})
        settings = settings_on(ray, alone, count)
        call = uuid4().hex
        study.set_user_attr(call, "shared")
        try:
            gpus = int(settings.training.device == "cuda")
            share_out(_work, (replace(search, settings=settings), call), count, gpus=gpus, meanwhile=log_finished)
        finally:
            _fail_orphans(study, call)
    if has_room(study, search.trials):
        raise WorkersLost("The study", "The same call continues it.")


def _work(task: tuple[Search, str], worker: int) -> None:
    """Run by each worker; a running trial with the same mark belongs to a killed predecessor and is marked as failed."""
    search, call = task
    mark = f"{call}/{worker}/"
    with quiet(verbose=False), database_at(search.storage) as database, _delayed_interrupt() as check:
        study = search.study_in(database, mark)
        if call not in study.user_attrs:
            remedy = "A file on the disk of one machine is not: name a server, or a disk that they share."
            raise InvalidArgument("storage", "a database that all workers reach", repr(search.storage), remedy)
        _fail_orphans(study, mark)
        search.run(study, check)


@contextmanager
def _delayed_interrupt() -> Iterator[Callable[[], None]]:
    """Delay an interrupt until `check` is called, so that it does not occur while the worker holds the lock of the study."""
    signals: list[int] = []

    def check() -> None:
        if signals:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _fail_orphans(study: optuna.Study, mark: str) -> None:
    """Mark orphaned running trials as failed."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.user_attrs.get("worker", "").startswith(mark):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
