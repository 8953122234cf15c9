"""A plan carried out by workers of a Ray cluster that share its stages, as several terminals on one machine would."""

from dataclasses import replace
from pathlib import Path

from sooner.cluster import connected
from sooner.errors import InvalidArgument, WorkersLost
from sooner.experiment.plan import Plan
from sooner.experiment.run import Silent, Stages, Work, run, wanted_of
from sooner.experiment.stages import Stage
from sooner.train.workers import share_out


def run_together(plan: Plan, work: Work, workers: int | None = None) -> Stages:
    """Do every stage that is not done yet; a worker that dies is started again, and its stage goes on where it knows how.

    Args:
        plan: its trainings must be local ones.
        work: its folder, and that of videos, must be on a disk that all machines share. The observer hears of every stage that
            is done.
        workers: how many stages are done at a time; by default one on each core of the cluster.
    """
    settings = [each.settings for each in plan.contenders] + ([plan.encoder] if plan.encoder else [])
    if any(each.training.engine != "local" for each in settings):
        remedy = "Its trainings ask for workers themselves: carry it out without."
        raise InvalidArgument("engine", "'local' for this plan", "'ray'", remedy)
    work = replace(work, folder=work.folder.resolve())
    stages, wanted = wanted_of(plan, work)
    with connected(cpus=workers) as ray:
        many = max(1, int(ray.cluster_resources().get("CPU", 0))) if workers is None else workers
        work.folder.mkdir(parents=True, exist_ok=True)
        task = plan, replace(work, verbose=False, observer=Silent())
        share_out(_work, task, many, meanwhile=_Done(wanted, work).tell)
    if any(stage.outcome(work.folder) is None for stage in wanted):
        raise WorkersLost("The plan", f"What is done is in {work.folder}; the same call goes on from there.")
    return stages


def _work(task: tuple[Plan, Work], worker: int) -> None:
    plan, work = task
    _refuse_elsewhere(work.folder, worker)
    run(plan, work)


def _refuse_elsewhere(folder: Path, worker: int) -> None:
    if not folder.is_dir():
        got = f"{folder}, which worker {worker} does not see"
        remedy = "Name a folder on such a disk."
        raise InvalidArgument("work", "on a disk that all machines of the cluster share", got, remedy)


class _Done:
    """Tells the observer of every stage that others have done."""

    def __init__(self, wanted: list[Stage], work: Work) -> None:
        self._wanted, self._work = wanted, work
        self._open = [stage for stage in wanted if stage.outcome(work.folder) is None]

    def tell(self) -> None:
        for stage in [stage for stage in self._open if stage.outcome(self._work.folder) is not None]:
            self._open.remove(stage)
            place = len(self._wanted) - len(self._open)
            self._work.observer.stage(f"{stage.label}, done", place, len(self._wanted), None)
