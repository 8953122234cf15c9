"""The fold of `model.step` and `rule.step` over what arrives: observations in, decisions out, for many series at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_number, as_tensor, as_whole
from sooner.models.base import Model
from sooner.rules.base import NO_CLASS, Rule, leader
from sooner.scores import class_log_odds_against
from sooner.types import ArrayLike, FloatArray, LiveState, StepFlags, StepLabels, StepObservations, StepScores

AtEnd: TypeAlias = Literal["force", "abstain", "set"]
Prepare: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one live series.

    Attributes:
        label: the class's own name, or None where no class was named. With `at_end="set"`, the end of a series gives the tuple
            of the labels left.
        time: how many observations were read, from 1.
        crossed: False where the end or the deadline forced the decision. None as the label of a crossed decision says "none of
            the known classes" (`SingleLabel`), or that the series was given up (`GiveUp`).
        log_odds: where label sets are kept, the smallest `limit` with which a label would be left: large for series like no
            class. `sooner.evaluate.Watch` looks for its drift. Snapshots do not keep it for closed series.
    """

    label: Any
    time: int
    crossed: bool
    log_odds: float | None = field(default=None, repr=False, compare=False)


class FoldStep(NamedTuple):
    """What one observation of each series did: all that is remembered from now on, who stops, who by the rule, and its names."""

    after: LiveState
    stops: StepFlags
    fired: StepFlags
    named: StepLabels

    @property
    def scores(self) -> StepScores:
        """The newest scores."""
        return self.after[-2]


@dataclass(frozen=True, eq=False)
class Fold:
    """How observations become decisions; the arguments are those of `Fleet`.

    What is remembered of each series is a row in a tuple of tensors: the model's state, with a `limit` the largest log-odds
    against each class so far, the rule's state, the newest scores, and the number of observations read.
    """

    model: Model
    rule: Rule
    classes: tuple[Any, ...]
    prepare: Prepare | None
    offset: Tensor | None
    deadline: int | None
    at_end: AtEnd
    limit: float | None = None
    _shifts: bool = field(init=False, repr=False)  # whether the offset changes anything: equal priors are the rule

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InvalidArgument("model", "a model of `sooner.models`", repr(self.model), "Derive one from `Model`.")
        self.refuse_training()
        object.__setattr__(self, "classes", _as_names(self.classes, self.model.classes))
        _try(self.rule, self.model)
        if self.prepare is not None and not callable(self.prepare):
            raise InvalidArgument("prepare", "a function", repr(self.prepare), "It makes what the model reads.")
        object.__setattr__(self, "offset", _as_offset(self.offset, self.model.classes))
        object.__setattr__(self, "_shifts", self.offset is not None and bool(self.offset.any()))
        if self.deadline is not None:
            remedy = "It counts observations from 1; None lets a series go on."
            object.__setattr__(self, "deadline", as_whole(self.deadline, name="deadline", low=1, remedy=remedy))
        if self.at_end not in ("force", "abstain", "set"):
            raise UnknownName("at_end", self.at_end, ("force", "abstain", "set"))
        remedy = "It is what the log-odds against a label in the set may reach; clf.stream(coverage=0.9) sets it."
        if self.limit is not None:
            object.__setattr__(self, "limit", as_number(self.limit, name="limit", low=-math.inf, remedy=remedy))
        elif self.at_end == "set":
            raise InvalidArgument("limit", 'given with at_end="set"', "None", remedy)

    def refuse_training(self) -> None:
        """A model that is being trained would let live series change each other."""
        if self.model.training:
            remedy = "Call model.eval() first: batch norm and dropout would mix live series."
            raise InvalidArgument("model", "in evaluation mode", "one in training mode", remedy)

    def with_rule(self, rule: Rule, *, running: int) -> "Fold":
        """The same fold with another rule; where series run, it must be able to go on from what is remembered of them."""
        _try(rule, self.model)
        if running and rule.init(1).shape[1] and family(rule) != family(self.rule):
            got = f"{rule!r} in place of {self.rule!r} while {running} series run"
            remedy = "It would need to have seen them from the start: finish them first, or make a new fleet."
            raise InvalidArgument("rule", "of the same kind, or one without a memory", got, remedy)
        return replace(self, rule=rule)

    def fresh(self, streams: int) -> LiveState:
        """What is remembered of series that have not begun."""
        state = tuple(self.model.init(streams))
        device = state[0].device
        scores = torch.zeros(streams, self.model.classes, device=device)
        odds = torch.full((streams, self.model.classes), -torch.inf, dtype=torch.float64, device=device)
        known = state if self.limit is None else (*state, odds)
        return (*known, self.memory(streams, device), scores, torch.zeros(streams, dtype=torch.int64, device=device))

    def memory(self, streams: int, device: torch.device) -> Tensor:
        """The rule's part of it."""
        return self.rule.init(streams).to(device)

    def read(self, values: Sequence[ArrayLike] | FloatArray, device: torch.device) -> StepObservations:
        """One row for each value, prepared; always a copy, so that a sender may use its memory again."""
        x = _stacked(values)
        if x.ndim == 1 and self.model.features:
            x = x[:, None]  # a number is an observation of one channel
        return (x if self.prepare is None else self.prepare(x)).to(device)

    def observe(self, before: LiveState, observations: StepObservations) -> FoldStep:
        """Take one observation of each series in."""
        state, scores, halting = self.model.step(before[: -3 if self.limit is None else -4], observations)
        if self._shifts and self.offset is not None:
            scores = scores + self.offset.to(scores)
        memory, fired, named = self.rule.step_with(before[-3], scores, halting)
        if self.limit is not None:
            state = (*state, torch.maximum(before[-4], class_log_odds_against(scores)))
        ages = before[-1] + 1
        stops = fired if self.deadline is None else fired | (ages >= self.deadline)
        return FoldStep((*state, memory, scores, ages), stops, fired, named)

    def decided(self, moment: FoldStep) -> dict[int, Decision]:
        """The decisions of this moment, by row."""
        if not bool(moment.stops.any()):
            return {}
        rows = moment.stops.nonzero()[:, 0]
        forced = self.forced(tuple(part[rows] for part in moment.after[-4:]))
        fired, named = moment.fired[rows].tolist(), moment.named[rows].tolist()
        return {
            row: Decision(self.name(label), decision.time, True, decision.log_odds) if crossed else decision
            for row, crossed, label, decision in zip(rows.tolist(), fired, named, forced, strict=True)
        }

    def name(self, label: int) -> Any:
        """The name of a class; None for `NO_CLASS`."""
        return None if label == NO_CLASS else self.classes[label]

    def forced(self, rows: LiveState) -> list[Decision]:
        """What is decided about series that end like this: the leader, nothing, or the labels left."""
        scores, ages = rows[-2:]
        names: list[Any] = [None] * len(ages)
        if self.at_end == "force":
            names = [self.classes[label] for label in leader(scores).tolist()]
        elif self.at_end == "set":
            names = list(self.label_sets(rows))
        odds = [None] * len(ages) if self.limit is None else rows[-4].amin(dim=1).tolist()
        return [Decision(name, time, False, odd) for name, time, odd in zip(names, ages.tolist(), odds, strict=True)]

    def label_sets(self, rows: LiveState) -> list[tuple[Any, ...]]:
        """The labels left of each series, in the order of the classes."""
        if self.limit is None:
            remedy = "clf.stream(coverage=0.9) keeps label sets."
            raise InvalidArgument("limit", "given to read label sets", "None", remedy)
        left = (rows[-4] <= self.limit).tolist()
        return [tuple(name for name, inside in zip(self.classes, row, strict=True) if inside) for row in left]

    def blame(self, value: ArrayLike, *, name: str) -> None:
        """Raise what is wrong with one observation, if anything is."""
        shape = f"shape {tuple(as_tensor(value, name=name).shape)}"
        try:
            x = self.read([value], torch.device("cpu"))
        except InvalidArgument as error:
            raise InvalidArgument(name, "one that `prepare` can read", shape, str(error)) from None
        if tuple(x.shape) != (1, *self.model.features):
            became = "" if self.prepare is None else f", which `prepare` turned into {tuple(x.shape[1:])}"
            expected = f"of shape {self.model.features}"
            raise InvalidArgument(name, expected, shape + became, "That is what the model reads.")
        bad = (~x[0].isfinite()).nonzero()
        if len(bad):
            index = tuple(bad[0].tolist())
            got = f"{float(x[0][index])} at {', '.join(map(str, index))} (counted from 0)"
            raise InvalidArgument(
                name, "finite", got, "Leave it out, or use a model that was fitted with missing values."
            )

    @staticmethod
    def stray_row(moment: FoldStep) -> int | None:
        """The first row whose scores are not finite, if there is one."""
        # The sum is finite only if all scores are, and cheaper than looking at each.
        if math.isfinite(moment.scores.sum().item()):
            return None
        stray = (~moment.scores.isfinite()).any(dim=1).nonzero()
        return int(stray[0]) if len(stray) else None


def _stacked(values: Sequence[ArrayLike] | FloatArray) -> Tensor:
    if isinstance(values, np.ndarray):
        return torch.tensor(values)
    try:
        if any(issubclass(kind, Tensor) for kind in set(map(type, values))):
            return torch.stack([as_tensor(value, name="observations") for value in values])
        array = np.array(values)
        # One observation is to cost little; what is unusual takes the longer way.
        usual = array.dtype.kind in "fiub" and array.dtype.isnative
        return torch.from_numpy(array) if usual else as_tensor(array, name="observations")
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        remedy = "One observation for each key."
        raise InvalidArgument("observations", "numbers, all of one shape", "others", remedy) from None


def family(rule: Rule) -> tuple[Any, ...]:
    """The kind of a rule and of the rules in it: within a family, one rule can go on from what another remembers."""
    return (type(rule), *(family(part) for part in vars(rule).values() if isinstance(part, Rule)))


def _try(rule: Rule, model: Model) -> None:
    if not isinstance(rule, Rule):
        raise InvalidArgument("rule", "a rule, for example MSPRT(2.0)", repr(rule), "Make one of it first.")
    # Refused here are a matrix for another number of classes, and a rule that reads what the model does not say.
    rule.step_with(rule.init(1), torch.zeros(1, model.classes), torch.zeros(1) if model.halts else None)


def _as_names(value: Any, classes: int) -> tuple[Any, ...]:
    if value is None:
        return tuple(range(classes))
    names = tuple(value.tolist() if isinstance(value, np.ndarray | Tensor) else value)
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    if len(names) != classes:
        raise InvalidArgument("classes", f"{classes} names", f"{len(names)}", f"The model has {classes} classes.")
    if len(set(names)) != classes or None in names:
        remedy = "Give each class a name of its own; None says that none was named."
        raise InvalidArgument("classes", "different names", list(names), remedy)
    return names


def _as_offset(value: ArrayLike | None, classes: int) -> Tensor | None:
    if value is None:
        return None
    offset = as_tensor(value, name="offset").detach().to(torch.get_default_dtype())
    if offset.shape != (classes,) or not bool(offset.isfinite().all()):
        remedy = "It is added to the scores: for other priors, the log of new over old."
        raise InvalidArgument("offset", f"{classes} finite numbers", offset.tolist(), remedy)
    return offset
