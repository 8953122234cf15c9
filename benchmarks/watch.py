"""The alarm of `sooner.evaluate.Watch`: how often it is false, and how many series it needs.

False alarms: 200 watches of 10,000 series each without a change, of an error that is exactly what was promised, of a balanced
error with unequal class shares, and of statistics like those of 500 calibration series, which are drawn anew for each watch.
Delay: the median number of series to the alarm after the error has doubled, from the start or after a while; beside it the sample
of a one-sided exact binomial test of the same level with power 0.8 and 0.9, which may look only once.
"""

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from measure import finish
from sooner.evaluate import Watch

REPEATS, SERIES, ERROR, DELTA, CALIBRATION = 200, 10_000, 0.05, 0.05, 500
SHARES = {"rare": 0.1, "common": 0.9}


def binomial_sample(power: float) -> int:
    """The smallest sample from which on the test of `ERROR` against twice of it has that power."""
    sizes = np.arange(20, 1000)
    critical = binom.isf(DELTA, sizes, ERROR) + 1
    short = sizes[binom.sf(critical - 1, sizes, 2 * ERROR) < power]
    return int(short.max()) + 1


def labelled(random: np.random.Generator, before: int, error: float, series: int) -> int | None:
    """The series after the change at which there is an alarm; the error is as promised before."""
    watch = Watch(ERROR, delta=DELTA)
    rates = np.repeat([ERROR, error], [before, series])
    for wrong in random.random(len(rates)) < rates:
        if (alarm := watch.label(0, int(wrong))) is not None:
            return alarm.after - before
    return None


def balanced(random: np.random.Generator, series: int) -> bool:
    """Whether there is an alarm of a balanced error that is exactly as promised, 9% on the rare class and 1% on the other one."""
    watch = Watch(ERROR, delta=DELTA, class_shares=SHARES)
    rare = random.random(series) < SHARES["rare"]
    wrong = random.random(series) < np.where(rare, 0.09, 0.01)
    for is_rare, is_wrong in zip(rare, wrong, strict=True):
        truth = "rare" if is_rare else "common"
        if watch.label("other" if is_wrong else truth, truth) is not None:
            return True
    return False


def statistics(random: np.random.Generator, count: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """A time with many ties and a continuous statistic, which depend on each other."""
    hidden = random.normal(size=count) + shift
    return np.floor(10 * np.exp(0.5 * hidden)), hidden + random.normal(size=count)


def unlabelled(random: np.random.Generator, before: int, shift: float, series: int) -> int | None:
    """The series after a shift of the statistics at which there is an alarm."""
    times, odds = statistics(random, CALIBRATION)
    watch = Watch(None, delta=DELTA, calibration={"time": times, "log_odds": odds}, seed=int(random.integers(2**31)))
    new = [statistics(random, before), statistics(random, series, shift)]
    for time, value in zip(*(np.concatenate(parts) for parts in zip(*new, strict=True)), strict=True):
        if (alarm := watch.see({"time": time, "log_odds": value})) is not None:
            return alarm.after - before
    return None


def generators(count: int) -> Iterator[np.random.Generator]:
    """One for each repeat."""
    return map(np.random.default_rng, range(count))


def share(alarms: list[int | None]) -> float:
    """Of the watches without a change, those with an alarm."""
    return sum(alarm is not None for alarm in alarms) / len(alarms)


def median(alarms: list[int | None]) -> float:
    """Of the series to the alarm; watches with an alarm before the change are left out, and one without counts as endless."""
    waits = [np.inf if alarm is None else alarm for alarm in alarms if alarm is None or alarm > 0]
    return float(np.median(waits))


def main() -> None:
    false = {
        "error": share([labelled(random, 0, ERROR, SERIES) for random in generators(REPEATS)]),
        "balanced": sum(balanced(random, SERIES) for random in generators(REPEATS)) / REPEATS,
        "statistics": share([unlabelled(random, 0, 0.0, SERIES) for random in generators(REPEATS)]),
    }
    samples = {power: binomial_sample(power) for power in (0.8, 0.9)}
    delays = {
        before: median([labelled(random, before, 2 * ERROR, SERIES) for random in generators(REPEATS)])
        for before in (0, 1000, 10_000)
    }
    shifts = {
        (before, shift): median([unlabelled(random, before, shift, 5000) for random in generators(REPEATS // 4)])
        for before in (0, 1000)
        for shift in (0.25, 0.5, 1.0)
    }
    for name, found in false.items():
        print(f"false alarms of the {name} in {SERIES:,} series: {found:.1%} of {REPEATS} watches (delta {DELTA:.0%})")
    print(f"binomial test: {samples[0.8]} series for power 0.8, {samples[0.9]} for power 0.9")
    for before, delay in delays.items():
        print(f"error doubled after {before:,} series: median {delay:.0f} series to the alarm")
    for (before, shift), delay in shifts.items():
        print(f"statistics shifted by {shift} deviations after {before:,} series: median {delay:.0f} series")
    finish(
        **{f"false_alarms_{name}": found for name, found in false.items()},
        delay_over_binomial_80=delays[0] / samples[0.8],
        delay_over_binomial_90=delays[0] / samples[0.9],
        late_delay_over_binomial_80=delays[10_000] / samples[0.8],
    )


if __name__ == "__main__":
    main()
