"""A linear classifier on many features of few series, with its leave-one-out outputs.

======== ==================================================================================
symbol   meaning
======== ==================================================================================
X        features, centred, of unit deviation and scaled so that a row has norm about 1
Y        1 for the true class of a series and -1 for the others, centred
a        the ridge penalty
h_i      the leverage of series i, H_ii with H = X (X'X + a)^-1 X' + 1/M
======== ==================================================================================

Leaving series i out changes its residual from r_i to r_i / (1 - h_i), so one fit gives all leave-one-out residuals. Leaving a
whole group G out changes its residuals from r_G to (1 - H_GG)^-1 r_G.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sooner.models.calibration import Calibration, IntVector, calibrate, deal, log_softmax

RIDGES = np.logspace(-4, 1, 11)
CROSS_FITS = 5
_SMALL = 1e-6

FeatureMatrix = Float[np.ndarray, "rows features"]
Outputs = Float[np.ndarray, "rows classes"]


@dataclass(frozen=True)
class Linear:
    """Calibrated evidence of each class, (features - centre) @ weights + bias, up to a shared term.

    `left_out` are the leave-one-out outputs for the training series, and `cross_fitted` the same with a calibration that was
    fitted without the series' own fold: K biases fitted to few series make `left_out` too confident.
    """

    centre: Float[np.ndarray, " features"]
    weights: Float[np.ndarray, "features classes"]
    bias: Float[np.ndarray, " classes"]
    left_out: Outputs
    cross_fitted: Outputs


class _Fit(NamedTuple):
    coefficients: Float[np.ndarray, "features classes"]
    left_out: Outputs


def fit_linear(
    features: FeatureMatrix,
    labels: IntVector,
    *,
    classes: int,
    blocks: tuple[int, ...],
    weights: np.ndarray,
    groups: IntVector,
) -> Linear:
    """Fit the ridge penalty and the calibration with the smallest leave-one-out log loss.

    Args:
        features: (rows, features).
        labels: (rows,), in 0..classes-1, each of them present.
        classes: number of classes.
        blocks: number of features in each block; all blocks have equal weight, whatever their size.
        weights: (rows,), the weights of the series, with mean 1.
        groups: (rows,), group IDs; the series of a group are left out together.
    """
    centre = np.average(features, axis=0, weights=weights)
    deviation = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weights))
    sizes = np.repeat(blocks, blocks)
    scale = np.where(deviation > _SMALL, 1 / np.maximum(deviation, _SMALL) / np.sqrt(sizes), 0.0)
    targets = 2 * np.eye(classes)[labels] - 1
    mean = np.average(targets, axis=0, weights=weights)
    members = np.bincount(labels, weights=weights, minlength=classes)
    log_prior = np.log(members / members.sum())
    several = known_elsewhere(labels, groups)
    fits: list[tuple[float, _Fit, Calibration]] = []
    for fit in _ridges((features - centre) * scale, targets - mean, weights, groups):
        outputs = (fit.left_out + mean)[several]
        calibration = calibrate(outputs, labels[several], log_prior, weights=weights[several])
        fits.append((_log_loss(calibration(outputs) + log_prior, labels[several], weights[several]), fit, calibration))
    _, fit, calibration = min(fits, key=itemgetter(0))
    slope, bias = calibration.slope, calibration.slope * mean + calibration.bias
    left_out = slope * fit.left_out + bias
    cross_fitted = _cross_fitted(fit.left_out + mean, labels, log_prior, weights, groups, calibration)
    return Linear(centre, slope * scale[:, None] * fit.coefficients, bias, left_out, cross_fitted)


def _cross_fitted(
    left_out: Outputs,
    labels: IntVector,
    log_prior: np.ndarray,
    weights: np.ndarray,
    groups: IntVector,
    calibration: Calibration,
) -> Outputs:
    """The outputs of each fold, calibrated on the other folds; `calibration` is the fallback. A group lies in one fold."""
    several = known_elsewhere(labels, groups)
    first, member = np.unique(groups, return_index=True, return_inverse=True)[1:]
    fold_of = deal(labels[first], folds=CROSS_FITS, seed=0)[member]
    outputs: Outputs = calibration(left_out)
    for fold in range(CROSS_FITS):
        rows, others = fold_of == fold, several & (fold_of != fold)
        if rows.any() and len(np.unique(labels[others])) > 1:
            fitted = calibrate(left_out[others], labels[others], log_prior, weights=weights[others])
            outputs[rows] = fitted(left_out[rows])
    return outputs


def _ridges(x: FeatureMatrix, y: Outputs, weights: np.ndarray, groups: IntVector) -> Iterator[_Fit]:
    """A fit for every ridge penalty, from one decomposition of the smaller of X X' and X' X."""
    root = np.sqrt(weights)[:, None]
    x, y = root * x, root * y
    if len(x) <= x.shape[1]:
        squares, left = np.linalg.eigh(x @ x.T)
        squares = squares.clip(min=0)
    else:
        squares, right = np.linalg.eigh(x.T @ x)
        keep = squares > _SMALL * squares.max(initial=_SMALL)
        squares, left = squares[keep], x @ right[:, keep] / np.sqrt(squares[keep])
    rotated = left.T @ y
    # The mean is fitted too: one more direction, which no ridge shrinks.
    mean = root / np.sqrt(weights.sum())
    several = [rows for rows in _members(groups) if len(rows) > 1]
    for ridge in RIDGES:
        shrunk = squares / (squares + ridge)
        leverage = (left**2) @ shrunk + mean[:, 0] ** 2
        residual = y - left @ (shrunk[:, None] * rotated)
        left_out = residual / (1 - leverage).clip(min=_SMALL)[:, None]
        for rows in several:
            hat = (left[rows] * shrunk) @ left[rows].T + mean[rows] @ mean[rows].T
            left_out[rows] = np.linalg.lstsq(np.eye(len(rows)) - hat, residual[rows], rcond=_SMALL)[0]
        yield _Fit(x.T @ (left @ (rotated / (squares + ridge)[:, None])), (y - left_out) / root)


def _members(groups: IntVector) -> list[IntVector]:
    """The rows of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def known_elsewhere(labels: IntVector, groups: IntVector) -> np.ndarray:
    """(rows,): True for series whose class is in another group too, so that it remains if their group is left out."""
    _, index, count = np.unique(np.stack([labels, groups]), axis=1, return_inverse=True, return_counts=True)
    known: np.ndarray = np.bincount(labels)[labels] > count[index.ravel()]
    return known


def _log_loss(logits: Outputs, labels: IntVector, weights: np.ndarray) -> float:
    return -float(weights @ log_softmax(logits)[np.arange(len(labels)), labels]) if len(labels) else 0.0
