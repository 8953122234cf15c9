"""The objective of a training step: the weighted sum of losses on one batch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from sooner.losses import costs, loss_named
from sooner.losses.means import as_counts, trusted_batch
from sooner.losses.windows import WindowBatch
from sooner.models.base import FORMULAS, Model
from sooner.train.settings import LossSettings
from sooner.train.sources import Counts, Minibatch
from sooner.types import Costs, Scalar, Scores, WindowLogits


class BatchLoss(NamedTuple):
    """The scores of a batch, each loss by name (unweighted), and their weighted sum."""

    scores: Scores
    terms: Mapping[str, Scalar]
    total: Scalar


class Criterion:
    """The weighted sum of losses, with the class counts of the training set.

    `multiplet` reads the logits of windows, every other loss the scores. Both are at least float32, whatever the precision of the
    forward pass. Nothing is checked here: the data were checked before the training, and scores that are not finite make a loss
    that is not finite.
    """

    def __init__(self, settings: LossSettings, class_counts: Counts) -> None:
        self._counts = as_counts(class_counts, *class_counts.shape)
        self.weights = {name: weight for name, weight in settings.weights.items() if weight > 0}
        self._options = {name: loss_options(name, settings, self._counts[0]) for name in self.weights}

    def __call__(self, model: Model, batch: Minibatch) -> BatchLoss:
        """The losses of a batch; a model that has its own loss is trained by that loss."""
        own = model.own_loss(batch.observations, batch.labels, batch.lengths)
        if own is not None and model.training:
            return BatchLoss(own.new_zeros(len(batch.labels), 1, model.classes), {"own": own}, own)
        if model.training:
            windows, lengths = model.training_windows(batch.observations, batch.lengths)
            batch = batch._replace(lengths=lengths)
        else:
            windows = model(batch.observations, batch.lengths)
        logits = windows.logits
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits if logits.dtype == torch.float64 else logits.float()
            scores = FORMULAS[model.formula](logits, log_prior=model.log_prior)
            if own is not None:
                return BatchLoss(scores, {"own": own}, own)
            terms = self._terms(logits, scores, batch)
            total = torch.stack([self.weights[name] * term for name, term in terms.items()]).sum()
        return BatchLoss(scores, terms, total)

    def _terms(self, logits: WindowLogits, scores: Scores, batch: Minibatch) -> dict[str, Scalar]:
        # Counts by time hold only where the time axis of the scores is that of the training set.
        by_time = batch.lengths is not None and len(self._counts) == scores.shape[1]
        counts = self._counts if by_time else self._counts[:1]
        windows = WindowBatch(logits, batch.labels, batch.lengths)
        shared = trusted_batch(scores, batch.labels, counts, batch.lengths)
        return {
            name: loss_named(name).inner(windows if name == "multiplet" else shared, **options)
            for name, options in self._options.items()
        }


def loss_options(name: str, settings: LossSettings, class_counts: Costs) -> dict[str, Any]:
    """The keyword arguments of a loss."""
    if name in ("lsifwc", "barr"):
        return {"gamma": settings.gamma}
    if name not in ("cost_sensitive_lsel", "nga_lsel", "c_logistic", "lscel", "logistic_c"):
        return {}
    if settings.costs == "effective_number":
        by_class = costs.effective_number(class_counts, beta=settings.beta)
    else:
        by_class = {"uniform": costs.uniform, "inverse_frequency": costs.inverse_frequency}[settings.costs](
            class_counts
        )
    if name == "cost_sensitive_lsel":
        return {"costs": by_class}
    if name in ("nga_lsel", "c_logistic"):
        return {"costs": by_class[:, None].expand(-1, len(by_class))}  # C_y for every rival
    return {"costs": by_class[:, None] / by_class}  # C_y / C_l: M_l / M_y at inverse frequency
