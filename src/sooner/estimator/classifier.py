"""`EarlyClassifier`: model, rule and threshold behind the interface of a scikit-learn classifier."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sooner.errors import InvalidArgument
from sooner.estimator.cases import as_targets, class_indices, labelled_series, series_for
from sooner.estimator.dial import decided, family_beside, family_of, fitter_of, rule_for, with_labels
from sooner.estimator.learning import FitOptions, Learned, learn, prepared, scored
from sooner.estimator.live import LiveMixin
from sooner.estimator.priors import prior_offset
from sooner.estimator.promises import (
    PromiseMixin,
    as_calibration_share,
    calibration_scores,
    recalibrated,
    split_off,
    training_hashes,
)
from sooner.evaluate import Achieved, Menu, balanced_error, default_threshold, menu_of, midpoint_rule
from sooner.evaluate.achieved import achieved_of
from sooner.evaluate.calibration import Reliability, reliability
from sooner.evaluate.choose import DEFAULT_ALPHA
from sooner.evaluate.curve import curve_of
from sooner.inputs import as_groups, as_labels
from sooner.progress import tell
from sooner.rules import MSPRT, DecisionCost, Rule, ThresholdRule
from sooner.scores import Scored
from sooner.series import Missing, Series
from sooner.series.columns import Columns
from sooner.stream import AtEnd
from sooner.train.settings import Settings
from sooner.types import Decisions, FloatArray, IntArray, SATCurve


class EarlyClassifier(PromiseMixin, LiveMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifies time series early, with a speed-accuracy trade-off that is set after training.

    Args:
        model: "auto" uses "rocket" for up to 2,000 series and "recurrent" (the paper's peephole LSTM) for more. The others are
            "lstm", "gru", "earliest" and "prefix" (logistic regression on prefixes). A scikit-learn classifier is fitted to
            prefixes. Your own `Model`, or a function of (features, classes) that returns one, is trained like "recurrent".
        order: N, the number of earlier observations in a window of a recurrent model, or "full" for full memory ("auto").
        loss: names of `sooner.losses` joined by "+", or a dict from names to weights, for a recurrent model.
        max_epochs: for a recurrent model; training stops early when the validation metric no longer improves.
        device: "auto", "cpu", "cuda" or "mps".
        random_state: an integer, None, or NumPy's RandomState.
        rule: "msprt", "log_odds", "probability_threshold", "fixed_time", or for the model "earliest" its own "halting"; or a rule
            that is fitted for a cost: "taper", "calimera", "firmbound", "mori", "economy", "teaser" (`sooner.rules.FITTERS`). Any
            other rule can be set as `threshold` after `fit`.
        priors: class probabilities in use: "equal", "training" (frequencies in training), or one number for each class, as an
            array in the order of `classes_` or as a dict. They may be changed after `fit`.
        missing: "refuse" rejects NaN in arrays; "mask" replaces it by 0 and adds a mask channel for each channel.
        calibration_share: share of the series (by group, where groups are given) that neither training nor any choice sees:
            `choose_threshold(max_error=..., confidence=...)` certifies the threshold on it.
        validation_share: share of the series held out for early stopping and for the threshold; "rocket" uses leave-one-out
            scores instead.
        hidden: hidden size of a recurrent model.
        learning_rate: for a recurrent model.
        batch_size: for a recurrent model.
        engine: "local", or "ray" to train a recurrent model on a cluster (see `sooner.engines.ray`).
        workers: number of Ray workers that share each batch.
        settings: all settings of a recurrent model at once; they replace the arguments above that concern one.
        folder: for the checkpoints of a recurrent model; an interrupted training found there is resumed. By default no file is
            written.
        verbose: 1 shows progress and, after `fit`, the menu of thresholds on the standard error; 2 shows progress alone.

    Attributes:
        classes_: the labels, sorted.
        model_: the fitted model; `model_name_` and `order_` are the values chosen for "auto".
        rule_: the current rule, with its threshold.
        training_: the record of the training, a dict.
        posterior_calibration_: the map from scores at a decision to probabilities.
        calibration_: scores of the calibration series, without `priors`; None if there are none.
        promise_: the promise of the current threshold, if it was certified.
        achieved_: error and mean time of the threshold on the held-out series, with confidence intervals.

    >>> from sooner.data import Gaussian
    >>> x, y = Gaussian.equidistant(classes=2, distance=1.0).sample(120, 40, seed=0)
    >>> clf = EarlyClassifier().fit(x[:80].transpose(1, 2), y[:80])
    >>> clf.model_name_
    'rocket'
    >>> bool(clf.score(x[80:].transpose(1, 2), y[80:]) > 0.8)
    True
    """

    rule_: Rule

    def __init__(
        self,
        model: Any = "auto",
        order: Any = "auto",
        loss: Any = "lsel+multiplet",
        max_epochs: int = 100,
        device: str = "auto",
        random_state: Any = 0,
        *,
        rule: str = "msprt",
        priors: Any = "equal",
        missing: Missing = "refuse",
        validation_share: float = 0.2,
        calibration_share: float = 0.0,
        hidden: int = 64,
        learning_rate: float = 3e-3,
        batch_size: int = 64,
        engine: str = "local",
        workers: int = 1,
        settings: Settings | None = None,
        folder: str | PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.order = order
        self.loss = loss
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state
        self.rule = rule
        self.priors = priors
        self.missing = missing
        self.validation_share = validation_share
        self.calibration_share = calibration_share
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.engine = engine
        self.workers = workers
        self.settings = settings
        self.folder = folder
        self.verbose = verbose

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> "EarlyClassifier":
        """Train on labelled series, and set a threshold, or fit the rule.

        The threshold has the least average cost on held-out series, 0.8 P(error) + 0.2 x the share of a series that is read,
        among the thresholds whose balanced error is at least three quarters of the way from chance to the smallest error
        (`default_threshold`). A rule such as "taper" is fitted to the same series for the same average cost. The warning
        `NearChance` is given if the rule is hardly better than guessing.

        Args:
            X: (n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), a list of (n_channels, n_timepoints_i), or a
                `Series`, which may contain labels, groups, weights and channel names. A long DataFrame is first read with
                `Series.of`.
            y: (n_cases,), labels of any type, but one type only. None for a `Series` with labels.
            sample_weight: (n_cases,), the weight of each series in training.
            groups: (n_cases,), group IDs; a group is never split between the training set and the held-out set.
        """
        series = labelled_series(X, y, groups, sample_weight, self)
        family = family_beside(self.rule)
        prior_offset(self.priors, series.classes.tolist(), series.class_counts())  # refused now, not after training
        share = as_calibration_share(self.calibration_share)
        options = FitOptions.of(self, round((1 - share) * len(series)))
        series, kept = split_off(series, share, options.seed)
        learned = learn(series, options, family)
        columns = None if series.channels is None else Columns(channels=series.channels)
        self.adopt(learned, series.classes, series.class_counts(), columns)
        self.training_hashes_ = training_hashes(series)
        self.calibration_ = None if kept is None else calibration_scores(self, kept)
        self.posterior_calibration_ = recalibrated(self)
        if (fitter := fitter_of(self.rule)) is not None:
            self.rule_ = fitter.fit(self.judged(), DecisionCost.average(DEFAULT_ALPHA))
        else:
            curve = self.speed_accuracy_of(family)
            self.rule_ = midpoint_rule(family, curve, default_threshold(curve, classes=self.n_classes_))
        self.achieved_.warn_near_chance()
        if self.verbose == 1 and fitter is None:
            tell(str(self.menu()))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The label of each series, decided early."""
        labels: npt.NDArray[Any] = self.decide(X).labels
        return labels

    def decide(
        self,
        X: Any,  # noqa: N803
        threshold: Any = None,
        *,
        deadline: int | None = None,
        at_end: AtEnd = "force",
        coverage: float | None = None,
    ) -> Decisions:
        """Decide each series at the first observation at which the rule fires, or at its end.

        Args:
            X: as in `fit`.
            threshold: a number, a matrix or a rule, for this call only; by default `self.threshold`.
            deadline: maximum number of observations per decision.
            at_end: if the rule never fires, "force" names the leading class, "abstain" gives None as the label, and "set" the
                tuple of the labels left.
            coverage: of the label sets of `at_end="set"`, as in `stream`.
        """
        check_is_fitted(self)
        rule = self.rule_ if threshold is None else self.rule_named_by(threshold)
        unlabelled = series_for(X, self).unlabelled()  # labels of a class that was not in training do not matter here
        limit = self._limit_at_end(at_end, coverage, rule)
        return decided(rule, self._scored(unlabelled), self.classes_, deadline, at_end, limit)

    def scores(self, X: Any) -> Scored:  # noqa: N803
        """Log-likelihoods of the classes after each observation, up to a shared term, plus the log of `priors`.

        `scores, lengths = clf.scores(X)` unpacks the result. For a labelled `Series` it also contains the labels.
        """
        check_is_fitted(self)
        series = series_for(X, self)
        if series.labels is not None:
            series = replace(series, labels=torch.from_numpy(class_indices(series.names(series.labels), self.classes_)))
        return self._scored(series)

    def _scored(self, series: Series) -> Scored:
        found = scored(self.model_, self.standardizer_.apply(series))
        return found.plus(self._offset())

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """(n_cases, n_classes): the calibrated posterior of the classes at the decision, under `priors`.

        The calibration was fitted on held-out scores (`PosteriorCalibration`); scores and decisions do not depend on it.
        """
        check_is_fitted(self)
        found = self._scored(series_for(X, self).unlabelled())
        return self.posterior_at(found, self.rule_.decide(*found, halting=found.halting).times)

    def reliability(self, X: Any = None, y: Any = None) -> Reliability:  # noqa: N803
        """How often the class of the largest probability is right, with the expected calibration error and the log loss.

        `y` is not needed for a `Series` with labels. By default on the held-out series, on which it is slightly too good.
        """
        found = self.judged(X, y)
        return reliability(
            self.posterior_at(found, self.rule_.decide(*found, halting=found.halting).times), found.truths
        )

    def posterior_at(self, found: Scored, times: IntArray) -> FloatArray:
        """(n_cases, n_classes): the calibrated posterior after so many observations, from the result of `scores`."""
        plain = found.scores[np.arange(len(found)), times - 1] - self._offset()
        return self.posterior_calibration_.posterior(plain, times, self._offset())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """The balanced accuracy of `predict`."""
        if y is None and isinstance(X, Series):
            y = X.names(X.require_labels().labels)
        y = as_targets(y)
        if sample_weight is not None:
            from sklearn.metrics import balanced_accuracy_score

            return float(balanced_accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        return 1.0 - balanced_error(self.predict(X), y)

    def speed_accuracy(self, X: Any = None, y: Any = None) -> SATCurve:  # noqa: N803
        """The exact speed-accuracy curve over all thresholds of the rule; by default on the held-out series."""
        check_is_fitted(self)
        return self.speed_accuracy_of(family_of(self.rule_), X, y)

    def speed_accuracy_of(self, family: type[ThresholdRule], X: Any = None, y: Any = None) -> SATCurve:  # noqa: N803
        """The exact speed-accuracy curve of another type of rule, for example `FixedTime`."""
        return curve_of(self.judged(X, y), family)

    def evaluate(self, X: Any = None, y: Any = None, groups: Any = None) -> Achieved:  # noqa: N803
        """Error and mean time on labelled series, with confidence intervals; by default on the held-out series.

        `y` is not needed for a `Series` with labels.
        """
        found = self.judged(X, y, groups)
        return achieved_of(self.rule_, found)

    def menu(self, X: Any = None, y: Any = None) -> Menu:  # noqa: N803
        """Thresholds with 10%, 5%, 2%, 1% and the smallest error, with their mean times; by default on the held-out series.

        `print(clf.menu())` shows a table. The estimates are slightly too good. `choose_threshold(max_error=...)` sets one.
        """
        held, family = self.judged(X, y), family_of(self.rule_)
        return menu_of(self.speed_accuracy_of(family, held), series=len(held), rule=family)

    @property
    def threshold(self) -> Any:
        """The threshold: a number, a K x K matrix, or the rule itself if it has neither. It can be set."""
        check_is_fitted(self)
        # A threshold rule has one field, whatever its family calls it.
        return next(iter(vars(self.rule_).values())) if isinstance(self.rule_, ThresholdRule) else self.rule_

    @threshold.setter
    def threshold(self, value: Any) -> None:
        check_is_fitted(self)
        self.rule_ = self.rule_named_by(value)
        if len(self.held_out_) and self.model_.halts == (self.held_out_.halting is not None):  # not in old files
            self.achieved_.warn_near_chance()

    @property
    def achieved_(self) -> Achieved:
        """The result of `evaluate` on the held-out series; slightly too good if the threshold was chosen on them, as by `fit`."""
        return self.evaluate()

    def save(self, path: str | PathLike[str]) -> None:
        """Write a `.sooner` file (safetensors and JSON, no pickle), which `sooner.load` reads."""
        from sooner.estimator.file import save

        save(self, path)

    def export(self, path: str | PathLike[str]) -> None:
        """Write the live step as an `.onnx` file, for devices without Python; see `sooner.estimator.onnx.export`."""
        from sooner.estimator.onnx.export import export_step

        export_step(self, path)

    def adopt(
        self, learned: Learned, classes: npt.NDArray[Any], class_counts: IntArray, columns: Columns | None = None
    ) -> None:
        """Take over what was learned, here or elsewhere; a rule is still to be chosen."""
        self.classes_ = classes
        self.n_classes_ = len(classes)
        self.class_counts_ = class_counts
        self.columns_ = columns
        self.model_, self.model_name_, self.settings_ = learned.model, learned.name, learned.settings
        self.order_ = "full" if learned.model.order is None else learned.model.order
        self.standardizer_, self.held_out_, self.training_ = learned.standardizer, learned.held_out, learned.record
        self.posterior_calibration_ = learned.posterior
        self.rule_ = MSPRT(math.inf)
        self.calibration_, self.training_hashes_, self._promised = None, np.array([], dtype=np.int64), None

    def rule_named_by(self, value: Any) -> Rule:
        """The rule that a number, a matrix or a rule stands for in the place of the threshold."""
        return rule_for(value, self.rule_, family_beside(self.rule), self.n_classes_, halts=self.model_.halts)

    def judged(self, X: Any = None, y: Any = None, groups: Any = None) -> Scored:  # noqa: N803
        """The scores of labelled series, `priors` included: X, or the held-out series that were kept."""
        check_is_fitted(self)
        if X is None and y is None and groups is None:
            return replace(self.held_out_, scores=self.held_out_.scores + self._offset())
        if X is None or (y is None and not isinstance(X, Series | Scored)):
            remedy = "Without any of them, held-out series are used."
            raise InvalidArgument("y", "given together with X", "one of them", remedy)
        found = X if isinstance(X, Scored) else self.scores(X)
        labels = found.labels
        if y is not None:
            labels = as_labels(class_indices(y, self.classes_), torch.from_numpy(found.scores)).numpy()
        owners = found.groups if groups is None else as_groups(groups, len(found))
        return with_labels(replace(found, labels=labels, groups=owners))

    def _offset(self) -> npt.NDArray[np.float32]:
        return prior_offset(self.priors, self.classes_.tolist(), self.class_counts_)

    def _prepared(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """What makes of live observations what the model reads; it stays what it is when the classifier is fitted anew."""
        return partial(prepared, self.standardizer_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        return tags
