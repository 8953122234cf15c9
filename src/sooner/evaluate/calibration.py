"""How well probabilities agree with what happens: reliability by bins, expected calibration error, and log loss."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.evaluate.intervals import exact_limits
from sooner.inputs import as_real, as_whole
from sooner.types import ArrayLike, FloatArray, IntArray

BINS = 15


@dataclass(frozen=True, eq=False)
class Reliability:
    """Probabilities of the named class beside how often it was right, in bins of equal width.

    Attributes:
        edges: (bins + 1,), from 0 to 1.
        counts: (bins,), number of series.
        confidence: (bins,), mean probability of the named class; NaN in an empty bin.
        accuracy: (bins,), share of series for which that class is the true one; NaN in an empty bin.
        low: (bins,), lower end of the exact 95% confidence interval of the accuracy.
        high: (bins,), its upper end.
        log_loss: mean of - log(probability of the true class).
    """

    edges: FloatArray
    counts: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    log_loss: float

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |confidence - accuracy| over series."""
        filled = self.counts > 0
        gap = np.abs(self.confidence - self.accuracy)[filled]
        return float(gap @ self.counts[filled] / self.counts.sum())

    def to_dict(self) -> dict[str, Any]:
        """For JSON; None in empty bins."""
        arrays = {
            name: [None if np.isnan(cell) else cell for cell in value.tolist()]
            if isinstance(value, np.ndarray)
            else value
            for name, value in asdict(self).items()
        }
        return {"error": self.error, **arrays}

    def __str__(self) -> str:
        return (
            f"expected calibration error {self.error:.2%}, log loss {self.log_loss:.4f}, "
            f"on {int(self.counts.sum()):,} series"
        )


def reliability(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> Reliability:
    """Compare the largest probability of each series with how often its class is the true one.

    Args:
        probabilities: (series, classes), rows that add up to 1, for example the result of `predict_proba`.
        labels: (series,), class indices in 0..K-1.
        bins: number of bins of equal width.

    >>> found = reliability([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], [0, 1, 1, 1], bins=2)
    >>> found.counts, found.confidence.round(3), found.accuracy
    (array([0, 4]), array([  nan, 0.825]), array([ nan, 0.75]))
    >>> print(found)
    expected calibration error 7.50%, log loss 0.7469, on 4 series
    """
    shares, truths = _checked(probabilities, labels)
    bins = as_whole(bins, name="bins", low=1, remedy="It is the number of bins.")
    best = shares.max(axis=1)
    right = shares.argmax(axis=1) == truths
    index = np.minimum((best * bins).astype(np.int64), bins - 1)
    counts = np.bincount(index, minlength=bins)
    correct = np.bincount(index, right, minlength=bins)
    filled = np.maximum(counts, 1)
    low, high = exact_limits(correct, filled)
    empty = counts == 0
    confidence, accuracy, low, high = (
        np.where(empty, np.nan, column)
        for column in (np.bincount(index, best, minlength=bins) / filled, correct / filled, low, high)
    )
    edges = np.linspace(0, 1, bins + 1)
    return Reliability(edges, counts, confidence, accuracy, low, high, _log_loss(shares, truths))


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> float:
    """The mean over series of |confidence - accuracy| of their bin (see `reliability`).

    >>> expected_calibration_error([[0.75, 0.25]] * 4, [0, 0, 0, 1])
    0.0
    """
    return reliability(probabilities, labels, bins=bins).error


def log_loss(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The mean of - log(probability of the true class).

    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    return _log_loss(*_checked(probabilities, labels))


def _log_loss(shares: FloatArray, truths: IntArray) -> float:
    with np.errstate(divide="ignore"):
        return -float(np.log(shares[np.arange(len(truths)), truths]).mean())


def _checked(probabilities: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, IntArray]:
    shares, truths = as_real(probabilities, name="probabilities"), as_real(labels, name="labels")
    if shares.ndim != 2 or 0 in shares.shape or (shares < 0).any() or not np.allclose(shares.sum(axis=1), 1, atol=1e-4):
        expected = "of shape (series, classes), each row non-negative with the sum 1"
        remedy = "Pass the result of `predict_proba`."
        raise InvalidArgument("probabilities", expected, f"shape {shares.shape}", remedy)
    whole = truths.astype(np.int64)
    if truths.shape != (len(shares),) or (whole != truths).any() or whole.min() < 0 or whole.max() >= shares.shape[1]:
        expected = f"{len(shares)} class indices in 0..{shares.shape[1] - 1}"
        remedy = "Give the index of each true class in the columns of `probabilities`."
        raise InvalidArgument("labels", expected, f"shape {truths.shape}", remedy)
    return shares, whole
