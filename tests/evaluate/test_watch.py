"""The alarm: bets that are fair, few false alarms, early true ones, and a state that goes on elsewhere."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom, kstest

from sooner.errors import InvalidArgument
from sooner.evaluate import Alarm, Watch
from sooner.evaluate.wealth import Wealth, error_bets, error_factors, p_value_factors

LEVEL = 0.05
RARE = {"rare": 0.1, "common": 0.9}


def alarm_after(watch, wrong):
    """The number of labels until the alarm, or infinity."""
    for number, one in enumerate(wrong, start=1):
        if watch.label(0, int(one)):
            return number
    return math.inf


@pytest.mark.parametrize("level", [0.01, 0.05, 0.5, 0.95])
def test_the_mean_wealth_is_one_where_the_error_is_as_promised(level):
    bets, rounds, total = error_bets(level), 9, 0.0
    for wrong in itertools.product([0, 1], repeat=rounds):
        wealth = Wealth(len(bets))
        for loss in wrong:
            wealth.play(error_factors(bets, loss, level))
        total += math.exp(wealth.log) * level ** sum(wrong) * (1 - level) ** (rounds - sum(wrong))
    assert total == pytest.approx(1.0)


def test_bets_on_p_values_are_fair():
    p = (np.arange(2_000_000) + 0.5) / 2_000_000
    factors = np.exp(np.array([p_value_factors(one) for one in p[::2000]]))
    slopes = factors[:, 6:]
    np.testing.assert_allclose(slopes.mean(axis=0), 1.0, atol=1e-3)
    for power, low, high in zip((0.2, 0.5, 0.8), factors[:, [0, 2, 4]].T, factors[:, [1, 3, 5]].T, strict=True):
        np.testing.assert_allclose(low, power * p[::2000] ** (power - 1))  # its mean over 0..1 is 1
        np.testing.assert_allclose(high, power * (1 - p[::2000]) ** (power - 1))


def test_alarms_are_rarely_false_while_the_error_is_exactly_as_promised():
    random = np.random.default_rng(0)
    alarms = [alarm_after(Watch(LEVEL), random.random(500) < LEVEL) for _ in range(40)]
    assert np.isfinite(alarms).sum() <= binom.ppf(0.999, 40, 0.05)


def test_a_doubled_error_is_found_within_five_times_the_sample_of_a_binomial_test():
    random = np.random.default_rng(1)
    # 191 series are what the exact test of 5% against 10% at level 5% needs for power 0.8.
    assert binom.sf(binom.isf(0.05, 191, LEVEL), 191, 2 * LEVEL) == pytest.approx(0.8, abs=0.03)
    assert np.median([alarm_after(Watch(LEVEL), random.random(1500) < 2 * LEVEL) for _ in range(30)]) <= 5 * 191
    late = np.concatenate([random.random(3000) < LEVEL / 2, random.random(1500) < 3 * LEVEL])
    assert 3000 < alarm_after(Watch(LEVEL), late) < 3500


def test_the_error_and_the_statistics_share_delta():
    calibration = {"time": np.arange(40), "log_odds": np.arange(40)}
    assert Watch(LEVEL, delta=0.1).limit == pytest.approx(math.log(10))
    assert Watch(LEVEL, delta=0.1, calibration=calibration).limit == pytest.approx(math.log(30))
    assert Watch(None, delta=0.1, calibration=calibration).limit == pytest.approx(math.log(20))


def test_a_balanced_error_is_watched_with_the_shares_of_the_classes():
    random, watch = np.random.default_rng(2), Watch(LEVEL, class_shares=RARE)
    plain, alarms = Watch(LEVEL), []
    for number in range(3000):  # 41% of the rare class are wrong, and 1% of the others: balanced 21%, plain 5%
        truth = "rare" if random.random() < 0.1 else "common"
        wrong = random.random() < (0.41 if truth == "rare" else 0.01)
        alarms += [number] if watch.label("else" if wrong else truth, truth) else []
        plain.label("else" if wrong else truth, truth)
    assert len(alarms) == 1  # the first alarm only
    assert alarms[0] < 500
    assert watch.alarm == Alarm("error", alarms[0] + 1)
    assert plain.holds


def test_sets_are_wrong_without_the_true_label_and_no_label_is_wrong():
    watch = Watch(LEVEL)
    for decided in ("a", ("a", "b"), "b", ("b", "c"), (), None):
        watch.label(decided, "a")
    assert (watch.labels, watch.wrong) == (6, 4)


def statistics(random, count, shift=0.0):
    """Times with many ties, and a continuous statistic."""
    hidden = random.normal(size=count) + shift
    return {"time": np.floor(3 * np.exp(0.5 * hidden)), "log_odds": hidden + random.normal(size=count)}


def seen(watch, values):
    """The number of decisions until the alarm, or infinity."""
    for number, one in enumerate(zip(*values.values(), strict=True), start=1):
        if watch.see(dict(zip(values, one, strict=True))):
            return number
    return math.inf


def test_alarms_of_statistics_are_rarely_false_and_a_shift_is_found():
    random, alarms = np.random.default_rng(3), []
    for seed in range(30):
        watch = Watch(None, calibration=statistics(random, 100), seed=seed)
        alarms.append(seen(watch, statistics(random, 200)))
    assert np.isfinite(alarms).sum() <= binom.ppf(0.999, 30, 0.05)
    for shift in (-1.0, 1.0):
        watch = Watch(None, calibration=statistics(random, 400))
        assert seen(watch, statistics(random, 300)) == math.inf
        assert seen(watch, statistics(random, 200, shift)) < 100
        assert watch.alarm.what in ("time", "log_odds")
        assert not watch.holds


def test_p_values_are_uniform_and_do_not_depend_on_each_other_in_the_long_run():
    """One small calibration set, whose ranks alone would be off for ever."""
    random, early, late = np.random.default_rng(4), [], []
    for seed in range(30):
        drift = Watch(None, calibration={"v": random.poisson(3.0, 20)}, seed=seed)._drifts["v"]
        values = [drift.p_value(float(value)) for value in random.poisson(3.0, 400)]
        early += values[:20]
        late += values[-20:]
        assert abs(np.mean(values) - 0.5) < 4 * math.sqrt(1 / 12 / 400)
    assert kstest(early, "uniform").pvalue > 0.001
    assert kstest(late, "uniform").pvalue > 0.001


def test_the_state_goes_on_as_json_and_does_not_grow():
    random = np.random.default_rng(5)
    values, wrong = statistics(random, 900, 0.1), random.random(900) < 0.07
    watch, sizes = Watch(LEVEL, calibration=statistics(random, 100), seed=3), []
    for number in range(900):
        if number in (0, 1, 100, 899):
            state = json.dumps(watch.to_dict(), allow_nan=False)
            sizes.append(len(state))
            watch = Watch.from_dict(json.loads(state))
            assert json.dumps(watch.to_dict()) == state
        watch.see({name: value[number] for name, value in values.items()})
        watch.label(0, int(wrong[number]))
    assert sizes[-1] < 1.2 * sizes[1]


def test_a_watch_goes_on_as_if_it_had_not_been_interrupted():
    random = np.random.default_rng(6)
    calibration, values, wrong = statistics(random, 60), statistics(random, 200), random.random(200) < 0.1
    one, other = (Watch(LEVEL, calibration=calibration, class_shares={0: 0.5, 1: 0.5}) for _ in range(2))
    for number in range(200):
        if number == 77:
            other = Watch.from_dict(json.loads(json.dumps(other.to_dict())))
        for watch in (one, other):
            watch.see({name: value[number] for name, value in values.items()})
            watch.label(0, int(wrong[number]))
    assert one.to_dict() == other.to_dict()
    assert one.evidence == other.evidence
    assert one.alarm == other.alarm


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Watch(5), r"`error` must be between 0 and 1, ends left out, got 5\.0\. .* 0\.05 means 5%"),
        (lambda: Watch(0.05, delta=0), "`delta` must be between 0 and 1"),
        (lambda: Watch(None), "`error` must be given where no statistic is watched"),
        (
            lambda: Watch(0.05, calibration={"error": [1] * 30}),
            "`calibration` must be values by name, none of them 'error'",
        ),
        (
            lambda: Watch(0.05, calibration={"time": [1] * 5}),
            r"`calibration\['time'\]` must be at least 20 finite numbers, got 5",
        ),
        (
            lambda: Watch(0.05, class_shares={"a": 0.5, "b": 0.6}),
            r"`class_shares` must be shares that add up to 1, got 1\.1",
        ),
        (lambda: Watch(0.05, class_shares={"a": 1.0}), "`class_shares` must be a dict from at least 2 labels"),
        (
            lambda: Watch(0.05, class_shares=RARE).label("rare", "b"),
            r"`truth` must be one of \['rare', 'common'\], got 'b'",
        ),
        (
            lambda: Watch(None, calibration={"t": [1] * 30}).label(1, 1),
            "`error` must be the promised error, to watch labels",
        ),
        (lambda: Watch(0.05).see({"time": 3}), r"`values` must be one number for each of \[\], got \['time'\]"),
        (
            lambda: Watch(None, calibration={"t": [1] * 30}).see({"t": math.nan}),
            r"`values\['t'\]` must be a number, got nan",
        ),
        (lambda: Watch.from_dict({}), "`state` must be one of version 1, got version None"),
    ],
)
def test_what_cannot_be_watched_gets_one_sentence(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
