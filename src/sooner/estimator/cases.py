"""The door of scikit-learn: what its tools pass as X and y, checked by its own checks."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d
from torch import Tensor

from sooner.errors import InvalidArgument


def as_cases(X: Any, estimator: Any) -> Any:  # noqa: N803  (what every time-series library calls it)
    """Tensors, and lists of one array for each series, as they are; all else is an array or becomes one."""
    if isinstance(X, Tensor) or _one_for_each(X):
        return X
    # Missing values are our own matter: they are masked, or refused by series and time.
    return check_array(X, allow_nd=True, ensure_all_finite=False, estimator=estimator, input_name="X")


def as_targets(y: Any) -> npt.NDArray[Any]:
    """One label for each series; a number that could be a measurement is no label."""
    if y is None:
        remedy = "This estimator requires y to be passed, but the target y is None."
        raise InvalidArgument("y", "the labels of the series", "None", remedy)
    labels: npt.NDArray[Any] = column_or_1d(y.cpu() if isinstance(y, Tensor) else y, warn=True)
    check_classification_targets(labels)
    return labels


def features_in(cases: Any) -> int:
    """What scikit-learn calls the features of an array: all but its first axis. Of a list, the channels."""
    return int(np.shape(cases[0])[0]) if isinstance(cases, list | tuple) else int(np.prod(cases.shape[1:]))


def _one_for_each(X: Any) -> bool:  # noqa: N803
    """Whether this is a list or an object array of series, each with axes of its own."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return len(X) > 0
    return isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 0 and not np.isscalar(X[0][0])
