"""Calibration of the posterior at a decision, which leaves scores and decisions as they are.

======== =========================================================================================
symbol   meaning
======== =========================================================================================
s_k      score of class k, without a prior
pi_k     prior of class k
b        slope of the scores, one over the temperature
e(t)     doubt: the share of series whose scores at t say nothing; logit e(t) = c + d log(t / T)
q_k(t)   (1 - e(t)) softmax(b s(t))_k + e(t) / K, the calibrated likelihood
p_k(t)   pi_k q_k(t) / sum_l pi_l q_l(t), the calibrated posterior
======== =========================================================================================

A rule stops where scores are extreme, so the posterior at a decision is too sure even where the posterior at a fixed time is
not, and most of all at early times. A slope alone cannot repair it: a few wrong decisions with great confidence would flatten
all others. Doubt bounds the confidence instead, and keeps the order of the classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import special

from sooner.evaluate.curve import curve_of
from sooner.rules import MSPRT, ThresholdRule
from sooner.scores import Scored
from sooner.types import FloatArray, IntArray

THRESHOLDS = 20
"""So many thresholds, at evenly spaced mean times, give the decisions that the calibration is fitted to."""
_CENTRE, _DOUBT_SPREAD, _BY_TIME_SPREAD = np.array([0.0, -4.0, 0.0]), 2.0, 0.5
"""Normal prior of (log b, c, d): 2% doubt, known within a factor of about seven. It fades as series are added."""


@dataclass(frozen=True)
class PosteriorCalibration:
    """The map from scores at a decision to posteriors; the default is the plain posterior.

    Attributes:
        log_slope: log b.
        doubt: c, the log-odds of the doubt at the time T; minus infinity for none.
        doubt_by_time: d.
        longest: T, the length of the longest series that it was fitted to.

    >>> PosteriorCalibration().posterior(np.log([[3.0, 1.0]]), np.array([1])).round(3)
    array([[0.75, 0.25]])
    >>> PosteriorCalibration(doubt=0.0).posterior(np.log([[3.0, 1.0]]), np.array([1])).round(3)
    array([[0.625, 0.375]])
    """

    log_slope: float = 0.0
    doubt: float = -np.inf
    doubt_by_time: float = 0.0
    longest: int = 1

    @property
    def plain(self) -> bool:
        """Whether nothing is calibrated, as in files of earlier versions."""
        return self.log_slope == 0 and self.doubt == -np.inf

    def posterior(
        self,
        scores: npt.NDArray[np.floating[Any]],
        times: IntArray,
        log_prior: npt.NDArray[np.floating[Any]] | None = None,
    ) -> FloatArray:
        """(series, classes): the posteriors at the decisions.

        Args:
            scores: (series, classes), at the decision, without a prior.
            times: (series,), of the decisions, from 1. Beyond T the doubt is that of T.
            log_prior: (classes,), up to a constant; by default all classes alike.
        """
        shape = _Shape(scores.astype(np.float64), np.log(np.minimum(times / self.longest, 1.0)))
        likelihood = shape.likelihood(np.array([self.log_slope, self.doubt, self.doubt_by_time]))
        joint = likelihood if log_prior is None else likelihood * special.softmax(log_prior.astype(np.float64))
        posterior: FloatArray = joint / joint.sum(axis=1, keepdims=True)
        return posterior


def fit_posterior(
    scored: Scored, family: type[ThresholdRule] = MSPRT, *, slope_spread: float = 1.0
) -> PosteriorCalibration:
    """The calibration with the smallest log loss at the decisions of many thresholds, with a weak prior.

    The decisions of a single threshold would be few, and the calibration would have to be fitted again for every new one.

    Args:
        scored: scores of labelled held-out series without a prior; the frequencies of their classes are taken as the prior.
        family: the rules that make the decisions.
        slope_spread: standard deviation of the prior of log b; 0 keeps b = 1, for scores whose slope was fitted already.
    """
    from scipy.optimize import minimize

    series, times, weights = _decisions(scored, family)
    truths, longest = scored.truths[series], int(scored.lengths.max())
    if len(np.unique(scored.truths)) < 2:
        return PosteriorCalibration()
    counts = np.bincount(scored.truths, minlength=scored.scores.shape[2])
    shape = _Shape(scored.scores[series, times - 1].astype(np.float64), np.log(times / longest))
    free = np.array([float(slope_spread > 0), 1.0, 1.0])
    spread = np.array([slope_spread or 1.0, _DOUBT_SPREAD, _BY_TIME_SPREAD])

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = shape.log_loss(parameters, truths, weights, counts / counts.sum())
        away = (parameters - _CENTRE) / spread
        return value + float(away @ away) / 2, free * (gradient + away / spread)

    log_slope, doubt, by_time = minimize(loss, _CENTRE, jac=True, method="L-BFGS-B").x
    return PosteriorCalibration(float(log_slope), float(doubt), float(by_time), longest)


@dataclass(frozen=True, eq=False)
class _Shape:
    """Scores (rows, classes) at decisions, with log(t / T) of each row."""

    scores: FloatArray
    log_time: FloatArray

    def likelihood(self, parameters: FloatArray) -> FloatArray:
        """q of each row, for (log b, c, d)."""
        doubt = self._doubt(parameters)[:, None]
        said = special.softmax(np.exp(parameters[0]) * self.scores, axis=1)
        likelihood: FloatArray = (1 - doubt) * said + doubt / self.scores.shape[1]
        return likelihood

    def log_loss(
        self, parameters: FloatArray, truths: IntArray, weights: FloatArray, prior: FloatArray
    ) -> tuple[float, FloatArray]:
        """The sum of - w log p_y over the rows, and its gradient."""
        rows, slope, doubt = np.arange(len(truths)), np.exp(parameters[0]), self._doubt(parameters)
        said = special.softmax(slope * self.scores, axis=1)
        level = 1 / self.scores.shape[1]
        true = (1 - doubt) * said[rows, truths] + doubt * level
        total = (1 - doubt) * (said @ prior) + doubt * level
        by_slope = slope * said * (self.scores - (said * self.scores).sum(axis=1, keepdims=True))
        in_slope = weights * (1 - doubt) * (by_slope[rows, truths] / true - (by_slope @ prior) / total)
        in_doubt = weights * doubt * (1 - doubt)
        in_doubt = in_doubt * ((level - said[rows, truths]) / true - (level - said @ prior) / total)
        gradient = -np.array([in_slope.sum(), in_doubt.sum(), in_doubt @ self.log_time])
        return -float(weights @ np.log(true * prior[truths] / total)), gradient

    def _doubt(self, parameters: FloatArray) -> FloatArray:
        doubt: FloatArray = special.expit(parameters[1] + parameters[2] * self.log_time)
        return doubt


def _decisions(scored: Scored, family: type[ThresholdRule]) -> tuple[IntArray, IntArray, FloatArray]:
    """Series, time (from 1) and weight of every decision at thresholds of evenly spaced mean times; a series weighs 1."""
    curve = curve_of(scored, family)
    spaced = np.linspace(curve.mean_times[0], curve.mean_times[-1], THRESHOLDS)
    points = np.minimum(np.searchsorted(curve.mean_times, spaced), len(curve) - 1)
    halting = None if scored.halting is None else torch.from_numpy(scored.halting)
    statistic = family.statistic_with(torch.from_numpy(scored.scores), halting).double().numpy()
    reached = np.maximum.accumulate(statistic, axis=1)
    times = [
        np.minimum((reached < threshold).sum(axis=1) + 1, scored.lengths)
        for threshold in np.unique(curve.thresholds[points])
    ]
    horizon = scored.scores.shape[1]
    flat = np.concatenate([np.arange(len(scored)) * horizon + each - 1 for each in times])
    cells, counts = np.unique(flat, return_counts=True)
    return cells // horizon, cells % horizon + 1, counts / len(times)
