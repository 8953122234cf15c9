"""Scores from any probabilistic classifier: one fit for each evaluation time.

======== ====================================================================================
symbol   meaning
======== ====================================================================================
c        an evaluation time: a time at which a classifier reads the observations so far
q_k      the probability of class k after x(1..c), from that classifier
M_k(c)   the training series of class k that are at least c long; of all classes, M(c)
pi_k     M_k(c) / M(c), the prior that the classifier has learned
e_k      log q_k - log pi_k, the evidence it sees, up to a term shared by all classes
a, b_k   the calibration at c: a slope (one over the temperature) and a bias for each class
======== ====================================================================================

scikit-learn is imported only where it is used, because it is slow to import.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_labels, as_lengths, as_tensor, as_whole, refuse_empty, running, without_padding
from sooner.models.base import LiveStep, Model
from sooner.models.calibration import Calibration, Evidence, IntVector, LogPrior, calibrate, deal, log_softmax
from sooner.models.evaluation_times import as_evaluation_times, spaced_times, updated_present
from sooner.types import ArrayLike, IntArray, Lengths, LiveState, Observations, StepScores, Windows

LOWEST = 1e-12
"""Lower bound for the probabilities of a classifier."""


class Classifier(Protocol):
    """A probabilistic classifier of scikit-learn; it also has `get_params`, so that `clone` can copy it."""

    @property
    def classes_(self) -> Any:
        """The labels seen in `fit`, in the order of the columns of `predict_proba`."""

    def fit(self, data: Any, labels: Any, /) -> Any:
        """Learn."""

    def predict_proba(self, data: Any, /) -> Any:
        """(rows, classes)."""


def logistic_regression() -> Classifier:
    """The default: logistic regression on values that are standardised by the training series."""
    # The ridge is ten times scikit-learn's: better on noisy series, a little worse on clean ones; calibration corrects it.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier: Classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))
    return classifier


LAYOUTS: dict[str, Callable[[Tensor], Any]] = {
    "flat": lambda prefixes: prefixes.flatten(1).double().numpy(),
    "aeon": lambda prefixes: np.ascontiguousarray(prefixes.transpose(1, 2).double().numpy()),
}
"""The data of a classifier from prefixes (rows, time, channels): (rows, time * channels), or (rows, channels, time)."""


@dataclass(frozen=True)
class PrefixFit:
    """A classifier fitted to the first `time` observations, with its calibration.

    Attributes:
        time: c.
        present: the classes with a series that long, ascending.
        classifier: fitted on all series that long.
        floor: replaces an exact zero among the probabilities.
        calibration: fitted out of fold.
        log_prior: log pi_k of the present classes.
    """

    time: int
    present: IntArray
    classifier: Classifier
    floor: float
    calibration: Calibration
    log_prior: LogPrior

    def update(self, scores: StepScores, data: Any) -> StepScores:
        """The new scores of series at this evaluation time, given their previous ones."""
        probabilities = _probabilities(self.classifier, data, self.present)
        evidence = self.calibration(_log(probabilities, floor=self.floor) - self.log_prior)
        fresh = torch.as_tensor(log_softmax(evidence + self.log_prior) - self.log_prior).to(scores)
        return updated_present(scores, fresh, self.present)


class PrefixScorer(Model):
    """Scores from any probabilistic classifier, with one fitted clone per evaluation time.

    s_k(t) = a (log q_k - log pi_k) + b_k at the last evaluation time c <= t: a calibrated log posterior without its log prior, so
    a log-likelihood up to a shared term. Scores are zero (no evidence) before the first evaluation time and constant after the
    last one. The prior is that of the series of length at least c: the length of a series is not used as evidence.

    The calibration is fitted to out-of-fold probabilities. The only series of a class is never held out, so its class keeps the
    bias 0; if fewer than two classes have two series, there is no calibration.

    A class without a series that reaches an evaluation time keeps its log-odds against the other classes together. If fewer
    than two classes have such a series, the evaluation time is left out.

    The fitted classifiers are not part of `state_dict`.

    Args:
        features: the shape of one observation; (channels,) if the layout is "aeon".
        classes: K.
        classifier: anything with `fit`, `predict_proba` and `classes_` that `sklearn.base.clone` can copy, never fitted
            itself; by default logistic regression on standardised values.
        evaluation_times: times from 1, or their number; these are evenly spaced up to the longest training series.
        layout: "flat" for classifiers that read (rows, time * channels), "aeon" for (rows, channels, time).

    >>> x, y = torch.tensor([[0.0], [0.2], [0.9], [1.1]])[:, None].expand(-1, 3, -1), [0, 0, 1, 1]
    >>> model = PrefixScorer((1,), 2, evaluation_times=[2]).fit(x, y)
    >>> model.scores(x).argmax(dim=2)
    tensor([[0, 0, 0],
            [0, 0, 0],
            [0, 1, 1],
            [0, 1, 1]])
    """

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        classifier: Classifier | None = None,
        evaluation_times: int | Sequence[int] = 20,
        layout: str = "flat",
    ) -> None:
        super().__init__(features, classes)
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        if layout == "aeon" and len(self.features) != 1:
            raise InvalidArgument("features", "(channels,) for the layout 'aeon'", self.features, "Or use 'flat'.")
        self.classifier = logistic_regression() if classifier is None else _as_classifier(classifier)
        self.evaluation_times = as_evaluation_times(evaluation_times)
        self.layout = layout
        self._fitted: tuple[PrefixFit, ...] = ()

    @property
    def fitted(self) -> tuple[PrefixFit, ...]:
        """The fitted classifiers, in the order of their evaluation times."""
        if not self._fitted:
            remedy = "Call fit(observations, labels) first."
            raise InvalidArgument("model", "fitted", "a PrefixScorer without fits", remedy)
        return self._fitted

    def fit(
        self,
        observations: ArrayLike,
        labels: ArrayLike,
        lengths: ArrayLike | None = None,
        *,
        folds: int = 5,
        seed: int = 0,
    ) -> "PrefixScorer":
        """Fit and calibrate a clone of the classifier at every evaluation time: folds + 1 fits each.

        Args:
            observations: (batch, time, *features).
            labels: (batch,), in 0..K-1, each class at least once.
            lengths: (batch,); everything beyond is padding.
            folds: number of folds, at least 2; the series of each class are spread evenly over them.
            seed: random seed of the folds. The classifier has its own `random_state`.
        """
        folds = as_whole(folds, name="folds", low=2, remedy="Calibration needs series that a classifier has not seen.")
        series, ends = self._checked(as_tensor(observations, name="observations"), lengths)
        refuse_empty(series, name="observations")
        targets = as_labels(labels, series.new_zeros(len(series), self.classes)).cpu().numpy()
        _refuse_missing(targets, self.classes)
        fitted = []
        for time in spaced_times(self.evaluation_times, longest=int(ends.max())):
            long = (ends >= time).cpu().numpy()
            if len(np.unique(targets[long])) > 1:
                data = LAYOUTS[self.layout](series[long, :time])
                fitted.append(_fit(self.classifier, time, data, targets[long], folds=folds, seed=seed))
        if not fitted:
            expected, remedy = (
                "times that series of two classes reach",
                "Choose earlier times: only one class has series that long.",
            )
            raise InvalidArgument("evaluation_times", expected, self.evaluation_times, remedy)
        self._fitted = tuple(fitted)
        return self

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """Logits of shape (batch, 1, time, classes); they are the scores."""
        fitted = self.fitted
        series, ends = self._checked(observations, lengths)
        scores = series.new_zeros(len(series), self.classes)
        logits = scores[:, None].repeat(1, series.shape[1], 1)
        for fit in fitted:
            scores = self._updated(fit, scores, series, (ends >= fit.time).nonzero()[:, 0])
            logits[:, fit.time - 1 :] = scores[:, None]
        return Windows(logits[:, None].to(observations.device))

    def init(self, streams: int) -> LiveState:
        """The observations up to the last evaluation time, their number, and the current scores."""
        buffer = torch.zeros(streams, self.fitted[-1].time, *self.features)
        return buffer, torch.zeros(streams, dtype=torch.int64), torch.zeros(streams, self.classes)

    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Store the observation, and classify the series that are at an evaluation time."""
        observation = self.admit_step(state, observation)
        newest, _ = self._checked(observation[:, None], None)
        buffer, counts, scores = state
        rows = (counts < buffer.shape[1]).nonzero()[:, 0]
        buffer = buffer.index_put((rows, counts[rows]), newest[rows, 0])
        counts = counts + 1
        for fit in self.fitted:
            scores = self._updated(fit, scores, buffer, (counts == fit.time).nonzero()[:, 0])
        return LiveStep((buffer, counts, scores), scores)

    @classmethod
    def examples(cls) -> Iterator["PrefixScorer"]:
        """One with many evaluation times; one with a class that has no series at the last of few."""
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(24) % 3
        observations = torch.randn(24, 8, 2, generator=generator) + labels[:, None, None]
        yield cls((2,), 3).fit(observations, labels)
        yield cls((2,), 3, evaluation_times=[2, 3, 7]).fit(observations, labels, torch.where(labels == 1, 4, 8))

    def _updated(self, fit: PrefixFit, scores: StepScores, series: Tensor, rows: Tensor) -> StepScores:
        if len(rows) == 0:
            return scores
        data = LAYOUTS[self.layout](series[rows, : fit.time])
        return scores.index_put((rows,), fit.update(scores[rows], data))

    def _checked(self, observations: Tensor, lengths: ArrayLike | None) -> tuple[Observations, Lengths]:
        """Observations in torch's default precision with zeros as padding, and their lengths; both on the CPU."""
        self.check_observations(observations, leading=2)
        series = observations.detach().cpu().to(torch.get_default_dtype())
        ends = as_lengths(lengths, series, time=series.shape[1])
        clean = without_padding(series.flatten(2), running(ends, series.shape[1]), name="observations")
        return clean.view(series.shape), ends


def _fit(classifier: Classifier, time: int, data: Any, labels: IntVector, *, folds: int, seed: int) -> PrefixFit:
    from sklearn.base import clone

    present = np.unique(labels)
    fold_of = deal(labels, folds=folds, seed=seed)
    probabilities, prior = np.zeros((2, len(labels), len(present)))
    for fold in np.unique(fold_of[fold_of >= 0]):
        out = fold_of == fold
        probabilities[out] = _probabilities(clone(classifier).fit(data[~out], labels[~out]), data[out], present)
        prior[out] = _log_prior(labels[~out])
    unseen = fold_of >= 0
    floor = float(np.min(probabilities[probabilities > 0], initial=1.0)) / 2
    evidence = _log(probabilities[unseen], floor=floor) - prior[unseen]
    log_prior = _log_prior(labels)
    calibration = calibrate(evidence, np.searchsorted(present, labels[unseen]), log_prior)
    return PrefixFit(time, present, clone(classifier).fit(data, labels), floor, calibration, log_prior)


def _log_prior(labels: IntVector) -> LogPrior:
    members = np.unique(labels, return_counts=True)[1]
    log_prior: LogPrior = np.log(members / members.sum())
    return log_prior


def _probabilities(classifier: Classifier, data: Any, present: IntArray) -> Evidence:
    # Columns by class, in case a classifier orders them in its own way.
    columns = np.searchsorted(present, np.asarray(classifier.classes_))
    probabilities = np.zeros((len(data), len(present)))
    probabilities[:, columns] = classifier.predict_proba(data)
    return probabilities


def _log(probabilities: Evidence, *, floor: float) -> Evidence:
    """Log-probabilities; an exact zero, which trees may return, is replaced by `floor`."""
    logarithms: Evidence = np.log(np.maximum(np.where(probabilities > 0, probabilities, floor), LOWEST))
    return logarithms


def _as_classifier(value: Classifier) -> Classifier:
    if not all(hasattr(value, name) for name in ("fit", "predict_proba", "get_params")):
        remedy = "Wrap one without probabilities in sklearn's CalibratedClassifierCV."
        raise InvalidArgument("classifier", "one with `fit`, `predict_proba` and `get_params`", repr(value), remedy)
    return value


def _refuse_missing(labels: IntVector, classes: int) -> None:
    missing = np.setdiff1d(np.arange(classes), labels)
    if len(missing):
        remedy = f"The model was made for {classes} classes."
        raise InvalidArgument("labels", "with a series of every class", f"none of class {missing[0]}", remedy)
