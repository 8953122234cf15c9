"""Ranking losses of LSTM-s and LSTM-m: confidence should not fall with time (Ma, Sigal, Sclaroff, CVPR 2016)."""

import torch

from sooner.losses.checked import checked_by, on_scores
from sooner.losses.means import Batch, PerStep
from sooner.types import Scalar


@checked_by(on_scores)
def ranking_score(batch: Batch) -> Scalar:
    """LSTM-s: max(0, max_{u<t} p_u[y] - p_t[y]) with p_t = softmax(s(t)), plain mean. `class_counts` have no effect."""
    return batch.plain_mean(_fall(_posterior_of_truth(batch)))


@checked_by(on_scores)
def ranking_margin(batch: Batch) -> Scalar:
    """LSTM-m: the same on the margin p_t[y] - max_{k != y} p_t[k]."""
    rival = torch.where(batch.others, batch.scores.softmax(dim=2), 0.0).amax(dim=2)
    return batch.plain_mean(_fall(_posterior_of_truth(batch) - rival))


def _posterior_of_truth(batch: Batch) -> PerStep:
    return torch.where(batch.others, 0.0, batch.scores.softmax(dim=2)).sum(dim=2)


def _fall(confidence: PerStep) -> PerStep:
    """How far each step lies below the best one so far; this is never negative, so no max(0, .) is needed."""
    return confidence.cummax(dim=1).values - confidence
