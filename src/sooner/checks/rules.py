"""The laws of rules."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from sooner.checks.discovery import examples_of
from sooner.errors import LawBroken
from sooner.inputs import as_whole
from sooner.rules import Rule, ThresholdRule, leader
from sooner.rules.base import NO_CLASS
from sooner.types import Decisions, Lengths, Scores, Statistic


class Case(NamedTuple):
    """Scores and halting probabilities on which a law is tried, multiples of 1/8: shifts by whole numbers are exact."""

    scores: Scores
    lengths: Lengths
    seed: int
    halting: Statistic

    def decide(self, rule: Rule) -> Decisions:
        """The decisions of a rule in batch; only rules that read the halting probability get it."""
        if type(rule).step_with is Rule.step_with:
            return rule.decide(self.scores, self.lengths)
        return rule.decide(self.scores, self.lengths, halting=self.halting)


RuleLaw = Callable[[Rule, Case], str | None]
"""A law returns the evidence if a rule breaks it on a case."""


def check_rule(rule: Rule, *, classes: int = 4, trials: int = 20) -> None:
    """Try every law of `RULE_LAWS` on random cases; the first one that is broken is raised as `LawBroken`.

    Args:
        rule: an instance of a subclass of `Rule`.
        classes: number of classes of the cases, for rules that need a certain one.
        trials: number of cases, with ties and unequal lengths among them.
    """
    for name in RULE_LAWS:
        check_rule_law(rule, name, classes=classes, trials=trials)


def check_rule_law(rule: Rule, law: str, *, classes: int = 4, trials: int = 20) -> None:
    """Try one law of `RULE_LAWS`."""
    for seed in range(as_whole(trials, name="trials", low=1, remedy="A law that is never tried shows nothing.")):
        evidence = RULE_LAWS[law](rule, _case(classes, seed))
        if evidence is not None:
            raise LawBroken(rule, law, f"{evidence} (case of seed {seed})")


def rules() -> Iterator[Rule]:
    """Examples of every concrete subclass of `Rule` in the program, sooner's own first."""
    return examples_of(Rule)


def decisions_are_well_formed(rule: Rule, case: Case) -> str | None:
    """Times lie in 1..length, and a decision that was not crossed is the leader at the end."""
    decisions = case.decide(rule)
    lengths = case.lengths.numpy()
    if not ((decisions.times >= 1) & (decisions.times <= lengths)).all():
        return f"times {decisions.times.tolist()} outside of 1..{lengths.tolist()}"
    last = leader(case.scores[torch.arange(len(lengths)), case.lengths - 1]).numpy()
    wrong = np.flatnonzero(~decisions.crossed & ((decisions.times != lengths) | (decisions.labels != last)))
    return f"series {wrong.tolist()} were forced before the end or against the leader" if len(wrong) else None


def stream_equals_batch(rule: Rule, case: Case) -> str | None:
    """Folding `init` and `step` over one live series at a time gives what `decide` gives for the batch."""
    rows = zip(case.scores, case.halting, case.lengths, strict=True)
    live = [_decide_live(rule, scores[:length], halting[:length]) for scores, halting, length in rows]
    return _difference("live", Decisions(*map(np.array, zip(*live, strict=True))), "in batch", case.decide(rule))


def series_are_independent_of_each_other(rule: Rule, case: Case) -> str | None:
    """Reordering the series of a batch, or leaving half of them out, changes nothing for the others."""
    half = torch.randperm(len(case.scores), generator=torch.Generator().manual_seed(case.seed))[::2]
    alone = Case(case.scores[half], case.lengths[half], case.seed, case.halting[half]).decide(rule)
    return _difference("in half the batch", alone, "in the whole", _rows(case.decide(rule), half.numpy()))


def no_peeking(rule: Rule, case: Case) -> str | None:
    """Scores after a crossed decision do not change it."""
    before = case.decide(rule)
    future = torch.arange(case.scores.shape[1]) >= torch.as_tensor(before.times)[:, None]
    generator = torch.Generator().manual_seed(case.seed)
    scores = 3 * torch.randn(case.scores.shape, generator=generator, dtype=case.scores.dtype)
    halting = torch.rand(case.halting.shape, generator=generator, dtype=case.halting.dtype)
    scores = torch.where(future[..., None], scores, case.scores)
    after = case._replace(scores=scores, halting=torch.where(future, halting, case.halting)).decide(rule)
    crossed = np.flatnonzero(before.crossed)
    return _difference("with another future", _rows(after, crossed), "before", _rows(before, crossed))


def padding_is_inert(rule: Rule, case: Case) -> str | None:
    """Padding, even NaN, does not change the decision of a series."""
    padding = torch.arange(case.scores.shape[1]) >= case.lengths[:, None]
    scores = torch.where(padding[..., None], torch.nan, case.scores)
    padded = case._replace(scores=scores, halting=torch.where(padding, torch.nan, case.halting)).decide(rule)
    return _difference("with NaN as padding", padded, "without", case.decide(rule))


def relabelling_permutes(rule: Rule, case: Case) -> str | None:
    """Reordering the classes reorders the decided labels and nothing else (but for ties)."""
    noise = torch.rand(case.scores.shape, generator=torch.Generator().manual_seed(case.seed))
    scores = case.scores + noise.to(case.scores)
    order = torch.randperm(scores.shape[2], generator=torch.Generator().manual_seed(case.seed))
    permuted = case._replace(scores=scores[..., order]).decide(rule.relabel(order.tolist()))
    labels = np.where(permuted.labels == NO_CLASS, NO_CLASS, order.numpy()[permuted.labels])
    renamed = Decisions(labels, permuted.times, permuted.crossed)
    return _difference("after relabelling", renamed, "before", case._replace(scores=scores).decide(rule))


def shared_terms_cancel(rule: Rule, case: Case) -> str | None:
    """A term that is added to all classes of a series at a time changes nothing."""
    shift = torch.randint(-8, 9, case.scores.shape[:2], generator=torch.Generator().manual_seed(case.seed))
    shifted = case._replace(scores=case.scores + shift[..., None]).decide(rule)
    return _difference("after the shift", shifted, "before", case.decide(rule))


def higher_thresholds_never_stop_earlier(rule: Rule, case: Case) -> str | None:
    """For a family of threshold rules: along its thresholds, stopping times never fall."""
    if not isinstance(rule, ThresholdRule):
        return None
    statistic = rule.statistic_with(case.scores, case.halting)
    values = torch.sort(statistic.flatten()).values[:: max(1, case.scores.shape[1] // 2)]
    family = [type(rule).at(float(value)) for value in values]
    times = np.stack([case.decide(member).times for member in family])
    return None if (np.diff(times, axis=0) >= 0).all() else f"times {times.tolist()} at thresholds {values.tolist()}"


RULE_LAWS: Mapping[str, RuleLaw] = {
    law.__name__.replace("_", " "): law
    for law in (
        decisions_are_well_formed,
        stream_equals_batch,
        series_are_independent_of_each_other,
        no_peeking,
        padding_is_inert,
        relabelling_permutes,
        shared_terms_cancel,
        higher_thresholds_never_stop_earlier,
    )
}


def _case(classes: int, seed: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    batch, time = 12, 1 + seed % 9
    steps = torch.randint(-8, 9, (batch, time, classes), generator=generator, dtype=torch.int64) / 8.0
    # Every third case is coarse, so that scores tie.
    scores = steps.double().cumsum(dim=1).round(decimals=0 if seed % 3 == 0 else 3)
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    halting = torch.randint(0, 9, (batch, time), generator=generator, dtype=torch.int64) / 8.0
    return Case(scores, lengths, seed, halting.double())


def _decide_live(rule: Rule, scores: torch.Tensor, halting: torch.Tensor) -> tuple[int, int, bool]:
    """Label, time, and whether the rule fired."""
    state = rule.init(1)
    for t in range(len(scores)):
        state, fired, labels = rule.step_with(state, scores[t : t + 1], halting[t : t + 1])
        if bool(fired[0]):
            return int(labels[0]), t + 1, True
    return int(leader(scores[-1])), len(scores), False


def _rows(decisions: Decisions, rows: np.ndarray) -> Decisions:
    return Decisions(decisions.labels[rows], decisions.times[rows], decisions.crossed[rows])


def _difference(one: str, first: Decisions, other: str, second: Decisions) -> str | None:
    for name in ("labels", "times", "crossed"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if not np.array_equal(ours, theirs):
            row = int(np.flatnonzero(ours != theirs)[0])
            return f"{name} of series {row} is {ours[row]} {one}, {theirs[row]} {other}"
    return None
