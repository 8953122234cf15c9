"""The model for small data: streaming convolutions, and a calibrated linear classifier at each evaluation time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_groups, as_labels, as_lengths, as_tensor, as_weights, as_whole, refuse_empty
from sooner.models.base import LiveStep, Model
from sooner.models.evaluation_times import as_evaluation_times, spaced_times, updated, updated_present
from sooner.models.rocket.features import STATISTICS, Features, RunningFeatures, dilations_for
from sooner.models.rocket.ridge import fit_linear, known_elsewhere
from sooner.types import (
    ArrayLike,
    FloatArray,
    IntArray,
    Labels,
    Lengths,
    LiveState,
    Observations,
    Scores,
    StepScores,
    Windows,
)

ProgressCallback: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, and the leave-one-out scores of each training series (or leave-one-group-out).

    The ridge penalty and the calibration, a slope and K biases, were chosen on `left_out` at each evaluation time. In
    `cross_fitted` the calibration is that of the other folds, which is less confident. After the last evaluation time, where
    only series of one class remain, the scores are constant. `model, left_out = ...` unpacks the first two.
    """

    model: "Rocket"
    left_out: Scores
    cross_fitted: Scores

    def __iter__(self) -> Iterator[Any]:
        """The model and its leave-one-out scores."""
        return iter((self.model, self.left_out))


class Rocket(Model):
    """Scores from streaming convolutions and one linear classifier per evaluation time; `Rocket.fit` returns a fitted one.

    s_k(t) is the calibrated evidence at the last evaluation time c <= t: a log-likelihood up to a shared term. It is zero before
    the first evaluation time. In a series that continues after the last evaluation time, the last classifier is applied again
    every `gap` observations: its features are relative to the number of observations so far. The cost per live observation is
    constant, and the state has a fixed size. All fitted values are in `state_dict`.

    Args:
        features: the shape of one observation.
        classes: K.
        evaluation_times: c, ascending, from 1.
        dilations: dilations of the kernels, ascending.
        thresholds: number of thresholds per kernel and dilation.

    >>> x, y = torch.tensor([[0.0], [0.2], [0.9], [1.1]])[:, None].expand(-1, 3, -1), [0, 0, 1, 1]
    >>> model, left_out = Rocket.fit(x, y, evaluation_times=[2])
    >>> model.scores(x).argmax(dim=2)
    tensor([[0, 0, 0],
            [0, 0, 0],
            [0, 1, 1],
            [0, 1, 1]])
    """

    centres: Tensor
    weights: Tensor
    biases: Tensor
    present: Tensor

    def __init__(
        self,
        features: tuple[int, ...],
        classes: int,
        *,
        evaluation_times: Sequence[int],
        dilations: Sequence[int],
        thresholds: int = 4,
    ) -> None:
        super().__init__(features, classes)
        times = as_evaluation_times(evaluation_times)
        if isinstance(times, int):
            raise InvalidArgument("evaluation_times", "times", times, "Only `fit` accepts a number of times.")
        self.evaluation_times, self._time_set = times, frozenset(times)
        self.running = RunningFeatures(int(np.prod(self.features)), dilations, thresholds=thresholds)
        width = self.running.width
        self.register_buffer("centres", torch.zeros(len(times), width))
        self.register_buffer("weights", torch.zeros(len(times), width, self.classes))
        self.register_buffer("biases", torch.zeros(len(times), self.classes))
        self.register_buffer("present", torch.zeros(len(times), self.classes, dtype=torch.bool))

    @classmethod
    def fit(
        cls,
        observations: ArrayLike,
        labels: ArrayLike,
        lengths: ArrayLike | None = None,
        *,
        classes: int | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        evaluation_times: int | Sequence[int] = 50,
        thresholds: int = 4,
        seed: int = 0,
        watch: ProgressCallback | None = None,
    ) -> Fitted:
        """Fit and calibrate a classifier at every evaluation time that series of at least two classes reach.

        Args:
            observations: (batch, time, *features), standardised.
            labels: (batch,), in 0..K-1.
            lengths: (batch,); everything beyond is padding.
            classes: K; by default the number of classes in the labels.
            weights: (batch,), the weight of each series; by default all equal.
            groups: (batch,), group IDs: series of one group are left out together; by default each series alone.
            evaluation_times: times from 1, or their number; these are evenly spaced up to the longest series.
            thresholds: number of thresholds per kernel and dilation.
            seed: random seed of the choice of channels and thresholds.
            watch: called with the current task, the number of finished items and their total number.
        """
        series = as_tensor(observations, name="observations")
        refuse_empty(series, name="observations")
        ends = as_lengths(lengths, series, time=series.shape[1])
        known = as_tensor(labels, name="labels")
        k = 1 + int(known.max()) if classes is None else as_whole(classes, name="classes", low=2, remedy="It is K.")
        targets = as_labels(known, series.new_zeros(len(series), k, dtype=torch.float32))
        longest = int(ends.max())
        times = _reached(spaced_times(as_evaluation_times(evaluation_times), longest=longest), targets, ends)
        shape, dilations = tuple(series.shape[2:]), dilations_for(longest)
        model = cls(shape, k, evaluation_times=times, dilations=dilations, thresholds=thresholds)
        flat = model.admit(series, ends)[0].flatten(2)
        model.running.fit(flat, ends, seed=seed)
        indices = np.arange(len(series)) if groups is None else as_groups(groups, len(series))
        if groups is not None and not known_elsewhere(targets.cpu().numpy(), indices).any():
            remedy = "Leaving a group out must not remove a class: give at least one class in two groups."
            raise InvalidArgument("groups", "with a class that is in two of them", "each class in one", remedy)
        counts = np.ones(len(series)) if weights is None else as_weights(weights, len(series), name="weights")
        watch = watch or (lambda *_: None)
        return Fitted(model.eval(), *model._fit_times(flat, targets, ends, counts, indices, watch))

    def _fit_times(
        self,
        flat: Tensor,
        labels: Labels,
        lengths: Lengths,
        weights: FloatArray,
        groups: IntArray,
        watch: ProgressCallback,
    ) -> tuple[Scores, Scores]:
        """Fit the classifier of each evaluation time; the leave-one-out scores, and those with cross-fitted calibration."""
        features = self.running.at(flat, self.evaluation_times, lambda *done: watch("convolving series", *done))
        values = features.double().numpy()
        blocks = (self.running.counted, STATISTICS * self.running.channels)
        left_out, cross_fitted = torch.zeros(2, len(flat), flat.shape[1], self.classes)
        for index, time in enumerate(self.evaluation_times):
            rows = ((lengths >= time).cpu().numpy() & (weights > 0)).nonzero()[0]
            present, column = np.unique(labels.cpu().numpy()[rows], return_inverse=True)
            weight = weights[rows] / weights[rows].mean()
            linear = fit_linear(
                values[rows, index], column, classes=len(present), blocks=blocks, weights=weight, groups=groups[rows]
            )
            self.centres[index] = torch.as_tensor(linear.centre)
            self.weights[index][:, present] = torch.as_tensor(linear.weights).float()
            self.biases[index, present] = torch.as_tensor(linear.bias).float()
            self.present[index, present] = True
            for scores, outputs in ((left_out, linear.left_out), (cross_fitted, linear.cross_fitted)):
                fresh = torch.as_tensor(outputs).float().log_softmax(dim=1)
                scores[rows, time - 1 :] = updated_present(scores[rows, time - 1], fresh, present)[:, None]
            watch("fitting evaluation times", index + 1, len(self.evaluation_times))
        return left_out, cross_fitted

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """Logits of shape (batch, 1, time, classes); they are the scores."""
        observations, lengths = self.admit(observations, lengths)
        flat = observations.flatten(2)
        length = flat.shape[1]
        scores = torch.zeros(len(flat), self.classes, device=flat.device)
        logits = scores[:, None].repeat(1, length, 1)
        times = [time for time in self.evaluation_times if time <= length]
        if times:
            features = self.running.at(flat[:, : times[-1]], times)
            for index, time in enumerate(times):
                scores = self._classified(index, scores, features[:, index])
                logits[:, time - 1 :] = scores[:, None]
        self._classify_further(flat, scores, logits)
        return Windows(logits[:, None])

    def _classify_further(self, flat: Tensor, scores: StepScores, logits: Scores) -> None:
        """Write the scores of the last classifier after its evaluation time; the features of each time are freed at once."""
        times = range(self.evaluation_times[-1] + self.gap, flat.shape[1] + 1, self.gap)
        if not times:
            return
        rows = self.running.rows_at_once(flat.shape[1])
        for chunk, current, out in zip(flat.split(rows), scores.split(rows), logits.split(rows), strict=True):
            for time, features in zip(times, self.running.along(chunk, times), strict=True):
                current = self._classified(-1, current, features)
                out[:, time - 1 : time - 1 + self.gap] = current[:, None]

    @property
    def gap(self) -> int:
        """The distance of the last two evaluation times, and of the classifications after the last one."""
        return self.evaluation_times[-1] - (self.evaluation_times[-2] if len(self.evaluation_times) > 1 else 0)

    def init(self, streams: int) -> LiveState:
        """The counts, the last few observations and the current scores of each stream."""
        return (*self.running.init(streams), torch.zeros(streams, self.classes))

    @torch.no_grad()
    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Count the observation, and classify the series that are at an evaluation time or a multiple of `gap` later."""
        x = self.admit_step(state, observation).flatten(1)
        counts, scores = self.running.step(state[:-1], x), state[-1]
        age = counts[-1]
        if torch.compiler.is_compiling():
            scores = self._classified_by_row(age, scores, self.running.of(counts))
            return LiveStep((*counts, scores), scores)
        due = self._due(age)
        for time in self._time_set.intersection(due.tolist()):
            rows = (due == time).nonzero()[:, 0]
            index = self.evaluation_times.index(time)
            if len(rows) == len(age):  # all at the same evaluation time, as a single series is
                scores = self._classified(index, scores, self.running.of(counts))
                break
            features = self.running.of(tuple(tensor[rows] for tensor in counts))
            scores = scores.index_put((rows,), self._classified(index, scores[rows], features))
        return LiveStep((*counts, scores), scores)

    @classmethod
    def examples(cls) -> Iterator["Rocket"]:
        """One with an evaluation time at each time; one with a class that has no series at the last of few."""
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(24) % 4
        observations = torch.randn(24, 8, 3, generator=generator) + labels[:, None, None]
        lengths = torch.where(labels == 1, 4, 8)
        yield cls.fit(observations, labels).model
        yield cls.fit(observations, labels, lengths, evaluation_times=[2, 3, 7], thresholds=1).model

    def _due(self, age: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The age; or the last evaluation time, for later ages at which its classifier is applied again."""
        last = self.evaluation_times[-1]
        return torch.where((age > last) & ((age - last) % self.gap == 0), last, age)

    def _classified(self, index: int, scores: StepScores, features: Features) -> StepScores:
        """The new scores by the classifier of one evaluation time."""
        logits = torch.addmm(self.biases[index], features - self.centres[index], self.weights[index])
        present = self.present[index]
        if bool(present.all()):
            return logits.log_softmax(dim=1)
        return updated(scores, logits.masked_fill(~present, -torch.inf).log_softmax(dim=1), present)

    def _classified_by_row(self, age: Int[Tensor, " rows"], scores: StepScores, features: Features) -> StepScores:
        """The same for an exported graph, which cannot loop over the ages: the weights are selected for each row."""
        here = self._due(age)[:, None] == torch.tensor(self.evaluation_times)
        index = here.int().argmax(dim=1)
        x, present = (features - self.centres[index])[:, None], self.present[index]
        logits = torch.baddbmm(self.biases[index][:, None], x, self.weights[index])[:, 0]
        fresh = updated(scores, logits.masked_fill(~present, -torch.inf).log_softmax(dim=1), present)
        return torch.where(here.any(dim=1, keepdim=True), fresh, scores)


def _reached(times: Sequence[int], labels: Labels, lengths: Lengths) -> list[int]:
    """The times that series of at least two classes reach; at others there is nothing to classify."""
    reached = [time for time in times if len(labels[lengths >= time].unique()) > 1]
    if not reached:
        remedy = "Choose earlier times: only one class has series that long."
        raise InvalidArgument("evaluation_times", "times that series of two classes reach", list(times), remedy)
    return reached
