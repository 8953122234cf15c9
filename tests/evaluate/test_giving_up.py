"""Giving up with a promise about the answered series: the walk is a slow loop, and its promise is kept."""

import numpy as np
import pytest
from scipy import stats

from sooner.data import Gaussian
from sooner.errors import InvalidArgument, NotCertified
from sooner.evaluate import certified_giving_up, certify_giving_up
from sooner.evaluate.giving_up import _Half, planned
from sooner.evaluate.promise import Promise
from sooner.evaluate.pvalues import binomial_p
from sooner.evaluate.risk_bounds import halves
from sooner.rules import MSPRT, FixedTime, GiveUp, Patience, SingleLabel
from sooner.rules.base import NO_CLASS
from sooner.scores import Scored

HORIZON, INNER = 12, MSPRT(3.0)


@pytest.fixture(scope="module")
def whole():
    """Scores of a process, from which calibration series are drawn with replacement: its errors are the true ones."""
    observations, labels = Gaussian.equidistant(classes=3, distance=1.0).sample(1500, HORIZON, seed=0)
    lengths = np.random.default_rng(0).integers(HORIZON // 2, HORIZON + 1, 1500)
    return Scored.of(Gaussian.equidistant(classes=3, distance=1.0).scores(observations), labels, lengths=lengths)


def drawn(whole, series, seed):
    return whole.take(np.random.default_rng(seed).integers(len(whole), size=series))


def outcome(rule, scored):
    """The share of answered series, and the error among them."""
    labels = rule.decide(*scored).labels
    answered = labels != NO_CLASS
    return answered.mean(), (labels != scored.truths)[answered].mean() if answered.any() else 0.0


@pytest.mark.parametrize("inner", [INNER, Patience(3, MSPRT(1.0)), SingleLabel(1.0, 3)], ids=str)
@pytest.mark.parametrize("level", [0.08, 0.12, 0.3])
def test_the_walk_is_a_slow_loop_over_the_decisions_of_each_rule(whole, inner, level):
    scored, delta = drawn(whole, 240, 1), 0.1
    first, second = (scored.take(rows) for rows in halves(scored))
    # The first half chooses the time with most answered series among what passes safely, and begins at the least p-value.
    times = inner.decide(*first).times
    spans = [int(times.min() + share * (times.max() - times.min())) for share in (0.25, 0.5, 0.75)]
    best = None
    for at in sorted(set(spans)):
        belows, passing, tails = _Half.of(inner, first).candidates(at), [], []
        for below in belows:
            labels = GiveUp(inner, at, below).decide(*first).labels
            count, bad = (labels != NO_CLASS).sum(), ((labels != NO_CLASS) & (labels != first.truths)).sum()
            tails.append(binomial_p(bad, count, level))
            passing += [count] if count and tails[-1] <= delta / 10 else []
        merit = (1, max(passing)) if passing else (0, -min(tails))
        if best is None or merit > best[0]:
            best = merit, at, belows[int(np.argmin(tails)) :]
    _, at, belows = best
    last = None
    for below in belows:
        labels = GiveUp(inner, at, below).decide(*second).labels
        answered = labels != NO_CLASS
        if binomial_p((labels != second.truths)[answered].sum(), answered.sum(), level) > delta:
            break
        last = GiveUp(inner, at, float(below)), answered.mean()
    if last is None:
        with pytest.raises(NotCertified):
            certified_giving_up(inner, scored, level, 1 - delta)
    else:
        promise = certified_giving_up(inner, scored, level, 1 - delta)
        assert (promise.rule, promise.answered, promise.series) == (*last, 120)


ROUNDS, DELTA, LEVEL = 150, 0.1, 0.12


def test_a_promise_is_broken_as_rarely_as_it_says_and_more_is_answered_than_by_abstaining(whole):
    made, broken, shares = 0, 0, []
    for seed in range(ROUNDS):
        try:
            promise = certified_giving_up(INNER, drawn(whole, 800, seed), LEVEL, 1 - DELTA)
        except NotCertified:
            continue
        answered, error = outcome(promise.rule, whole)
        made, broken, shares = made + 1, broken + (error > LEVEL), [*shares, answered]
    assert made > 0.5 * ROUNDS
    assert broken / ROUNDS <= DELTA + 2 * np.sqrt(DELTA * (1 - DELTA) / ROUNDS)
    plain = INNER.decide(*whole)
    assert (plain.labels != whole.truths).mean() > LEVEL  # so that something must be given up
    # Abstaining: every series that the rule has not decided gets no label at its end.
    assert np.mean(shares) > plain.crossed.mean()


def test_a_promise_by_groups_is_kept_where_groups_are_alike_within(whole):
    made, broken, rounds = 0, 0, 60
    for seed in range(rounds):
        some = drawn(whole, 300, seed)
        copies = some.take(np.repeat(np.arange(300), 4))
        grouped = Scored(copies.scores, copies.lengths, copies.truths, np.repeat(np.arange(300), 4))
        try:
            promise = certified_giving_up(INNER, grouped, LEVEL, 1 - DELTA)
        except NotCertified:
            continue
        assert (promise.series, promise.groups) == (150, 300)
        made, broken = made + 1, broken + (outcome(promise.rule, whole)[1] > LEVEL)
    assert made > 0.2 * rounds
    assert broken <= stats.binom.ppf(1 - 1e-4, rounds, DELTA)


def test_the_choice_of_the_first_half_does_not_see_the_second(whole):
    scored = drawn(whole, 300, 3)
    first, second = halves(scored)
    other = Scored(scored.scores.copy(), scored.lengths, scored.truths.copy())
    other.scores[second] = other.scores[second][::-1]
    plans = [planned(_Half.of(INNER, record.take(first)), LEVEL, DELTA) for record in (scored, other)]
    assert plans[0].at == plans[1].at
    np.testing.assert_array_equal(plans[0].belows, plans[1].belows)
    assert (np.diff(plans[0].belows) < 0).all()


def test_where_no_answer_is_wrong_nothing_is_given_up():
    right = Scored.of(np.tile([[[0.0, 1.0], [0.0, 1.5], [0.0, 5.0]]], (118, 1, 1)), [1] * 118)
    promise = certified_giving_up(MSPRT(4.0), right, 0.05, 0.95, date="2026-11-18")
    assert promise.rule.below == 0.0
    assert promise.answered == 1.0
    assert str(promise) == (
        "promised: error among the answered series at most 5% with 95% confidence; 100% of the calibration series were "
        "answered, certified on 59 series, 2026-11-18"
    )
    assert Promise.from_dict(promise.to_dict()) == promise
    with pytest.raises(NotCertified, match="about 118 such series are needed") as caught:
        certified_giving_up(MSPRT(4.0), right.take(np.arange(116)), 0.05, 0.95)
    assert caught.value.needed == 118


def test_a_level_that_is_named_in_a_refusal_can_be_had(whole):
    scored = drawn(whole, 200, 5)
    with pytest.raises(
        NotCertified, match='No way of giving up can be certified for "error among the answered'
    ) as caught:
        certified_giving_up(INNER, scored, 0.005, 0.95)
    least = caught.value.least_level
    assert least > 0.005
    assert certified_giving_up(INNER, scored, least, 0.95).level == least


def test_where_early_decisions_are_wrong_more_series_are_not_recommended(whole):
    with pytest.raises(
        NotCertified, match="more series will not help, as among the series answered by the most"
    ) as caught:
        certified_giving_up(MSPRT(0.0), whole, 0.02, 0.9)
    assert caught.value.needed is None


def test_few_series_and_rules_that_wait_for_a_time_are_no_exception(whole):
    assert certified_giving_up(FixedTime(5), whole, 0.4, 0.9).answered == 1.0
    for count in (1, 2, 3):
        with pytest.raises(NotCertified, match=rf"these {count} series"):
            certified_giving_up(INNER, whole.take(np.arange(count)), 0.05, 0.95)
    nothing = SingleLabel(-np.inf, 3)
    with pytest.raises(
        NotCertified, match=r"as with no label counted as an error the share of errors is 100\.00% already"
    ):
        certified_giving_up(nothing, whole, 0.05, 0.95)


def test_what_cannot_be_promised_is_refused(whole):
    with pytest.raises(InvalidArgument, match=r"`rule` must be a rule, for example MSPRT\(2.0\), got 2.0"):
        certify_giving_up(2.0, whole.scores, whole.truths)
    for name in ("level", "confidence"):
        for value in (0.0, 1.0, 95):
            with pytest.raises(InvalidArgument, match=f"`{name}` must be between 0 and 1, ends left out"):
                certify_giving_up(INNER, whole.scores, whole.truths, **{name: value})
