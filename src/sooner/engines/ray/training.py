"""Data-parallel training by workers of a Ray cluster.

Ray Train runs the same training loop in every worker. The batch of a step is the same as in a single process, every worker reads
its share of it, and the mean of the workers' gradients is the gradient of the batch. Only the first worker writes files. If a
worker fails, Ray restarts all workers from the last checkpoint. There are two differences from a single process:

- Batch normalisation uses the statistics of each worker's share, and validation the running statistics of the first worker.
- The constraint in the losses `lsifwc` and `barr`, and the baseline loss of `earliest`, are not means over series: they become
  means over the shares.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sooner.engines.ray.cluster import POLL_SECONDS, RETRIES, connected
from sooner.engines.ray.workers import settings_there
from sooner.errors import InvalidArgument, SoonerError, WorkersLost
from sooner.train.learner import StateDict, Validation
from sooner.train.loop import Task, device_for, fit
from sooner.train.observers import Bar, Observer
from sooner.train.precision import Precision, precision_on, warn_of
from sooner.train.record import TrainingRecord
from sooner.train.selection import LAST
from sooner.train.settings import Settings
from sooner.train.team import Team


def fit_together(
    task: Task, *, verbose: bool, watch: Callable[[Validation], None] | None
) -> tuple[TrainingRecord, StateDict]:
    """Train with workers of the connected cluster, or of a temporary local one; returns the record and the best weights.

    The model in this process is not changed.

    Args:
        task: its folder must be on a disk that all machines share. Without a folder, a failed worker loses all progress.
        verbose: show a progress bar that moves with every validation.
        watch: called with every validation, soon after it; an exception in it ends the training after a later validation. So does
            Ctrl-C; a second Ctrl-C ends it at once.
    """
    workers = task.settings.training.workers
    _refuse_too_few(task, workers)
    with connected(cpus=workers) as ray:
        from ray.train import TrainingFailedError

        cores = int(ray.cluster_resources().get("CPU", 0))
        if workers > cores:  # all workers start together, and Ray would silently wait for more machines
            remedy = "Start more machines first, or ask for fewer."
            raise InvalidArgument("training.workers", f"at most {cores}, the cores of the cluster", workers, remedy)
        task = replace(task, settings=settings_there(ray, task.settings, workers))
        if task.folder is not None:
            task.folder.mkdir(parents=True, exist_ok=True)
        progress = _Progress(task.settings.training.iterations, verbose=verbose, watch=watch)
        # Whatever is raised inside closes the queue, and that ends the run; the pool waits for it.
        with (
            _without_ray_warnings(),
            TemporaryDirectory() as notes,
            ThreadPoolExecutor(1) as pool,
            _queue(ray) as news,
            progress,
        ):
            trainer = _trainer({"task": ray.put(task), "news": news}, task.settings, notes)
            run = pool.submit(trainer.fit)
            while not run.done():
                wait([run], timeout=POLL_SECONDS)
                progress.empty(news)
            progress.empty(news)
            try:
                sealed = run.result().return_value
            except TrainingFailedError as failed:
                raise _reason(failed, task.folder) from None
    result: tuple[TrainingRecord, StateDict] = pickle.loads(sealed)
    return result


def _trainer(job: dict[str, Any], settings: Settings, notes: str) -> Any:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    class Plain(TorchTrainer):  # type: ignore[misc]
        """Without the cleaner, a process that asks Ray's dashboard about the run.

        Where there is no dashboard it holds the end up for 12 seconds, and stays on the cluster forever. What it cleans,
        should the controller die, Ray removes with the controller anyway.
        """

        def _create_default_callbacks(self) -> list[Any]:
            usual = super()._create_default_callbacks()
            return [each for each in usual if type(each).__name__ != "PlacementGroupCleanerCallback"]

    return Plain(
        _work,
        train_loop_config=job,
        scaling_config=ScalingConfig(num_workers=settings.training.workers, use_gpu=settings.training.device == "cuda"),
        # Nothing is reported to Ray, whose notes are of no use later: checkpoints are those of every other run.
        run_config=RunConfig(storage_path=notes, failure_config=FailureConfig(max_failures=RETRIES)),
    )


def _work(job: dict[str, Any]) -> bytes | None:
    """Run by each worker; the result of the first one is pickled here, so that only the driver unpickles it."""
    import ray
    import torch
    from ray.exceptions import ActorDiedError
    from ray.train.torch import get_device

    news = job["news"]
    try:
        news.size()
    except ActorDiedError:
        return None
    try:
        task = ray.get(job["task"])
        team = Team.of_process_group()
        if device_for(task.settings) == "cuda":
            torch.cuda.set_device(get_device())
        last, precision = _agreed(task.folder, team), _agreed_precision(task.settings, team)
        if precision.note and team.leads:
            news.put(pickle.dumps(precision))
        result = fit(task, last, [_Relay(news, team)], precision, team)
    except Exception as error:
        if _final(error):
            news.put(pickle.dumps(error))
        raise
    return pickle.dumps(result)


def _agreed(home: Path | None, team: Team) -> Path | None:
    """The checkpoint to resume from, as seen by the first worker, because files may appear later on other machines."""
    if home is None:
        return None
    if not home.is_dir():
        remedy = "Name a folder on such a disk."
        raise InvalidArgument("folder", "on a disk that all machines of the cluster share", str(home), remedy)
    return home / LAST if team.agree((home / LAST).exists()) else None


def _agreed_precision(settings: Settings, team: Team) -> Precision:
    """The precision of all workers: each tries its own CPU, and if bfloat16 fails on one of them, all use float32.

    Gradients of two precisions must not be averaged, and float32 is what every machine has.
    """
    own = precision_on(device_for(settings), settings)
    return next((each for each in team.gather(own) if each.note), own)


def _final(error: Exception) -> bool:
    """Whether a retry would not help; if one worker dies, the connections of the others break, which is worth a retry."""
    return isinstance(error, SoonerError) or not isinstance(error, RuntimeError | OSError)


class _Relay(Observer):
    """Sends every validation to the driver; a closed queue means that the run should end."""

    def __init__(self, news: Any, team: Team) -> None:
        self._news = news
        self._team = team

    def validated(self, found: Validation, best: Validation) -> bool:
        """Send the validation, and tell all workers whether the queue is open."""
        return self._team.agree(self._team.leads and self._tell(found, best))

    def _tell(self, found: Validation, best: Validation) -> bool:
        from ray.exceptions import ActorDiedError, ActorUnavailableError

        try:
            self._news.put(pickle.dumps((found, best)))
        except ActorDiedError:
            return False
        except ActorUnavailableError:  # a temporary failure; only this message is lost
            return True
        return True


class _Progress:
    """Shows the validations from the queue in the driver."""

    def __init__(self, iterations: int, *, verbose: bool, watch: Callable[[Validation], None] | None) -> None:
        self._bar = Bar(iterations) if verbose else None
        self._watch = watch

    def __enter__(self) -> "_Progress":
        if self._bar is not None:
            self._bar.show(0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.ended()

    def empty(self, queue: Any) -> None:
        """Process all messages in the queue."""
        for sealed in queue.get_nowait_batch(queue.size()):
            self._tell(pickle.loads(sealed))

    def _tell(self, news: Any) -> None:
        if isinstance(news, Exception):
            raise news
        if isinstance(news, Precision):
            warn_of(news)
            return
        found, best = news
        if self._bar is not None:
            self._bar.validated(found, best)
        if self._watch is not None:
            self._watch(found)


@contextmanager
def _without_ray_warnings() -> Iterator[None]:
    """Suppress Ray's internal warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\.")
        yield


@contextmanager
def _queue(ray: Any) -> Iterator[Any]:
    """A queue on this machine, so that it lives as long as the driver."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    try:
        yield queue
    finally:
        queue.shutdown(force=True)


def _reason(failed: Any, home: Path | None) -> Exception:
    """The exception of the workers, or `WorkersLost` if one failed too often."""
    errors = getattr(failed, "worker_failures", {}).values()
    raised = [getattr(error, "_base_exc", None) for error in errors]
    first = next(iter(raised), None)
    if isinstance(first, Exception) and None not in raised:
        return first
    kept = "Nothing was kept." if home is None else f"It can be resumed from its last checkpoint, in {home}."
    return WorkersLost("The training", kept)


def _refuse_too_few(task: Task, workers: int) -> None:
    for name, source in (("training", task.training), ("validation", task.validation)):
        if len(source) < workers:
            got = f"{len(source)} in {name}"
            raise InvalidArgument(
                "observations", f"of at least {workers} series, one for each worker", got, "Ask for fewer workers."
            )
