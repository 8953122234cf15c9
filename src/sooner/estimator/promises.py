"""Promises of a classifier: calibration series, certified thresholds, and when a promise no longer holds."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from sooner.container import digest, pieces_of
from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument, PromiseDropped, SoonerError
from sooner.estimator.cases import class_indices, series_for
from sooner.estimator.dial import family_beside, family_of, fitter_of
from sooner.estimator.learning import scored
from sooner.estimator.priors import class_shares
from sooner.evaluate import (
    Achieved,
    PosteriorCalibration,
    Promise,
    certified_giving_up,
    certified_threshold,
    fit_posterior,
)
from sooner.evaluate.achieved import achieved_of
from sooner.evaluate.choose import cheapest_rule, refuse_costs_without_waiting, rule_for_target
from sooner.evaluate.curve import curve_of
from sooner.evaluate.promise import CLAIMS, data_hash
from sooner.inputs import as_between, as_groups
from sooner.models import Model, Rocket
from sooner.rules import DecisionCost, GiveUp, NotBefore, Rule
from sooner.rules.described import description
from sooner.scores import Scored
from sooner.series import Series
from sooner.types import IntArray

if TYPE_CHECKING:
    from sooner.estimator.classifier import EarlyClassifier

_HASHED = 20_000
"""So many training series, evenly spaced, are recognised among calibration series."""
_KEPT = 2000
"""So many series of the calibration share are kept with a model, as of the held-out share."""
_FEWEST_FOR_POSTERIORS = 50
"""With fewer calibration series, posteriors stay calibrated by the held-out scores of the training."""
_SHARE = "It is a fraction of the series: 0.2 means 20%."
ESTIMATE = "an estimate, not a promise"


class PromiseMixin:
    """The part of `EarlyClassifier` that chooses thresholds, with or without a promise."""

    classes_: npt.NDArray[Any]
    class_counts_: IntArray
    model_: Model
    rule_: Rule
    standardizer_: Standardizer
    held_out_: Scored
    calibration_: Scored | None
    training_hashes_: IntArray
    priors: Any
    rule: str
    _promised: tuple[Promise, str] | None

    def choose_threshold(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        *,
        max_error: float | None = None,
        max_mean_time: float | None = None,
        cost_of_waiting: Any = None,
        cost_of_error: float = 1.0,
        cost_matrix: Any = None,
        confidence: float | None = None,
        risk: str = "balanced_error",
        groups: Any = None,
    ) -> Achieved:
        """Choose the threshold for exactly one target, on series that were not used for training.

        Args:
            X: as in `fit`, or the result of `scores` for labelled series; by default the held-out series of the training, or with
                `confidence` the calibration series.
            y: (n_cases,), labels; None for a `Series` with labels.
            max_error: maximum balanced error, or with `confidence` the maximum of `risk`.
            max_mean_time: maximum mean time.
            cost_of_waiting: cost of one observation, an array with the cost of deciding at times 1, 2, ..., or a function of an
                array of times. The mean cost is minimised, the only target of a fitted rule (`FITTERS`), which is fitted again.
            cost_of_error: cost of a wrong decision.
            cost_matrix: (n_classes, n_classes), instead: entry [k, l] is the cost of deciding class l where k is true.
            confidence: certifies the threshold: with this probability, the risk of new series is at most `max_error`
                (`clf.promise_`). Fix target and confidence before you look at the series.
            risk: what is promised, one of "balanced_error", "error", "class_error", "gap", "early_error": see
                `sooner.evaluate.certify`.
            groups: (n_cases,), group IDs: confidence intervals, and a promise, are then by group.

        Returns:
            Error and mean time on the series that the threshold was chosen on, with confidence intervals. They are slightly too
            good, especially with few series: for an unbiased estimate, use `evaluate` on other series.
        """
        check_is_fitted(self)
        refuse_costs_without_waiting(cost_of_waiting, cost_of_error, cost_matrix)
        if confidence is not None:
            family = family_of(_innermost(self.rule_))
            refuse_other_targets(max_error, max_mean_time, cost_of_waiting)
            level = as_between(max_error, name="max_error", low=0.0, high=1.0, remedy="0.05 means 5%.")
            judged = self._never_used(X, y, groups, risk)
            promise = certified_threshold(family, judged, risk, level, confidence)
            self.rule_ = promise.rule
            self._promised = promise, fingerprint(self)
            found = replace(achieved_of(self.rule_, judged), note=str(promise))
        else:
            if risk != "balanced_error":
                remedy = "Only a certified threshold can be about another risk."
                raise InvalidArgument("confidence", f"given for the risk {risk!r}", "None", remedy)
            judged = self.judged(X, y, groups)
            cost = None if cost_of_waiting is None else DecisionCost.of(cost_of_waiting, cost_of_error, cost_matrix)
            self.rule_ = self._rule_for(judged, max_error, max_mean_time, cost)
            found = replace(achieved_of(self.rule_, judged), note=ESTIMATE)
        found.warn_near_chance()
        return found

    def _rule_for(
        self, judged: Scored, max_error: float | None, max_mean_time: float | None, cost: DecisionCost | None
    ) -> Rule:
        """The rule of the same kind that meets one target: another threshold, or a rule that is fitted again for a cost."""
        inner = _innermost(self.rule_)
        fitter, by_cost = fitter_of(self.rule, inner), max_error is None and max_mean_time is None
        if cost is not None and by_cost:
            return cheapest_rule(family_of(inner), judged, cost) if fitter is None else fitter.fit(judged, cost)
        if fitter is not None and not by_cost:
            name, value = ("max_error", max_error) if max_error is not None else ("max_mean_time", max_mean_time)
            remedy = "It is fitted for costs: give cost_of_waiting, or set clf.threshold = MSPRT(2.0) first."
            raise InvalidArgument(name, "left out for a fitted rule", value, remedy)
        family, beside = family_of(inner), None if cost is None else 0.0  # refused, as one target too many
        curve = curve_of(judged, family)
        return rule_for_target(family, curve, max_error=max_error, max_mean_time=max_mean_time, cost_of_waiting=beside)

    def give_up(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        *,
        max_error: float,
        confidence: float = 0.95,
        groups: Any = None,
    ) -> Achieved:
        """Give hopeless series up before their end, so that the error among those that get a label is promised.

        The current rule decides as before, but a series that is still open at some time with a small margin is stopped without a
        label (`sooner.rules.GiveUp`): `decide` and streams give None, with `crossed=True`. Calibration series choose time and
        margin: with the given probability, the error among the new series that are answered, by the rule or by their end, is at
        most `max_error` (`clf.promise_`). How many are answered is seen, not promised.

        The current rule must have been chosen without these series, as `fit` does; fix target and confidence before you look at
        them. A rule that gives up already is replaced; the rule in it stays.

        Args:
            X: as in `choose_threshold`; by default the calibration series.
            y: (n_cases,), labels; None for a `Series` with labels.
            max_error: maximum error among the answered series.
            confidence: the probability of the promise, over the draw of the calibration series.
            groups: (n_cases,), group IDs: the promise is then about a random series of a new group.

        Returns:
            What the rule reached on these series. `answered` is the share of those with a label, and `answered_error` the share
            of wrong labels among them; in `error` and `error_rate`, no label counts as an error.
        """
        check_is_fitted(self)
        level = as_between(max_error, name="max_error", low=0.0, high=1.0, remedy="0.05 means 5%.")
        judged = self._never_used(X, y, groups, "answered_error")
        before = self.promise_
        if before is not None and before.risk != "answered_error" and before.data == data_hash(judged):
            remedy = "Bring other series, or set a rule that was chosen without them."
            raise InvalidArgument("X", "series that did not choose the current rule", "those that did", remedy)
        inner = self.rule_.rule if isinstance(self.rule_, GiveUp) else self.rule_
        promise = certified_giving_up(inner, judged, level, confidence)
        self.rule_ = promise.rule
        self._promised = promise, fingerprint(self)
        return replace(achieved_of(self.rule_, judged), note=str(promise))

    def calibrate(self, X: Any, y: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Keep the scores of labelled series for promises, label sets and alarms (`clf.calibration_`).

        The series must be like those to come, and neither training nor any choice may have seen them; series of the training set
        are refused. They replace the calibration series that were kept before. At least 50 also calibrate `predict_proba`.

        Args:
            X: as in `fit`.
            y: (n_cases,), labels; None for a `Series` with labels.
            groups: (n_cases,), group IDs, if several series come from one patient or machine.
        """
        check_is_fitted(self)
        self.calibration_ = self._unseen(X, y, groups)
        self.posterior_calibration_ = recalibrated(self)
        return self

    @property
    def promise_(self) -> Promise | None:
        """The promise of the current threshold; None without one, or if anything it rests on has changed since."""
        check_is_fitted(self)
        promised = getattr(self, "_promised", None)
        return promised[0] if promised is not None and promised[1] == fingerprint(self) else None

    def judged(self, X: Any = None, y: Any = None, groups: Any = None) -> Scored:  # noqa: N803
        """The scores of labelled series, `priors` included."""
        raise NotImplementedError

    def _offset(self) -> npt.NDArray[np.float32]:
        raise NotImplementedError

    def _never_used(self, X: Any, y: Any, groups: Any, risk: str) -> Scored:  # noqa: N803
        """The scores of calibration series, `priors` included: X, or those that were kept."""
        if X is None and y is None and groups is None:
            if self.calibration_ is None:
                remedy = (
                    "Pass labelled series that were used for nothing else, or fit with calibration_share=0.2. Held-out and "
                    "leave-one-out scores were used to choose the model, so nothing can be promised from them."
                )
                raise InvalidArgument("X", "calibration series for a promise", "None", remedy)
            found = self.calibration_.plus(self._offset())
        elif isinstance(X, Scored):
            found = self.judged(X, y, groups)
            held = self.held_out_.scores + self._offset()
            if held.shape == found.scores.shape and np.array_equal(held, found.scores):
                remedy = "They were used to choose the model: pass other series."
                raise InvalidArgument("X", "calibration series for a promise", "the held-out series", remedy)
        else:
            found = self._unseen(X, y, groups).plus(self._offset())
        absent = np.flatnonzero(np.bincount(found.truths, minlength=len(self.classes_)) == 0)
        if len(absent) and risk in ("balanced_error", "class_error"):
            remedy = 'Bring series of every class, or promise risk="error", which is about all classes together.'
            raise InvalidArgument("y", "of every class", f"none of {self.classes_.tolist()[absent[0]]!r}", remedy)
        return found

    def _unseen(self, X: Any, y: Any, groups: Any) -> Scored:  # noqa: N803
        """The scores of labelled series, without `priors`; series of the training set are refused."""
        if X is None or (y is None and not isinstance(X, Series)):
            remedy = "Pass labelled calibration series: X and y, or a Series with labels."
            raise InvalidArgument("y", "given together with X", "one of them", remedy)
        series = series_for(X, self)
        if y is None:
            y = series.names(series.require_labels().labels)
        labels = torch.from_numpy(class_indices(y, self.classes_))
        if len(labels) != len(series):
            remedy = "Give one label for each series."
            raise InvalidArgument("y", f"of {len(series)} labels", len(labels), remedy)
        known = np.flatnonzero(np.isin(series_hashes(series), self.training_hashes_))
        if len(known):
            got = f"{len(known):,} that the model was trained on, the first at index {known[0]}"
            raise InvalidArgument(
                "X", "series that training has not seen", got, "Drop them: they would promise too much."
            )
        series = replace(series, labels=labels)
        found = scored(self.model_, self.standardizer_.apply(series))
        return found if groups is None else replace(found, groups=as_groups(groups, len(found)))


def refuse_other_targets(max_error: object, max_mean_time: object, cost_of_waiting: object) -> None:
    """A certified threshold has a maximum error as its target, and nothing else."""
    if max_error is None or max_mean_time is not None or cost_of_waiting is not None:
        got = "none" if max_mean_time is None and cost_of_waiting is None else "another target"
        remedy = "Only a maximum error can be promised."
        raise InvalidArgument("max_error", "given alone with a confidence", got, remedy)


def _innermost(rule: Rule) -> Rule:
    """The rule whose threshold was chosen, inside those that a promise put around it."""
    while isinstance(rule, NotBefore | GiveUp):
        rule = rule.rule
    return rule


def split_off(series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
    """The series to learn from, and the calibration share, by group where groups are known; None for a share of 0."""
    if share == 0.0:
        return series, None
    if series.weights is not None:
        series = series.take(np.flatnonzero(series.weights))  # as in training, where a weight of 0 leaves a series out
    return series.hold_out(share, seed)


def as_calibration_share(share: Any) -> float:
    """A share from 0 to below 1."""
    if isinstance(share, int | float) and share == 0:
        return 0.0
    return as_between(share, name="calibration_share", low=0.0, high=1.0, remedy=_SHARE)


def calibration_scores(classifier: "EarlyClassifier", kept: Series) -> Scored:
    """The scores of the calibration share, without `priors`."""
    return scored(classifier.model_, classifier.standardizer_.apply(kept)).at_most(_KEPT)


def recalibrated(classifier: Any) -> PosteriorCalibration:
    """The calibration of posteriors by the calibration series, if they are not too few. No decision depends on it."""
    if classifier.calibration_ is None or len(classifier.calibration_) < _FEWEST_FOR_POSTERIORS:
        current: PosteriorCalibration = classifier.posterior_calibration_
        return current
    spread = 0.0 if isinstance(classifier.model_, Rocket) else 1.0
    return fit_posterior(classifier.calibration_, family_beside(classifier.rule), slope_spread=spread)


def training_hashes(series: Series) -> IntArray:
    """The hashes by which series of the training are recognised."""
    rows = np.linspace(0, len(series) - 1, min(len(series), _HASHED)).astype(np.int64)
    return np.unique(series_hashes(series, rows))


def series_hashes(series: Series, rows: IntArray | None = None) -> IntArray:
    """(series,): 64 bits of the hash of each series' observations."""
    chosen = range(len(series)) if rows is None else rows.tolist()
    lengths = series.lengths.tolist()
    pieces = (series.observations[row, : lengths[row]].contiguous().numpy().tobytes() for row in chosen)
    digests = b"".join(hashlib.blake2b(piece, digest_size=8).digest() for piece in pieces)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)


def fingerprint(classifier: Any) -> str:
    """The SHA-256 of all that decisions depend on: rule, priors, model weights and standardisation."""
    counts, names = classifier.class_counts_, classifier.classes_.tolist()
    standard = classifier.standardizer_
    return digest(
        pieces_of(
            {
                **{f"model.{name}": tensor for name, tensor in classifier.model_.state_dict().items()},
                "rule": json.dumps(description(classifier.rule_)),
                "priors": class_shares(classifier.priors, names, counts).tolist(),
                "classes": names,
                "mean": torch.as_tensor(standard.mean),
                "scale": torch.as_tensor(standard.scale),
                "mask_channels": standard.mask_channels,
            }
        )
    )


def written_promise(classifier: Any) -> dict[str, Any] | None:
    """The promise of a classifier as JSON, with the fingerprint of what it rests on."""
    promise = classifier.promise_
    return None if promise is None else {**promise.to_dict(), "fingerprint": fingerprint(classifier)}


def restore_promise(classifier: Any, written: Any) -> None:
    """Take over a promise from a file, if it fits the classifier that the file describes; else drop it, with a warning.

    A fingerprint is no signature: it finds damage and mistakes, not a forger who computes another one.
    """
    if written is None:
        return
    try:
        about: Mapping[str, Any] = dict(written)
        mark = about.pop("fingerprint")  # type: ignore[attr-defined]
        promise = Promise.from_dict(about)
        fits = mark == fingerprint(classifier) and promise.rule == classifier.rule_ and promise.risk in CLAIMS
        str(promise)
    except (SoonerError, KeyError, TypeError, ValueError):
        fits = False
    if fits:
        classifier._promised = promise, mark
    else:
        warnings.warn(PromiseDropped(), stacklevel=4)
