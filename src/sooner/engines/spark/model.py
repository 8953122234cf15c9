"""A classifier on its way to the workers: sent once to each executor, and unpickled once in each of its processes."""

import hashlib
from typing import Any

import torch

from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier

_LOADED: dict[str, EarlyClassifier] = {}
"""By the hash of what was sent; a process of Spark serves many batches."""
_KEPT = 4


class SentModel:
    """A classifier, as a broadcast of Spark. It is unpickled where it is used, not where a reference to it arrives.

    Args:
        session: of Spark.
        classifier: fitted.
    """

    def __init__(self, session: Any, classifier: EarlyClassifier) -> None:
        from pyspark import cloudpickle
        from pyspark.errors import PySparkException

        pickled = cloudpickle.dumps(classifier)
        self._digest = hashlib.sha256(pickled).hexdigest()
        try:
            self._broadcast = session.sparkContext.broadcast(pickled)
        except PySparkException:  # Spark Connect has no broadcasts
            remedy = "Start the query where the driver of Spark runs."
            raise InvalidArgument("df", "of a classic Spark session", "one of Spark Connect", remedy) from None

    def __reduce__(self) -> tuple[Any, ...]:
        _, (number,) = self._broadcast.__reduce__()  # which also tells Spark that the task needs it
        return _ReceivedModel, (number, self._digest)


class _ReceivedModel:
    """The reference to a classifier in a worker."""

    def __init__(self, number: int, digest: str) -> None:
        self._number, self._digest = number, digest

    def classifier(self) -> EarlyClassifier:
        """The classifier."""
        if self._digest not in _LOADED:
            from pyspark import cloudpickle
            from pyspark.core.broadcast import _from_id

            torch.set_num_threads(1)  # Spark runs as many processes as there are cores
            while len(_LOADED) >= _KEPT:
                del _LOADED[next(iter(_LOADED))]
            _LOADED[self._digest] = cloudpickle.loads(_from_id(self._number).value)
        return _LOADED[self._digest]
