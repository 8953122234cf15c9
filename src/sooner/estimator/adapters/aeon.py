"""`EarlyClassifier` with the methods of aeon's early classifiers such as `TEASER`."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from aeon.classification.early_classification.base import BaseEarlyClassifier
from sklearn.base import clone

from sooner.errors import InvalidArgument
from sooner.estimator.classifier import EarlyClassifier
from sooner.evaluate.metrics import earliness, harmonic_mean
from sooner.types import BoolArray, Decisions, FloatArray, IntArray

UNDECIDED = -1
"""aeon's label and probability of cases that are not decided yet."""


class AeonEarlyClassifier(BaseEarlyClassifier):  # type: ignore[misc]  # aeon has no types
    """An early classifier of aeon; its methods return labels or probabilities, and whether they are safe to use.

    aeon passes prefixes of any length, and later longer prefixes without the cases that were safe. A case is safe once the rule
    has fired, or at `n_timepoints_`, the length of the training series. All training series have the same length; for unequal
    lengths use `EarlyClassifier`. Every call reads the prefix from its start; `classifier_.stream()` costs the same at every
    observation.

    `state_info` has four integers for each case: the index of the last observation that was read, 1 if the case is decided, the
    index in `classes_` of the leading class, and the number of observations that were read.

    Args:
        classifier: is cloned; by default `EarlyClassifier()`.
        random_state: replaces that of the classifier, if given.

    Attributes:
        classifier_: the fitted `EarlyClassifier`; its `threshold` may be changed.
        n_cases_, n_channels_, n_timepoints_: of the training series.

    >>> from aeon.datasets import load_unit_test
    >>> (x, y), (new, _) = (load_unit_test(split=split) for split in ("train", "test"))
    >>> clf = AeonEarlyClassifier().fit(x, y)
    >>> clf.classifier_.threshold = 4.0
    >>> labels, safe = clf.predict(new[:, :, :4])
    >>> set(labels[~safe].tolist())
    {'-1'}
    >>> labels, safe = clf.update_predict(new[~safe])
    >>> bool(safe.all())
    True
    """

    state_info: Any

    _tags = {"capability:multivariate": True}  # noqa: RUF012  (aeon reads it from the class)

    def __init__(self, classifier: EarlyClassifier | None = None, random_state: Any = None) -> None:
        self.classifier = classifier
        self.random_state = random_state
        super().__init__()
        if classifier is not None and classifier.missing == "mask":
            self.set_tags(**{"capability:missing_values": True})

    def compute_harmonic_mean(self, state_info: IntArray, y: Any) -> tuple[float, float, float]:
        """Harmonic mean of accuracy and 1 - earliness, accuracy, and earliness of decided cases."""
        decisions = Decisions(self.classes_[state_info[:, 2]], state_info[:, 3], state_info[:, 1] > 0)
        mean = harmonic_mean(decisions, y, lengths=self.n_timepoints_)
        accuracy = float((decisions.labels == np.asarray(y)).mean())
        return mean, accuracy, earliness(decisions, self.n_timepoints_)

    def _check_X(self, X: Any) -> Any:  # noqa: N802, N803  (aeon's name)
        # aeon warns of series that do not vary, such as a single observation.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*very little variation")
            return super()._check_X(X)

    def _fit(self, X: Any, y: Any) -> "AeonEarlyClassifier":  # noqa: N803
        self.n_cases_, self.n_channels_, self.n_timepoints_ = X.shape
        classifier = EarlyClassifier() if self.classifier is None else clone(self.classifier)
        if self.random_state is not None:
            classifier.set_params(random_state=self.random_state)
        self.classifier_ = classifier.fit(X, y)
        return self

    def _predict(self, X: Any) -> tuple[npt.NDArray[Any], BoolArray]:  # noqa: N803
        _, safe = self._decided(X)
        return self._named(safe), safe

    def _predict_proba(self, X: Any) -> tuple[FloatArray, BoolArray]:  # noqa: N803
        posterior, safe = self._decided(X)
        return np.where(safe[:, None], posterior, float(UNDECIDED)), safe

    def _update_predict(self, X: Any) -> tuple[npt.NDArray[Any], BoolArray]:  # noqa: N803
        self._refuse_others(X)
        return self._predict(X)

    def _update_predict_proba(self, X: Any) -> tuple[FloatArray, BoolArray]:  # noqa: N803
        self._refuse_others(X)
        return self._predict_proba(X)

    def _score(self, X: Any, y: Any) -> tuple[float, float, float]:  # noqa: N803
        if X.shape[2] < self.n_timepoints_:
            expected = f"of the full {self.n_timepoints_} time points"
            raise InvalidArgument("X", expected, X.shape[2], "Cases that are not decided yet have no score.")
        self._decided(X)
        return self.compute_harmonic_mean(self.state_info, y)

    def _decided(self, X: Any) -> tuple[FloatArray, BoolArray]:  # noqa: N803
        """The posterior at the decision or the last observation, and whether the case is decided; sets `state_info`."""
        scored = self.classifier_.scores(X)
        scores, lengths = scored
        ends = np.minimum(lengths, self.n_timepoints_)
        decisions = self.classifier_.rule_.decide(scores, ends, halting=scored.halting)
        safe = decisions.crossed | (lengths >= self.n_timepoints_)
        columns = (decisions.times - 1, safe, decisions.labels, decisions.times)
        self.state_info = np.stack(columns, axis=1).astype(np.int64)
        return self.classifier_.posterior_at(scored, decisions.times), safe

    def _named(self, safe: BoolArray) -> npt.NDArray[Any]:
        labels: npt.NDArray[Any] = self.classes_[self.state_info[:, 2]]
        if safe.all():
            return labels
        # aeon uses a text among labels that are texts.
        undecided = np.asarray(UNDECIDED).astype(np.str_ if labels.dtype.kind == "U" else np.int64)
        return np.where(safe, labels, undecided)

    def _refuse_others(self, X: Any) -> None:  # noqa: N803
        """Refuse cases that are not the undecided ones with more observations."""
        remedy = (
            "Drop the decided cases, keep the order of the others, and call reset_state_info() before other series."
        )
        waiting = self.state_info[self.state_info[:, 1] == 0]
        if len(X) != len(waiting):
            raise InvalidArgument("X", f"the {len(waiting)} cases that are not decided yet", f"{len(X)} cases", remedy)
        if len(waiting) and X.shape[2] <= waiting[0, 3]:
            expected = f"longer than the {waiting[0, 3]} time points of the last call"
            raise InvalidArgument("X", expected, f"{X.shape[2]} time points", remedy)
