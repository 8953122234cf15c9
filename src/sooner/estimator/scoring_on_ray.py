"""The units of a table, decided by the workers of a Ray cluster.

Ray Data carries the numbers of the units to the workers and what they found back, in order, as a stream: an input of a few
bytes and one message of rows for each unit. The workers read the files themselves, so these must be where all of them can
see them. A unit whose worker dies is given to another one by Ray; since a unit comes back whole or not at all, no series is
lost and none comes twice.
"""

import logging
import pickle
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from sooner.cluster import connected
from sooner.errors import SoonerError, WorkersLost
from sooner.estimator.scoring import Outcome, Scoring
from sooner.inputs import as_whole


def outcomes(scoring: Scoring, address: str | None, workers: int | None) -> Generator[Outcome, None, None]:
    """What was found in the units, in their order.

    Args:
        scoring: fetched by every worker once.
        address: of a running cluster, or None to start one here for as long as it takes.
        workers: how many, each with a core; by default one for each core of the cluster.
    """
    if workers is not None:
        workers = as_whole(workers, name="workers", low=1, remedy="They share the units.")
    with connected(address, cpus=workers if address is None else None) as ray:
        from ray import data

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what goes wrong is raised as well
        kept, units = ray.put(scoring), len(scoring.plan.units)
        given = data.from_items([{"unit": unit} for unit in range(units)], override_num_blocks=units)
        given.context.execution_options.preserve_order = True
        done = given.map_batches(
            _decided,
            batch_size=None,
            fn_kwargs={"kept": [kept]},
            compute=data.TaskPoolStrategy(workers),
            num_cpus=1,
        )
        try:
            for batch in done.iter_batches(batch_size=None, batch_format="pyarrow"):
                for message in batch.column("outcome").to_pylist():
                    yield _opened(message)
        except ray.exceptions.RayError:
            raise WorkersLost("The scoring", "Nothing was written.") from None


def _decided(batch: Mapping[str, Any], kept: list[Any]) -> Any:
    """In a process of the cluster: what was found in each unit.

    A sentence about bad data travels like a result, for another try would not help.
    """
    found: list[bytes] = []
    for unit in batch["unit"].tolist():
        try:
            outcome: Outcome | Exception = _fetched(kept[0]).outcome(unit)
        except (SoonerError, OSError) as error:
            outcome = error
        found.append(pickle.dumps(outcome))
    return pa.table({"outcome": pa.array(found, pa.large_binary())})


@lru_cache(maxsize=1)
def _fetched(kept: Any) -> Scoring:
    """The model and the plan, which stay in the process from one unit to the next."""
    import ray

    scoring: Scoring = ray.get(kept)
    return scoring


def _opened(message: bytes) -> Outcome:
    found: Outcome | Exception = pickle.loads(message)
    if isinstance(found, Exception):
        raise found
    return found
