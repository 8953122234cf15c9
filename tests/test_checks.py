"""The laws hold for every rule there is, and each law is broken by some wrong rule."""

from dataclasses import dataclass

import pytest
import torch

import sooner
from sooner import checks
from sooner.errors import LawBroken
from sooner.rules import MSPRT, FixedTime, Rule, Step, ThresholdRule, leader
from sooner.scores import margin

FITTERS = [fitter for fitter in checks.fitters() if type(fitter).__module__.startswith("sooner.")]
RULES = [rule for rule in checks.rules() if type(rule).__module__.startswith("sooner.")]


@pytest.mark.parametrize("law", checks.RULE_LAWS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_obeys(rule, law):
    checks.check_rule_law(rule, law)


def test_discovery_finds_every_rule_of_the_package():
    assert {type(rule) for rule in RULES} == {*sooner.rules.RULES.values(), *sooner.rules.FITTED_RULES}


@pytest.mark.parametrize("law", checks.FITTER_LAWS)
@pytest.mark.parametrize("fitter", FITTERS, ids=lambda fitter: type(fitter).__name__)
def test_every_fitter_obeys(fitter, law):
    checks.check_fitter_law(fitter, law)


def test_discovery_finds_every_fitter_of_the_package():
    assert {type(fitter) for fitter in FITTERS} == {type(fitter) for fitter in sooner.rules.FITTERS.values()}


def test_discovery_finds_every_model_of_the_package():
    from sooner.models import Earliest, FrameClassifier, Pooling, PrefixScorer, Recurrent, Rocket

    found = {type(model) for model in checks.models() if type(model).__module__.startswith("sooner.")}
    assert found == {Earliest, FrameClassifier, Pooling, PrefixScorer, Recurrent, Rocket}


@dataclass(frozen=True)
class ThirdParty(Rule):
    """A rule from outside: stop when the leader's score alone, not its margin, is large."""

    height: float = 1.0

    @classmethod
    def examples(cls):
        yield cls()

    def step(self, state, scores):
        return Step(state, scores.amax(dim=1) >= self.height, leader(scores))


class ForgetsLengths(ThirdParty):
    def decide(self, scores, lengths=None):
        del lengths
        return MSPRT(5.0).decide(torch.nan_to_num(torch.as_tensor(scores)))


class LooksAhead(ThirdParty):
    def decide(self, scores, lengths=None):
        return MSPRT(float(margin(torch.as_tensor(scores)[:, -1].nan_to_num()).median())).decide(scores, lengths)


class Mixes(ThirdParty):
    def step(self, state, scores):
        return Step(state, (margin(scores) >= margin(scores).mean()), leader(scores))


class PrefersTheFirst(ThirdParty):
    def step(self, state, scores):
        return Step(state, margin(scores) >= 1.0 + leader(scores), leader(scores))


class NamesAnyone(ThirdParty):
    def decide(self, scores, lengths=None):
        decisions = MSPRT(3.0).decide(scores, lengths)
        return type(decisions)(0 * decisions.labels, decisions.times, decisions.crossed)


@dataclass(frozen=True)
class Backwards(ThresholdRule):
    threshold: float

    @staticmethod
    def statistic(scores):
        return margin(scores)

    @classmethod
    def at(cls, threshold):
        return cls(threshold)

    @classmethod
    def examples(cls):
        yield cls(1.0)

    def step(self, state, scores):
        return Step(state, margin(scores) <= self.threshold, leader(scores))


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        (ForgetsLengths(), "padding is inert"),
        (ForgetsLengths(), "decisions are well formed"),
        (NamesAnyone(), "decisions are well formed"),
        (LooksAhead(), "no peeking"),
        (LooksAhead(), "stream equals batch"),
        (Mixes(), "series are independent of each other"),
        (PrefersTheFirst(), "relabelling permutes"),
        (ThirdParty(), "shared terms cancel"),
        (Backwards(1.0), "higher thresholds never stop earlier"),
    ],
)
def test_each_law_catches_a_rule_that_breaks_it(rule, law):
    with pytest.raises(LawBroken, match=law):
        checks.check_rule_law(rule, law)


def test_a_rule_from_outside_is_discovered_and_judged_as_a_whole():
    assert any(isinstance(rule, ThirdParty) for rule in checks.rules())
    with pytest.raises(LawBroken, match=r"ThirdParty.*shared terms cancel.*case of seed"):
        checks.check_rule(ThirdParty())
    checks.check_rule(FixedTime(3))
