"""Every fitted rule equals a slow plain transcription of its definition, on small data of unequal lengths and unequal costs."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear
from sklearn.svm import OneClassSVM

from sooner.data import Gaussian
from sooner.errors import InvalidArgument
from sooner.rules import (
    FITTERS,
    MSPRT,
    BackwardInduction,
    DecisionCost,
    EconomyGamma,
    MoriStoppingRule,
    Taper,
    TaperingThreshold,
    Teaser,
)
from sooner.rules.fitted import ContinuationRule, IntervalTable, LinearRule, SupportRule
from sooner.scores import Scored

SERIES, TIME, CLASSES = 40, 5, 3
MATRIX = np.array([[0.0, 1.0, 0.6], [0.8, 0.0, 1.0], [0.5, 0.9, 0.0]])
WAITS = [0.02, 0.05, 0.09, 0.2, 0.25]
COST = DecisionCost(MATRIX, np.array(WAITS))


def made_up(series=SERIES, time=TIME, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, series)
    scores = (random.normal(size=(series, time, CLASSES)) + 0.8 * np.eye(CLASSES)[labels][:, None]).cumsum(axis=1)
    lengths = np.append(time, random.integers(1, time + 1, series - 1))
    scores[np.arange(time) >= lengths[:, None]] = 0.0
    return Scored(scores, lengths, labels)


SCORED = made_up()


def posterior(i, t):
    """Of series i after t observations."""
    shares = [math.exp(s) for s in SCORED.scores[i, t - 1]]
    return [share / sum(shares) for share in shares]


def leader(i, t):
    return max(range(CLASSES), key=lambda k: SCORED.scores[i, t - 1, k])


def pays(i, t):
    """What series i pays when it is stopped after t observations, or at its end."""
    t = min(t, SCORED.lengths[i])
    return MATRIX[SCORED.labels[i], leader(i, t)] + WAITS[t - 1]


def paid_by(stops):
    """The mean cost of a rule that stops series i after t observations where stops(i, t) says so."""
    total = 0.0
    for i in range(SERIES):
        length = int(SCORED.lengths[i])
        total += pays(i, next((t for t in range(1, length) if stops(i, t)), length))
    return total / SERIES


def paid_under(rule):
    times = rule.decide(SCORED.scores, SCORED.lengths).times
    return sum(pays(i, t) for i, t in enumerate(times)) / SERIES


def terms(i, t):
    """1, h_k(r), h_k(e)."""
    p = sorted(posterior(i, t))
    risk = sum(share * MATRIX[k, leader(i, t)] for k, share in enumerate(posterior(i, t)))
    doubt = 1 - p[-1] + p[-2]
    return [1.0] + [min(x, 2.0**-k) * 2.0**k for x in (risk, doubt) for k in range(11)]


def risk_weights(rows, t, trust):
    """The weights of 1, h_k(r) in the corrected risk of the rows."""
    normal, side = trust * np.eye(12), np.zeros(12)
    for i in rows:
        end = min(t, SCORED.lengths[i])
        h = terms(i, end)[:12]
        realised = MATRIX[SCORED.labels[i], leader(i, end)]
        for a in range(12):
            side[a] += h[a] * (realised - h[1])
            for b in range(12):
                normal[a, b] += h[a] * h[b]
    return np.linalg.solve(normal, side) + np.eye(12)[1]


def risk(i, t, weights):
    return sum(w * h for w, h in zip(weights, terms(i, t)[:12], strict=True))


def regression(inputs, targets, target):
    """The prediction of ridge regression without a penalty on the constant, with slopes of at least 0 for "value"."""
    ridge = 1.0 if target == "path" else 1e-3
    penalty = np.hstack([np.zeros((22, 1)), math.sqrt(ridge) * np.eye(22)])
    low = np.full(23, -np.inf) if target == "path" else np.append(-np.inf, np.zeros(22))
    found = lsq_linear(np.vstack([inputs, penalty]), np.append(targets, np.zeros(22)), bounds=(low, np.inf), tol=1e-14)
    return lambda h: float(np.dot(found.x, h))


@pytest.mark.parametrize("target", ["path", "value"])
def test_backward_induction_is_its_definition(target):
    trust, everyone = 5.0, range(SERIES)
    at_end = risk_weights(everyone, TIME, trust)
    value = {i: risk(i, SCORED.lengths[i], at_end) + WAITS[SCORED.lengths[i] - 1] for i in everyone}
    gains = {}
    for t in reversed(range(1, TIME)):
        going = [i for i in everyone if SCORED.lengths[i] > t]
        weights = risk_weights(going, t, trust)
        inputs, targets = [terms(i, t) for i in going], [value[i] - WAITS[t - 1] for i in going]
        further = regression(inputs, targets, target)
        for i in going:
            stop, on = risk(i, t, weights), further(terms(i, t))
            gains[i, t] = on - stop
            if target == "value":
                value[i] = min(stop, on) + WAITS[t - 1]
            elif on >= stop:
                value[i] = stop + WAITS[t - 1]
    rule = BackwardInduction(target, trust).fit(SCORED, COST)
    for (i, t), gain in gains.items():
        assert np.dot(rule.weights[t - 1], terms(i, t)) == pytest.approx(gain, abs=1e-5)
    times = rule.decide(SCORED.scores, SCORED.lengths).times
    expected = [next((t for t in range(1, n) if gains[i, t] >= 0), n) for i, n in enumerate(SCORED.lengths)]
    assert times.tolist() == expected
    assert 1 < np.mean(times) < SCORED.lengths.mean()


def test_the_value_function_is_concave_in_the_posterior():
    rule = BackwardInduction("value", math.inf).fit(SCORED, DecisionCost(1.0, 0.05))
    further = rule.weights.copy()
    further[:, 1] += 1.0  # the cost of stopping, r
    assert (further[:, 1:] >= 0).all()
    assert further[:, 1:].any()


def test_the_taper_is_its_definition():
    trust, everyone = 5.0, range(SERIES)
    ranked = {(i, t): sorted(SCORED.scores[i, t - 1]) for i in everyone for t in range(1, SCORED.lengths[i] + 1)}
    margin = {key: scores[-1] - scores[-2] for key, scores in ranked.items()}
    at_end = risk_weights(everyone, TIME, trust)
    value = {i: risk(i, SCORED.lengths[i], at_end) + WAITS[SCORED.lengths[i] - 1] for i in everyone}
    raw, running = [], []
    for t in reversed(range(1, TIME)):
        going = [i for i in everyone if SCORED.lengths[i] > t]
        weights = risk_weights(going, t, trust)
        stop = {i: risk(i, t, weights) + WAITS[t - 1] for i in going}
        known = sorted(margin[i, t] for i in going)
        candidates = [(a + b) / 2 for a, b in zip([0.0, *known], [*known, known[-1] + 2], strict=True)]
        costs = [sum(stop[i] if margin[i, t] >= a else value[i] for i in going) for a in candidates]
        best = candidates[int(np.argmin(costs))]
        raw.insert(0, best)
        running.insert(0, len(going))
        value |= {i: stop[i] for i in going if margin[i, t] >= best}
    logs = [math.log1p(a) for a in raw]

    def mean(u, v):
        return sum(n * x for n, x in zip(running[u : v + 1], logs[u : v + 1], strict=True)) / sum(running[u : v + 1])

    last = TIME - 1
    falling = [min(max(mean(u, v) for v in range(j, last)) for u in range(j + 1)) for j in range(last)]
    rule = TaperingThreshold(trust).fit(SCORED, COST)
    assert rule.thresholds == pytest.approx(np.expm1(falling), rel=1e-9)
    assert (np.diff(rule.thresholds) <= 0).all()


def test_the_stopping_rule_of_mori_is_the_best_of_all_thresholds_in_all_directions():
    directions, best = 12, math.inf
    for d in range(directions):
        g1, g2 = math.cos(2 * math.pi * d / directions), math.sin(2 * math.pi * d / directions)

        def trust(i, t, g1=g1, g2=g2):
            p = sorted(posterior(i, t))
            return g1 * p[-1] + g2 * (p[-1] - p[-2])

        ratios = sorted(trust(i, t) * TIME / t for i in range(SERIES) for t in range(1, SCORED.lengths[i]))
        for g3 in [-(a + b) / 2 for a, b in zip([ratios[0] - 2, *ratios], [*ratios, ratios[-1] + 2], strict=True)]:
            best = min(best, paid_by(lambda i, t, g3=g3, trust=trust: trust(i, t) + g3 * t / TIME > 0))
    rule = MoriStoppingRule(directions).fit(SCORED, COST)
    assert paid_under(rule) == pytest.approx(best, abs=1e-9)

    def fires(i, t):
        p = sorted(posterior(i, t))
        return rule.weights @ [p[-1], p[-1] - p[-2], t / TIME] > 0

    assert paid_by(fires) == pytest.approx(best, abs=1e-9)


def table_of(count):
    """Edges and marks of ECONOMY-gamma with so many intervals, by loops; series that ended keep their last score."""

    def odds(i, t):
        p = max(posterior(i, min(t, SCORED.lengths[i])))
        return math.log(p / (1 - p))

    edges = {}
    for t in range(1, TIME + 1):
        ranks = sorted(odds(i, t) for i in range(SERIES))
        cuts = [int(SERIES * j / count) for j in range(1, count)]
        edges[t] = [(ranks[c - 1] + ranks[c]) / 2 for c in cuts]
    group = {(i, t): sum(odds(i, t) >= e for e in edges[t]) for i in range(SERIES) for t in range(1, TIME + 1)}
    cost = {
        (g, t): np.mean([pays(i, t) for i in range(SERIES) if group[i, t] == g])
        for g in range(count)
        for t in range(1, TIME + 1)
    }
    marks = {}
    for t in range(1, TIME):
        for g in range(count):
            share = {h: float(h == g) for h in range(count)}
            expected = []
            for later in range(t, TIME):
                after = dict.fromkeys(range(count), 0.0)
                for i in range(SERIES):
                    now = group[i, later]
                    size = sum(group[k, later] == now for k in range(SERIES))
                    after[group[i, later + 1]] += share[now] / size
                share = after
                expected.append(sum(share[h] * cost[h, later + 1] for h in range(count)))
            marks[g, t] = cost[g, t] <= min(expected) + 1e-12
    return group, marks


def test_economy_is_its_definition():
    fits = {}
    for count in range(1, 5):
        group, marks = table_of(count)
        fits[count] = paid_by(lambda i, t, group=group, marks=marks: marks[group[i, t], t])
    count = min(fits, key=lambda k: (round(fits[k], 12), k))
    rule = EconomyGamma(4).fit(SCORED, COST)
    group, marks = table_of(count)
    assert rule.stop.shape == (TIME - 1, count)
    assert {(g, t): bool(rule.stop[t - 1, g]) for g, t in marks} == marks
    assert paid_under(rule) == pytest.approx(fits[count])


def test_teaser_is_its_definition():
    def features(i, t):
        p = sorted(posterior(i, t))
        return [*posterior(i, t), p[-1] - p[-2]]

    accepted, best = {}, (math.inf, None)
    for width in (1.0, 10.0, 100.0):
        for t in range(1, TIME):
            right = [i for i in range(SERIES) if SCORED.lengths[i] > t and leader(i, t) == SCORED.labels[i]]
            machine = OneClassSVM(kernel="rbf", nu=0.05, gamma=width).fit([features(i, t) for i in right])
            for i in range(SERIES):
                if SCORED.lengths[i] > t:
                    accepted[i, t] = machine.decision_function([features(i, t)])[0] > 0
        for run in range(1, 6):

            def stops(i, t, run=run):
                past = range(t - run + 1, t + 1)
                return past[0] >= 1 and all(accepted[i, u] and leader(i, u) == leader(i, t) for u in past)

            mean = paid_by(stops)
            if mean < best[0] - 1e-12:
                best = mean, (width, run)
    rule = Teaser().fit(SCORED, COST)
    assert (rule.width, rule.run) == best[1]
    assert paid_under(rule) == pytest.approx(best[0])


def exact_scores(process, series, time, seed):
    x, labels = process.sample(series, time, seed=seed)
    return Scored.of(process.scores(x), labels)


def costs_of(rule, scored, cost):
    times = rule.decide(scored.scores, scored.lengths).times
    return cost.paid(scored)[np.arange(len(scored)), times - 1]


@pytest.mark.parametrize("name", ["calimera", "firmbound", "taper"])
def test_with_exact_scores_a_fitted_boundary_costs_no_more_than_the_best_single_threshold(name):
    process, cost = Gaussian.equidistant(2, 0.8), DecisionCost.average(0.95)
    training, fresh = (exact_scores(process, series, 20, seed) for series, seed in ((2000, 0), (8000, 77)))
    more = costs_of(FITTERS[name].fit(training, cost), fresh, cost) - costs_of(best_single(training, cost), fresh, cost)
    noise = more.std() / np.sqrt(len(more))
    assert more.mean() <= 2 * noise
    if (
        name == "firmbound"
    ):  # with exact posteriors the modelled value has the least noise, and a finite horizon is worth a taper
        assert more.mean() < 0


@pytest.mark.parametrize("name", ["calimera", "taper"])
def test_scores_that_are_calibrated_differently_over_time_are_repaired(name):
    cost, factors = DecisionCost.average(0.8), 3 / np.sqrt(np.arange(1.0, 21.0))[:, None]
    process = Gaussian.equidistant(2, 0.6)
    training, fresh = (exact_scores(process, 1000, 20, seed) for seed in (0, 1))
    training, fresh = (Scored(s.scores * factors, s.lengths, s.labels) for s in (training, fresh))
    rule = FITTERS[name].fit(training, cost)
    single = costs_of(best_single(training, cost), fresh, cost)
    assert costs_of(rule, fresh, cost).mean() < single.mean() - 0.01


def best_single(scored, cost):
    from sooner.evaluate.choose import cheapest_rule

    return cheapest_rule(MSPRT, scored, cost)


def test_rules_are_refused_by_their_fields():
    with pytest.raises(InvalidArgument) as refused:
        Taper([1, 2], [1.0, 2.0], 3)
    assert str(refused.value) == (
        "`thresholds` must be at least 0 and never rising, got [1.0, 2.0]. A margin is never negative, and a taper does not rise."
    )
    with pytest.raises(
        InvalidArgument, match=r"`times` must be one or more, ascending in 1..horizon, got \[2, 1\] and 3."
    ):
        Taper([2, 1], [2.0, 1.0], 3)
    with pytest.raises(InvalidArgument, match="`weights` must be three finite numbers"):
        LinearRule([1], [1.0, 2.0], 3)
    with pytest.raises(InvalidArgument, match=r"`edges` must be of shape \(1, 1\)"):
        IntervalTable([1], [[0.0, 1.0]], [[0.0, 1.0]], 3)
    with pytest.raises(InvalidArgument, match=r"`weights` must be of shape \(1, 2\)"):
        SupportRule([1], np.zeros((1, 2, 4)), [[1.0]], [0.0], 1.0, 1, 3)
    rule = ContinuationRule([1], np.zeros((1, 23)), np.ones((2, 2)), 3)
    with pytest.raises(InvalidArgument, match="`scores` must be of 2 classes, as the rule is, got 3 classes"):
        rule.decide(torch.zeros(1, 2, 3))
    with pytest.raises(InvalidArgument, match="`target` must be one of 'path', 'value', got 'way'"):
        BackwardInduction("way")


def test_series_of_one_observation_are_refused():
    with pytest.raises(InvalidArgument) as refused:
        TaperingThreshold().fit(made_up(time=1), DecisionCost(1.0, 0.1))
    assert str(refused.value) == (
        "`scored` must be of a series with at least 2 observations, got series of one. "
        "There is nothing to wait for: set clf.threshold = MSPRT(0.0)."
    )


def test_a_rule_prints_in_one_short_line():
    assert repr(Taper([1, 2], [2.0, 1.0], 3)) == "Taper(2 decision times, horizon=3)"


def test_a_rule_waits_where_scores_did_not_change():
    scores = np.repeat(made_up(time=3).scores, 2, axis=1)
    lengths, labels = 2 * SCORED.lengths.clip(max=3), made_up(time=3).labels
    scores[np.arange(6) >= lengths[:, None]] = 0.0
    rule = TaperingThreshold().fit(Scored(scores, lengths, labels), DecisionCost(1.0, 0.01))
    assert rule.times.tolist() == [1, 3, 5]


@pytest.mark.parametrize("rule", [*ContinuationRule.examples(), *SupportRule.examples()], ids=repr)
def test_a_rule_for_four_classes_refuses_scores_of_five(rule):
    with pytest.raises(InvalidArgument, match=r"^`scores` must be of 4 classes, as the rule is, got 5 classes\."):
        rule.decide(np.zeros((2, 3, 5)))
