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
from sooner.engines.ray.workers import settings_on
from sooner.errors import InvalidArgument, SoonerError, WorkersLost
from sooner.train.learner import StateDict, Validation
from sooner.train.loop import Task, device_for, fit
from sooner.train.observers import Bar, Callback, Observer
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
        task = replace(task, settings=settings_on(ray, task.settings, workers))
        if task.folder is not None:
            task.folder.mkdir(parents=True, exist_ok=True)
        # An exception inside closes the queue, which ends the run; the pool waits for it.
        with (
            warnings.catch_warnings(),
            TemporaryDirectory() as storage,
            ThreadPoolExecutor(1) as pool,
            _queue(ray) as queue,
            _observers(task.settings.training.iterations, verbose=verbose, watch=watch) as observers,
        ):
            warnings.filterwarnings("ignore", module=r"ray\.")
            trainer = _trainer({"task": ray.put(task), "queue": queue}, task.settings, storage)
            run = pool.submit(trainer.fit)
            while not run.done():
                wait([run], timeout=POLL_SECONDS)
                _receive(queue, observers)
            _receive(queue, observers)
            try:
                result: tuple[TrainingRecord, StateDict] = pickle.loads(run.result().return_value)
            except TrainingFailedError as failed:
                raise _reason(failed, task.folder) from None
    return result


def _trainer(job: dict[str, Any], settings: Settings, storage: str) -> Any:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    class TrainerWithoutCleaner(TorchTrainer):  # type: ignore[misc]
        # Without a dashboard, the cleaner delays the end by 12 seconds, and its process stays on the cluster forever. Ray
        # removes the placement group with the controller anyway.
        def _create_default_callbacks(self) -> list[Any]:
            callbacks = super()._create_default_callbacks()
            return [callback for callback in callbacks if type(callback).__name__ != "PlacementGroupCleanerCallback"]

    return TrainerWithoutCleaner(
        _work,
        train_loop_config=job,
        scaling_config=ScalingConfig(num_workers=settings.training.workers, use_gpu=settings.training.device == "cuda"),
        # Ray's own files are not used: the training loop writes the checkpoints.
        run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=RETRIES)),
    )


def _work(job: dict[str, Any]) -> bytes | None:
    """Run by each worker; the result of the first one is pickled here, so that only the driver unpickles it."""
    import ray
    import torch
    from ray.exceptions import ActorDiedError
    from ray.train.torch import get_device

    queue = job["queue"]
    try:
        queue.size()
    except ActorDiedError:
        return None
    try:
        task = ray.get(job["task"])
        team = Team.of_process_group()
        if device_for(task.settings) == "cuda":
            torch.cuda.set_device(get_device())
        last, precision = _agreed(task.folder, team), _agreed_precision(task.settings, team)
        if precision.note and team.leads:
            queue.put(pickle.dumps(precision))
        result = fit(task, last, [_Relay(queue, team)], precision, team)
    except Exception as error:
        if _final(error):
            queue.put(pickle.dumps(error))
        raise
    return pickle.dumps(result)


def _agreed(folder: Path | None, team: Team) -> Path | None:
    """The checkpoint to resume from, as seen by the first worker, because files may appear later on other machines."""
    if folder is None:
        return None
    if not folder.is_dir():
        remedy = "Name a folder on such a disk."
        raise InvalidArgument("folder", "on a disk that all machines of the cluster share", str(folder), remedy)
    return folder / LAST if team.agree((folder / LAST).exists()) else None


def _agreed_precision(settings: Settings, team: Team) -> Precision:
    """The precision of all workers: each tries its own CPU, and if bfloat16 fails on one of them, all use float32.

    Gradients of two precisions must not be averaged, and float32 is what every machine has.
    """
    own = precision_on(device_for(settings), settings)
    return next((other for other in team.gather(own) if other.note), own)


def _final(error: Exception) -> bool:
    """Whether a retry would not help; if one worker dies, the connections of the others break, which is worth a retry."""
    return isinstance(error, SoonerError) or not isinstance(error, RuntimeError | OSError)


class _Relay(Observer):
    """Sends every validation to the driver; a closed queue means that the run should end."""

    def __init__(self, queue: Any, team: Team) -> None:
        self._queue = queue
        self._team = team

    def validated(self, validation: Validation, best: Validation) -> bool:
        """Send the validation; returns whether the queue is open, which all workers agree on."""
        return self._team.agree(self._team.leads and self._is_open_after((validation, best)))

    def _is_open_after(self, message: object) -> bool:
        from ray.exceptions import ActorDiedError, ActorUnavailableError

        try:
            self._queue.put(pickle.dumps(message))
        except ActorDiedError:
            return False
        except ActorUnavailableError:  # a temporary failure; only this message is lost
            return True
        return True


@contextmanager
def _observers(
    iterations: int, *, verbose: bool, watch: Callable[[Validation], None] | None
) -> Iterator[list[Observer]]:
    """The observers of the validations in the driver."""
    bar = [Bar(iterations)] if verbose else []
    try:
        for each in bar:
            each.show(0)
        yield [*bar, *([Callback(watch)] if watch else [])]
    finally:
        for each in bar:
            each.ended()


def _receive(queue: Any, observers: list[Observer]) -> None:
    """Process all messages in the queue."""
    for message in map(pickle.loads, queue.get_nowait_batch(queue.size())):
        if isinstance(message, Exception):
            raise message
        if isinstance(message, Precision):
            warn_of(message)
            continue
        for observer in observers:
            observer.validated(*message)


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


def _reason(failed: Any, folder: Path | None) -> Exception:
    """The exception of the workers, or `WorkersLost` if one failed too often."""
    raised = [getattr(error, "_base_exc", None) for error in getattr(failed, "worker_failures", {}).values()]
    first = next(iter(raised), None)
    if isinstance(first, Exception) and None not in raised:
        return first
    kept = "Nothing was kept." if folder is None else f"It can be resumed from its last checkpoint, in {folder}."
    return WorkersLost("The training", kept)


def _refuse_too_few(task: Task, workers: int) -> None:
    for name, source in (("training", task.training), ("validation", task.validation)):
        if len(source) < workers:
            got = f"{len(source)} in {name}"
            raise InvalidArgument(
                "observations", f"of at least {workers} series, one for each worker", got, "Ask for fewer workers."
            )
