"""Class priors, and their logarithm as an offset of scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sooner.errors import InvalidArgument
from sooner.inputs import as_weights
from sooner.types import FloatArray, IntArray


def prior_offset(priors: Any, classes: Sequence[Any], counts: IntArray) -> npt.NDArray[np.float32]:
    """(classes,): the log prior, 0 for the most frequent class; `counts` are the training series of each class.

    >>> prior_offset({"ill": 1, "well": 4}, ["ill", "well"], np.array([5, 5])).round(3).tolist()
    [-1.3860000371932983, 0.0]
    """
    logs = np.log(class_shares(priors, classes, counts))
    offset: npt.NDArray[np.float32] = (logs - logs.max()).astype(np.float32)
    return offset


def class_shares(priors: Any, classes: Sequence[Any], counts: IntArray) -> FloatArray:
    """(classes,): what the classes are expected to weigh in use, up to a factor."""
    shares: FloatArray
    if isinstance(priors, str):
        if priors not in ("equal", "training"):
            expected = "'equal', 'training', or one number for each class"
            raise InvalidArgument("priors", expected, repr(priors), "A dict from classes to numbers will do.")
        shares = np.ones(len(counts)) if priors == "equal" else counts.astype(np.float64)
    else:
        if isinstance(priors, Mapping):
            if set(priors) != set(classes):
                got = sorted(priors, key=str)
                raise InvalidArgument("priors", f"one for each of {list(classes)}", got, "Name all of them.")
            priors = [priors[name] for name in classes]
        shares = as_weights(priors, len(counts), name="priors")
        if not shares.all():
            raise InvalidArgument("priors", "above 0", shares.tolist(), "A class that cannot come needs no classifier.")
    return shares
