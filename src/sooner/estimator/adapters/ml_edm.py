"""A rule as a trigger of ml_edm, whose own classifiers it stops.

ml_edm is not imported: a trigger needs only some attributes and two methods. Its `EarlyClassifier` also checks for its base
class:

    from ml_edm.trigger._base import BaseTriggerModel
    BaseTriggerModel.register(Trigger)

======== =====================================================================================
symbol   meaning
======== =====================================================================================
n, T, K  series, timestamps (the lengths at which ml_edm has a classifier), classes 0..K-1
q_k      probability of class k that ml_edm's classifier gives at a timestamp
pi_k     frequency of class k among the labels given to `fit`
s_k      log q_k - log pi_k, the score on which the rule decides
======== =====================================================================================
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sooner.errors import InvalidArgument, UnknownName
from sooner.evaluate.choose import cheapest
from sooner.inputs import as_labels, as_nonnegative, as_real
from sooner.models.prefix import LOWEST
from sooner.rules import FITTERS, DecisionCost, Rule, ThresholdRule, rule_named
from sooner.rules.records import Sweep
from sooner.scores import Scored
from sooner.types import BoolArray, FloatArray

PRIORS = ("equal", "training")
_COSTS = "They are ml_edm's CostMatrices, or an array (timestamps, predicted class, true class)."
_PAST = "(series, timestamps, classes)"


class Trigger(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A trigger of ml_edm that stops when a rule of `sooner` fires.

    `fit` chooses the threshold with the least mean cost on the given series, for any cost matrices. ml_edm names the most
    probable class, whose cost counts, and stops series that are not triggered at the last timestamp.

    Args:
        timestamps: the lengths at which there are classifiers, ascending. They are read only if `fit` gets no cost matrices.
        rule: "msprt", "log_odds", "probability_threshold" or "fixed_time" (which counts timestamps); a rule that is fitted, such
            as "taper" or "calimera" (`sooner.rules.FITTERS`), which decides on log q_k for either `priors`; or a rule, which
            `fit` does not change.
        priors: with "equal" the scores of the rule are s_k, with "training" log q_k. Then it always fires for the class that
            ml_edm names, which is better if classes are rare and costs are paid per series.

    Attributes:
        rule_: the rule, with its threshold.
        require_past_probas: whether `predict` needs all timestamps so far: True for rules with a state.

    >>> unsure, sure = [[0.6, 0.4], [0.2, 0.8]], [[0.9, 0.1], [0.9, 0.1]]
    >>> trigger = Trigger(timestamps=[10, 20]).fit(None, [unsure, unsure, sure, sure], [1, 1, 0, 0])
    >>> trigger.predict(None, [[0.6, 0.4], [0.9, 0.1]])
    array([False,  True])
    """

    require_classifiers = True
    alter_classifiers = False

    def __init__(self, timestamps: Any = None, rule: Any = "msprt", priors: str = "equal") -> None:
        self.timestamps = timestamps
        self.rule = rule
        self.priors = priors

    @property
    def require_past_probas(self) -> bool:
        """Whether `predict` needs the probabilities of all timestamps so far."""
        if self._is_fitted_rule():
            return True  # it counts timestamps
        rule = self.rule if isinstance(self.rule, Rule) else next(self._family().examples())
        return rule.init(1).shape[1] > 0

    def fit(self, X: Any, X_probas: Any, y: Any, cost_matrices: Any = None) -> "Trigger":  # noqa: N803
        """Choose the threshold.

        Args:
            X: not read.
            X_probas: (n, T, K), at every timestamp, of series that the classifiers were not trained on.
            y: (n,), in 0..K-1.
            cost_matrices: ml_edm's, or an array (T, K, K) whose entry [t, k, l] is the cost of naming k at t if l is true. By
                default 0.5 for an error and 0.5 for waiting to the end.
        """
        del X
        probabilities, _ = _as_past(X_probas)
        labels = as_labels(y, probabilities)
        if self.priors not in PRIORS:
            raise UnknownName("priors", self.priors, PRIORS)
        self.costs_ = self._costs(cost_matrices, probabilities)
        # A class without a series counts as if it had one.
        counts = labels.bincount(minlength=probabilities.shape[2]).clamp_min(1).double()
        self.log_prior_ = (counts / counts.sum()).log()
        if isinstance(self.rule, Rule):
            self.rule_: Rule = self.rule
        elif self._is_fitted_rule():
            lengths = np.full(len(labels), probabilities.shape[1])
            scored = Scored(self._scores(probabilities).numpy(), lengths, labels.numpy())
            self.rule_ = FITTERS[self.rule].fit(scored, _separated(self.costs_))
        else:
            family = self._family()
            named = probabilities.argmax(dim=2).numpy()
            paid = self.costs_[np.arange(len(self.costs_)), named, labels.numpy()[:, None]]  # (n, T)
            statistic = family.statistic(self._scores(probabilities)).double().numpy()
            sweep = Sweep.of(statistic, np.full(len(statistic), statistic.shape[1]))
            self.rule_ = family.at(float(sweep.thresholds[cheapest(sweep, paid)]))
        return self

    def predict(self, X: Any, X_probas: Any, cost_matrices: Any = None) -> BoolArray:  # noqa: N803
        """Whether to stop now, for each series.

        Args:
            X: not read.
            X_probas: (n, K), at the newest timestamp, unless `require_past_probas`; or (n, t, K), at the timestamps so far, or a
                list of (t_i, K). With the past, True also if the rule fired earlier.
            cost_matrices: those of `fit`, or None.
        """
        del X
        check_is_fitted(self, "rule_")
        self._refuse_other_costs(cost_matrices)
        newest = not _is_past(X_probas)
        if newest and self.require_past_probas:
            remedy = f"{type(self.rule_).__name__} remembers: give the probabilities of all timestamps so far."
            raise InvalidArgument("X_probas", f"of shape {_PAST}", f"shape {np.shape(X_probas)}", remedy)
        probabilities, lengths = _as_past(np.asarray(X_probas)[:, None] if newest else X_probas)
        classes = len(self.log_prior_)
        if probabilities.shape[2] != classes:
            got = f"{probabilities.shape[2]} classes"
            raise InvalidArgument("X_probas", f"of {classes} classes", got, "There were that many in `fit`.")
        return self.rule_.decide(self._scores(probabilities), lengths).crossed

    def _is_fitted_rule(self) -> bool:
        return isinstance(self.rule, str) and self.rule in FITTERS

    def _family(self) -> type[ThresholdRule]:
        family = rule_named(self.rule)
        if not issubclass(family, ThresholdRule):
            remedy = "Only a threshold can be chosen: give a rule that is ready, for example Patience(3)."
            raise InvalidArgument("rule", "one with a threshold", repr(self.rule), remedy)
        return family

    def _scores(self, probabilities: Tensor) -> Tensor:
        logs = probabilities.clamp_min(LOWEST).log()
        return logs - self.log_prior_ if self.priors == "equal" and not self._is_fitted_rule() else logs

    def _costs(self, given: Any, probabilities: Tensor) -> FloatArray:
        _, time, classes = probabilities.shape
        if given is not None:
            return as_nonnegative(_values(given), (time, classes, classes), name="cost_matrices", remedy=_COSTS)
        waits = np.arange(1.0, time + 1) if self.timestamps is None else as_real(self.timestamps, name="timestamps")
        if waits.shape != (time,) or waits[0] <= 0 or (np.diff(waits) <= 0).any():
            remedy = "They are lengths of series, one for each column of `X_probas`."
            raise InvalidArgument("timestamps", f"{time} numbers, ascending from above 0", waits.tolist(), remedy)
        costs: FloatArray = 0.5 * (1 - np.eye(classes)) + 0.5 * (waits / waits[-1])[:, None, None]
        return costs

    def _refuse_other_costs(self, given: Any) -> None:
        if given is not None and not np.array_equal(_values(given), self.costs_):
            raise InvalidArgument("cost_matrices", "those of `fit`", "others", "Fit again: the threshold is theirs.")


def _values(cost_matrices: Any) -> Any:
    return getattr(cost_matrices, "values", cost_matrices)


def _is_past(probas: Any) -> bool:
    """Whether each series has an axis of timestamps."""
    return len(probas) > 0 and np.ndim(probas[0]) == 2


def _as_past(probas: Any) -> tuple[Float[Tensor, "series time classes"], Int[Tensor, " series"]]:
    """Probabilities, 1 / K beyond each length, and the lengths."""
    tensor, lengths = _padded(probas)
    if tensor.ndim != 3 or not len(tensor) or not tensor.shape[1] or tensor.shape[2] < 2:
        remedy = "There is at least 1 series with at least 1 timestamp, and there are at least 2 classes."
        raise InvalidArgument("X_probas", f"of shape {_PAST}", f"shape {tuple(tensor.shape)}", remedy)
    beyond = torch.arange(tensor.shape[1]) >= lengths[:, None]
    tensor = tensor.masked_fill(beyond[..., None], 1 / tensor.shape[2])
    fine = (tensor >= 0).all(dim=2) & ((tensor.sum(dim=2) - 1).abs() <= 1e-3)  # false for NaN too
    if not bool(fine.all()):
        row, time = (~fine).nonzero()[0].tolist()
        got = f"{tensor[row, time].tolist()} in row {row} at timestamp {time}"
        raise InvalidArgument("X_probas", "probabilities that add up to 1", got, "Give what predict_proba gives.")
    return tensor, lengths


def _padded(probas: Any) -> tuple[Tensor, Int[Tensor, " series"]]:
    if not isinstance(probas, list | tuple) or not _is_past(probas) or len(set(map(len, probas))) == 1:
        tensor = torch.as_tensor(as_real(probas, name="X_probas"))
        return tensor, torch.full(tensor.shape[:1], tensor.shape[1] if tensor.ndim > 1 else 0)
    tensors = [torch.as_tensor(as_real(series, name="X_probas")) for series in probas]
    if len({tensor.shape[1:] for tensor in tensors}) > 1 or not all(map(len, tensors)):
        got = f"series of shapes {sorted({tuple(tensor.shape) for tensor in tensors})}"
        remedy = "Each series has at least 1 timestamp, and all have the same classes."
        raise InvalidArgument("X_probas", f"of shape {_PAST}", got, remedy)
    return pad_sequence(tensors, batch_first=True), torch.tensor([len(tensor) for tensor in tensors])


def _separated(costs: FloatArray) -> DecisionCost:
    """Errors and waiting apart, from costs indexed [timestamp, predicted, true], as ml_edm has them."""
    waits = costs - costs[0]
    if np.ptp(waits, axis=(1, 2)).max() > 1e-9 * (1 + costs.max()):
        expected, remedy = "sums of an error and a delay for a fitted rule", "Their errors must not change with time."
        raise InvalidArgument("cost_matrices", expected, "others", remedy)
    return DecisionCost((costs[0] - costs[0].min()).T, waits[:, 0, 0] + costs[0].min())
