"""A plan run by workers of a Ray cluster, which share its stages as several processes on one machine do."""

from dataclasses import replace

from sooner.engines.ray.cluster import connected
from sooner.engines.ray.workers import share_out
from sooner.errors import InvalidArgument, WorkersLost
from sooner.lab.experiments.plan import Plan
from sooner.lab.experiments.run import SilentObserver, Stages, Work, run, wanted_of


def run_together(plan: Plan, work: Work, workers: int | None = None) -> Stages:
    """Run all unfinished stages; a killed worker is restarted, and its stage resumes if it can.

    Args:
        plan: its trainings must use the local engine.
        work: its folder, and that of videos, must be on a disk that all machines share. The observer is called for every
            finished stage.
        workers: number of concurrent stages; by default one per core of the cluster.
    """
    trained = (*plan.contenders, *([plan.encoder] if plan.encoder else []))
    if any(contender.settings.training.engine != "local" for contender in trained):
        remedy = "Its trainings use workers themselves: run it without --engine."
        raise InvalidArgument("engine", "'local' for this plan", "'ray'", remedy)
    work = replace(work, folder=work.folder.resolve())
    stages, wanted = wanted_of(plan, work)
    unfinished = [stage for stage in wanted if stage.outcome(work.folder) is None]

    def report_finished() -> None:
        for stage in [stage for stage in unfinished if stage.outcome(work.folder) is not None]:
            unfinished.remove(stage)
            work.observer.stage(f"{stage.label}, done", len(wanted) - len(unfinished), len(wanted), None)

    with connected(cpus=workers) as ray:
        count = max(1, int(ray.cluster_resources().get("CPU", 0))) if workers is None else workers
        work.folder.mkdir(parents=True, exist_ok=True)
        task = plan, replace(work, verbose=False, observer=SilentObserver())
        share_out(_work, task, count, meanwhile=report_finished)
    if any(stage.outcome(work.folder) is None for stage in wanted):
        raise WorkersLost("The plan", f"Finished stages are in {work.folder}; the same call resumes from there.")
    return stages


def _work(task: tuple[Plan, Work], worker: int) -> None:
    plan, work = task
    if not work.folder.is_dir():
        got = f"{work.folder}, which worker {worker} does not see"
        remedy = "Name a folder on such a disk."
        raise InvalidArgument("work", "on a disk that all machines of the cluster share", got, remedy)
    run(plan, work)
