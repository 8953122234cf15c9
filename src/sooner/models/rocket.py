"""The model for small data: running convolutions, and a calibrated linear classifier at each checkpoint in time."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_labels, as_lengths, as_tensor, as_weights, as_whole, refuse_empty
from sooner.models.base import LiveStep, Model
from sooner.models.checkpoints import as_checkpoints, carried_over, checkpoint_times, replaced
from sooner.models.ridge import fit_linear, known_elsewhere
from sooner.models.running import STATISTICS, RunningFeatures, dilations_for
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

Watch: TypeAlias = Callable[[str, int, int], None]


class Fitted(NamedTuple):
    """A fitted model, and its scores for each training series when that one (with its group) is left out.

    The ridge and the calibration were chosen on them, three numbers or so for each checkpoint; nothing else was. Behind the last
    checkpoint, where only series of one class are left, they stay as they are.
    """

    model: "Rocket"
    left_out: Scores


class Rocket(Model):
    """Scores from running convolutions and one linear classifier for each checkpoint; `Rocket.fit` makes one.

    s_k(t) is the calibrated evidence of the last evaluation time c <= t (a checkpoint): a log-likelihood up to a shared term. It
    is zero before the first one. A series that goes on behind the last one is read on: its classifier is applied again every
    `gap` observations, the distance of the last two. Counts, means and deviations are shares of all observations so far, so
    they mean the same there; calibration stays that of the last evaluation time. A live series costs the same at every
    observation, and its state does not grow: counts instead of the past. Everything fitted is in `state_dict`.

    Args:
        features: the shape of one observation.
        classes: K.
        checkpoints: their times, ascending, from 1.
        dilations: of the kernels, ascending.
        thresholds: for each kernel and dilation.

    >>> x, y = torch.tensor([[0.0], [0.2], [0.9], [1.1]])[:, None].expand(-1, 3, -1), [0, 0, 1, 1]
    >>> model, left_out = Rocket.fit(x, y, checkpoints=[2])
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
        checkpoints: Sequence[int],
        dilations: Sequence[int],
        thresholds: int = 4,
    ) -> None:
        super().__init__(features, classes)
        times = as_checkpoints(checkpoints)
        if isinstance(times, int):
            raise InvalidArgument("checkpoints", "times", times, "Only `fit` can place a number of them.")
        self.checkpoints, self._checkpoints = times, frozenset(times)
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
        checkpoints: int | Sequence[int] = 50,
        thresholds: int = 4,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> Fitted:
        """Fit and calibrate a classifier at every checkpoint that series of at least two classes reach.

        Args:
            observations: (batch, time, *features), standardised.
            labels: (batch,), in 0..K-1.
            lengths: (batch,); what lies beyond is padding.
            classes: K; by default as many as the labels name.
            weights: (batch,), how much each series counts; by default all the same.
            groups: (batch,), whole numbers: series of one group are left out together; by default each one alone.
            checkpoints: times from 1, or how many of them, evenly spaced up to the longest series.
            thresholds: for each kernel and dilation.
            seed: of the choice of channels and thresholds.
            watch: told what is done now, how much of it is done, and of how much.
        """
        series = as_tensor(observations, name="observations")
        refuse_empty(series, name="observations")
        ends = as_lengths(lengths, series, time=series.shape[1])
        known = as_tensor(labels, name="labels")
        k = 1 + int(known.max()) if classes is None else as_whole(classes, name="classes", low=2, remedy="It is K.")
        targets = as_labels(known, series.new_zeros(len(series), k, dtype=torch.float32))
        times = _reached(checkpoint_times(as_checkpoints(checkpoints), longest=int(ends.max())), targets, ends)
        model = cls(
            tuple(series.shape[2:]),
            k,
            checkpoints=times,
            dilations=dilations_for(int(ends.max())),
            thresholds=thresholds,
        )
        clean, _ = model.admit(series, ends)
        flat = clean.flatten(2)
        model.running.fit(flat, ends, seed=seed)
        owners = np.arange(len(series)) if groups is None else _as_groups(groups, len(series))
        if groups is not None and not known_elsewhere(targets.cpu().numpy(), owners).any():
            remedy = "Left out with its group, a class would not be known any more: bring a class in two groups."
            raise InvalidArgument("groups", "with a class that is in two of them", "each class in one", remedy)
        counts = np.ones(len(series)) if weights is None else as_weights(weights, len(series), name="weights")
        return Fitted(model.eval(), model._fit_checkpoints(flat, targets, ends, counts, owners, watch))

    def _fit_checkpoints(
        self,
        flat: Tensor,
        labels: Labels,
        lengths: Lengths,
        weights: FloatArray,
        groups: IntArray,
        watch: Watch | None,
    ) -> Scores:
        tell = watch or (lambda *_: None)
        found = self.running.at(flat, self.checkpoints, lambda *done: tell("convolving series", *done)).double().numpy()
        kinds = (self.running.counted, STATISTICS * self.running.channels)
        held = torch.zeros(len(flat), self.classes)
        scores = held[:, None].repeat(1, flat.shape[1], 1)
        for place, time in enumerate(self.checkpoints):
            rows = ((lengths >= time).cpu().numpy() & (weights > 0)).nonzero()[0]
            present, column = np.unique(labels.cpu().numpy()[rows], return_inverse=True)
            weight = weights[rows] / weights[rows].mean()
            linear = fit_linear(
                found[rows, place], column, classes=len(present), kinds=kinds, weights=weight, groups=groups[rows]
            )
            self.centres[place] = torch.as_tensor(linear.centre)
            self.weights[place][:, present] = torch.as_tensor(linear.weights).float()
            self.biases[place, present] = torch.as_tensor(linear.bias).float()
            self.present[place, present] = True
            fresh = torch.as_tensor(linear.left_out).float().log_softmax(dim=1)
            held[rows] = carried_over(held[rows], fresh, present)
            scores[:, time - 1 :] = held[:, None]
            tell("fitting evaluation times", place + 1, len(self.checkpoints))
        return scores

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """Logits of shape (batch, 1, time, classes); they are the scores."""
        observations, lengths = self.admit(observations, lengths)
        time = observations.shape[1]
        times = [each for each in self.checkpoints if each <= time]
        held = torch.zeros(len(observations), self.classes, device=observations.device)
        logits = held[:, None].repeat(1, time, 1)
        flat = observations.flatten(2)
        if times:
            found = self.running.at(flat[:, : times[-1]], times)
            for place, checkpoint in enumerate(times):
                held = self._classified(place, held, found[:, place])
                logits[:, checkpoint - 1 :] = held[:, None]
        self._read_on(flat, held, logits)
        return Windows(logits[:, None])

    def _read_on(self, flat: Tensor, held: StepScores, logits: Scores) -> None:
        """Write what the last classifier says behind its checkpoint; one time after the other, as there may be many."""
        further = range(self.checkpoints[-1] + self.gap, flat.shape[1] + 1, self.gap)
        if not further:
            return
        rows = self.running.rows_at_once(flat.shape[1])
        for part, before, out in zip(flat.split(rows), held.split(rows), logits.split(rows), strict=True):
            said = before
            for time, found in zip(further, self.running.along(part, further), strict=True):
                said = self._classified(-1, said, found)
                out[:, time - 1 : time - 1 + self.gap] = said[:, None]

    @property
    def gap(self) -> int:
        """The distance of the last two checkpoints: so often a series is classified behind the last one."""
        return self.checkpoints[-1] - (self.checkpoints[-2] if len(self.checkpoints) > 1 else 0)

    def init(self, streams: int) -> LiveState:
        """The counts and the last few observations of each stream, and the scores it holds."""
        return (*self.running.init(streams), torch.zeros(streams, self.classes))

    @torch.no_grad()
    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """Count the observation in; series that come to a checkpoint now, or are read on behind the last, are classified."""
        x = self.admit_step(state, observation).flatten(1)
        counted, held = self.running.step(state[:-1], x), state[-1]
        age = counted[-1]
        if torch.compiler.is_compiling():
            held = self._classified_each(age, held, self.running.of(counted))
            return LiveStep((*counted, held), held)
        due = self._due(age)
        for time in self._checkpoints.intersection(due.tolist()):
            rows = (due == time).nonzero()[:, 0]
            place = self.checkpoints.index(time)
            if len(rows) == len(age):  # all at one checkpoint, as a single series is
                held = self._classified(place, held, self.running.of(counted))
                break
            found = self.running.of(tuple(part[rows] for part in counted))
            held = held.index_put((rows,), self._classified(place, held[rows], found))
        return LiveStep((*counted, held), held)

    @classmethod
    def examples(cls) -> Iterator["Rocket"]:
        """Every time a checkpoint; few, with a class that the last one has no series of."""
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(24) % 4
        observations = torch.randn(24, 8, 3, generator=generator) + labels[:, None, None]
        yield cls.fit(observations, labels).model
        yield cls.fit(observations, labels, torch.where(labels == 1, 4, 8), checkpoints=[2, 3, 7], thresholds=1).model

    def _due(self, age: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The age itself; behind the last checkpoint that checkpoint again, wherever its classifier is to be applied."""
        last = self.checkpoints[-1]
        return torch.where((age > last) & ((age - last) % self.gap == 0), last, age)

    def _classified(self, place: int, held: StepScores, found: Float[Tensor, "rows features"]) -> StepScores:
        said = torch.addmm(self.biases[place], found - self.centres[place], self.weights[place])
        present = self.present[place]
        if bool(present.all()):
            return said.log_softmax(dim=1)
        return replaced(held, said.masked_fill(~present, -torch.inf).log_softmax(dim=1), present)

    def _classified_each(
        self, age: Int[Tensor, " rows"], held: StepScores, found: Float[Tensor, "rows features"]
    ) -> StepScores:
        """The same in a graph, which has no loop over the ages that it finds: every row brings weights of its own."""
        here = self._due(age)[:, None] == torch.tensor(self.checkpoints)
        place = here.int().argmax(dim=1)
        said = torch.baddbmm(self.biases[place][:, None], (found - self.centres[place])[:, None], self.weights[place])
        present = self.present[place]
        fresh = replaced(held, said[:, 0].masked_fill(~present, -torch.inf).log_softmax(dim=1), present)
        return torch.where(here.any(dim=1, keepdim=True), fresh, held)


def _reached(times: Sequence[int], labels: Labels, lengths: Lengths) -> list[int]:
    """The times that series of at least two classes reach: elsewhere there is nothing to tell apart."""
    reached = [time for time in times if len(labels[lengths >= time].unique()) > 1]
    if not reached:
        remedy = "Choose earlier checkpoints: only one class has series that long."
        raise InvalidArgument("checkpoints", "times that series of two classes reach", list(times), remedy)
    return reached


def _as_groups(groups: ArrayLike, series: int) -> IntArray:
    array = as_tensor(groups, name="groups").cpu().numpy()
    if array.shape != (series,) or array.dtype.kind not in "iu":
        got = f"shape {array.shape}, dtype {array.dtype}"
        raise InvalidArgument("groups", f"{series} whole numbers", got, "Number the groups.")
    return array.astype(np.int64)
