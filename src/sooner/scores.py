"""From the logits of windows to scores, and functions of score vectors.

========== =======================================================================
symbol     meaning
========== =======================================================================
N          order of the Markov assumption: windows hold N+1 observations
z[w, j]    logits after position j of the window that starts at w, both from 1
s_k(t)     score of class k: log p(x(1..t) | k) up to a term shared by all classes
lambda_kl  s_k - s_l, the log-likelihood ratio of k to l
========== =======================================================================

The ratios are antisymmetric and additive, so K numbers carry the K x K matrix: scores are the one currency between a
model and a decision.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_groups, as_halting, as_labels, as_logits, as_real_tensor, refuse_empty, with_lengths
from sooner.types import ArrayLike, BoolArray, Costs, IntArray, Scores, StepFlags, StepScores, WindowLogits

__all__ = [
    "Scored",
    "log_odds",
    "log_odds_against",
    "m_tandem",
    "m_tandem_oblivion",
    "m_tandem_step",
    "margin",
    "ratio_matrix",
]


@dataclass(frozen=True, eq=False)
class Scored:
    """The record of scores of some series. `Scored.of` checks; the constructor trusts.

    Args:
        scores: (series, time, classes), zero beyond each length.
        lengths: (series,).
        labels: (series,), class indices, if known.
        groups: (series,), the index of each series' group, if known.
        halting: (series, time), the model's own halting statistic, if it has one.
    """

    scores: npt.NDArray[np.floating[Any]]
    lengths: IntArray
    labels: IntArray | None = None
    groups: IntArray | None = None
    halting: npt.NDArray[np.floating[Any]] | None = None

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        groups: Any = None,
        halting: ArrayLike | None = None,
    ) -> "Scored":
        """Check scores of at least one series, with labels in 0..K-1 and groups of any type."""
        tensor, ends = with_lengths(scores, lengths)
        refuse_empty(tensor, name="scores")
        truths = None if labels is None else as_labels(labels, tensor).cpu().numpy()
        indices = None if groups is None else as_groups(groups, len(tensor))
        statistic = as_halting(halting, tensor, ends)
        halts = None if statistic is None else statistic.detach().cpu().numpy()
        return cls(tensor.detach().cpu().numpy(), ends.cpu().numpy(), truths, indices, halts)

    @property
    def truths(self) -> IntArray:
        """The labels; refused if they are not known."""
        if self.labels is None:
            raise InvalidArgument("labels", "known for every series", "None", "Give one for each series.")
        return self.labels

    @property
    def live(self) -> BoolArray:
        """(series, time): True where the series still runs."""
        live: BoolArray = np.arange(self.scores.shape[1]) < self.lengths[:, None]
        return live

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Any]:
        """`scores, lengths = ...` takes the record apart."""
        return iter((self.scores, self.lengths))

    def take(self, rows: IntArray) -> "Scored":
        """The series at these indices."""
        arrays = {name: value[rows] for name, value in vars(self).items() if value is not None}
        return Scored(**arrays)

    def at_most(self, count: int) -> "Scored":
        """At most `count` series, evenly spaced."""
        return self if len(self) <= count else self.take(np.linspace(0, len(self) - 1, count).astype(np.int64))

    def plus(self, offset: npt.NDArray[np.floating[Any]]) -> "Scored":
        """The scores with a constant added for each class, for example a log prior, in float64; padding stays zero."""
        moved = (self.scores + offset).astype(np.float64)
        moved[~self.live] = 0.0
        return replace(self, scores=moved)


def m_tandem(logits: ArrayLike, *, log_prior: ArrayLike | None = None) -> Scores:
    """Scores by the M-TANDEM formula: the sum of the evidence of every window's newest observation.

    s(t) = z[1, t] up to t = N+1, then s(t) = s(t-1) + z[t-N, N+1] - z[t-N, N]. At N = 0 there is no shorter window, and
    s(t) = s(t-1) + z[t, 1].

    With `log_prior`, the logits of an empty window are log_prior instead of 0, which turns posteriors into likelihoods: the prior
    is subtracted once for N >= 1 and at every step for N = 0. Without it, at N = 0 and with imbalanced classes, lambda_kl drifts
    by t * log(M_k / M_l).

    Args:
        logits: (batch, window, position, classes), T-N windows of N+1 positions.
        log_prior: (classes,), for example the log of the training set's class frequencies.

    >>> z = torch.tensor([[[[1.0, 0.0], [3.0, 0.0]], [[0.5, 0.0], [2.5, 0.0]]]])  # T = 3, N = 1
    >>> m_tandem(z)[0, :, 0]
    tensor([1., 3., 5.])
    """
    z = as_logits(logits)
    return tandem_scores(z, log_prior=_as_log_prior(log_prior, z))


def m_tandem_oblivion(logits: ArrayLike, *, log_prior: ArrayLike | None = None) -> Scores:
    """Scores by the M-TANDEMwO formula ("with oblivion"): the logits of the newest full window.

    s(t) = z[1, t] up to t = N+1, then s(t) = z[t-N, N+1]. With `log_prior` it is subtracted once, at every N. Suits short
    series (10 to 20 observations); `m_tandem` suits long ones. At N = T-1 the two are the same.

    >>> z = torch.tensor([[[[1.0, 0.0], [3.0, 0.0]], [[0.5, 0.0], [2.5, 0.0]]]])
    >>> m_tandem_oblivion(z)[0, :, 0]
    tensor([1.0000, 3.0000, 2.5000])
    """
    z = as_logits(logits)
    return oblivion_scores(z, log_prior=_as_log_prior(log_prior, z))


def tandem_scores(logits: WindowLogits, *, log_prior: Costs | None = None) -> Scores:
    """`m_tandem` without checks."""
    prior = _prior_like(logits, log_prior)
    first = logits[:, 0] - prior
    newest = logits[:, 1:, -1]
    before = logits[:, 1:, -2] if logits.shape[2] > 1 else prior
    return torch.cat([first, first[:, -1:] + (newest - before).cumsum(dim=1)], dim=1)


def oblivion_scores(logits: WindowLogits, *, log_prior: Costs | None = None) -> Scores:
    """`m_tandem_oblivion` without checks."""
    return torch.cat([logits[:, 0], logits[:, 1:, -1]], dim=1) - _prior_like(logits, log_prior)


def m_tandem_step(
    scores: StepScores, now: StepScores, before: StepScores, *, young: StepFlags, log_prior: Costs | None = None
) -> StepScores:
    """M-TANDEM, one observation at a time: the new scores of live series. Nothing is checked.

    Args:
        scores: the scores so far.
        now: logits of the oldest window after the newest observation, z[max(t-N, 1), min(t, N+1)].
        before: logits of that window before it, z[t-N, N]; for N = 0 the log prior, or zeros without one.
        young: True for series with t <= N+1, whose first window is not yet complete.
        log_prior: (classes,).
    """
    return torch.where(young[:, None], now - _prior_like(now, log_prior), scores + now - before)


def margin(scores: ArrayLike) -> Float[Tensor, "*leading"]:
    """The largest minus the second largest score.

    >>> margin(torch.tensor([[4.0, 1.0, 3.5]]))
    tensor([0.5000])
    """
    return leader_margin(_vectors(scores))


def log_odds(scores: ArrayLike) -> Float[Tensor, "*leading"]:
    """The log-odds of the leading class against all others together: s_1st - logsumexp(rest).

    With scores that include the log prior this is log(p / (1-p)) for the leader's posterior p, computed without 1 - p: it
    is exact where p is rounded to 1.

    >>> log_odds(torch.tensor([[2.0, 0.0, 0.0]]))
    tensor([1.3069])
    """
    return leader_log_odds(_vectors(scores))


def log_odds_against(scores: ArrayLike) -> Float[Tensor, "*leading classes"]:
    """The log-odds against each class: log sum_{k != l} exp(s_k - s_l) for class l, in float64.

    With scores that include the log prior this is log((1 - p_l) / p_l), p_l being the posterior of l; for the leader it is
    minus `log_odds`.

    >>> log_odds_against(torch.tensor([[2.0, 0.0, 0.0]]))
    tensor([[-1.3069,  2.1269,  2.1269]], dtype=torch.float64)
    """
    return class_log_odds_against(_vectors(scores))


def leader_margin(scores: Float[Tensor, "*leading classes"]) -> Float[Tensor, "*leading"]:
    """`margin` without checks."""
    first, second = widened(scores).topk(2, dim=-1).values.unbind(-1)
    return first - second


def widened(scores: Tensor) -> Tensor:
    """Scores in bfloat16 as float32, as NumPy stores them: live and stored series have the same decisions."""
    return scores.float() if scores.dtype == torch.bfloat16 else scores


def leader_log_odds(scores: Float[Tensor, "*leading classes"]) -> Float[Tensor, "*leading"]:
    """`log_odds` without checks."""
    scores = widened(scores)
    best, leader = scores.max(dim=-1, keepdim=True)
    return best[..., 0] - scores.scatter(-1, leader, -torch.inf).logsumexp(dim=-1)


def class_log_odds_against(scores: Float[Tensor, "*leading classes"]) -> Float[Tensor, "*leading classes"]:
    """`log_odds_against` of scores that are known to be fine, in O(classes)."""
    best, leader = widened(scores).double().max(dim=-1, keepdim=True)
    behind = scores.double() - best  # exact first, so that a shared term cancels to the last bit
    total = behind.logsumexp(dim=-1, keepdim=True)
    # No other class has a posterior above 1/2, so log(1 - p) keeps its digits; the leader's own would not.
    others = total + torch.log1p(-(behind - total).exp().clamp_max(0.5)) - behind
    rest = behind.scatter(-1, leader, -torch.inf).logsumexp(dim=-1, keepdim=True)
    return others.scatter(-1, leader, rest)


def ratio_matrix(scores: ArrayLike) -> Float[Tensor, "*leading classes classes"]:
    """The K x K matrix of log-likelihood ratios: entry [k, l] is lambda_kl = s_k - s_l.

    >>> ratio_matrix(torch.tensor([3.0, 1.0]))
    tensor([[ 0.,  2.],
            [-2.,  0.]])
    """
    tensor = _vectors(scores)
    return tensor[..., :, None] - tensor[..., None, :]


def _vectors(scores: ArrayLike) -> Tensor:
    tensor = as_real_tensor(scores, name="scores")
    if tensor.ndim == 0 or tensor.shape[-1] < 2:
        expected, remedy = (
            "of shape (..., classes) with at least 2 classes",
            "With one class there is nothing to compare.",
        )
        raise InvalidArgument("scores", expected, f"shape {tuple(tensor.shape)}", remedy)
    return tensor if tensor.is_floating_point() else tensor.double()


def _prior_like(logits: Tensor, log_prior: Costs | None) -> Costs:
    """The log prior, or zeros, in the type and on the device of the logits."""
    return logits.new_zeros(logits.shape[-1]) if log_prior is None else log_prior.to(logits)


def _as_log_prior(log_prior: ArrayLike | None, logits: Tensor) -> Costs | None:
    if log_prior is None:
        return None
    tensor = as_real_tensor(log_prior, name="log_prior").to(logits)
    if tensor.shape != logits.shape[-1:]:
        expected, remedy = (
            f"of shape (classes,) = ({logits.shape[-1]},)",
            "Give the log of one prior probability for each class.",
        )
        raise InvalidArgument("log_prior", expected, f"shape {tuple(tensor.shape)}", remedy)
    if not bool(torch.isfinite(tensor).all()):
        remedy = "A class with prior 0 cannot be corrected for: leave it out."
        raise InvalidArgument("log_prior", "finite", tensor.tolist(), remedy)
    return tensor
