"""X and y as scikit-learn's tools pass them, checked by scikit-learn's own checks."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_entries, as_weights
from sooner.series import Series
from sooner.series.frame import is_frame, refuse_ambiguous
from sooner.types import IntArray

_OWN_CHECKS = (Tensor, np.ma.MaskedArray)  # scikit-learn does not know them, or ignores the mask


def labelled_series(X: Any, y: Any, groups: Any, sample_weight: Any, estimator: Any) -> Series:  # noqa: N803
    """The labelled series for `fit`; sets the number of features of the estimator."""
    if isinstance(X, Series):
        series = Series.of(X, None if y is None else as_targets(y), groups=groups)
        estimator.n_features_in_ = int(np.prod(series.features))
        if bool(series.mask_channels) != (estimator.missing == "mask"):
            got = f"{series.mask_channels} mask channels"
            remedy = (
                'Pass missing="mask" to both, or to neither: later series are read with the option of the classifier.'
            )
            raise InvalidArgument("X", f"a Series read with missing={estimator.missing!r}", got, remedy)
    else:
        cases = as_cases(X, estimator)
        series = Series.from_aeon(cases, as_targets(y), groups=groups, missing=estimator.missing)
        estimator.n_features_in_ = features_in(cases)
    if sample_weight is not None:
        weights = as_weights(np.asarray(sample_weight), len(series), name="sample_weight")
        series = replace(series, weights=torch.as_tensor(weights))
    return series.require_labels()


def series_for(X: Any, classifier: Any) -> Series:  # noqa: N803
    """The series for a fitted classifier, with the channels that it was trained on."""
    if not isinstance(X, Series):
        return Series.from_aeon(as_cases(X, classifier), missing=classifier.missing)
    channels = None if classifier.columns_ is None else classifier.columns_.channels
    return X if channels is None else X.with_channels(channels)


def as_cases(X: Any, estimator: Any) -> Any:  # noqa: N803  (what every time-series library calls it)
    """Tensors, and lists with one array for each series, unchanged; everything else as a checked array."""
    if isinstance(X, _OWN_CHECKS) or _is_list_of_series(X):
        return X
    if is_frame(X):
        refuse_ambiguous(X)  # a long table must not be taken for a wide one
    # Missing values are checked later: they are masked, or refused by series and time.
    return check_array(X, allow_nd=True, ensure_all_finite=False, estimator=estimator, input_name="X")


def as_targets(y: Any) -> npt.NDArray[Any]:
    """One label for each series; continuous numbers are refused."""
    if y is None:
        remedy = "This estimator requires y to be passed, but the target y is None."
        raise InvalidArgument("y", "the labels of the series", "None", remedy)
    labels: npt.NDArray[Any] = column_or_1d(as_entries(y, name="y") if isinstance(y, _OWN_CHECKS) else y, warn=True)
    with np.errstate(invalid="ignore"):  # 1e300 would be a warning in the check for whole numbers
        try:
            check_classification_targets(labels)
        except TypeError:
            raise InvalidArgument("y", "of one type", "several", "Turn the labels all into text.") from None
    return labels


def class_indices(y: Any, classes: npt.NDArray[Any]) -> IntArray:
    """Labels as indices into the classes."""
    names, known = as_targets(y).tolist(), classes.tolist()
    index_of = {name: index for index, name in enumerate(known)}
    indices = [index_of.get(name, -1) for name in names]
    if -1 in indices:
        unknown = indices.index(-1)
        got = f"{names[unknown]!r} at index {unknown}"
        raise InvalidArgument("y", f"among the classes {known}", got, "It was not in training.")
    return np.asarray(indices, dtype=np.int64)


def features_in(cases: Any) -> int:
    """The number of features in scikit-learn's sense: all axes but the first, or the channels of a list of series."""
    return int(np.shape(cases[0])[0]) if isinstance(cases, list | tuple) else int(np.prod(cases.shape[1:]))


def _is_list_of_series(X: Any) -> bool:  # noqa: N803
    """Whether this is a list or an object array with one array for each series."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return len(X) > 0
    if not isinstance(X, list | tuple) or len(X) == 0:
        return False
    shapes = [_shape(case) for case in X]
    return any(len(shape) > 1 for shape in shapes) or len(set(shapes)) > 1


def _shape(case: Any) -> tuple[int, ...]:
    """The shape, from the first entries of nested lists."""
    if hasattr(case, "shape"):
        return tuple(case.shape)
    return (len(case), *_shape(case[0])) if isinstance(case, list | tuple) and len(case) else ()
