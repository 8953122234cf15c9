"""A rule as a trigger of ml_edm, which has classifiers of its own and asks only when to stop.

ml_edm is not imported: its convention is a few attributes and two methods. Its `EarlyClassifier` also asks for its own base
class, which takes strangers in:

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
from sooner.evaluate.records import Sweep
from sooner.inputs import as_labels, as_nonnegative, as_real
from sooner.models.prefix import LOWEST
from sooner.rules import Rule, ThresholdRule, rule_named
from sooner.types import BoolArray, FloatArray

PRIORS = ("equal", "training")
_COSTS = "They are ml_edm's CostMatrices, or an array (timestamps, predicted class, true class)."
_PAST = "(series, timestamps, classes)"


class Trigger(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Tells ml_edm when to stop: at the timestamp at which a rule of `sooner` fires.

    `fit` takes the threshold of the least mean cost on the given series, exact among all thresholds and for any cost
    matrices. The class is named by ml_edm, the most probable one, and the cost of that class counts. ml_edm forces what has
    not been triggered at its last timestamp.

    Args:
        timestamps: the lengths at which there are classifiers, ascending; by default those of the cost matrices. They are
            read only where `fit` gets no cost matrices.
        rule: "msprt", "log_odds", "probability_threshold" or "fixed_time" (which counts timestamps), or a ready rule, of which
            `fit` changes nothing.
        priors: with "equal" ones the rule sees s_k; with those of "training", log q_k: then it always fires for the class that
            ml_edm names, which is better where classes are rare and costs count series.

    Attributes:
        rule_: the rule, with its threshold.
        require_past_probas: whether `predict` needs all timestamps so far: True for rules that remember.

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
        rule = self.rule if isinstance(self.rule, Rule) else next(self._family().examples())
        return rule.init(1).shape[1] > 0

    def fit(self, X: Any, X_probas: Any, y: Any, cost_matrices: Any = None) -> "Trigger":  # noqa: N803
        """Choose the threshold.

        Args:
            X: not read.
            X_probas: (n, T, K), at every timestamp, of series that the classifiers have not seen.
            y: (n,), in 0..K-1.
            cost_matrices: ml_edm's, or an array (T, K, K) whose entry [t, k, l] is the cost of naming k at t where l is
                true, the way ml_edm reads its own. By default 0.5 for an error and 0.5 for waiting to the end.
        """
        del X
        probabilities, _ = _as_past(X_probas)
        labels = as_labels(y, probabilities)
        if self.priors not in PRIORS:
            raise UnknownName("priors", self.priors, PRIORS)
        self.costs_ = self._costs(cost_matrices, probabilities)
        # A class without a series counts as if it had one: nothing is known of its frequency.
        counts = labels.bincount(minlength=probabilities.shape[2]).clamp_min(1).double()
        self.log_prior_ = (counts / counts.sum()).log()
        if isinstance(self.rule, Rule):
            self.rule_: Rule = self.rule
        else:
            family = self._family()
            paid = _paid(self.costs_, probabilities.argmax(dim=2), labels)
            self.rule_ = family.at(_cheapest(family.statistic(self._scores(probabilities)).double().numpy(), paid))
        return self

    def predict(self, X: Any, X_probas: Any, cost_matrices: Any = None) -> BoolArray:  # noqa: N803
        """Whether to stop now, for each series.

        Args:
            X: not read.
            X_probas: (n, K), at the newest timestamp, unless `require_past_probas`; or (n, t, K), at the timestamps so far, or a
                list of (t_i, K). With the past, a series for which the rule has fired before is still to be stopped.
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

    def _family(self) -> type[ThresholdRule]:
        family = rule_named(self.rule)
        if not issubclass(family, ThresholdRule):
            remedy = "Only a threshold can be chosen: give a rule that is ready, for example Patience(3)."
            raise InvalidArgument("rule", "one with a threshold", repr(self.rule), remedy)
        return family

    def _scores(self, probabilities: Tensor) -> Tensor:
        logs = probabilities.clamp_min(LOWEST).log()
        return logs - self.log_prior_ if self.priors == "equal" else logs

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
    if not isinstance(probas, list | tuple) or not _is_past(probas) or len({len(part) for part in probas}) == 1:
        tensor = torch.as_tensor(as_real(probas, name="X_probas"))
        return tensor, torch.full(tensor.shape[:1], tensor.shape[1] if tensor.ndim > 1 else 0)
    parts = [torch.as_tensor(as_real(part, name="X_probas")) for part in probas]
    if len({part.shape[1:] for part in parts}) > 1 or not all(map(len, parts)):
        got = f"series of shapes {sorted({tuple(part.shape) for part in parts})}"
        remedy = "Each series has at least 1 timestamp, and all have the same classes."
        raise InvalidArgument("X_probas", f"of shape {_PAST}", got, remedy)
    return pad_sequence(parts, batch_first=True), torch.tensor([len(part) for part in parts])


def _paid(costs: FloatArray, named: Tensor, labels: Tensor) -> FloatArray:
    """(n, T): the cost of stopping each series at each timestamp."""
    paid: FloatArray = costs[np.arange(len(costs)), named.numpy(), labels.numpy()[:, None]]
    return paid


def _cheapest(statistic: FloatArray, paid: FloatArray) -> float:
    """The threshold of the least mean cost, the least one in a tie; each series pays where it first reaches the threshold."""
    sweep = Sweep.of(statistic, np.full(len(statistic), statistic.shape[1]))
    costs = sweep.sums(paid[:, 0].sum(), paid[sweep.series, sweep.later] - paid[sweep.series, sweep.time])
    # Sums of the same costs in another order differ in their last bits: what is equal but for those is a tie.
    return float(sweep.thresholds[np.flatnonzero(costs <= costs.min() + 1e-9 * len(paid))[0]])
