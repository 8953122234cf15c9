"""A certified threshold is the end of the walk, and its promise is broken as rarely as it says."""

import numpy as np
import pytest
import torch
from scipy import stats

from sooner.data import Gaussian
from sooner.errors import InvalidArgument, NotCertified, UnknownName
from sooner.evaluate import certified_threshold, certify, least_threshold_for_error
from sooner.evaluate.curve import curve_of
from sooner.evaluate.promise import Promise
from sooner.evaluate.pvalues import binomial_p
from sooner.evaluate.risk_bounds import bound_for
from sooner.rules import MSPRT, FixedTime, Halting, LogOdds, NotBefore, ProbabilityThreshold
from sooner.scores import Scored

FAMILIES = [MSPRT, LogOdds, ProbabilityThreshold, FixedTime]
CLASSES, HORIZON = 3, 12


def population(count, seed=0):
    """Scores of a process, from which calibration series are drawn with replacement: its errors are the true ones."""
    process = Gaussian.equidistant(classes=CLASSES, distance=1.6)
    observations, labels = process.sample(count, HORIZON, seed=seed)
    lengths = np.random.default_rng(seed).integers(HORIZON // 2, HORIZON + 1, count)
    return Scored.of(process.scores(observations), labels, lengths=lengths)


@pytest.fixture(scope="module")
def whole():
    return population(1500)


def losses_at(rule, scored):
    decisions = rule.decide(*scored, halting=scored.halting)
    return decisions.labels != scored.truths, decisions.times


def test_the_least_series_without_an_error_certify_and_one_less_does_not():
    right = Scored.of(np.tile([[[5.0, 0.0]]], (59, 3, 1)), [0] * 59)
    assert certified_threshold(MSPRT, right, "error", 0.05, 0.95).rule == MSPRT(5.0)
    with pytest.raises(NotCertified, match="about 59 such series are needed") as caught:
        certified_threshold(MSPRT, right.take(np.arange(58)), "error", 0.05, 0.95)
    assert caught.value.needed == 59
    assert caught.value.least_level == pytest.approx(1 - 0.05 ** (1 / 58), abs=2e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("risk", ["error", "balanced_error", "class_error", "gap"])
def test_the_walk_is_a_slow_loop_over_every_threshold(whole, family, risk):
    scored = whole.take(np.random.default_rng(5).permutation(len(whole))[:90])
    counts = np.bincount(scored.truths)
    level, delta = 0.3, 0.1
    thresholds = curve_of(scored, family).thresholds
    ends = losses_at(family.at(np.inf), scored)[0]
    bound = bound_for(risk, scored, level, delta)
    last = None
    for threshold in thresholds[::-1]:
        wrong, _ = losses_at(family.at(threshold), scored)
        if risk == "class_error":
            p = max(binomial_p(wrong[scored.truths == k].sum(), n, level) for k, n in enumerate(counts))
        elif risk == "balanced_error":
            p = 0.0 if bound.shares(wrong)[0] <= bound.limits(1.0)[0] else 1.0
        else:
            p = binomial_p((wrong & ~ends).sum() if risk == "gap" else wrong.sum(), len(wrong), level)
        if p > delta:
            break
        last = threshold
    assert last is not None
    found = certified_threshold(family, scored, risk, level, 1 - delta).rule
    here = losses_at(found, scored)
    there = losses_at(family.at(last), scored)
    # An exponential may be rounded otherwise for one series at a time than for all.
    assert (here[1] != there[1]).sum() <= (family in (LogOdds, ProbabilityThreshold))


def draws(whole, risk, *, rounds, series, level, confidence, take=None):
    """Shares of promises, and of broken promises, over calibration sets from a population with known errors."""
    made = broken = 0
    for seed in range(rounds):
        random = np.random.default_rng(seed)
        rows = random.integers(len(whole), size=series) if take is None else take(random)
        try:
            rule = certified_threshold(MSPRT, whole.take(rows), risk, level, confidence).rule
        except NotCertified:
            continue
        made += 1
        broken += true_risk(risk, rule, whole) > level
    return made / rounds, broken / rounds


def true_risk(risk, rule, whole):
    wrong, times = losses_at(rule, whole)
    if risk == "error":
        return wrong.mean()
    if risk == "gap":
        return (wrong & ~losses_at(MSPRT(np.inf), whole)[0]).mean()
    if risk == "early_error":
        return max(wrong[times <= t].mean() for t in range(rule.start, HORIZON + 1))
    errors = [wrong[whole.truths == k].mean() for k in range(CLASSES)]
    return max(errors) if risk == "class_error" else np.mean(errors)


ROUNDS, DELTA = 200, 0.1
MOST = stats.binom.ppf(1 - 1e-4, ROUNDS, DELTA) / ROUNDS


@pytest.mark.parametrize(
    ("risk", "level", "series"),
    [("error", 0.1, 150), ("balanced_error", 0.1, 150), ("class_error", 0.15, 240), ("gap", 0.05, 150)],
)
def test_a_promise_is_broken_as_rarely_as_it_says(whole, risk, level, series):
    made, broken = draws(whole, risk, rounds=ROUNDS, series=series, level=level, confidence=1 - DELTA)
    assert made > 0.5
    assert broken <= MOST


def test_a_promise_about_all_times_is_broken_as_rarely_as_it_says(whole):
    made, broken = draws(whole, "early_error", rounds=ROUNDS // 2, series=400, level=0.15, confidence=1 - DELTA)
    assert made > 0.5
    assert broken <= stats.binom.ppf(1 - 1e-4, ROUNDS // 2, DELTA) / (ROUNDS // 2)


@pytest.mark.parametrize("counts", [(200, 40, 40), (90, 90, 25)])
def test_a_promise_about_the_balanced_error_holds_for_any_counts(whole, counts):
    members = [np.flatnonzero(whole.truths == k) for k in range(CLASSES)]

    def take(random):
        return np.concatenate([random.choice(rows, n) for rows, n in zip(members, counts, strict=True)])

    made, broken = draws(whole, "balanced_error", rounds=100, series=0, level=0.12, confidence=1 - DELTA, take=take)
    assert made > 0.5
    assert broken <= stats.binom.ppf(1 - 1e-4, 100, DELTA) / 100


def test_the_least_threshold_on_the_calibration_series_breaks_its_target(whole):
    broken = 0
    for seed in range(100):
        rows = np.random.default_rng(seed).integers(len(whole), size=150)
        threshold = least_threshold_for_error(curve_of(whole.take(rows), MSPRT), 0.1)
        broken += true_risk("balanced_error", MSPRT(threshold), whole) > 0.1
    assert broken > 25  # of 100, where a promise allows 10


@pytest.mark.parametrize("risk", ["error", "balanced_error", "class_error", "gap", "early_error"])
def test_a_promise_by_groups_is_kept_where_groups_are_alike_within(whole, risk):
    # Every group is five series of one class, four of which are copies of the first: as independent series they would
    # promise too much. A true risk over groups is that over their first series.
    made = broken = 0
    level = {"class_error": 0.15, "early_error": 0.15}.get(risk, 0.12)
    for seed in range(ROUNDS // 2):
        rows = np.random.default_rng(seed).integers(len(whole), size=360)
        groups = np.repeat(np.arange(len(rows)), 5)
        drawn = whole.take(np.repeat(rows, 5))
        drawn = Scored(drawn.scores, drawn.lengths, drawn.truths, groups)
        try:
            promise = certified_threshold(MSPRT, drawn, risk, level, 1 - DELTA)
        except NotCertified:
            continue
        assert promise.groups == len(rows)
        made += 1
        broken += true_risk(risk, promise.rule, whole) > level
    assert made > 0.3 * (ROUNDS // 2)
    assert broken <= stats.binom.ppf(1 - 1e-4, ROUNDS // 2, DELTA)


def test_groups_of_several_classes_promise_the_error_of_each_class(whole):
    drawn = whole.take(np.random.default_rng(0).permutation(len(whole))[:900])
    grouped = Scored(drawn.scores, drawn.lengths, drawn.truths, np.arange(900) // 3)
    promise = certified_threshold(MSPRT, grouped, "balanced_error", 0.15, 0.9)
    assert promise.bound == "Hoeffding-Bentkus bound of each class by group"
    assert promise.rule == certified_threshold(MSPRT, grouped, "class_error", 0.15, 0.9).rule
    assert promise.where == "900 series in 300 groups"


def test_groups_of_one_series_are_series(whole):
    drawn = whole.take(np.arange(0, len(whole), 5))
    alone = Scored(drawn.scores, drawn.lengths, drawn.truths, np.random.default_rng(0).permutation(len(drawn)))
    assert certified_threshold(MSPRT, alone, "error", 0.1).rule == certified_threshold(MSPRT, drawn, "error", 0.1).rule


def test_which_bound_is_taken_depends_on_counts_alone(whole):
    members = [np.flatnonzero(whole.truths == k) for k in range(CLASSES)]
    names = {}
    for counts in [(50, 50, 50), (60, 50, 50), (90, 90, 25)]:
        rows = np.concatenate([rows[:n] for rows, n in zip(members, counts, strict=True)])
        first = bound_for("balanced_error", whole.take(rows), 0.12, 0.1)
        shuffled = Scored(whole.scores[rows[::-1]], whole.lengths[rows], whole.truths[rows])
        assert bound_for("balanced_error", shuffled, 0.12, 0.1).name == first.name
        names[counts] = first.name, first.series
    exact = "exact binomial tail of the pooled count (Hoeffding 1956)"
    assert names[50, 50, 50] == (exact, 150)
    assert names[60, 50, 50] == (f"{exact}, as many series of each class as of the rarest", 150)
    assert names[90, 90, 25] == ("Chernoff bound for weights", 205)


def test_a_start_is_the_last_one_that_passes_for_all_later_times(whole):
    drawn = whole.take(np.random.default_rng(1).permutation(len(whole))[:600])
    promise = certified_threshold(MSPRT, drawn, "early_error", 0.12, 0.9)
    assert isinstance(promise.rule, NotBefore)
    assert isinstance(promise.rule.rule, MSPRT)
    assert promise.series == 300
    second = drawn.take(np.flatnonzero(bound_for("early_error", drawn, 0.12, 0.1).mass))
    for start in range(HORIZON, promise.rule.start - 2, -1):
        if start == 0:
            break
        wrong, times = losses_at(NotBefore(promise.rule.rule, start), second)
        tails = [binomial_p(wrong[times <= t].sum(), (times <= t).sum(), 0.12) for t in range(start, HORIZON + 1)]
        assert (max(tails) <= 0.1) == (start >= promise.rule.start)


def test_halting_probabilities_can_be_certified():
    random = np.random.default_rng(0)
    scores, halting = random.normal(size=(100, 4, 2)), np.sort(random.random((100, 4)), axis=1)
    scores[np.arange(100), :, 0] += 9
    promise = certify(Halting, scores, [0] * 100, risk="error", halting=halting)
    assert isinstance(promise.rule, Halting)
    assert promise.rule.threshold < 1


def test_a_promise_is_a_sentence_and_comes_back_from_json():
    right = Scored.of(np.tile([[[5.0, 0.0], [9.0, 0.0]]], (300, 1, 1)), [0] * 300)
    promise = certified_threshold(MSPRT, right, "error", 0.05, 0.95, date="2026-11-18")
    assert str(promise) == "promised: error at most 5% with 95% confidence, certified on 300 series, 2026-11-18"
    assert Promise.from_dict(promise.to_dict()) == promise
    other = Scored.of(right.scores + np.array([0.0, 1e-3]), [0] * 300)
    assert certified_threshold(MSPRT, other, "error", 0.05, 0.95).data != promise.data


def test_where_the_error_itself_is_above_the_level_more_series_are_not_recommended():
    scores = np.tile([[[5.0, 0.0]]], (200, 1, 1))
    with pytest.raises(
        NotCertified, match=r"with these 200 series the least level is 14.2%, and more series will not help"
    ) as caught:
        certify(MSPRT, scores, [1] * 20 + [0] * 180, risk="error")
    assert caught.value.needed is None
    assert certify(MSPRT, scores, [1] * 20 + [0] * 180, risk="error", level=0.142).rule == MSPRT(5.0)


def test_the_number_of_series_that_are_needed_is_enough(whole):
    drawn = whole.take(np.arange(0, 28))
    with pytest.raises(NotCertified) as caught:
        certified_threshold(MSPRT, drawn, "balanced_error", 0.1, 0.95)
    needed = caught.value.needed
    assert 28 < needed < 400
    more = whole.take(np.random.default_rng(0).permutation(len(whole))[: 3 * needed])
    assert certified_threshold(MSPRT, more, "balanced_error", 0.1, 0.95).level == 0.1


def test_what_cannot_be_promised_is_refused(whole):
    few = whole.take(np.flatnonzero(whole.truths < 2)[:90])
    with pytest.raises(InvalidArgument, match="`labels` must be of series of every class, got none of class 2"):
        certified_threshold(MSPRT, few)
    with pytest.raises(UnknownName, match="Did you mean 'class_error'"):
        certify(MSPRT, few.scores, few.truths, risk="classerror")
    for name in ("level", "confidence"):
        for value in (0.0, 1.0, 95):
            with pytest.raises(InvalidArgument, match=f"`{name}` must be between 0 and 1, ends left out"):
                certify(MSPRT, few.scores, few.truths, **{name: value})
    with pytest.raises(InvalidArgument, match="a class of threshold rules"):
        certify(MSPRT(1.0), torch.zeros(1, 1, 2), [0])
