"""A plan run by workers of a Ray cluster that share its stages, as several terminals on one machine would."""

from dataclasses import replace
from pathlib import Path

from sooner.engines.ray.cluster import connected
from sooner.engines.ray.workers import share_out
from sooner.errors import InvalidArgument, WorkersLost
from sooner.lab.experiments.plan import Plan
from sooner.lab.experiments.run import Silent, Stages, Work, run, wanted_of
from sooner.lab.experiments.stages import Stage


def run_together(plan: Plan, work: Work, workers: int | None = None) -> Stages:
    """Run all unfinished stages; a killed worker is restarted, and its stage resumes if it can.

    Args:
        plan: its trainings must use the local engine.
        work: its folder, and that of videos, must be on a disk that all machines share. The observer is called for every
            finished stage.
        workers: number of concurrent stages; by default one per core of the cluster.
    """
    trained = (*plan.contenders, *([plan.encoder] if plan.encoder else []))
    if any(each.settings.training.engine != "local" for each in trained):
        remedy = "Its trainings use workers themselves: run it without --engine."
        raise InvalidArgument("engine", "'local' for this plan", "'ray'", remedy)
    work = replace(work, folder=work.folder.resolve())
    stages, wanted = wanted_of(plan, work)
    with connected(cpus=workers) as ray:
        many = max(1, int(ray.cluster_resources().get("CPU", 0))) if workers is None else workers
        work.folder.mkdir(parents=True, exist_ok=True)
        task = plan, replace(work, verbose=False, observer=Silent())
        share_out(_work, task, many, meanwhile=_StageLog(wanted, work).tell)
    if any(stage.outcome(work.folder) is None for stage in wanted):
        raise WorkersLost("The plan", f"Finished stages are in {work.folder}; the same call resumes from there.")
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


class _StageLog:
    """Calls the observer for every stage that the workers have finished."""

    def __init__(self, wanted: list[Stage], work: Work) -> None:
        self._wanted, self._work = wanted, work
        self._open = [stage for stage in wanted if stage.outcome(work.folder) is None]

    def tell(self) -> None:
        for stage in [stage for stage in self._open if stage.outcome(self._work.folder) is not None]:
            self._open.remove(stage)
            number = len(self._wanted) - len(self._open)
            self._work.observer.stage(f"{stage.label}, done", number, len(self._wanted), None)
