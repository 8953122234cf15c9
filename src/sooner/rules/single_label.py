"""The rule of label sets: stop when one label is left.

========= ======================================================================
symbol    meaning
========= ======================================================================
o_l(t)    log sum_{k != l} exp(s_k(t) - s_l(t)), the log-odds against class l
q         limit of the log-odds, from calibration series
C_t       {l : o_l(u) <= q for all u <= t}, the label set; it never grows
========= ======================================================================
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sooner.errors import InvalidArgument
from sooner.inputs import as_number, as_whole
from sooner.rules.base import NO_CLASS, Rule, Step
from sooner.scores import class_log_odds_against
from sooner.types import RuleState, StepScores


@dataclass(frozen=True)
class SingleLabel(Rule):
    """Stop when at most one label is left in the set, and name it; an empty set names `NO_CLASS`, -1.

    A class leaves the set for good when the log-odds against it pass the limit. An empty set says "none of the known classes":
    `EarlyClassifier` and the streams give None as the label, with `crossed=True`. The label that is left may be another one than
    the leader. Where several labels are left at the end of a series, its leader is taken, as for every rule.

    Args:
        limit: q, from `sooner.evaluate.coverage_limit` or `clf.single_label(coverage)`; infinity excludes no class.
        classes: K, the number of classes of the scores.

    >>> SingleLabel(2.0, classes=2).decide([[[0.0, 1.0], [0.0, 3.0]], [[0.0, 3.0], [9.0, 3.0]]])
    Decisions(labels=array([1, 1]), times=array([2, 1]), crossed=array([ True,  True]))
    """

    limit: float
    classes: int

    def __post_init__(self) -> None:
        remedy = "It is what the log-odds against a class may reach; clf.single_label(coverage) sets it."
        object.__setattr__(self, "limit", as_number(self.limit, name="limit", low=-math.inf, remedy=remedy))
        remedy = "It is the number of classes."
        object.__setattr__(self, "classes", as_whole(self.classes, name="classes", low=2, remedy=remedy))

    @classmethod
    def examples(cls) -> Iterator["SingleLabel"]:
        """Strict, lenient and with sets that may become empty, for four classes."""
        yield cls(3.0, 4)
        yield cls(0.75, 4)
        yield cls(-0.5, 4)

    def init(self, streams: int) -> RuleState:
        """One column for each class: the largest log-odds against it so far."""
        return torch.full((streams, self.classes), -torch.inf, dtype=torch.float64)

    def step(self, state: RuleState, scores: StepScores) -> Step:
        """Raise the log-odds, and fire where one class or none is within the limit."""
        if scores.shape[-1] != self.classes:
            expected, got = f"of {self.classes} classes, as the rule is", f"{scores.shape[-1]} classes"
            raise InvalidArgument("scores", expected, got, "Make the rule for the number of classes of the scores.")
        worst = torch.maximum(state, class_log_odds_against(scores))
        left = worst <= self.limit
        count = left.sum(dim=1)
        return Step(worst, count <= 1, torch.where(count == 0, NO_CLASS, left.to(torch.uint8).argmax(dim=1)))
