"""Workers of a Ray cluster: several that train one model together, or several that share out what can be done apart.

Training is Ray Train around the same loop. Each step's batch is the one that a single process would read, every
worker reads its own part of it, and the gradients' mean over the workers is the batch's; only the first worker writes. When
a worker dies, Ray starts all of them again from the last checkpoint. Some things are not as in one process:

- Batch normalisation takes the moments of each worker's own part, and validation those that the first worker has gathered.
- The constraint in the losses `lsifwc` and `barr`, and the baseline's loss of `earliest`, are no means over series: they become
  the means of those of the parts.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from sooner.cluster import RETRIES, connected
from sooner.errors import InvalidArgument, SoonerError, WorkersLost
from sooner.settings import Settings
from sooner.train.learner import Validation
from sooner.train.loop import Task, accelerator_for, fit
from sooner.train.observers import Bar, Observer
from sooner.train.precision import Precision, precision_on, refuse_half_on_cpu, warn_of
from sooner.train.record import Outcome
from sooner.train.selection import LAST
from sooner.train.team import Team

_PATIENCE = 0.5  # seconds between two looks at what workers have to say
_FAREWELL = 10.0  # seconds for workers who were told to stop

T = TypeVar("T")


def fit_together(task: Task, *, verbose: bool, watch: Callable[[Validation], None] | None) -> Outcome:
    """Train by workers of the cluster that this process is connected to, or else of one on this machine.

    What they come to is returned; the model here stays as it is.

    Args:
        task: its folder must be on a disk that all machines share. Without one a dead worker costs all that was done.
        verbose: show a bar that moves with every validation.
        watch: told about every validation, soon after it; what it raises ends the training after a later one. So does Ctrl-C; a
            second one does not wait for it.
    """
    workers = task.settings.training.workers
    _refuse_too_few(task, workers)
    with connected(cpus=workers) as ray:
        from ray.train import TrainingFailedError

        cores = int(ray.cluster_resources().get("CPU", 0))
        if workers > cores:  # they begin together or not at all, and Ray would wait for more machines without a word
            remedy = "Start more machines first, or ask for fewer."
            raise InvalidArgument("training.workers", f"at most {cores}, the cores of the cluster", workers, remedy)
        task = replace(task, settings=settings_there(ray, task.settings, workers))
        if task.home is not None:
            task.home.mkdir(parents=True, exist_ok=True)
        told = _Told(task.settings.training.iterations, verbose=verbose, watch=watch)
        # Whatever is raised inside closes the queue, and that ends the run; the pool waits for it.
        with _hushed(), TemporaryDirectory() as notes, ThreadPoolExecutor(1) as pool, _queue(ray) as news, told:
            trainer = _trainer({"task": ray.put(task), "news": news}, task.settings, notes)
            run = pool.submit(trainer.fit)
            while not run.done():
                wait([run], timeout=_PATIENCE)
                told.empty(news)
            told.empty(news)
            try:
                sealed = run.result().return_value
            except TrainingFailedError as failed:
                raise _reason(failed, task.home) from None
    outcome: Outcome = pickle.loads(sealed)
    return outcome


def share_out(
    act: Callable[[T, int], None], task: T, workers: int, *, gpus: int = 0, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Let every worker do `act(task, worker)`, and wait for all of them.

    One that dies is started again, `RETRIES` times; one that is lost for good is left to the others. What one raises is raised
    here, and ends the others.

    Args:
        act: a function of a module.
        task: travels once, whatever the number of workers.
        workers: how many, counted from 0.
        gpus: for each of them, beside one core.
        meanwhile: called again and again.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    loop = ray.remote(act).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
    shared = ray.put(task)
    running = [loop.remote(shared, worker) for worker in range(workers)]
    try:
        while running:
            done, running = ray.wait(running, timeout=_PATIENCE)
            meanwhile()
            for each in done:
                try:
                    ray.get(each)
                except RayTaskError as failed:
                    raise failed.cause from None
                except RayError:
                    continue
    except BaseException:
        for each in running:
            ray.cancel(each)
        if running:
            ray.wait(running, num_returns=len(running), timeout=_FAREWELL)
        raise


def settings_there(ray: Any, settings: Settings, workers: int) -> Settings:
    """The settings with the device that workers have: GPUs where the cluster has enough for all of them."""
    asked, gpus = settings.training.device, int(ray.cluster_resources().get("GPU", 0))
    if asked == "mps" or (asked == "cuda" and gpus < workers):
        got = f"{asked!r} for {workers} worker(s) where the cluster has {gpus} GPU(s)"
        raise InvalidArgument("training.device", "one that every worker has", got, '"auto" takes what there is.')
    device = asked if asked != "auto" else "cuda" if gpus >= workers else "cpu"
    refuse_half_on_cpu(device, settings)
    return replace(settings, training=replace(settings.training, device=device))


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
    """What each worker of a training does; the first one's answer is for the driver alone, so it stays sealed on its way."""
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
        if accelerator_for(task.settings) == "cuda":
            torch.cuda.set_device(get_device())
        last, precision = _agreed(task.home, team), _agreed_precision(task.settings, team)
        if precision.note and team.leads:
            news.put(pickle.dumps(precision))
        outcome = fit(task, last, [_Relay(news, team)], precision, team)
    except Exception as error:
        if _final(error):
            news.put(pickle.dumps(error))
        raise
    return pickle.dumps(outcome)


def _agreed(home: Path | None, team: Team) -> Path | None:
    """The checkpoint to go on from, as the first worker sees it: files may be late to appear on other machines."""
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
    own = precision_on(accelerator_for(settings), settings)
    return next((each for each in team.gather(own) if each.note), own)


def _final(error: Exception) -> bool:
    """Whether it would come again: when one worker dies, the connections of the others break, and that is no reason to end."""
    return isinstance(error, SoonerError) or not isinstance(error, RuntimeError | OSError)


class _Relay(Observer):
    """Tells the driver about every validation; a driver that has closed the queue wants the run to end."""

    def __init__(self, news: Any, team: Team) -> None:
        self._news = news
        self._team = team

    def validated(self, found: Validation, best: Validation) -> bool:
        """Tell, and let all workers know whether the driver listens."""
        return self._team.agree(self._team.leads and self._tell(found, best))

    def _tell(self, found: Validation, best: Validation) -> bool:
        from ray.exceptions import ActorDiedError, ActorUnavailableError

        try:
            self._news.put(pickle.dumps((found, best)))
        except ActorDiedError:
            return False
        except ActorUnavailableError:  # the way there is blocked for a while; the news are lost, and nothing else
            return True
        return True


class _Told:
    """What the driver does with the news."""

    def __init__(self, iterations: int, *, verbose: bool, watch: Callable[[Validation], None] | None) -> None:
        self._bar = Bar(iterations) if verbose else None
        self._watch = watch

    def __enter__(self) -> "_Told":
        if self._bar is not None:
            self._bar.show(0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.ended()

    def empty(self, queue: Any) -> None:
        """Take all that is in the queue."""
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
            self._bar.move(found.step)
            self._bar.name(best)
        if self._watch is not None:
            self._watch(found)


@contextmanager
def _hushed() -> Iterator[None]:
    """Let Ray keep its advice to its own authors to itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\.")
        yield


@contextmanager
def _queue(ray: Any) -> Iterator[Any]:
    """On this machine, so that it lives as long as the driver does."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    try:
        yield queue
    finally:
        queue.shutdown(force=True)


def _reason(failed: Any, home: Path | None) -> Exception:
    """Why Ray has given up: what the workers have raised, or else that one has died too often."""
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
