"""Any probabilistic classifier as a source of scores: one fit for each checkpoint in time.

======== ====================================================================================
symbol   meaning
======== ====================================================================================
c        a checkpoint: a time at which a classifier looks at the observations so far
q_k      what that classifier says about class k after x(1..c), a probability
M_k(c)   the training series of class k that are at least c long; of all classes, M(c)
pi_k     M_k(c) / M(c), the prior that the classifier has learned
e_k      log q_k - log pi_k, the evidence it sees, up to a term shared by all classes
a, b_k   the calibration at c: a slope (one over the temperature) and a bias for each class
======== ====================================================================================

scikit-learn is imported where it is used, so that everybody else does without.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_labels, as_lengths, as_tensor, as_whole, refuse_empty, running, without_padding
from sooner.models.base import LiveStep, Model
from sooner.models.calibration import Calibration, Evidence, LogPrior, Rows, calibrate, deal, log_softmax
from sooner.models.checkpoints import as_checkpoints, carried_over, checkpoint_times
from sooner.types import ArrayLike, IntArray, Lengths, LiveState, Observations, StepScores, Windows

LOWEST = 1e-12
"""No probability of a classifier is read as less."""


class Classifier(Protocol):
    """What scikit-learn calls a probabilistic classifier; it also has `get_params`, so that `clone` can copy it."""

    @property
    def classes_(self) -> Any:
        """The labels seen in `fit`, in the order of the columns of `predict_proba`."""

    def fit(self, data: Any, labels: Any, /) -> Any:
        """Learn."""

    def predict_proba(self, data: Any, /) -> Any:
        """(rows, classes)."""


def logistic_regression() -> Classifier:
    """The default: logistic regression on standardised values. The scale of each value comes from training series only.

    Its ridge is ten times scikit-learn's: on noisy series that is better, on clean ones a little worse, and the
    confidence that it takes away is given back by the calibration.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier: Classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))
    return classifier


def flat(prefixes: Observations) -> Float[np.ndarray, "rows values"]:
    """(rows, time * channels), as scikit-learn reads it."""
    return prefixes.flatten(1).double().numpy()


def channels_first(prefixes: Float[Tensor, "rows time channels"]) -> Float[np.ndarray, "rows channels time"]:
    """(rows, channels, time), as aeon reads it."""
    return np.ascontiguousarray(prefixes.transpose(1, 2).double().numpy())


LAYOUTS = {"flat": flat, "aeon": channels_first}


@dataclass(frozen=True)
class Checkpoint:
    """A classifier fitted to the first `time` observations, and what makes log-likelihoods of its probabilities.

    Attributes:
        time: c.
        present: the classes with a series that long, ascending.
        classifier: fitted on all series that long.
        floor: what an exact zero among the probabilities is read as.
        calibration: fitted out of fold.
        log_prior: log pi_k of the present classes.
    """

    time: int
    present: IntArray
    classifier: Classifier
    floor: float
    calibration: Calibration
    log_prior: LogPrior

    def update(self, held: StepScores, data: Any) -> StepScores:
        """The scores of series that have come to this checkpoint, given the ones they held."""
        probabilities = _probabilities(self.classifier, data, self.present)
        evidence = self.calibration(_log(probabilities, floor=self.floor) - self.log_prior)
        fresh = torch.as_tensor(log_softmax(evidence + self.log_prior) - self.log_prior).to(held)
        return carried_over(held, fresh, self.present)


class PrefixScorer(Model):
    """Scores from any probabilistic classifier, one clone fitted for each checkpoint in time.

    s_k(t) = a (log q_k - log pi_k) + b_k at the last checkpoint c <= t: a calibrated log posterior without its log prior, so
    that scores are log-likelihoods up to a shared term and the sequential test applies. They are zero (no evidence) before
    the first checkpoint and stay what they are after the last one. The prior is that of the series at least c long: that a
    series goes on is no evidence.

    Calibration is fitted to out-of-fold probabilities. Each series of a class with two or
    more members is held out once; the only series of a class never is, so its class keeps the bias 0. Where fewer than two
    classes have two members nothing can be held out, and the classifier's probabilities are taken as they are.

    A class without a series as long as a checkpoint keeps the log-odds it had against the others together. Where fewer
    than two classes have one, the checkpoint is left out: there is nothing to tell apart.

    The fitted classifiers are no part of `state_dict`.

    Args:
        features: the shape of one observation; (channels,) if the layout is "aeon".
        classes: K.
        classifier: anything with `fit`, `predict_proba` and `classes_` that `sklearn.base.clone` can copy, never fitted
            itself; by default logistic regression on standardised values.
        checkpoints: times from 1, or how many of them, evenly spaced up to the longest training series.
        layout: "flat" for classifiers that read (rows, time * channels), "aeon" for (rows, channels, time).

    >>> x, y = torch.tensor([[0.0], [0.2], [0.9], [1.1]])[:, None].expand(-1, 3, -1), [0, 0, 1, 1]
    >>> model = PrefixScorer((1,), 2, checkpoints=[2]).fit(x, y)
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
        checkpoints: int | Sequence[int] = 20,
        layout: str = "flat",
    ) -> None:
        super().__init__(features, classes)
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        if layout == "aeon" and len(self.features) != 1:
            raise InvalidArgument("features", "(channels,) for the layout 'aeon'", self.features, "Or use 'flat'.")
        self.classifier = logistic_regression() if classifier is None else _as_classifier(classifier)
        self.checkpoints = as_checkpoints(checkpoints)
        self.layout = layout
        self._fitted: tuple[Checkpoint, ...] = ()

    @property
    def fitted(self) -> tuple[Checkpoint, ...]:
        """The fitted checkpoints, in the order of time."""
        if not self._fitted:
            raise InvalidArgument(
                "model", "fitted", "a PrefixScorer without fits", "Call fit(observations, labels) first."
            )
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
        """Fit and calibrate a clone of the classifier at every checkpoint: folds + 1 fits each.

        Args:
            observations: (batch, time, *features).
            labels: (batch,), in 0..K-1, each class at least once.
            lengths: (batch,); what lies beyond is padding.
            folds: how many parts the series are dealt into, at least 2; each class is spread over as many as it has members.
            seed: how they are dealt. A classifier's own randomness is its own `random_state`.
        """
        folds = as_whole(folds, name="folds", low=2, remedy="Calibration needs series that a classifier has not seen.")
        series, ends = self._checked(as_tensor(observations, name="observations"), lengths)
        refuse_empty(series, name="observations")
        targets = as_labels(labels, series.new_zeros(len(series), self.classes)).cpu().numpy()
        _refuse_missing(targets, self.classes)
        fitted = []
        for time in checkpoint_times(self.checkpoints, longest=int(ends.max())):
            long = (ends >= time).cpu().numpy()
            if len(np.unique(targets[long])) > 1:
                data = LAYOUTS[self.layout](series[long, :time])
                fitted.append(_fit(self.classifier, time, data, targets[long], folds=folds, seed=seed))
        if not fitted:
            remedy = "Choose earlier checkpoints: only one class has series that long."
            raise InvalidArgument("checkpoints", "times that series of two classes reach", self.checkpoints, remedy)
        self._fitted = tuple(fitted)
        return self

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """Logits of shape (batch, 1, time, classes); they are the scores."""
        fitted = self.fitted
        series, ends = self._checked(observations, lengths)
        held = series.new_zeros(len(series), self.classes)
        logits = held[:, None].repeat(1, series.shape[1], 1)
        for checkpoint in fitted:
            held = self._update(checkpoint, held, series, (ends >= checkpoint.time).nonzero()[:, 0])
            logits[:, checkpoint.time - 1 :] = held[:, None]
        return Windows(logits[:, None].to(observations.device))

    def init(self, streams: int) -> LiveState:
        """The observations up to the last checkpoint, how many there were, and the scores held."""
        last = self.fitted[-1].time
        buffer = torch.zeros(streams, last, *self.features)
        return buffer, torch.zeros(streams, dtype=torch.int64), torch.zeros(streams, self.classes)

    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Note the observation down; series that come to a checkpoint now are classified, all others cost nothing more."""
        observation = self.admit_step(state, observation)
        newest, _ = self._checked(observation[:, None], None)
        buffer, counts, held = state
        room = (counts < buffer.shape[1]).nonzero()[:, 0]
        buffer = buffer.index_put((room, counts[room]), newest[room, 0])
        counts = counts + 1
        for checkpoint in self.fitted:
            held = self._update(checkpoint, held, buffer, (counts == checkpoint.time).nonzero()[:, 0])
        return LiveStep((buffer, counts, held), held)

    @classmethod
    def examples(cls) -> Iterator["PrefixScorer"]:
        """Many checkpoints; few, with a class that the last one has no series of."""
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(24) % 3
        observations = torch.randn(24, 8, 2, generator=generator) + labels[:, None, None]
        yield cls((2,), 3).fit(observations, labels)
        yield cls((2,), 3, checkpoints=[2, 3, 7]).fit(observations, labels, torch.where(labels == 1, 4, 8))

    def _update(self, checkpoint: Checkpoint, held: StepScores, series: Tensor, rows: Tensor) -> StepScores:
        if len(rows) == 0:
            return held
        data = LAYOUTS[self.layout](series[rows, : checkpoint.time])
        return held.index_put((rows,), checkpoint.update(held[rows], data))

    def _checked(self, observations: Tensor, lengths: ArrayLike | None) -> tuple[Observations, Lengths]:
        """Observations in torch's default precision with zeros as padding, and their lengths; both on the CPU."""
        self.check_observations(observations, leading=2)
        series = observations.detach().cpu().to(torch.get_default_dtype())
        ends = as_lengths(lengths, series, time=series.shape[1])
        clean = without_padding(series.flatten(2), running(ends, series.shape[1]), name="observations")
        return clean.view(series.shape), ends


def _fit(classifier: Classifier, time: int, data: Any, labels: Rows, *, folds: int, seed: int) -> Checkpoint:
    from sklearn.base import clone

    present = np.unique(labels)
    parts = deal(labels, folds=folds, seed=seed)
    probabilities, prior = np.zeros((2, len(labels), len(present)))
    for part in np.unique(parts[parts >= 0]):
        out = parts == part
        probabilities[out] = _probabilities(clone(classifier).fit(data[~out], labels[~out]), data[out], present)
        prior[out] = _log_prior(labels[~out])
    unseen = parts >= 0
    floor = float(np.min(probabilities[probabilities > 0], initial=1.0)) / 2
    evidence = _log(probabilities[unseen], floor=floor) - prior[unseen]
    log_prior = _log_prior(labels)
    calibration = calibrate(evidence, np.searchsorted(present, labels[unseen]), log_prior)
    return Checkpoint(time, present, clone(classifier).fit(data, labels), floor, calibration, log_prior)


def _log_prior(labels: Rows) -> LogPrior:
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
    """An exact zero, as trees give it, means "less than what could be told", not "never"."""
    logarithms: Evidence = np.log(np.maximum(np.where(probabilities > 0, probabilities, floor), LOWEST))
    return logarithms


def _as_classifier(value: Classifier) -> Classifier:
    if not all(hasattr(value, name) for name in ("fit", "predict_proba", "get_params")):
        remedy = "Wrap one without probabilities in sklearn's CalibratedClassifierCV."
        raise InvalidArgument("classifier", "one with `fit`, `predict_proba` and `get_params`", repr(value), remedy)
    return value


def _refuse_missing(labels: Rows, classes: int) -> None:
    missing = np.setdiff1d(np.arange(classes), labels)
    if len(missing):
        remedy = f"The model was made for {classes} classes."
        raise InvalidArgument("labels", "with a series of every class", f"none of class {missing[0]}", remedy)
