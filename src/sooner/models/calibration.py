"""Calibration of a classifier's evidence, from series that it did not see.

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
Rows: TypeAlias = Int[np.ndarray, " rows"]


class Calibration(NamedTuple):
    """Evidence e_k becomes a e_k + b_k; at a = 1 and b = 0 it stays what it is.

    The slope does not touch the prior, so a rare class does not lose by it.
    """

    slope: float
    bias: Float[np.ndarray, " present"]

    def __call__(self, evidence: Evidence) -> Evidence:
        """The calibrated evidence."""
        calibrated: Evidence = self.slope * evidence + self.bias
        return calibrated


def deal(labels: Rows, *, folds: int, seed: int) -> Rows:
    """The part that each series is held out in, or -1 for the only series of its class, which never is.

    Series are shuffled, sorted by class, and dealt like cards. So each class is spread as evenly as can be, and whatever
    is held out, at least one series of every class stays.
    """
    _, column, members = np.unique(labels, return_inverse=True, return_counts=True)
    alone = members[column] == 1
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(~alone))
    parts = np.full(len(labels), -1)
    parts[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(shuffled)) % folds
    return parts


def calibrate(
    evidence: Evidence, columns: Rows, log_prior: LogPrior, *, weights: Float[np.ndarray, " rows"] | None = None
) -> Calibration:
    """The slope and biases whose posteriors, softmax(a e + b + log pi), explain the true classes best.

    Least log loss, with log a and each b_k normal a priori (mean 0, variance 1): that weighs as much as a few series do, so
    a handful of them cannot make the calibration extreme. Classes that are never true here keep the bias 0 and have no say
    in the slope; with fewer than two others, the evidence stays as it is.

    Args:
        evidence: of series that the classifier has not seen.
        columns: their true classes, as columns of `evidence`.
        log_prior: log pi of all columns.
        weights: of the series; by default each counts once.
    """
    from scipy.optimize import minimize

    seen, targets = np.unique(columns, return_inverse=True)
    bias = np.zeros(evidence.shape[1])
    if len(seen) < 2:
        return Calibration(1.0, bias)
    e, truth = evidence[:, seen], np.eye(len(seen))[targets]
    counts = np.ones((len(e), 1)) if weights is None else weights[:, None]

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slope = np.exp(parameters[0])
        log_posterior = log_softmax(slope * e + parameters[1:] + log_prior[seen])
        excess = counts * (np.exp(log_posterior) - truth)
        gradient = np.append(slope * (excess * e).sum(), excess.sum(axis=0))
        return float(parameters @ parameters / 2 - (counts * truth * log_posterior).sum()), gradient + parameters

    best = minimize(loss, np.zeros(1 + len(seen)), jac=True, method="L-BFGS-B").x
    bias[seen] = best[1:]
    return Calibration(float(np.exp(best[0])), bias)


def log_softmax(logits: FloatArray) -> FloatArray:
    """Log-probabilities of each row."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    normal: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normal
