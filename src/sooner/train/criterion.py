"""What a step of training minimises: the weighted sum of losses on one batch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from sooner.losses import costs, loss_named
from sooner.losses.means import as_counts, trusted_batch
from sooner.losses.windows import WindowBatch
from sooner.models.base import FORMULAS, Model
from sooner.train.settings import LossSettings
from sooner.train.sources import Counts, Minibatch
from sooner.types import Costs, Lengths, Scalar, Scores, WindowLogits, Windows


class Judged(NamedTuple):
    """What a batch gave: its scores, each loss by name (unweighted), and their weighted sum."""

    scores: Scores
    terms: Mapping[str, Scalar]
    total: Scalar


class Criterion:
    """The weighted sum of losses, with the class counts of the training set.

    `multiplet` reads the logits of windows; every other loss reads the scores that the model's formula makes of them. Both
    are at least float32, whatever precision the forward pass had. What the data are was checked before the training: no step
    checks again, and a score that is not finite makes a loss that is not.
    """

    def __init__(self, settings: LossSettings, class_counts: Counts) -> None:
        self._counts = as_counts(class_counts, *class_counts.shape)
        self.weights = {name: weight for name, weight in settings.weights.items() if weight > 0}
        self._options = {name: options_of(name, settings, self._counts[0]) for name in self.weights}

    def __call__(self, model: Model, batch: Minibatch) -> Judged:
        """Run the model on a batch and weigh what it said; a model with a loss of its own is trained by that one."""
        own = model.own_loss(batch.observations, batch.labels, batch.lengths)
        if own is not None and model.training:
            return Judged(own.new_zeros(len(batch.labels), 1, model.classes), {"own": own}, own)
        windows, lengths = self._look(model, batch)
        logits, batch = windows.logits, batch._replace(lengths=lengths)
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits if logits.dtype == torch.float64 else logits.float()
            scores = FORMULAS[model.formula](logits, log_prior=model.log_prior)
            if own is not None:
                return Judged(scores, {"own": own}, own)
            terms = self._terms(logits, scores, batch)
            total = torch.stack([self.weights[name] * term for name, term in terms.items()]).sum()
        return Judged(scores, terms, total)

    def _look(self, model: Model, batch: Minibatch) -> tuple[Windows, Lengths | None]:
        if model.training:
            return model.training_windows(batch.observations, batch.lengths)
        return model(batch.observations, batch.lengths), batch.lengths

    def _terms(self, logits: WindowLogits, scores: Scores, batch: Minibatch) -> dict[str, Scalar]:
        # Where the axis is not the training set's time, how many would still run at each place is not known.
        by_time = batch.lengths is not None and len(self._counts) == scores.shape[1]
        counts = self._counts if by_time else self._counts[:1]
        windows = WindowBatch(logits, batch.labels, batch.lengths)
        shared = trusted_batch(scores, batch.labels, counts, batch.lengths)
        return {
            name: loss_named(name).inner(windows if name == "multiplet" else shared, **options)
            for name, options in self._options.items()
        }


def options_of(name: str, settings: LossSettings, class_counts: Costs) -> dict[str, Any]:
    """What the settings say to a loss beyond its batch."""
    if name in ("lsifwc", "barr"):
        return {"gamma": settings.gamma}
    if name not in ("cost_sensitive_lsel", "nga_lsel", "c_logistic", "lscel", "logistic_c"):
        return {}
    by_class = _class_costs(settings, class_counts)
    if name == "cost_sensitive_lsel":
        return {"costs": by_class}
    if name in ("nga_lsel", "c_logistic"):
        return {"costs": by_class[:, None].expand(-1, len(by_class))}  # C_y, whichever the rival
    return {"costs": by_class[:, None] / by_class}  # C_y / C_l: M_l / M_y at inverse frequency


def _class_costs(settings: LossSettings, class_counts: Costs) -> Costs:
    if settings.costs == "effective_number":
        return costs.effective_number(class_counts, beta=settings.beta)
    return {"uniform": costs.uniform, "inverse_frequency": costs.inverse_frequency}[settings.costs](class_counts)
