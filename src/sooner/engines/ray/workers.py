"""Workers of a Ray cluster for independent tasks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from sooner.engines.ray.cluster import POLL_SECONDS, RETRIES
from sooner.errors import InvalidArgument
from sooner.train.precision import refuse_half_on_cpu
from sooner.train.settings import Settings

_STOP_SECONDS = 10.0
"""Time that cancelled workers have to stop."""

T = TypeVar("T")


def share_out(
    act: Callable[[T, int], None], task: T, workers: int, *, gpus: int = 0, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Call `act(task, worker)` in every worker, and wait for all of them.

    A failed worker is restarted up to `RETRIES` times; after that, its work is left to the others. An exception in a worker is
    raised here, and cancels the others.

    Args:
        act: a module-level function.
        task: the first argument; it is sent once, for any number of workers.
        workers: number of workers; their indices count from 0.
        gpus: GPUs per worker, in addition to one core.
        meanwhile: called repeatedly while waiting.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    loop = ray.remote(act).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
    shared = ray.put(task)
    running = [loop.remote(shared, worker) for worker in range(workers)]
    try:
        while running:
            done, running = ray.wait(running, timeout=POLL_SECONDS)
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
            ray.wait(running, num_returns=len(running), timeout=_STOP_SECONDS)
        raise


def settings_there(ray: Any, settings: Settings, workers: int) -> Settings:
    """The settings with the device of the workers: GPUs if the cluster has enough for all of them."""
    asked, gpus = settings.training.device, int(ray.cluster_resources().get("GPU", 0))
    if asked == "mps" or (asked == "cuda" and gpus < workers):
        got = f"{asked!r} for {workers} worker(s) where the cluster has {gpus} GPU(s)"
        raise InvalidArgument("training.device", "one that every worker has", got, '"auto" takes what there is.')
    device = asked if asked != "auto" else "cuda" if gpus >= workers else "cpu"
    refuse_half_on_cpu(device, settings)
    return replace(settings, training=replace(settings.training, device=device))
