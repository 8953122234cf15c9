"""Calibration of a classifier's evidence on held-out series.

======== ====================================================================================
symbol   meaning
======== ====================================================================================
e_k      log q_k - log pi_k, the evidence of a classifier, up to a term shared by all classes
a, b_k   the calibration: a slope (one over the temperature) and a bias for each class
======== ====================================================================================
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from sooner.types import FloatArray

Evidence = Float[np.ndarray, "rows present"]
LogPrior = Float[np.ndarray, " present"]
IntVector: TypeAlias = Int[np.ndarray, " rows"]


class Calibration(NamedTuple):
    """The map of evidence e_k to a e_k + b_k. It does not scale the prior, which would be a disadvantage for rare classes."""

    slope: float
    bias: Float[np.ndarray, " present"]

    def __call__(self, evidence: Evidence) -> Evidence:
        """The calibrated evidence."""
        calibrated: Evidence = self.slope * evidence + self.bias
        return calibrated


def deal(labels: IntVector, *, folds: int, seed: int) -> IntVector:
    """The fold in which each series is held out, or -1 for the only series of its class, which is never held out.

    Series are shuffled, sorted by class, and assigned to the folds in turn, so that each class is spread evenly.
    """
    _, column, members = np.unique(labels, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(members[column] > 1))
    fold_of = np.full(len(labels), -1)
    fold_of[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(shuffled)) % folds
    return fold_of


def calibrate(
    evidence: Evidence, columns: IntVector, log_prior: LogPrior, *, weights: Float[np.ndarray, " rows"] | None = None
) -> Calibration:
    """The slope and biases with the smallest log loss of the posteriors softmax(a e + b + log pi) of held-out series.

    log a and each b_k have a standard normal prior, which prevents extreme values with few series. Classes without a series
    keep the bias 0 and do not affect the slope; with fewer than two other classes there is no calibration. `columns` are the true
    classes, as columns of `evidence`; `weights` are those of the series, by default 1.
    """
    from scipy.optimize import minimize

    present, targets = np.unique(columns, return_inverse=True)
    bias = np.zeros(evidence.shape[1])
    if len(present) < 2:
        return Calibration(1.0, bias)
    e, truth = evidence[:, present], np.eye(len(present))[targets]
    counts = np.ones((len(e), 1)) if weights is None else weights[:, None]

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slope = np.exp(parameters[0])
        log_posterior = log_softmax(slope * e + parameters[1:] + log_prior[present])
        excess = counts * (np.exp(log_posterior) - truth)
        gradient = np.append(slope * (excess * e).sum(), excess.sum(axis=0))
        return float(parameters @ parameters / 2 - (counts * truth * log_posterior).sum()), gradient + parameters

    best = minimize(loss, np.zeros(1 + len(present)), jac=True, method="L-BFGS-B").x
    bias[present] = best[1:]
    return Calibration(float(np.exp(best[0])), bias)


def log_softmax(logits: FloatArray) -> FloatArray:
    """Log-probabilities of each row."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    normal: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normal
