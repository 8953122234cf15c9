"""What may be put in the place of a threshold."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sooner.errors import InvalidArgument, UnknownName
from sooner.evaluate.label_sets import label_sets_of
from sooner.inputs import as_whole
from sooner.rules import FITTERS, MSPRT, RULES, FittedRule, Rule, RuleFitter, ThresholdRule
from sooner.rules.base import NO_CLASS
from sooner.scores import Scored
from sooner.stream import AtEnd
from sooner.types import Decisions


def family_named(name: str) -> type[ThresholdRule]:
    """The rules of that name, which must have a threshold to be chosen."""
    families = {known: rule for known, rule in RULES.items() if issubclass(rule, ThresholdRule)}
    if isinstance(name, str) and name in families:
        return families[name]
    if isinstance(name, str) and name in {**RULES, **FITTERS}:
        remedy = "Fit with another one; in Python, clf.threshold may then be any rule."
        raise InvalidArgument("rule", "one with a threshold", repr(name), remedy)
    raise UnknownName("rule", name, (*families, *FITTERS))


def family_beside(name: str) -> type[ThresholdRule]:
    """The rules that a plain number stands for, and whose decisions calibrate posteriors: `MSPRT` beside a fitted rule."""
    return MSPRT if isinstance(name, str) and name in FITTERS else family_named(name)


def fitter_of(name: str, current: Rule | None = None) -> RuleFitter | None:
    """The fitter of that name, unless the current rule is one that no fitter made; None for the name of a threshold rule."""
    fitted = current is None or isinstance(current, FittedRule)
    return FITTERS.get(name) if fitted else None


def rule_for(value: Any, current: Rule, asked: type[ThresholdRule], classes: int, *, halts: bool = False) -> Rule:
    """The rule that a number, a matrix or a rule stands for.

    Args:
        value: a number belongs to the family of the current rule, or if that has no threshold, to the one asked for.
        current: the rule so far.
        asked: the family that the classifier was made with.
        classes: K.
        halts: whether the model has a halting probability, which some rules read.

    >>> rule_for(2.0, MSPRT(1.0), MSPRT, 3)
    MSPRT(threshold=2.0)
    """
    if isinstance(value, Rule):
        # Refused here are a matrix for another number of classes, and a rule that reads what the model does not say.
        value.step_with(value.init(1), torch.zeros(1, classes), torch.zeros(1) if halts else None)
        return value
    family = type(current) if isinstance(current, ThresholdRule) else asked
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            return family.at(value.item() if isinstance(value, np.generic) else value)
        except InvalidArgument as error:
            raise error.about("threshold") from None  # which is what was set, whatever its family calls it
    if family is not MSPRT:
        remedy = 'A matrix of thresholds belongs to rule="msprt".'
        raise InvalidArgument("threshold", "a number or a rule", repr(value), remedy)
    matrix = MSPRT(value)
    if np.shape(matrix.threshold) not in ((), (classes, classes)):
        expected = f"a number, a rule, or a matrix of shape {(classes, classes)}"
        remedy = "Entry [l, k] is what class k must be ahead of class l."
        raise InvalidArgument("threshold", expected, f"shape {np.shape(matrix.threshold)}", remedy)
    return matrix


def family_of(rule: Rule) -> type[ThresholdRule]:
    """The family whose thresholds can be swept."""
    if not isinstance(rule, ThresholdRule):
        remedy = "Only a threshold can be swept: set clf.threshold to MSPRT(2.0), for example."
        raise InvalidArgument("rule", "one with a threshold", repr(rule), remedy)
    return type(rule)


def decided(
    rule: Rule,
    found: Scored,
    classes: npt.NDArray[Any],
    deadline: int | None = None,
    at_end: AtEnd = "force",
    limit: float | None = None,
) -> Decisions:
    """What a rule makes of scores, with the names of the classes; the other arguments are those of `decide` and of `Fleet`."""
    if at_end not in ("force", "abstain", "set"):
        raise UnknownName("at_end", at_end, ("force", "abstain", "set"))
    if deadline is not None:
        # A deadline makes every series as short: what comes later can no longer matter.
        last = as_whole(deadline, name="deadline", low=1, remedy="It counts observations from 1.")
        found = replace(found, lengths=np.minimum(found.lengths, last))
    decisions = rule.decide(found.scores, found.lengths, halting=found.halting)
    labels, nameless = classes[decisions.labels], decisions.labels == NO_CLASS
    if at_end != "force" or nameless.any():
        labels = labels.astype(object)
        labels[nameless] = None
    open_ends = np.flatnonzero(~decisions.crossed)
    if at_end == "abstain":
        labels[open_ends] = None
    elif at_end == "set" and limit is not None and len(open_ends):
        left = label_sets_of(found.take(open_ends), limit, tuple(classes.tolist())).last
        for series, names in zip(open_ends, left, strict=True):
            labels[series] = names
    return Decisions(labels, decisions.times, decisions.crossed)


def with_labels(found: Scored) -> Scored:
    """The same scores, refused where the labels of the series are not known."""
    if found.labels is None:
        raise InvalidArgument("y", "the labels of the series", "None", "Give them, or a Series that knows its labels.")
    return found
