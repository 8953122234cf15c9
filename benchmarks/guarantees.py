"""How often a promise is broken: certified thresholds beside naive ones; label sets, the watch, and calibration.

Three populations of scores, each from a model that was fitted to other series:

- `process`: 10,000 series of a Gaussian process (3 classes, 20 observations), in 2,000 groups of 5 that share a strength of the
  signal; Rocket fitted to 200 series of other groups.
- `digits`: the 718 images of the digits that training has not seen, each with 15 random orders of its pixels (10 classes, 16
  frames); Rocket fitted to the 1,079 training images. No threshold reaches 5% error there.
- `archive`: the 1,029 test series of ItalyPowerDemand (2 classes, 24 observations); Rocket fitted to its 67 training series.

A calibration set is a random sample of a population with replacement (of whole groups, in the rows `by group`), so the truth is
known without error: it is the risk of the rule on the whole population. A promise is broken if that risk is above the level. The
naive choice is the least threshold at which the risk on the calibration set is at most the level.
`time_ratio` is the mean time of the certified rules over that of the least threshold whose true risk is at most the level.

Rows of the record are kept, so that a run that was cut goes on where it was; `--again` measures everything again.
"""

import argparse
import importlib.metadata
import json
import math
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from sooner import EarlyClassifier
from sooner.data import Gaussian, Series
from sooner.data.sets import archives, digits
from sooner.data.sets.nmnist import first_shown, random_orders, revealed, stream_keys
from sooner.errors import InvalidArgument, NotCertified
from sooner.evaluate import PosteriorCalibration, Watch, exact_limits, reliability
from sooner.evaluate.certify import certified_threshold
from sooner.evaluate.label_sets import coverage_limit_of, label_sets_of, largest_log_odds
from sooner.rules import MSPRT, NotBefore, leader
from sooner.rules.records import Sweep
from sooner.scores import Scored, leader_margin

RECORD = Path(__file__).parents[1] / "results" / "guarantees.json"
RISKS = ("error", "balanced_error", "class_error", "gap", "early_error")
LEVELS, CONFIDENCE = (0.05, 0.1), 0.9
COUNTS, DRAWS = (100, 300, 1000), 500
SCALES = ("twice as sure", "half as sure", "twice as sure early, half as sure late")
GROUP = 5
COVERAGE = 0.9
SHOWN = ("process", "error", 0.1, 300)
"""The row whose true errors are kept for every draw, for the figure."""
WATCHED, SERIES, PROMISED, DELTA = 200, 10_000, 0.05, 0.05
SPLITS = 3
SEED, ORDERS, SCALED = 0, 15, 300
ARCHIVE = "ItalyPowerDemand"
_STREAM = 9  # apart from the streams of the package
PACKAGES = ("sooner", "torch", "numpy", "scipy", "scikit-learn", "aeon")


@dataclass(frozen=True, eq=False)
class Population:
    """Scores of labelled series, with everything about a threshold looked up in one sweep over all of them."""

    scored: Scored

    @cached_property
    def statistic(self) -> np.ndarray:
        return leader_margin(torch.from_numpy(self.scored.scores)).numpy()

    @cached_property
    def wrong(self) -> np.ndarray:
        return leader(torch.from_numpy(self.scored.scores)).numpy() != self.scored.truths[:, None]

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """The rows of a random sample with replacement, of series or of whole groups."""
        if self.scored.groups is None:
            return generator.integers(0, len(self.scored), count)
        first = GROUP * generator.integers(0, len(self.scored) // GROUP, count // GROUP)
        return (first[:, None] + np.arange(GROUP)).ravel()

    def take(self, rows: np.ndarray) -> Scored:
        """These series; a group that was drawn twice counts as two."""
        groups = None if self.scored.groups is None else np.arange(len(rows)) // GROUP
        return replace(self.scored.take(rows), groups=groups)

    @cached_property
    def sweep(self) -> "Swept":
        return Swept.of(self.statistic, self.wrong, self.scored)


@dataclass(frozen=True, eq=False)
class Swept:
    """Risks and mean time at every threshold; those of `MSPRT(a)` stand at the first threshold that is at least a."""

    thresholds: np.ndarray
    mean_times: np.ndarray
    risks: dict[str, np.ndarray]

    @classmethod
    def of(cls, statistic: np.ndarray, wrong: np.ndarray, scored: Scored) -> "Swept":
        sweep, truths = Sweep.of(statistic, scored.lengths), scored.truths
        classes = np.unique(truths)

        def share(losses: np.ndarray, members: np.ndarray) -> np.ndarray:
            change = losses[sweep.series, sweep.later].astype(int) - losses[sweep.series, sweep.time]
            start = int(losses[members, 0].sum())
            return sweep.sums(start, np.where(members[sweep.series], change, 0)) / members.sum()

        of_class = np.array([share(wrong, truths == k) for k in classes])
        late = wrong & ~wrong[np.arange(len(wrong)), scored.lengths - 1][:, None]
        everything = np.ones(len(truths), dtype=bool)
        risks = {"error": share(wrong, everything), "gap": share(late, everything)}
        risks |= {"balanced_error": of_class.mean(axis=0), "class_error": of_class.max(axis=0)}
        times = 1 + sweep.sums(0, sweep.later - sweep.time) / len(truths)
        return cls(sweep.thresholds, times, risks)

    def at(self, risk: str, threshold: float) -> tuple[float, float]:
        """Risk and mean time of the rule with that threshold."""
        index = np.searchsorted(self.thresholds, threshold)
        return float(self.risks[risk][index]), float(self.mean_times[index])

    def least(self, risk: str, level: float) -> float | None:
        """The least threshold whose risk is at most the level."""
        meets = np.flatnonzero(self.risks[risk] <= level + 1e-12)
        return float(self.thresholds[meets[0]]) if len(meets) else None


def early(population: Population, rows: Any, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """(starts,): for each first time, the largest error among those decided by any t, and the mean time."""
    statistic, wrong, lengths = population.statistic[rows], population.wrong[rows], population.scored.lengths[rows]
    horizon = statistic.shape[1]
    risks, times = np.empty(horizon), np.empty(horizon)
    fires = statistic >= threshold
    for start in range(1, horizon + 1):
        fires[:, : start - 1] = False
        first = np.where(fires.any(axis=1), fires.argmax(axis=1) + 1, horizon)
        stops = np.minimum(first, lengths)
        bad = np.bincount(stops, wrong[np.arange(len(stops)), stops - 1], minlength=horizon + 1).cumsum()[start:]
        decided = np.bincount(stops, minlength=horizon + 1).cumsum()[start:]
        risks[start - 1] = (bad / np.maximum(decided, 1)).max()
        times[start - 1] = stops.mean()
    return risks, times


def judged(population: Population, risk: str, rule: Any) -> tuple[float, float]:
    """The true risk and the mean time of a certified rule."""
    if isinstance(rule, NotBefore):
        risks, times = early(population, slice(None), rule.rule.threshold)
        return float(risks[rule.start - 1]), float(times[rule.start - 1])
    return population.sweep.at(risk, rule.threshold)


def naive(population: Population, rows: np.ndarray, risk: str, level: float) -> tuple[float, float] | None:
    """True risk and mean time of the least threshold (and the first time) that met the level on the sample, if one did."""
    part = replace(population.scored, groups=None).take(rows)
    sweep = Swept.of(population.statistic[rows], population.wrong[rows], part)
    if risk != "early_error":
        threshold = sweep.least(risk, level)
        return None if threshold is None else population.sweep.at(risk, threshold)
    threshold = sweep.least("error", level)
    meets = [] if threshold is None else np.flatnonzero(early(population, rows, threshold)[0] <= level)
    if not len(meets):
        return None
    risks, times = early(population, slice(None), threshold)
    return float(risks[meets[0]]), float(times[meets[0]])


def promises(
    population: Population, risk: str, level: float, count: int, draws: int, *, keep: bool = False
) -> dict[str, Any]:
    """The share of broken promises of both choices, over draws of calibration sets."""
    generator = np.random.default_rng([SEED, count, round(1000 * level), RISKS.index(risk)])
    certified, plain = [], []
    for _ in range(draws):
        rows = population.sample(count, generator)
        plain.append(naive(population, rows, risk, level))
        try:
            rule = certified_threshold(MSPRT, population.take(rows), risk, level, CONFIDENCE).rule
            certified.append(judged(population, risk, rule))
        except (NotCertified, InvalidArgument):  # too few series, or none of a class
            certified.append(None)
    told: dict[str, Any] = {"draws": draws}
    for name, pairs in (("certified", certified), ("naive", plain)):
        given = np.array([pair for pair in pairs if pair is not None]).reshape(-1, 2)
        broken = int((given[:, 0] > level + 1e-12).sum())
        told[f"{name}_broken"] = broken / draws
        told[f"{name}_limits"] = [float(end) for end in exact_limits(broken, draws)]
        told[f"{name}_refused"] = 1 - len(given) / draws
        told[f"{name}_time"] = float(given[:, 1].mean()) if len(given) else None
        if keep:
            told[f"{name}_errors"] = np.sort(given[:, 0]).round(5).tolist()
    target = None if risk == "early_error" else population.sweep.least(risk, level)
    if target is not None:
        told["oracle_time"] = population.sweep.at(risk, target)[1]
        told["time_ratio"] = told["certified_time"] and told["certified_time"] / told["oracle_time"]
    return told


def sets(population: Population, count: int, draws: int) -> dict[str, Any]:
    """Coverage of label sets at all times and at the decision, and their mean size, over draws of calibration sets."""
    generator = np.random.default_rng([SEED, count])
    everything = replace(population.scored, groups=None)
    worst = largest_log_odds(everything)
    horizon = everything.scores.shape[1]
    stops = MSPRT(population.sweep.least("error", LEVELS[1])).decide(*everything).times
    rows = np.arange(len(everything))
    coverage, decided, sizes = [], [], []
    for _ in range(draws):
        limit = coverage_limit_of(everything.take(generator.integers(0, len(rows), count)), COVERAGE)
        coverage.append((worst <= limit).mean())
        if len(sizes) < 20:  # the sets of a whole population take a second
            found = label_sets_of(everything, limit, tuple(range(everything.scores.shape[2])))
            decided.append(found.members[rows, stops - 1, everything.truths].mean())
            sizes.append([found.sizes[:, t - 1].mean() for t in (1, horizon // 4, horizon // 2, horizon)])
    return {
        "coverage": float(np.mean(coverage)),
        "standard_error": float(np.std(coverage) / math.sqrt(draws)),
        "coverage_at_the_decision": float(np.mean(decided)),
        "mean_sizes": dict(
            zip(("first", "quarter", "half", "end"), np.mean(sizes, axis=0).round(3).tolist(), strict=True)
        ),
        "classes": everything.scores.shape[2],
    }


def alarms(error: float, repeats: int, series: int) -> list[int | None]:
    """When the watch of a promised error raises its alarm, if decisions are wrong with this probability."""
    found: list[int | None] = []
    for repeat in range(repeats):
        wrong = np.random.default_rng([SEED, repeat, round(1000 * error)]).random(series) < error
        watch = Watch(PROMISED, delta=DELTA)
        raised = None
        for each in wrong.tolist():
            if (raised := watch.label(each, False)) is not None:
                break
        found.append(None if raised is None else raised.after)
    return found


def watched(repeats: int, series: int) -> dict[str, Any]:
    """False alarms at the promised error, and the delay of the alarm at greater ones beside a test of fixed size."""
    at_promise = alarms(PROMISED, repeats, series)
    told: dict[str, Any] = {"false_alarms": sum(each is not None for each in at_promise) / repeats, "delays": {}}
    for error in (0.075, 0.1, 0.2):
        delays = [each for each in alarms(error, repeats, series) if each is not None]
        told["delays"][f"{error:g}"] = {
            "raised": len(delays) / repeats,
            "mean": float(np.mean(delays)),
            "90%": float(np.quantile(delays, 0.9)),
            "fixed_sample": fixed_sample(error, power=0.9),
        }
    return told


def fixed_sample(error: float, *, power: float) -> int:
    """The least number of labels with which one binomial test at level `DELTA` finds that error with so much power."""
    for count in range(10, 100_000):
        critical = stats.binom.ppf(1 - DELTA, count, PROMISED)
        if stats.binom.sf(critical, count, error) >= power:
            return count
    raise AssertionError("no number of labels is enough")


def calibrated(name: str, splits: int) -> dict[str, Any]:
    """Calibration error and log loss of `predict_proba` with and without its calibration, on the published split and others."""
    rows: dict[str, list[Any]] = {"before": [], "after": []}
    seconds = []
    for seed in range(splits):
        train, test = split(name, seed)
        begun = time.process_time()
        clf = EarlyClassifier().fit(train)
        seconds.append(time.process_time() - begun)
        found = clf.judged(test)
        times = clf.rule_.decide(*found).times
        fitted = clf.posterior_calibration_
        for key, calibration in (("before", PosteriorCalibration()), ("after", fitted)):
            clf.posterior_calibration_ = calibration
            rows[key].append((clf.posterior_at(found, times), found.truths))
    told: dict[str, Any] = {"fit_seconds": float(np.mean(seconds)), "splits": splits}
    for key, pairs in rows.items():
        pooled = reliability(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
        told[key] = {
            "error": reliability(*pairs[0]).error,
            "log_loss": reliability(*pairs[0]).log_loss,
            "pooled_error": pooled.error,
            "pooled_log_loss": pooled.log_loss,
        }
    told["error_if_calibrated"] = no_less(rows["after"][0][0])
    return told


def no_less(shares: np.ndarray, draws: int = 200) -> float:
    """The mean calibration error of so few series if their labels were drawn from the probabilities."""
    generator, best = np.random.default_rng(0), shares.max(axis=1)
    binary = np.stack([best, 1 - best], axis=1)
    return float(np.mean([_folded(binary, generator.random(len(best)) >= best) for _ in range(draws)]))


def _folded(binary: np.ndarray, wrong: np.ndarray) -> float:
    index = np.minimum((binary[:, 0] * 15).astype(int), 14)
    gaps = np.bincount(index, binary[:, 0] - ~wrong, minlength=15)
    return float(np.abs(gaps).sum() / len(wrong))


def split(name: str, seed: int) -> tuple[Series, Series]:
    """The published split for seed 0; for others, a random one with as many training series of each class."""
    archive = archives.load(name)
    if seed == 0:
        return archive.train, archive.test
    (x, y), (new, truth) = archives.cases(name)
    cases, labels = [*x, *new], np.concatenate([y, truth])
    generator, chosen = np.random.default_rng(seed), []
    for each, count in zip(*np.unique(y, return_counts=True), strict=True):
        chosen.extend(generator.permutation(np.flatnonzero(labels == each))[:count])
    rest = np.setdiff1d(np.arange(len(labels)), chosen)
    classes = np.unique(labels)
    taken = (Series.from_aeon([cases[i] for i in rows], labels[rows], classes=classes) for rows in (chosen, rest))
    first, second = taken
    return first, second


# --- populations --------------------------------------------------------------------------------------------------------


def grouped_process(seed: int, series: int) -> Series:
    """Series of a Gaussian process; the observations of a group are shrunk towards noise by a strength that it shares."""
    x, y = Gaussian.equidistant(classes=3, distance=1.2).sample(series, 20, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    strength = torch.rand(series // GROUP, generator=generator).repeat_interleave(GROUP)[:, None, None] + 0.5
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    mixed = strength * x + 0.5 * noise
    return Series.from_arrays(mixed.float(), y)


def unseen_digits(clf: EarlyClassifier) -> Scored:
    """The scores of the images outside of the training split of seed 0, each with several orders of its pixels."""
    images, labels = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images.astype(np.float32)) / 8 - 1
    # The split depends on labels alone, so series that hold their own index are split alike.
    indices = Series.from_arrays(np.arange(len(labels), dtype=np.float32).reshape(-1, 1, 1), labels)
    rest, test = indices.split(0.2, 0)
    unseen = torch.cat([rest.split(0.25, 0)[1].observations, test.observations]).ravel().long().numpy()
    parts = []
    for seed in range(1, 1 + ORDERS):
        keys = stream_keys((_STREAM, seed), unseen)
        first = torch.from_numpy(first_shown(random_orders(keys, digits.PIXELS), digits.PIXELS_A_FRAME))
        shown = revealed(pixels[unseen], first, time=digits.TIME, hidden=digits.HIDDEN)
        parts.append(clf.judged(Series.from_arrays(shown, labels[unseen])))
        progress("scoring digits", seed, ORDERS)
    return Scored(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "lengths", "truths"))
    )


@lru_cache(maxsize=4)
def population(name: str) -> Population:
    """The scores of one population, in float32 as a model gives them."""
    if name == "digits":
        found = unseen_digits(EarlyClassifier().fit(digits.load(0).train))
    elif name == "archive":
        archive = archives.load(ARCHIVE)
        found = EarlyClassifier().fit(archive.train).judged(archive.test)
    else:
        found = EarlyClassifier().fit(grouped_process(0, 200)).judged(grouped_process(10, 10_000))
    groups = np.arange(len(found)) // GROUP if name == "process by group" else None
    return Population(Scored(found.scores.astype(np.float32), found.lengths, found.truths, groups))


# --- the record ---------------------------------------------------------------------------------------------------------


def pieces(draws: int, counts: tuple[int, ...]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Every row of the record by its name, with what measures it."""
    for name in ("process", "process by group", "digits", "archive"):
        scores = partial(population, name)
        for risk, level, count in product(RISKS, LEVELS, counts[-1:] if name == "process by group" else counts):
            keep = (name, risk, level, count) == SHOWN
            yield (
                f"{name}, {risk}, {level:g}, {count}",
                lambda args=(risk, level, count, draws), keep=keep, scores=scores: promises(scores(), *args, keep=keep),
            )
        if name != "process by group":
            for count in counts:
                yield f"{name}, sets, {count}", lambda count=count, scores=scores: sets(scores(), count, draws)
    scores = partial(population, "digits")
    for scale, risk in product(SCALES, RISKS):
        yield (
            f"digits {scale}, {risk}, {LEVELS[1]:g}, {SCALED}",
            lambda scale=scale, risk=risk: promises(rescaled(scores(), scale), risk, LEVELS[1], SCALED, draws),
        )


def rescaled(of: Population, scale: str) -> Population:
    """The same series with scores that are too sure, or not sure enough."""
    horizon = of.scored.scores.shape[1]
    early_half = (np.arange(horizon) < horizon // 2)[:, None]
    factor = {SCALES[0]: 2.0, SCALES[1]: 0.5, SCALES[2]: np.where(early_half, 2.0, 0.5)}[scale]
    return Population(replace(of.scored, scores=(of.scored.scores * factor).astype(np.float32)))


def progress(task: str, done: int, total: int) -> None:
    print(f"{task} ({done} of {total})", file=sys.stderr, flush=True)


def summary(rows: dict[str, Any]) -> dict[str, Any]:
    """The worst shares of broken promises, the times at the greatest number of series, label sets, the watch, and calibration."""
    told: dict[str, Any] = {}
    promised = {name: row for name, row in rows.items() if "certified_broken" in row}
    if promised:
        told["certified_broken_at_most"] = max(row["certified_broken"] for row in promised.values())
        told["certified_broken_mean"] = round(float(np.mean([row["certified_broken"] for row in promised.values()])), 4)
        naive = [row["naive_broken"] for row in promised.values()]
        told["naive_broken"] = [min(naive), round(float(np.mean(naive)), 4), max(naive)]
        for key, by_group in (("time_ratio", False), ("time_ratio_by_group", True)):
            ratios = [
                row["time_ratio"]
                for name, row in promised.items()
                if name.endswith(f" {COUNTS[-1]}")
                and row.get("time_ratio")
                and row["certified_refused"] < 0.05
                and ("group" in name) == by_group
            ]
            if ratios:
                told[key] = [round(float(np.median(ratios)), 4), round(max(ratios), 4)]
    covered = [row["coverage"] for row in rows.values() if "coverage" in row]
    if covered:
        told["set_coverage"] = [round(min(covered), 4), round(max(covered), 4)]
    if "watch" in rows:
        told |= {"false_alarms": rows["watch"]["false_alarms"], "delays": rows["watch"]["delays"]}
    sets_of = {
        name.removeprefix("calibration, "): row for name, row in rows.items() if name.startswith("calibration, ")
    }
    if sets_of:
        told["calibration_error"] = {
            name: [round(row[key]["pooled_error"], 4) for key in ("before", "after")] for name, row in sets_of.items()
        }
        told["log_loss"] = {
            name: [round(row[key]["pooled_log_loss"], 4) for key in ("before", "after")]
            for name, row in sets_of.items()
        }
    return told


def settings(draws: int) -> dict[str, Any]:
    versions = {"python": platform.python_version()} | {each: importlib.metadata.version(each) for each in PACKAGES}
    told = {"command": "python benchmarks/guarantees.py", "versions": versions, "draws": draws, "seed": SEED}
    told |= {"confidence": CONFIDENCE, "levels": LEVELS, "counts": COUNTS, "coverage": COVERAGE, "group": GROUP}
    told |= {"orders": ORDERS, "splits": SPLITS, "scaled": SCALED, "archive": ARCHIVE}
    watch = {"repeats": WATCHED, "series": SERIES, "promised": PROMISED, "delta": DELTA}
    return {**told, "watch": watch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS, help="calibration sets for each row")
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS), help="series in a calibration set")
    parser.add_argument("--only", default="", help="only the rows whose names contain this text")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record")
    parser.add_argument("--again", action="store_true", help="measure the rows of the record again")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = {} if asked.again or not asked.out.exists() else json.loads(asked.out.read_text())["rows"]
    todo = dict(pieces(asked.draws, tuple(asked.counts)))
    todo |= {f"calibration, {name}": partial(calibrated, name, SPLITS) for name in archives.embedded()}
    todo["watch"] = partial(watched, WATCHED, SERIES)
    todo = {name: measure for name, measure in todo.items() if asked.only in name and name not in known}
    begun = time.process_time()
    with threadpool_limits(1):
        for done, (name, measure) in enumerate(todo.items(), start=1):
            progress(f"{time.process_time() - begun:.0f} s, {name}", done, len(todo))
            known[name] = measure()
            asked.out.write_text(json.dumps({**settings(asked.draws), "rows": known}, indent=1) + "\n")
    print(json.dumps(summary(known)))


if __name__ == "__main__":
    main()
