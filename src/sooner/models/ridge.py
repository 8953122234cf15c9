"""A linear classifier on many features of few series, with what it says about each series when that one is left out.

======== ==================================================================================
symbol   meaning
======== ==================================================================================
X        features, centred, of unit deviation and scaled so that a row has norm about 1
Y        1 for the true class of a series and -1 for the others, centred
a        the ridge
h_i      the leverage of series i, H_ii with H = X (X'X + a)^-1 X' + 1/M
======== ==================================================================================

Leaving series i out changes its residual from r_i to r_i / (1 - h_i): all of them are known from one fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sooner.models.calibration import Calibration, Rows, calibrate, log_softmax

RIDGES = np.logspace(-4, 1, 11)
_SMALL = 1e-6

Table = Float[np.ndarray, "rows features"]
Said = Float[np.ndarray, "rows classes"]


@dataclass(frozen=True)
class Linear:
    """Calibrated evidence of each class, (features - centre) @ weights + bias, up to a shared term.

    `left_out` is what it said about each training series without having seen it.
    """

    centre: Float[np.ndarray, " features"]
    weights: Float[np.ndarray, "features classes"]
    bias: Float[np.ndarray, " classes"]
    left_out: Said


class _Fit(NamedTuple):
    coefficients: Float[np.ndarray, "features classes"]
    left_out: Said


def fit_linear(features: Table, labels: Rows, *, classes: int, groups: tuple[int, ...], weights: np.ndarray) -> Linear:
    """The ridge and the calibration whose posteriors explain the series that were left out best.

    Args:
        features: (rows, features).
        labels: (rows,), in 0..classes-1, each of them present.
        classes: how many.
        groups: sizes of the groups of features; each group weighs the same, however large it is.
        weights: (rows,), of the series, with mean 1.
    """
    centre = np.average(features, axis=0, weights=weights)
    deviation = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weights))
    sizes = np.repeat(groups, groups)
    scale = np.where(deviation > _SMALL, 1 / np.maximum(deviation, _SMALL) / np.sqrt(sizes), 0.0)
    targets = 2 * np.eye(classes)[labels] - 1
    mean = np.average(targets, axis=0, weights=weights)
    members = np.bincount(labels, weights=weights, minlength=classes)
    log_prior = np.log(members / members.sum())
    # The only series of a class cannot be left out: nothing would be known of it.
    several = np.bincount(labels, minlength=classes)[labels] > 1
    best: tuple[float, _Fit, Calibration] | None = None
    for fit in _ridges((features - centre) * scale, targets - mean, weights):
        said = fit.left_out + mean
        calibration = calibrate(said[several], labels[several], log_prior, weights=weights[several])
        loss = _log_loss(calibration(said[several]) + log_prior, labels[several], weights[several])
        if best is None or loss < best[0]:
            best = loss, fit, calibration
    assert best is not None
    _, fit, (slope, shift) = best
    bias = slope * mean + shift
    return Linear(centre, slope * scale[:, None] * fit.coefficients, bias, slope * fit.left_out + bias)


def _ridges(x: Table, y: Said, weights: np.ndarray) -> Iterator[_Fit]:
    """A fit for every ridge, from one decomposition of the smaller of X X' and X' X."""
    root = np.sqrt(weights)[:, None]
    x, y = root * x, root * y
    if len(x) <= x.shape[1]:
        squares, left = np.linalg.eigh(x @ x.T)
        squares = squares.clip(min=0)
    else:
        squares, right = np.linalg.eigh(x.T @ x)
        keep = squares > _SMALL * squares.max(initial=_SMALL)
        squares, left = squares[keep], x @ right[:, keep] / np.sqrt(squares[keep])
    turned = left.T @ y
    for ridge in RIDGES:
        leverage = (left**2) @ (squares / (squares + ridge)) + weights / weights.sum()
        residual = y - left @ ((squares / (squares + ridge))[:, None] * turned)
        left_out = y - residual / (1 - leverage).clip(min=_SMALL)[:, None]
        yield _Fit(x.T @ (left @ (turned / (squares + ridge)[:, None])), left_out / root)


def _log_loss(logits: Said, labels: Rows, weights: np.ndarray) -> float:
    return -float(weights @ log_softmax(logits)[np.arange(len(labels)), labels]) if len(labels) else 0.0
