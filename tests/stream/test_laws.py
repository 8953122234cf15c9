"""Live equals batch: for every model with every rule, whatever the order in which observations arrive."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sooner import checks
from sooner.errors import InvalidArgument
from sooner.models import Recurrent
from sooner.rules import (
    MSPRT,
    FixedTime,
    Halting,
    LogOdds,
    Patience,
    ProbabilityThreshold,
    Rule,
    ThresholdRule,
    leader,
)
from sooner.stream import Decision, Fleet, Stream
from sooner.types import Decisions

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(0)
    MODELS = [model.eval() for model in checks.models() if type(model).__module__.startswith("sooner.")]
    WANDERER = Recurrent((3,), 4, hidden=5, order=2).eval()
    SMALL = Recurrent((2,), 3, hidden=4, order=1).eval()
RULES = [rule for rule in checks.rules() if type(rule).__module__.startswith("sooner.")]
HALTS = next(model for model in MODELS if model.halts)
SERIES, TIME = 6, 7


def case(model, seed):
    random = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(SERIES, TIME, *model.features, generator=random)
    return x, torch.randint(1, TIME + 1, (SERIES,), generator=random), torch.randn(model.classes, generator=random)


def between(kind, scores, halting=None):
    """The rule of that kind whose threshold lies in the widest gap of the middle half, so that rounding decides nothing."""
    values = kind.statistic_with(scores, halting).flatten().double().unique()
    values = values[len(values) // 4 : max(3 * len(values) // 4, len(values) // 4 + 2)]
    widest = int(values.diff().argmax())
    return kind.at(float(values[widest : widest + 2].mean()))


def rules_for(model, scores, halting):
    examples = [
        rule for rule in RULES if not isinstance(rule, MSPRT) or np.ndim(rule.threshold) == 0 or model.classes == 4
    ]
    examples = [rule for rule in examples if model.halts or not isinstance(rule, Halting)]
    examples = [rule for rule in examples if getattr(rule, "classes", None) in (None, model.classes)]
    kinds = {type(rule) for rule in examples if isinstance(rule, ThresholdRule)} - {FixedTime}
    middle = [between(kind, scores, halting) for kind in sorted(kinds, key=lambda kind: kind.__name__)]
    return [*examples, *middle, *(Patience(2, rule) for rule in middle)]


def folded(fleet, x, lengths, seed):
    """The decisions of a fleet whose series arrive in random subsets and orders, each ending at its own length."""
    random = np.random.default_rng(seed)
    read, decided = dict.fromkeys(range(len(x)), 0), {}
    while len(decided) < len(x):
        chosen = [key for key in random.permutation(len(x)).tolist() if key not in decided and random.random() < 0.7]
        going = [key for key in chosen if read[key] < lengths[key]]
        decided |= fleet.update({key: x[key, read[key]] for key in going})
        read |= {key: read[key] + 1 for key in going}
        over = [key for key in chosen if key not in going]
        decided |= {key: fleet.finish(key) for key in over}
    return [decided[key] for key in range(len(x))]


def as_decisions(listed):
    labels = [-1 if decision.label is None else decision.label for decision in listed]
    return Decisions(np.array(labels), np.array([d.time for d in listed]), np.array([d.crossed for d in listed]))


@pytest.mark.parametrize(
    "place", range(len(MODELS)), ids=[f"{type(model).__name__}{i}" for i, model in enumerate(MODELS)]
)
def test_a_fleet_decides_what_the_batch_decides(place):
    model = MODELS[place]
    x, lengths, offset = case(model, place)
    with torch.no_grad():
        scores, halting = model.scores_and_halting(x, lengths)
    for seed, rule in enumerate(rules_for(model, scores, halting)):
        given_offset = offset if seed % 2 else None
        expected = rule.decide(scores if given_offset is None else scores + offset, lengths, halting=halting)
        live = folded(Fleet(model, rule, offset=given_offset), x, lengths, seed)
        assert as_decisions(live) == expected, rule


@pytest.mark.parametrize("rule", [Halting(0.5), Patience(2, Halting(0.5))], ids=str)
def test_a_model_without_a_halting_probability_cannot_be_stopped_by_it(rule):
    said = r"`halting` must be the model's own halting statistic, got None\. Only a model that says when to stop"
    with pytest.raises(InvalidArgument, match=said):
        Fleet(SMALL, rule)
    live = Stream(SMALL, MSPRT(2.0))
    with pytest.raises(InvalidArgument, match=said):
        live.rule = rule
    assert live.rule == MSPRT(2.0)


@dataclass(frozen=True)
class NotBefore(Rule):
    """A rule from outside, which knows of scores alone."""

    rule: Rule

    @classmethod
    def examples(cls):
        return iter(())

    def step(self, state, scores):
        return self.rule.step(state, scores)


def test_a_rule_that_was_written_for_scores_alone_still_works_on_every_model():
    model = HALTS
    x, lengths, _ = case(model, 6)
    with torch.no_grad():
        scores, halting = model.scores_and_halting(x, lengths)
    rule = NotBefore(between(MSPRT, scores))
    live = folded(Fleet(model, rule), x, lengths, 6)
    assert as_decisions(live) == rule.decide(scores, lengths, halting=halting) == rule.rule.decide(scores, lengths)
    with pytest.raises(InvalidArgument, match="`halting` must be the model's own halting statistic"):
        Fleet(model, NotBefore(Halting(0.5)))


@pytest.mark.parametrize("rule", [MSPRT, LogOdds, FixedTime(4), Patience(2)], ids=str)
@pytest.mark.parametrize("deadline", [1, 3, 99])
def test_a_deadline_is_an_end_that_comes_sooner(rule, deadline):
    model = MODELS[3]
    x, lengths, _ = case(model, 1)
    with torch.no_grad():
        scores = model.scores(x, lengths)
    rule = between(rule, scores) if isinstance(rule, type) else rule
    live = folded(Fleet(model, rule, deadline=deadline), x, lengths, deadline)
    assert as_decisions(live) == rule.decide(scores, lengths.clamp(max=deadline))


@pytest.mark.parametrize("deadline", [None, 3])
def test_who_abstains_names_a_class_only_where_the_rule_fired(deadline):
    model = next(each for each in MODELS if isinstance(each, Recurrent))
    x, lengths, _ = case(model, 2)
    with torch.no_grad():
        scores = model.scores(x, lengths)
    ends = lengths.clamp(max=deadline or TIME)
    highest = sorted(float(MSPRT.statistic(row[None, :end]).max()) for row, end in zip(scores, ends, strict=True))
    rule = MSPRT(sum(highest[SERIES // 2 - 1 : SERIES // 2 + 1]) / 2)  # half of them reach it
    live = folded(Fleet(model, rule, deadline=deadline, at_end="abstain"), x, lengths, 0)
    batch = rule.decide(scores, ends)
    assert [d.label for d in live] == [
        int(k) if crossed else None for k, crossed in zip(batch.labels, batch.crossed, strict=True)
    ]
    assert [d.time for d in live] == batch.times.tolist()
    assert {d.crossed for d in live} == {True, False}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (MSPRT(9.0), MSPRT(0.3)),
        (MSPRT(9.0), ProbabilityThreshold(0.4)),
        (FixedTime(7), FixedTime(5)),
        (FixedTime(7), MSPRT(0.3)),
        (Patience(9), Patience(3)),
    ],
    ids=str,
)
def test_another_rule_counts_from_the_next_observation_on(first, then):
    model = next(each for each in MODELS if isinstance(each, Recurrent))
    x = case(model, 3)[0]
    fleet, decided = Fleet(model, first), {}
    state, old, new = model.init(SERIES), first.init(SERIES), then.init(SERIES)
    expected = {}
    with torch.no_grad():
        for t in range(TIME):
            if t == 3:
                fleet.rule = then
            decided |= fleet.update({key: x[key, t] for key in range(SERIES) if key not in decided})
            state, scores, _ = model.step(state, x[:, t])
            old, fired_old, named_old = first.step(old, scores)
            new, fired_new, named_new = then.step(new, scores)
            fired, named = (fired_new, named_new) if t >= 3 else (fired_old, named_old)
            for key in fired.nonzero()[:, 0].tolist():
                expected.setdefault(key, Decision(int(named[key]), t + 1, True))
    assert decided == expected
    assert expected


class OneByOne:
    """What a fleet should do, series by series, with nothing shared."""

    def __init__(self, model, rule):
        self.model, self.rule = model, rule
        self.open, self.closed = {}, {}

    def update(self, keys, x):
        decisions = {}
        for key in keys:
            state, memory, time, _ = self.open.pop(key, (self.model.init(1), self.rule.init(1), 0, None))
            with torch.no_grad():
                state, scores, _ = self.model.step(state, x[key, time % TIME][None])
            memory, fired, named = self.rule.step(memory, scores)
            self.open[key] = state, memory, time + 1, scores
            if bool(fired):
                decisions[key] = self.close(key, int(named), crossed=True)
        return decisions

    def close(self, key, label, *, crossed):
        self.closed[key] = Decision(label, self.open.pop(key)[2], crossed)
        return self.closed[key]

    def finish(self, key):
        return (
            self.closed[key] if key in self.closed else self.close(key, int(leader(self.open[key][3])), crossed=False)
        )

    def forget(self, key):
        self.open.pop(key, None)
        self.closed.pop(key, None)


KEYS = st.integers(0, SERIES - 1)
DOINGS = st.one_of(
    st.tuples(st.just("update"), st.lists(KEYS, unique=True)),
    st.tuples(st.just("update"), st.permutations(range(SERIES))),
    st.tuples(st.sampled_from(["finish", "forget"]), KEYS),
    st.tuples(st.just("restore"), st.none()),
)
WANDERED = case(WANDERER, 4)[0]


@pytest.mark.parametrize(
    "rule", [between(MSPRT, WANDERER.scores(WANDERED).detach()), Patience(2, FixedTime(4))], ids=str
)
@given(doings=st.lists(DOINGS, max_size=14))
def test_whatever_is_done_series_are_independent_of_each_other(rule, doings):
    fleet, plain = Fleet(WANDERER, rule), OneByOne(WANDERER, rule)
    for verb, what in doings:
        if verb == "restore":
            saved, fleet = fleet.snapshot(), Fleet(WANDERER, rule)
            fleet.restore(saved)
        elif verb == "update" and plain.closed.keys() & set(what):
            with pytest.raises(InvalidArgument, match="still open"):
                fleet.update({key: WANDERED[key, 0] for key in what})
        elif verb == "update":
            times = {key: plain.open[key][2] if key in plain.open else 0 for key in what}
            live = fleet.update({key: WANDERED[key, times[key] % TIME] for key in what})
            assert live == plain.update(what, WANDERED)
        elif what not in plain.open and what not in plain.closed:
            with pytest.raises(InvalidArgument, match="`key` must be that of a series"):
                getattr(fleet, verb)(what)
        else:
            assert getattr(fleet, verb)(what) == getattr(plain, verb)(what)
        assert set(fleet.keys()) == set(plain.open)
        assert fleet.decided == plain.closed
        for key, (_, _, _, scores) in plain.open.items():
            np.testing.assert_allclose(fleet.scores(key), scores[0], rtol=1e-5, atol=1e-5)
    assert fleet.finish_all() == {key: plain.finish(key) for key in list(plain.open)}


@pytest.mark.parametrize("model", [MODELS[2], MODELS[9], MODELS[-1], HALTS], ids=lambda model: type(model).__name__)
def test_a_stream_decides_what_the_batch_decides(model):
    x, lengths, _ = case(model, 5)
    with torch.no_grad():
        scores, halting = model.scores_and_halting(x, lengths)
    own = [between(Halting, scores, halting)] if model.halts else []
    for rule in (between(MSPRT, scores), Patience(3), FixedTime(4), *own):
        live = []
        for series, length in zip(x, lengths.tolist(), strict=True):
            stream = Stream(model, rule)
            early = [decision for now in series[:length] if not stream.decision and (decision := stream.update(now))]
            live.append(early[0] if early else stream.finish())
            assert live[-1] == stream.decision == stream.finish()
        assert as_decisions(live) == rule.decide(scores, lengths, halting=halting)


def test_ten_thousand_series_are_decided_as_one_batch_of_them():
    model, count = SMALL, 10_000
    x = 3 * torch.randn(count, 5, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = model.scores(x)
    rule = between(MSPRT, scores)
    fleet, decided = Fleet(model, rule), {}
    for t in range(5):
        now = x[:, t].numpy()
        decided |= fleet.update({f"sensor-{i}": now[i] for i in range(count) if f"sensor-{i}" not in decided})
        assert len(fleet) == count - len(decided)
    assert 1000 < len(decided) < 9000
    decided |= fleet.finish_all()
    assert len(fleet) == 0
    assert as_decisions([decided[f"sensor-{i}"] for i in range(count)]) == rule.decide(scores)
