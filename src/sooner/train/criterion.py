"""What a step of training minimises: the weighted sum of losses on one batch."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch

from sooner.errors import InvalidArgument
from sooner.losses import costs, loss_named
from sooner.models.base import FORMULAS, Model
from sooner.settings import LossSettings
from sooner.train.examples import Batch, Counts
from sooner.types import Costs, Lengths, Scalar, Scores, WindowLogits, Windows


class Judged(NamedTuple):
    """What a batch gave: its scores, each loss by name (unweighted), and their weighted sum."""

    scores: Scores
    terms: Mapping[str, Scalar]
    total: Scalar


class Criterion:
    """The weighted sum of losses, with the class counts of the training set.

    `multiplet` reads the logits of windows; every other loss reads the scores that the model's formula makes of them. Both
    are at least float32, whatever precision the forward pass had.
    """

    def __init__(self, settings: LossSettings, class_counts: Counts) -> None:
        self._counts = class_counts
        self.weights = {name: weight for name, weight in settings.weights.items() if weight > 0}
        self._losses = {name: _bound(name, settings, class_counts[0]) for name in self.weights}

    def __call__(self, model: Model, batch: Batch) -> Judged:
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
            terms = {name: self._term(name, logits, scores, batch) for name in self.weights}
            total = torch.stack([self.weights[name] * term for name, term in terms.items()]).sum()
        return Judged(scores, terms, total)

    def _look(self, model: Model, batch: Batch) -> tuple[Windows, Lengths | None]:
        if model.training:
            return model.training_windows(batch.observations, batch.lengths)
        return model(batch.observations, batch.lengths), batch.lengths

    def _term(self, name: str, logits: WindowLogits, scores: Scores, batch: Batch) -> Scalar:
        read = logits if name == "multiplet" else scores
        try:
            if name == "multiplet":
                return self._losses[name](read, batch.labels, lengths=batch.lengths)
            # Where the axis is not the training set's time, how many would still run at each place is not known.
            by_time = batch.lengths is not None and len(self._counts) == scores.shape[1]
            counts = self._counts if by_time else self._counts[0]
            return self._losses[name](read, batch.labels, class_counts=counts, lengths=batch.lengths)
        except InvalidArgument as refused:
            # A loss refuses what is not finite; the training loop has a better sentence for it.
            if refused.argument not in ("scores", "logits") or bool(torch.isfinite(read).all()):
                raise
            return read.new_tensor(torch.nan)


def _bound(name: str, settings: LossSettings, class_counts: Costs) -> Callable[..., Scalar]:
    loss = loss_named(name)
    if name in ("lsifwc", "barr"):
        return partial(loss, gamma=settings.gamma)
    if name == "cost_sensitive_lsel":
        return partial(loss, costs=_class_costs(settings, class_counts))
    if name in ("nga_lsel", "c_logistic"):
        by_class = _class_costs(settings, class_counts)
        return partial(loss, costs=by_class[:, None].expand(-1, len(by_class)))  # C_y, whichever the rival
    if name in ("lscel", "logistic_c"):
        by_class = _class_costs(settings, class_counts)
        return partial(loss, costs=by_class[:, None] / by_class)  # C_y / C_l: M_l / M_y at inverse frequency
    return loss


def _class_costs(settings: LossSettings, class_counts: Costs) -> Costs:
    if settings.costs == "effective_number":
        return costs.effective_number(class_counts, beta=settings.beta)
    return {"uniform": costs.uniform, "inverse_frequency": costs.inverse_frequency}[settings.costs](class_counts)
