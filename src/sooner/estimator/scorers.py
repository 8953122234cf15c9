"""Scorers for scikit-learn's model selection: `GridSearchCV(EarlyClassifier(), grid, scoring=ErrorAt(8.0))`.

`clf.score` measures a classifier at its own threshold, so a slow one looks better than a fast one. These scorers compare early
classifiers by their speed-accuracy curves on the validation fold.
"""

from dataclasses import dataclass
from typing import Any

from sooner.estimator.classifier import EarlyClassifier
from sooner.inputs import as_number


@dataclass(frozen=True)
class ErrorAt:
    """Scorer: minus the balanced error at the threshold with this mean time.

    >>> ErrorAt(8.0)
    ErrorAt(mean_time=8.0)
    """

    mean_time: float

    def __post_init__(self) -> None:
        as_number(self.mean_time, name="mean_time", low=1.0, remedy="It counts observations from 1.")

    def __call__(self, clf: EarlyClassifier, X: Any, y: Any) -> float:  # noqa: N803
        """The score on labelled series; larger is better."""
        return -float(clf.speed_accuracy(X, y).error_at(self.mean_time))


@dataclass(frozen=True)
class LeastAverageCost:
    """Scorer: minus the smallest average cost, alpha P(error) + (1 - alpha) earliness, of any threshold.

    >>> LeastAverageCost(alpha=0.8)
    LeastAverageCost(alpha=0.8)
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        as_number(self.alpha, name="alpha", low=0.0, high=1.0, remedy="It weighs errors against waiting.")

    def __call__(self, clf: EarlyClassifier, X: Any, y: Any) -> float:  # noqa: N803
        """The score on labelled series; larger is better."""
        curve = clf.speed_accuracy(X, y)
        return -float((self.alpha * curve.error_rates + (1 - self.alpha) * curve.earliness).min())
