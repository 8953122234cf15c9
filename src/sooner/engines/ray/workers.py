"""Workers of a Ray cluster for independent tasks."""

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from sooner.engines.ray.cluster import POLL_SECONDS, RETRIES
from sooner.errors import InvalidArgument
from sooner.train.precision import refuse_half_on_cpu
from sooner.train.settings import Settings

_STOP_SECONDS = 10.0
"""Time that cancelled workers have to stop."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def share_out(
    act: Callable[[Task, int], None],
    task: Task,
    workers: int,
    *,
    gpus: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Call `act(task, worker)` in every worker, and wait for all of them.

    A failed worker is restarted up to `RETRIES` times; after that, its work is left to the others. An exception in a worker is
    raised here, and cancels the others.

    Args:
        act: a module-level function.
        task: the first argument.
        workers: number of workers; their indices count from 0.
        gpus: GPUs per worker, in addition to one core.
        meanwhile: called repeatedly while waiting.
    """
    import ray
    from ray.exceptions import RayError

    call = ray.remote(_call).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
    sent = [ray.put(task)]
    running = [call.remote(act, sent, worker) for worker in range(workers)]
    try:
        while running:
            done, running = ray.wait(running, timeout=POLL_SECONDS)
            meanwhile()
            for worker in done:
                try:
                    _result(worker)
                except RayError:
                    continue
    except BaseException:
        _cancel(running)
        raise


def in_order(act: Callable[[Task, int], Result], task: Task, count: int, workers: int) -> Generator[Result, None, None]:
    """Yield `act(task, 0)`, `act(task, 1)`, ... for `count` indices, computed by at most `workers` workers at a time.

    A call whose worker fails is repeated up to `RETRIES` times; then Ray's error is raised. An exception in `act` is raised here.
    """
    import ray

    call = ray.remote(_call).options(num_cpus=1, max_retries=RETRIES)
    sent = [ray.put(task)]
    calls: list[Any] = []
    running: list[Any] = []
    try:
        for index in range(count):
            while True:
                while len(running) < workers and len(calls) < count:
                    calls.append(call.remote(act, sent, len(calls)))
                    running.append(calls[-1])
                if calls[index] not in running:
                    break
                _, running = ray.wait(running)
            yield _result(calls[index])
            calls[index] = None  # frees the result
    finally:
        _cancel(running)


def _call(act: Callable[[Any, int], Any], sent: list[Any], index: int) -> Any:
    return act(_fetched(sent[0]), index)


@lru_cache(maxsize=1)
def _fetched(reference: Any) -> Any:
    """The task, which stays in the process from one call to the next."""
    import ray

    return ray.get(reference)


def _result(call: Any) -> Any:
    import ray

    try:
        return ray.get(call)
    except ray.exceptions.RayTaskError as failed:
        raise failed.cause from None


def _cancel(running: list[Any]) -> None:
    import ray

    for call in running:
        ray.cancel(call)
    if running:
        ray.wait(running, num_returns=len(running), timeout=_STOP_SECONDS)


def settings_on(ray: Any, settings: Settings, workers: int) -> Settings:
    """The settings with the device of the workers: GPUs if the cluster has enough for all of them."""
    asked, gpus = settings.training.device, int(ray.cluster_resources().get("GPU", 0))
    if asked == "mps" or (asked == "cuda" and gpus < workers):
        got = f"{asked!r} for {workers} worker(s) where the cluster has {gpus} GPU(s)"
        raise InvalidArgument("training.device", "one that every worker has", got, '"auto" takes what there is.')
    device = asked if asked != "auto" else "cuda" if gpus >= workers else "cpu"
    refuse_half_on_cpu(device, settings)
    return replace(settings, training=replace(settings.training, device=device))
