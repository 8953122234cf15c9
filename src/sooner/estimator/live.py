"""What a fitted classifier does with live series, and the label sets that need calibration series."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from sooner.errors import FullSets, InvalidArgument
from sooner.estimator.cases import series_for
from sooner.evaluate import Promise
from sooner.evaluate.achieved import user_level
from sooner.evaluate.label_sets import (
    LabelSets,
    as_coverage,
    coverage_limit_of,
    label_sets_of,
    one_per_group,
    series_for_coverage,
)
from sooner.evaluate.posterior import PosteriorCalibration
from sooner.evaluate.watch import Watch, statistics_at
from sooner.models import Model
from sooner.rules import Rule, SingleLabel
from sooner.scores import Scored
from sooner.series import Series
from sooner.stream import AtEnd, Fleet, Stream
from sooner.types import FloatArray, IntArray

COVERAGE = 0.9
"""Of label sets, where none is asked for."""


class LiveMixin:
    """Live series, label sets and the alarm of a fitted `EarlyClassifier`."""

    classes_: npt.NDArray[Any]
    n_classes_: int
    model_: Model
    rule_: Rule
    calibration_: Scored | None
    posterior_calibration_: PosteriorCalibration

    @property
    def promise_(self) -> Promise | None:
        """The promise of the current threshold."""
        raise NotImplementedError

    @overload
    def stream(
        self,
        keyed: Literal[False] = ...,
        *,
        deadline: int | None = ...,
        at_end: AtEnd = ...,
        coverage: float | None = ...,
    ) -> Stream: ...
    @overload
    def stream(
        self,
        keyed: Literal[True],
        *,
        deadline: int | None = ...,
        at_end: AtEnd = ...,
        coverage: float | None = ...,
    ) -> Fleet: ...

    def stream(
        self,
        keyed: bool = False,
        *,
        deadline: int | None = None,
        at_end: AtEnd = "force",
        coverage: float | None = None,
    ) -> Stream | Fleet:
        """Create a live series, or with `keyed` many live series by key. An observation has the shape (n_channels,).

        Args:
            keyed: whether `update` takes a dict from keys to observations.
            deadline: maximum number of observations per decision.
            at_end: if the rule has not fired by then, "force" names the leading class, "abstain" gives None as the label, and
                "set" the tuple of the labels left.
            coverage: of the label sets `live.labels` and `fleet.labels(key)`, as in `label_sets`. Without one there are no sets
                but for `at_end="set"`, whose coverage is then that of a rule `SingleLabel`, or 90%.
        """
        check_is_fitted(self)
        kind = Fleet if keyed else Stream
        return kind(
            self.model_,
            self.rule_,
            classes=self.classes_.tolist(),
            prepare=self._prepared(),
            offset=self._offset(),
            deadline=deadline,
            at_end=at_end,
            limit=self._limit_at_end(at_end, coverage, self.rule_),
        )

    def live_posterior(self, scores: FloatArray, times: IntArray) -> FloatArray:
        """(series, classes): the calibrated posterior, from the scores of live series after so many observations."""
        offset = self._offset()
        return self.posterior_calibration_.posterior(scores - offset, times, offset)

    def label_sets(self, X: Any, coverage: float = COVERAGE) -> LabelSets:  # noqa: N803
        """The labels that cannot be excluded, after each observation.

        With a probability of at least `coverage` the true label of a series is in all of its sets: at all times together, for
        any stopping rule, and whatever the model is worth, if the calibration series are like those to come. It is the coverage
        of all classes together, not of each. The sets of a series never grow; an empty one says "none of the known classes".

        Args:
            X: as in `fit`.
            coverage: between 0 and 1.
        """
        limit = self._limit(coverage)
        scored = self._scored(series_for(X, self).unlabelled())
        return label_sets_of(scored, limit, tuple(self.classes_.tolist()))

    def single_label(self, coverage: float = COVERAGE) -> SingleLabel:
        """The rule that stops when one label of the set of that coverage is left: `clf.threshold = clf.single_label(0.95)`.

        At most a share 1 - coverage of all series is stopped with a wrong label or none. `clf.decide` and live series give None
        where no label is left. The rule belongs to the current `priors`: make it anew when they change.
        """
        return SingleLabel(self._limit(coverage), self.n_classes_)

    def watch(
        self,
        error: float | None = None,
        *,
        delta: float = 0.05,
        class_shares: Mapping[Any, float] | None = None,
        seed: int = 0,
    ) -> Watch:
        """A new alarm for the decisions of the current rule: see `sooner.evaluate.Watch`, whose arguments these are.

        Without `error`, it is that of `clf.promise_`, if this promises the plain or the balanced error; the latter needs the
        `class_shares`. With neither, statistics alone are watched.

        It watches the promised error, where labels come, and `time` and `log_odds` of the decisions, as compared with those of
        the calibration series; live series with a `coverage` have both: `watch.see({"time": d.time, "log_odds": d.log_odds})`.
        Make a new one when the threshold or the priors change. If the threshold was chosen on the calibration series, their
        decisions are slightly unlike those to come, and `delta` holds nearly, not exactly, for these two.
        """
        calibration = self._calibrated()
        if isinstance(class_shares, Mapping) and set(class_shares) != set(self.classes_.tolist()):
            remedy = "They are the shares of the classes among the series to come."
            expected = f"a share for each of the classes {self.classes_.tolist()}"
            raise InvalidArgument("class_shares", expected, f"shares of {list(class_shares)}", remedy)
        if error is None and self.promise_ is not None:
            error = watched_error(self.promise_, class_shares)
        times = self.rule_.decide(*calibration, halting=calibration.halting).times
        values = statistics_at(calibration, times)
        return Watch(error, delta=delta, calibration=values, class_shares=class_shares, seed=seed)

    def _calibrated(self) -> Scored:
        """The calibration scores with the log prior, one series of each group."""
        check_is_fitted(self)
        if self.calibration_ is None:
            remedy = "Fit with calibration_share=0.2, or call clf.calibrate(X, y) with labelled series that nothing else used."
            raise InvalidArgument("calibration_", "known for label sets and alarms", "None", remedy)
        return one_per_group(self.calibration_, seed=0).plus(self._offset())

    def _limit(self, coverage: float) -> float:
        """The limit of the log-odds for label sets of that coverage, with a warning if it is infinite."""
        coverage = as_coverage(coverage)
        calibration = self._calibrated()
        limit = coverage_limit_of(calibration, coverage)
        if math.isinf(limit):
            full = FullSets(coverage, len(calibration), series_for_coverage(coverage))
            warnings.warn(full, stacklevel=user_level())
        return limit

    def _limit_at_end(self, at_end: AtEnd, coverage: float | None, rule: Rule) -> float | None:
        """The limit of label sets that are asked for by a coverage or by `at_end="set"`."""
        if coverage is None and isinstance(rule, SingleLabel) and at_end == "set":
            return rule.limit
        return (
            self._limit(COVERAGE if coverage is None else coverage) if at_end == "set" or coverage is not None else None
        )

    def _scored(self, series: Series) -> Scored:
        raise NotImplementedError

    def _offset(self) -> npt.NDArray[np.float32]:
        raise NotImplementedError

    def _prepared(self) -> Callable[[torch.Tensor], torch.Tensor]:
        raise NotImplementedError


def watched_error(promise: Promise, class_shares: Mapping[Any, float] | None) -> float:
    """The level of a promise that labels can be compared with."""
    needs = {"error": False, "balanced_error": True}
    if promise.risk not in needs:
        remedy = "Pass the largest plain or balanced error instead."
        raise InvalidArgument("error", f"given where {promise.risk!r} is promised", "None", remedy)
    if needs[promise.risk] != (class_shares is not None):
        expected = "given for a promise of the balanced error" if needs[promise.risk] else "None for the plain error"
        remedy = "They are the shares of the classes among the series to come."
        raise InvalidArgument("class_shares", expected, class_shares, remedy)
    return promise.level
