"""The expected cost of naming the leader now: that of the posterior, corrected by the labels of held-out series.

======== ====================================================================================
symbol   meaning
======== ====================================================================================
p1, p2   the two largest posteriors
r        expected cost of naming the leader, as a share of the largest cost (1 - p1 for equal costs)
e        1 - (p1 - p2)
h_k(x)   min(x, 2^-k) 2^k, a ramp from 0 to 1 at 2^-k, k = 0..10; it is concave, and h_0(x) = x
c_t(r)   r + w_t + sum_k w_tk h_k(r), the corrected risk at time t, as a share of the largest cost
======== ====================================================================================
"""

import numpy as np
import torch
from torch import Tensor

from sooner.rules.cost import DecisionCost
from sooner.rules.fitted.base import posterior, two_largest
from sooner.scores import Scored
from sooner.types import FloatArray

RAMPS = 11
RISK_TERMS = 1 + RAMPS
"""The terms 1, h_k(r), of which the corrected risk is a weighted sum."""
TERMS = RISK_TERMS + RAMPS
"""The terms 1, h_k(r), h_k(e)."""


class StoppingRisk:
    """The corrected risk of stopping labelled series, at any time.

    Args:
        scored: held-out scores with labels.
        cost: of the decisions.
        trust: the posterior is corrected as if it had been right on about so many series at each time; infinity leaves it alone.
    """

    def __init__(self, scored: Scored, cost: DecisionCost, trust: float) -> None:
        self.matrix = cost.matrix(scored.scores.shape[2])
        self.scale = float(self.matrix.max()) or 1.0
        self._scores, self._lengths, self._trust = torch.from_numpy(scored.scores), scored.lengths, trust
        self._realised = cost.errors(scored) / self.scale

    def at(self, time: int) -> tuple[FloatArray, FloatArray]:
        """The terms (series, 23) at a time, and the weights (12,) of the first of them in the risk, fitted to running series."""
        terms = ramps(self._scores[:, time - 1], torch.from_numpy(self.matrix)).numpy()
        going = self._lengths > time
        return terms, self._weights(terms[going], self._realised[going, time - 1])

    def at_end(self) -> FloatArray:
        """(series,): the risk at the last observation of each series."""
        rows = np.arange(len(self._lengths))
        terms = ramps(self._scores[rows, self._lengths - 1], torch.from_numpy(self.matrix)).numpy()
        risk: FloatArray = terms[:, :RISK_TERMS] @ self._weights(terms, self._realised[:, -1])
        return risk

    def _weights(self, terms: FloatArray, realised: FloatArray) -> FloatArray:
        plain = np.eye(RISK_TERMS)[1]
        if np.isinf(self._trust):
            alone: FloatArray = self.scale * plain
            return alone
        known = terms[:, :RISK_TERMS]
        normal = known.T @ known + self._trust * np.eye(RISK_TERMS)
        weights: FloatArray = plain + np.linalg.solve(normal, known.T @ (realised - known[:, 1]))
        return self.scale * weights


def ramps(scores: Tensor, errors: Tensor) -> Tensor:
    """The terms 1, h_k(r), h_k(e) of scores (rows, classes): (rows, 23)."""
    first, second = two_largest(scores)
    risk = (posterior(scores) * errors.T[scores.argmax(dim=1)]).sum(dim=1) / errors.max().clamp_min(1e-300)
    knots = 2.0 ** -torch.arange(RAMPS, dtype=torch.float64, device=scores.device)
    doubts = torch.stack([risk, 1 - first + second], dim=1)
    rise = torch.minimum(doubts[..., None], knots) / knots
    return torch.cat([torch.ones_like(risk)[:, None], rise.flatten(1)], dim=1)
