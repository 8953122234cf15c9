"""A trigger of ml_edm as a rule of `sooner`, beside `Trigger`, which is a rule of `sooner` as a trigger of ml_edm.

ml_edm is not imported: the trigger brings it along. ml_edm says nothing about series of unequal lengths, or longer than those of
the fit: the former are refused in the fit, the latter are stopped at the first observation beyond the last timestamp.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.rules import DecisionCost, Rule, RuleFitter, Step, leader
from sooner.rules.fitted.base import decision_times, posterior
from sooner.scores import Scored
from sooner.types import FloatArray, IntArray, RuleState, StepScores


@dataclass(frozen=True, eq=False)
class TriggerFitter(RuleFitter):
    """Fits a trigger of ml_edm to held-out scores, and makes a rule of it.

    Args:
        trigger: a trigger that reads the probabilities of classifiers, for example `ml_edm.trigger.EconomyGamma(None)`. It is
            copied, and its timestamps are replaced by the times at which the scores change.

    `clf.threshold = TriggerFitter(trigger).fit(clf.judged(), DecisionCost.average(0.8))` sets it in a classifier.
    """

    trigger: Any

    def __post_init__(self) -> None:
        if not getattr(self.trigger, "require_classifiers", False):
            remedy = "One that learns from the observations themselves cannot be a rule, which reads scores."
            raise InvalidArgument("trigger", "one that reads probabilities", type(self.trigger).__name__, remedy)

    @classmethod
    def examples(cls) -> Iterator["TriggerFitter"]:
        """None, because ml_edm need not be installed."""
        yield from ()

    def fit(self, scored: Scored, cost: DecisionCost) -> "TriggerRule":
        """The fitted copy of the trigger as a rule; the series must be of equal length."""
        horizon, classes = int(scored.lengths.max()), scored.scores.shape[2]
        if (scored.lengths < horizon).any():
            got = f"lengths from {scored.lengths.min()} to {horizon}"
            raise InvalidArgument("scored", "of series of equal length", got, "ml_edm cannot be fitted to others.")
        timestamps = np.append(decision_times(scored), horizon)
        probabilities = posterior(torch.from_numpy(scored.scores[:, timestamps - 1])).numpy()
        trigger = copy.deepcopy(self.trigger)
        trigger.timestamps = timestamps
        waits = cost.waits(scored)[0, timestamps - 1]
        costs = CostTable(timestamps, cost.matrix(classes).T, waits)
        trigger.fit(np.zeros((len(scored), horizon)), probabilities, scored.truths, costs)
        return TriggerRule(trigger, timestamps, classes)


@dataclass(frozen=True, eq=False)
class TriggerRule(Rule):
    """Stop when a fitted trigger of ml_edm fires on p = softmax(scores). It cannot be saved: its trigger could only be pickled.

    Args:
        trigger: fitted.
        timestamps: the numbers of observations at which it may fire, ascending.
        classes: K.
    """

    trigger: Any
    timestamps: IntArray
    classes: int

    @classmethod
    def examples(cls) -> Iterator["TriggerRule"]:
        """None, because ml_edm need not be installed."""
        yield from ()

    def init(self, streams: int) -> RuleState:
        """The number of observations, and for triggers that read them the probabilities at all timestamps so far."""
        past = self.classes * len(self.timestamps) if self.trigger.require_past_probas else 0
        return torch.zeros(streams, 1 + past, dtype=torch.float64)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Ask the trigger where a timestamp is reached."""
        state = state.clone()
        state[:, 0] += 1
        read, now = state[:, 0].long().cpu().numpy(), posterior(scores)
        fired = read > self.timestamps[-1]
        for index, time in enumerate(self.timestamps.tolist()):
            rows = np.flatnonzero(read == time)
            if len(rows):
                fired[rows] = self._ask(state, now, rows, index)
        return Step(state, torch.as_tensor(fired, device=scores.device), leader(scores))

    def _ask(self, state: RuleState, now: Tensor, rows: IntArray, index: int) -> Any:
        """What the trigger says of the rows at this timestamp; their probabilities are remembered if it reads the past."""
        probabilities: FloatArray = now[rows].cpu().numpy()
        if self.trigger.require_past_probas:
            first = 1 + index * self.classes
            state[rows, first : first + self.classes] = now[rows]
            past = state[rows, 1 : first + self.classes].cpu().numpy()
            probabilities = past.reshape(len(rows), index + 1, self.classes)
        return self.trigger.predict(np.zeros((len(rows), int(self.timestamps[index]))), probabilities, None)


class CostTable:
    """Costs under the names that triggers of ml_edm read: `values[t][predicted][true]`, its two parts, and `timestamps`."""

    def __init__(self, timestamps: IntArray, errors: FloatArray, waits: FloatArray) -> None:
        self.timestamps, self.alpha = timestamps, 0.5
        self.missclf_cost = [errors for _ in timestamps]  # ml_edm's own spelling
        self.delay_cost = [np.full_like(errors, wait) for wait in waits]
        self.values = np.stack([errors + wait for wait in waits])

    def __getitem__(self, index: int) -> FloatArray:
        costs: FloatArray = self.values[index]
        return costs

    def __len__(self) -> int:
        return len(self.values)
