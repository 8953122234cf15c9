"""The laws of rules that are fitted for a cost."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from sooner.checks.discovery import examples_of
from sooner.checks.rules import RULE_LAWS, check_rule_law
from sooner.errors import LawBroken
from sooner.inputs import as_whole
from sooner.rules import DecisionCost, Rule, RuleFitter
from sooner.rules.described import description, rule_described
from sooner.scores import Scored
from sooner.types import Decisions


class FitCase(NamedTuple):
    """Held-out scores of series of unequal lengths, other scores to decide on, and a cost."""

    scored: Scored
    others: Scored
    cost: DecisionCost
    seed: int


FitterLaw = Callable[[RuleFitter, FitCase], str | None]
"""A law returns the evidence if a fitter breaks it on a case."""


def check_fitter(fitter: RuleFitter, *, trials: int = 3) -> None:
    """Try every law of `FITTER_LAWS` on random cases; the first one that is broken is raised as `LawBroken`."""
    for name in FITTER_LAWS:
        check_fitter_law(fitter, name, trials=trials)


def check_fitter_law(fitter: RuleFitter, law: str, *, trials: int = 3) -> None:
    """Try one law of `FITTER_LAWS`."""
    for seed in range(as_whole(trials, name="trials", low=1, remedy="A law that is never tried shows nothing.")):
        evidence = FITTER_LAWS[law](fitter, _case(seed))
        if evidence is not None:
            raise LawBroken(fitter, law, f"{evidence} (case of seed {seed})")


def fitters() -> Iterator[RuleFitter]:
    """Examples of every concrete subclass of `RuleFitter` in the program, sooner's own first."""
    return examples_of(RuleFitter)


def the_rule_obeys_every_law(fitter: RuleFitter, case: FitCase) -> str | None:
    """The frozen rule obeys `RULE_LAWS`: live equals batch, no peeking, and the others."""
    rule = fitter.fit(case.scored, case.cost)
    for law in RULE_LAWS:
        try:
            check_rule_law(rule, law, classes=case.scored.scores.shape[2], trials=6)
        except LawBroken as broken:
            return str(broken)
    return None


def fitting_again_gives_the_same_rule(fitter: RuleFitter, case: FitCase) -> str | None:
    """The same scores and costs give the same rule."""
    first, second = fitter.fit(case.scored, case.cost), fitter.fit(case.scored, case.cost)
    return None if first == second else f"{description(first)} at first, {description(second)} again"


def the_description_keeps_the_rule(fitter: RuleFitter, case: FitCase) -> str | None:
    """Files and snapshots keep the rule: its description gives it back."""
    rule = fitter.fit(case.scored, case.cost)
    return None if rule_described(description(rule)) == rule else f"{rule!r} comes back as another rule"


def relabelling_permutes_the_fit(fitter: RuleFitter, case: FitCase) -> str | None:
    """Reordering the classes of scores, labels and costs reorders the decided labels and nothing else."""
    classes = case.scored.scores.shape[2]
    order = np.random.default_rng(case.seed).permutation(classes)
    matrix = case.cost.matrix(classes)[np.ix_(order, order)]
    scored = case.scored
    moved = Scored(scored.scores[..., order], scored.lengths, np.argsort(order)[scored.truths])
    rule = fitter.fit(moved, DecisionCost(matrix, case.cost.waiting, case.cost.clock))
    permuted = rule.decide(case.others.scores[..., order], case.others.lengths)
    renamed = Decisions(order[permuted.labels], permuted.times, permuted.crossed)
    return _difference(renamed, _decisions(fitter.fit(scored, case.cost), case), "after relabelling")


def shared_terms_cancel_in_the_fit(fitter: RuleFitter, case: FitCase) -> str | None:
    """A term that is added to all classes of a series at a time changes no decision."""
    shift = np.random.default_rng(case.seed).integers(-8, 9, case.scored.scores.shape[:2])
    moved = np.where(case.scored.live[..., None], case.scored.scores + shift[..., None], 0.0)
    rule = fitter.fit(Scored(moved, case.scored.lengths, case.scored.labels), case.cost)
    return _difference(_decisions(rule, case), _decisions(fitter.fit(case.scored, case.cost), case), "after the shift")


def padding_is_inert_in_the_fit(fitter: RuleFitter, case: FitCase) -> str | None:
    """More padding gives the same rule."""
    scored = case.scored
    wider = np.pad(scored.scores, ((0, 0), (0, 3), (0, 0)))
    rule = fitter.fit(Scored(wider, scored.lengths, scored.labels), case.cost)
    return None if rule == fitter.fit(scored, case.cost) else "another rule with more padding"


def longer_series_are_stopped(fitter: RuleFitter, case: FitCase) -> str | None:
    """A series that is longer than any of the fit is stopped at the first observation beyond at the latest."""
    horizon = int(case.scored.lengths.max())
    flat = torch.zeros(1, horizon + 3, case.scored.scores.shape[2])
    decisions = fitter.fit(case.scored, case.cost).decide(flat)
    late = decisions.times[0] > horizon + 1 or not decisions.crossed[0]
    return f"time {decisions.times[0]}, the horizon is {horizon}" if late else None


FITTER_LAWS: Mapping[str, FitterLaw] = {
    law.__name__.replace("_", " "): law
    for law in (
        the_rule_obeys_every_law,
        fitting_again_gives_the_same_rule,
        the_description_keeps_the_rule,
        relabelling_permutes_the_fit,
        shared_terms_cancel_in_the_fit,
        padding_is_inert_in_the_fit,
        longer_series_are_stopped,
    )
}


def _case(seed: int) -> FitCase:
    random = np.random.default_rng(seed)
    classes, time = 4, (9, 6, 2)[seed % 3]
    scored, others = (_scored(random, 60, time, classes), _scored(random, 40, time + 2, classes))
    costs = (
        DecisionCost.average(0.8),
        DecisionCost(random.uniform(0.2, 1.0, (classes, classes)) * (1 - np.eye(classes)), 0.03),
        DecisionCost(1.0, np.linspace(0.0, 0.5, time)),
    )
    return FitCase(scored, others, costs[seed % 3], seed)


def _scored(random: np.random.Generator, series: int, time: int, classes: int) -> Scored:
    """Scores that grow surer of the truth, multiples of 1/1024, so that shifts by whole numbers are exact."""
    labels = random.integers(0, classes, series)
    steps = random.normal(size=(series, time, classes)) + 0.7 * np.eye(classes)[labels][:, None]
    scores = np.round(1024 * steps.cumsum(axis=1)) / 1024
    lengths = np.append(time, random.integers(1, time + 1, series - 1))
    scores[np.arange(time) >= lengths[:, None]] = 0.0
    return Scored(scores, lengths, labels)


def _decisions(rule: Rule, case: FitCase) -> Decisions:
    return rule.decide(case.others.scores, case.others.lengths)


def _difference(first: Decisions, second: Decisions, when: str) -> str | None:
    rows = np.flatnonzero((first.labels != second.labels) | (first.times != second.times))
    return f"decisions of series {rows.tolist()[:5]} differ {when}" if len(rows) else None
