"""The shards of a table, decided by the workers of a Ray cluster.

Ray Data carries the numbers of the shards to the workers and what they found back, in order, as a stream: an input of a few
bytes and one message of rows for each shard. The workers read the files themselves, so these must be where all of them can
see them. A shard whose worker dies is given to another one by Ray; since a shard comes back whole or not at all, no series is
lost and none comes twice.
"""

import logging
import pickle
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from sooner.engines.ray.cluster import connected
from sooner.errors import SoonerError, WorkersLost
from sooner.estimator.bulk import Scoring, ShardResult
from sooner.inputs import as_whole


def shard_results(scoring: Scoring, address: str | None, workers: int | None) -> Generator[ShardResult, None, None]:
    """What was found in the shards, in their order.

    Args:
        scoring: fetched by every worker once.
        address: Ray address, or None for a temporary local cluster.
        workers: number of workers, with one core each; by default one per core of the cluster.
    """
    if workers is not None:
        workers = as_whole(workers, name="workers", low=1, remedy="They share the shards.")
    with connected(address, cpus=workers if address is None else None) as ray:
        from ray import data

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what goes wrong is raised as well
        kept, shards = ray.put(scoring), len(scoring.plan.shards)
        given = data.from_items([{"shard": shard} for shard in range(shards)], override_num_blocks=shards)
        given.context.execution_options.preserve_order = True
        done = given.map_batches(
            _decide,
            batch_size=None,
            fn_kwargs={"kept": [kept]},
            compute=data.TaskPoolStrategy(workers),
            num_cpus=1,
        )
        try:
            for batch in done.iter_batches(batch_size=None, batch_format="pyarrow"):
                for message in batch.column("result").to_pylist():
                    yield _unpickled(message)
        except ray.exceptions.RayError:
            raise WorkersLost("The scoring", "Nothing was written.") from None


def _decide(batch: Mapping[str, Any], kept: list[Any]) -> Any:
    """In a process of the cluster: what was found in each shard.

    An error about invalid data is returned like a result, because a retry would not help.
    """
    messages: list[bytes] = []
    for shard in batch["shard"].tolist():
        try:
            result: ShardResult | Exception = _fetch(kept[0]).decide_shard(shard)
        except (SoonerError, OSError) as error:
            result = error
        messages.append(pickle.dumps(result))
    return pa.table({"result": pa.array(messages, pa.large_binary())})


@lru_cache(maxsize=1)
def _fetch(kept: Any) -> Scoring:
    """The model and the plan, which stay in the process from one shard to the next."""
    import ray

    scoring: Scoring = ray.get(kept)
    return scoring


def _unpickled(message: bytes) -> ShardResult:
    found: ShardResult | Exception = pickle.loads(message)
    if isinstance(found, Exception):
        raise found
    return found
