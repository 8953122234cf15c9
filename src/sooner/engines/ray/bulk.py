"""The shards of a table, decided by the workers of a Ray cluster.

A worker gets the number of a shard and returns its decisions. Workers read the files themselves, so all of them must be able to
see the files. A shard is complete or repeated, so no series is lost or duplicated.
"""

from collections.abc import Generator

from sooner.engines.ray.cluster import connected
from sooner.engines.ray.workers import in_order
from sooner.errors import WorkersLost
from sooner.estimator.bulk import Scoring, ShardResult
from sooner.inputs import as_whole


def shard_results(scoring: Scoring, address: str | None, workers: int | None) -> Generator[ShardResult, None, None]:
    """The results of the shards, in order.

    Args:
        scoring: fetched by every worker once.
        address: Ray address, or None for a temporary local cluster.
        workers: number of workers, with one core each; by default one per core of the cluster.
    """
    if workers is not None:
        workers = as_whole(workers, name="workers", low=1, remedy="They share the shards.")
    with connected(address, cpus=workers if address is None else None) as ray:
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 0)))
        try:
            yield from in_order(Scoring.decide_shard, scoring, len(scoring.plan.shards), count)
        except ray.exceptions.RayError:
            raise WorkersLost("The scoring", "Nothing was written.") from None
