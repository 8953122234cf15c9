"""The dial: what a threshold would mean on held-out series, and the rule that a number or a target stands for."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier
from sooner.estimator.dial import family_of
from sooner.evaluate.achieved import achieved_of
from sooner.evaluate.choose import rule_for_target
from sooner.inputs import as_number
from sooner.rules import Halting, ProbabilityThreshold, Rule, ThresholdRule
from sooner.types import FloatArray, SATCurve

TARGETS = ("max_error", "max_mean_time", "cost_of_waiting")
_POINTS = 200


class Dial:
    """The thresholds of a classifier on its held-out series.

    Args:
        clf: with its held-out scores, if it has any.
        promises: whether the promise of the classifier holds for the service, which has no deadline then.
    """

    def __init__(self, clf: EarlyClassifier, *, promises: bool) -> None:
        self._clf, self._promises = clf, promises

    @cached_property
    def curve(self) -> SATCurve | None:
        """The exact speed-accuracy curve; None without held-out series or a threshold."""
        if not isinstance(self._clf.rule_, ThresholdRule) or not len(self._clf.held_out_):
            return None
        return self._clf.speed_accuracy()

    @cached_property
    def rows(self) -> list[dict[str, float]]:
        """At most 200 points of the curve, evenly along its length, with finite thresholds."""
        if self.curve is None:
            return []
        # Evenly in time alone, most would lie where the error hardly changes.
        lengths = _share_of_change(self.curve.mean_times) + _share_of_change(self.curve.errors)
        wanted = np.linspace(0.0, lengths[-1], _POINTS)
        last = len(lengths) - 1
        if isinstance(self._clf.rule_, ProbabilityThreshold | Halting):  # they cannot be set above 1, so not to never
            last = max(0, int(np.isfinite(self.curve.thresholds).sum()) - 1)
        indices = np.unique(np.append(np.searchsorted(lengths, wanted).clip(max=last), last))
        return [self._point(int(index)) for index in indices]

    def state(self, rule: Rule) -> dict[str, Any]:
        """The current threshold with what it means, the promise, and the curve."""
        promise = self._clf.promise_ if self._promises else None
        return {
            **self.preview(rule),
            "rule": type(rule).__name__,
            "source": "model" if rule == self._clf.rule_ else "set",
            "promise": str(promise) if promise is not None and promise.rule == rule else None,
            "curve": self.rows,
        }

    def preview(self, rule: Rule) -> dict[str, Any]:
        """Error, mean time and forced share of a rule on the held-out series; None where there are none."""
        threshold = threshold_of(rule)
        if isinstance(threshold, int | float) and self.curve is not None and type(rule) is type(self._clf.rule_):
            index = int(np.searchsorted(self.curve.thresholds, threshold, side="left"))
            return {**self._point(min(index, len(self.curve) - 1)), "threshold": float(threshold)}
        about: dict[str, Any] = {"threshold": threshold}
        if not len(self._clf.held_out_) or self._clf.model_.halts != (self._clf.held_out_.halting is not None):
            return {**about, "error": None, "mean_time": None, "forced": None}
        reached = achieved_of(rule, self._clf.judged())
        return {**about, "error": reached.error, "mean_time": reached.mean_time, "forced": reached.forced}

    def rule(self, wanted: Mapping[str, Any]) -> Rule:
        """The rule of `{"threshold": 2.5}`, or of one target such as `{"max_error": 0.05}`."""
        given = {name: value for name, value in wanted.items() if value is not None}
        if len(given) != 1 or not set(given) <= {"threshold", *TARGETS}:
            expected = f"one of threshold, {', '.join(TARGETS)}"
            raise InvalidArgument(
                "body", expected, sorted(map(str, given)) or "none", 'For example {"threshold": 2.5}.'
            )
        if "threshold" in given:
            return self._clf.rule_named_by(given["threshold"])
        name, value = next(iter(given.items()))
        target = as_number(value, name=name, low=0.0, remedy="It is a number, for example 0.05.")
        family = family_of(self._clf.rule_)
        if self.curve is None:
            remedy = "Give the threshold itself, or train with held-out series."
            raise InvalidArgument(name, "given for a model with held-out series", "a model without", remedy)
        return rule_for_target(family, self.curve, **{name: target})

    def _point(self, index: int) -> dict[str, float]:
        curve = self.curve
        assert curve is not None
        threshold = curve.thresholds[index]
        if not np.isfinite(threshold):  # every series runs to its end: any number above the last one says so
            threshold = np.ceil(1.0 + 1.05 * max(0.0, curve.thresholds[index - 1])) if index else 1.0
        return {
            "threshold": float(threshold),
            "error": float(curve.errors[index]),
            "mean_time": float(curve.mean_times[index]),
            "forced": float(curve.forced[index]),
        }


def _share_of_change(values: FloatArray) -> FloatArray:
    """For each value the share of all ups and downs that lies before it."""
    changes = np.concatenate([[0.0], np.abs(np.diff(values)).cumsum()])
    return changes / max(float(changes[-1]), 1e-300)


def threshold_of(rule: Rule) -> Any:
    """The threshold of a rule as a number, or as nested lists for a matrix; None if it has none.

    >>> from sooner.rules import MSPRT, Patience
    >>> threshold_of(MSPRT(2.5)), threshold_of(MSPRT([[0, 1], [2, 0]])), threshold_of(Patience(2))
    (2.5, [[0.0, 1.0], [2.0, 0.0]], None)
    """
    return np.asarray(rule.cutoff).tolist() if isinstance(rule, ThresholdRule) else None
