"""A study that workers of a Ray cluster share: each asks it for a trial, trains alone, and tells it what came out."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import optuna
from optuna.trial import TrialState

from sooner.cluster import connected
from sooner.errors import InvalidArgument, WorkersLost
from sooner.settings import changed
from sooner.train.workers import settings_there, share_out
from sooner.tune.study import Search, database_at, has_room, quiet

_ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def search_together(search: Search, study: optuna.Study, workers: int | None) -> None:
    """Let workers of a cluster do the trials, each with one core and, where there are enough, one GPU."""
    if search.storage is None:
        remedy = "For example postgresql://host/studies, or on one machine sqlite:///study.db."
        raise InvalidArgument("storage", "a database that all workers reach", None, remedy)
    with connected(cpus=workers) as ray:
        needed = "GPU" if search.settings.training.device == "cuda" else "CPU"
        many = max(1, int(ray.cluster_resources().get(needed, 0))) if workers is None else workers
        alone = changed(search.settings, {"training.engine": "local", "training.workers": 1})
        there = settings_there(ray, alone, many)
        call = uuid4().hex
        study.set_user_attr(call, "shared")
        try:
            gpus = int(there.training.device == "cuda")
            share_out(_work, (replace(search, settings=there), call), many, gpus=gpus, meanwhile=_News(study).tell)
        finally:
            _bury(study, call)
    if has_room(study, search.trials):
        raise WorkersLost("The study", "The same call goes on with it.")


def _work(task: tuple[Search, str], worker: int) -> None:
    """What each worker does; if there was one before it in its place, that one was killed, and its trial with it."""
    search, call = task
    mark = f"{call}/{worker}/"
    with quiet(verbose=False), database_at(search.storage) as database, _patient() as check:
        study = search.study_in(database, mark)
        if call not in study.user_attrs:
            remedy = "A file on the disk of one machine is not: name a server, or a disk that they share."
            raise InvalidArgument("storage", "a database that all workers reach", repr(search.storage), remedy)
        _bury(study, mark)
        search.go_on(study, check)


@contextmanager
def _patient() -> Iterator[Callable[[], None]]:
    """Let a worker that is told to stop do so when it is asked, not in the midst of an entry that locks the study for others."""
    told: list[int] = []

    def check() -> None:
        if told:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _bury(study: optuna.Study, mark: str) -> None:
    """Let the trials of this mark that seem to run count no more: nobody is left to do them."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.user_attrs.get("worker", "").startswith(mark):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


class _News:
    """Says in Optuna's own log, as verbose as that is, how the trials of others went."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._known = {trial.number for trial in study.get_trials(deepcopy=False)}

    def tell(self) -> None:
        for trial in self._study.get_trials(deepcopy=False, states=_ENDED):
            if trial.number not in self._known:
                self._known.add(trial.number)
                said = trial.number, trial.state.name.lower(), trial.value, trial.params
                optuna.logging.get_logger("optuna").info("Trial %d: %s, %s, %s", *said)
