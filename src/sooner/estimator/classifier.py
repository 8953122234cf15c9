"""`EarlyClassifier`: the whole system behind scikit-learn's face."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from sooner.data.columns import Columns
from sooner.data.series import Missing, Series, read_aeon
from sooner.errors import InvalidArgument
from sooner.estimator.cases import as_cases, as_targets, features_in, places_of
from sooner.estimator.dial import decided, family_named, family_of, rule_for
from sooner.estimator.learning import HeldOut, Learned, Scored, Way, learn, prepared, recurrent_settings, scores_of
from sooner.estimator.priors import prior_offset
from sooner.evaluate import Achieved, Menu, balanced_error, choose_rule, default_threshold, menu_of, sat_curve, settled
from sooner.inputs import as_between, as_lengths, as_weights, as_whole
from sooner.progress import tell
from sooner.rules import MSPRT, Rule, ThresholdRule
from sooner.settings import Settings
from sooner.stream import AtEnd, Fleet, Stream
from sooner.types import ArrayLike, Decisions, FloatArray, IntArray, SATCurve


class EarlyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Names the class of a series as early as the evidence allows, with a dial that turns after training.

    Args:
        model: "auto" takes "rocket" for up to 2,000 series and "recurrent" (the paper's peephole LSTM) for more; "lstm", "gru",
            "earliest" and "prefix" (logistic regression on prefixes) are the others. A scikit-learn classifier is
            fitted to prefixes of the series. What was taken is in `model_` and `model_name_`.
        order: N, the earlier observations in a window of a recurrent model, "full" for full memory; "auto" is "full".
        loss: of a recurrent model, names of `sooner.losses` joined by "+", or a dict from names to weights.
        max_epochs: of a recurrent model; training stops early where the held-out share no longer gains.
        device: "auto", "cpu", "cuda" or "mps".
        random_state: a whole number, None, or NumPy's RandomState.
        rule: "msprt", "log_odds", "probability_threshold" or "fixed_time"; any other rule can be set as `threshold` after `fit`.
        priors: what the classes are expected to be like in use: "equal", "training" (their frequencies in training), or one
            number for each class, as an array in the order of `classes_` or as a dict. May be changed after `fit`.
        missing: "refuse" NaN, or "mask" it: 0 in its place and a channel more that says so.
        validation_share: of the series, held out for early stopping and for the threshold; "rocket" leaves one out at a
            time instead.
        hidden: of a recurrent model, the size of its state.
        learning_rate: of a recurrent model.
        batch_size: of a recurrent model.
        engine: of a recurrent model, "local", or "ray" to train it on a cluster (`sooner.cluster.connected` joins one).
        workers: of "ray", how many share each batch.
        settings: all settings of a recurrent model at once; the arguments above that speak of one are then not read.
        folder: for the checkpoints of a recurrent model; an interrupted training found there goes on. By default no file is
            written.
        verbose: above 0, show progress, and after `fit` the menu of thresholds, on the standard error.

    Attributes:
        classes_: the labels, sorted.
        model_: the fitted model; `model_name_` and `order_` say what "auto" took.
        rule_: what decides.
        training_: what happened in training.
        achieved_: what the threshold reaches on the held-out series, with confidence limits.

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
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.engine = engine
        self.workers = workers
        self.settings = settings
        self.folder = folder
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "EarlyClassifier":  # noqa: N803
        """Learn from labelled series, and set a threshold: the least average cost among those far from chance.

        That is, on held-out series 0.8 P(error) + 0.2 x the share of a series read is least among the thresholds whose balanced
        error has come three quarters of the way from chance to the least that can be reached (`default_threshold`).
        `NearChance` warns where even that is little better than guessing.

        Args:
            X: (n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), or a list of (n_channels, n_timepoints_i).
            y: (n_cases,), labels of any one type.
            sample_weight: (n_cases,), how much each series counts in training.
            groups: (n_cases,), who a series comes from; no group is on both sides of the held-out share.
        """
        cases, labels = as_cases(X, self), as_targets(y)
        series = Series.from_aeon(cases, labels, groups=groups, missing=self.missing)
        self.n_features_in_ = features_in(cases)
        self.fit_series(series, sample_weight)
        if self.verbose:
            tell(str(self.menu()))
        return self

    def fit_series(
        self, series: Series, sample_weight: Any = None, *, columns: Columns | None = None
    ) -> "EarlyClassifier":
        """Learn from a `Series`, which knows its labels, lengths, groups and mask channels.

        Args:
            series: what files are read into.
            sample_weight: as in `fit`.
            columns: what the columns of its table were called, kept as `columns_`, so that other data can be read alike.
        """
        family = family_named(self.rule)
        prior_offset(self.priors, series.classes.tolist(), series.class_counts())  # refused now, not after training
        weights = (
            None if sample_weight is None else as_weights(np.asarray(sample_weight), len(series), name="sample_weight")
        )
        learned = learn(series, weights, self._way(len(series)))
        self.adopt(learned, series.classes, series.class_counts(), columns)
        curve = self.held_out_scores().curve(family)
        self.rule_ = settled(family, curve, default_threshold(curve, classes=self.n_classes_))
        self.achieved_.warn_near_chance()
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
    ) -> Decisions:
        """Decide each series at the first observation at which the rule fires, or else at its end.

        Args:
            X: as in `fit`.
            threshold: a number, a matrix or a rule, for this call only; by default `self.threshold`.
            deadline: no decision may take more observations.
            at_end: where the rule never fires, "force" names the leader, and "abstain" gives None as the label.
        """
        scores, lengths = self.scores(X)
        rule = self.rule_ if threshold is None else self.rule_named_by(threshold)
        return self.decided(rule, scores, lengths, deadline, at_end)

    def scores(self, X: Any) -> Scored:  # noqa: N803
        """Log-likelihoods of the classes after each observation, up to a shared term; other `priors` than equal ones are in."""
        check_is_fitted(self)
        observations, lengths = read_aeon(as_cases(X, self), missing=self.missing)
        return self.scores_of_series(observations, lengths)

    def scores_of_series(self, observations: ArrayLike, lengths: ArrayLike | None = None) -> Scored:
        """The same from (series, time, channels), mask channels included."""
        check_is_fitted(self)
        ready = self.standardizer_.apply_step(observations)
        ends = as_lengths(lengths, ready, time=ready.shape[1])
        labels = torch.zeros(len(ready), dtype=torch.int64)
        series = Series(ready, labels, self.classes_, ends)
        scores = (scores_of(self.model_, series) + torch.as_tensor(self._offset())).double().numpy()
        scores[np.arange(scores.shape[1]) >= ends.numpy()[:, None]] = 0.0
        return Scored(scores, ends.numpy())

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """(n_cases, n_classes): the posterior of the classes at the decision, under `priors`."""
        scores, lengths = self.scores(X)
        times = self.decided(self.rule_, scores, lengths, None, "force").times
        posterior = torch.as_tensor(scores[np.arange(len(scores)), times - 1]).softmax(dim=1)
        return np.asarray(posterior)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """The balanced accuracy of `predict`."""
        y = as_targets(y)
        if sample_weight is not None:
            from sklearn.metrics import balanced_accuracy_score

            return float(balanced_accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        return 1.0 - balanced_error(self.predict(X), y)

    def speed_accuracy(self, X: Any, y: Any) -> SATCurve:  # noqa: N803
        """Every trade of speed against accuracy that the rule's family can make on these series, exact."""
        scores, lengths = self.scores(X)
        return sat_curve(scores, places_of(y, self.classes_), lengths=lengths, rule=family_of(self.rule_))

    def choose_threshold(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        *,
        max_error: float | None = None,
        max_mean_time: float | None = None,
        cost_of_waiting: float | None = None,
        groups: Any = None,
    ) -> Achieved:
        """Turn the dial to exactly one target, on series that training never saw.

        Args:
            X: as in `fit`; by default the held-out series of the training, whose scores were kept.
            y: their labels.
            max_error: the balanced error may not exceed it.
            max_mean_time: the mean time may not exceed it.
            cost_of_waiting: for one observation, where a wrong decision costs 1.
            groups: who or what each of X comes from, for limits by group.

        Returns:
            What the threshold reaches on the series it was chosen on, with confidence limits: a little too good, the more so
            the fewer they are. For an honest figure, judge it on others (`speed_accuracy`, `sooner.evaluate.achieved`).
        """
        check_is_fitted(self)
        held = self._judged(X, y, groups)
        self.rule_ = choose_rule(
            family_of(self.rule_),
            held.scores,
            held.labels,
            lengths=held.lengths,
            max_error=max_error,
            max_mean_time=max_mean_time,
            cost_of_waiting=cost_of_waiting,
        )
        found = held.achieved(self.rule_)
        found.warn_near_chance()
        return found

    def menu(self) -> Menu:
        """What thresholds of the rule's family reach on the held-out series: the mean time at 10%, 5%, 2% and 1% error.

        Print it for a table. They are estimates, a little too good; `choose_threshold(max_error=...)` takes one of them.
        """
        held, family = self.held_out_scores(), family_of(self.rule_)
        return menu_of(held.curve(family), series=len(held.labels), rule=family)

    @property
    def threshold(self) -> Any:
        """The dial: a number, a K x K matrix, or a rule that has neither."""
        check_is_fitted(self)
        # A threshold rule has one field, whatever its family calls it.
        return next(iter(vars(self.rule_).values())) if isinstance(self.rule_, ThresholdRule) else self.rule_

    @threshold.setter
    def threshold(self, value: Any) -> None:
        check_is_fitted(self)
        self.rule_ = self.rule_named_by(value)
        if len(self.held_out_.labels):
            self.achieved_.warn_near_chance()

    @property
    def achieved_(self) -> Achieved:
        """What the threshold reaches on the held-out series; if it was chosen on them, as `fit` does, a little too good."""
        return self.held_out_scores().achieved(self.rule_)

    @overload
    def stream(self, keyed: Literal[False] = ..., *, deadline: int | None = ..., at_end: AtEnd = ...) -> Stream: ...
    @overload
    def stream(self, keyed: Literal[True], *, deadline: int | None = ..., at_end: AtEnd = ...) -> Fleet: ...

    def stream(self, keyed: bool = False, *, deadline: int | None = None, at_end: AtEnd = "force") -> Stream | Fleet:
        """One live series, or with `keyed` many of them by key; each observation is (n_channels,), as it arrives.

        Args:
            keyed: whether `update` takes a dict from keys to observations.
            deadline: by that observation a decision is made, whatever the rule says.
            at_end: where the rule has not fired by then, "force" names the leader and "abstain" no class.
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
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write one `.sooner` file, from which `sooner.load` makes the same classifier: safetensors and JSON, no pickle."""
        from sooner.estimator.file import save

        save(self, path)

    def export(self, path: str | PathLike[str]) -> None:
        """Write one `.onnx` file that takes an observation in, for devices without Python; see `sooner.estimator.export`."""
        from sooner.estimator.export import export_step

        export_step(self, path)

    def _way(self, series: int) -> Way:
        seed = self.random_state
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        seed = as_whole(seed, name="random_state", low=0, remedy="The same number gives the same result.")
        remedy = "It is a fraction of the series: 0.2 means 20 %."
        share = as_between(self.validation_share, name="validation_share", low=0.0, high=1.0, remedy=remedy)
        folder = None if self.folder is None else Path(self.folder)
        settings = self.settings or recurrent_settings(
            round((1 - share) * series),
            order=self.order,
            loss=self.loss,
            max_epochs=self.max_epochs,
            hidden=self.hidden,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            device=self.device,
            engine=self.engine,
            workers=self.workers,
            seed=seed,
        )
        return Way(self.model, settings, share, seed, folder, bool(self.verbose))

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
        self.rule_ = MSPRT(math.inf)

    def rule_named_by(self, value: Any) -> Rule:
        """The rule that a number, a matrix or a rule stands for in the place of the threshold."""
        return rule_for(value, self.rule_, family_named(self.rule), self.n_classes_)

    def decided(
        self, rule: Rule, scores: FloatArray, lengths: IntArray, deadline: int | None, at_end: AtEnd
    ) -> Decisions:
        """What a rule makes of scores that are there already; the other arguments are those of `decide`."""
        return decided(rule, scores, lengths, self.classes_, deadline, at_end)

    def held_out_scores(self) -> HeldOut:
        """The kept scores of series that the model did not learn from, with `priors` in them."""
        check_is_fitted(self)
        held: HeldOut = self.held_out_
        return replace(held, scores=held.scores + torch.as_tensor(self._offset()))

    def _judged(self, X: Any, y: Any, groups: Any) -> HeldOut:  # noqa: N803
        if X is None and y is None and groups is None:
            return self.held_out_scores()
        if X is None or y is None:
            remedy = "Without any of them, held-out series are used."
            raise InvalidArgument("y", "given together with X", "one of them", remedy)
        return HeldOut.of(self.scores(X), places_of(y, self.classes_), groups)

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
