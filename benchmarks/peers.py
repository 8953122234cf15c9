"""Comparison with aeon's early classifiers and with a fixed decision time.

Sets inside the aeon package, as published into training and test; JapaneseVowels is cut to its shortest length for everybody,
as the peers need equal lengths, and `JapaneseVowelsUnequal` is the same uncut, for those who can. Every method is fitted with
seeds 0..4 and decides the test series:

- `sooner`: EarlyClassifier() at the threshold of least average cost (alpha 0.5) on its left-out series, since all are compared by
  that cost; the one after `fit` weighs errors more. `fixed time`: the same scores, decided at the time that is best on these.
- `TEASER` and `threshold`: aeon's TEASER over forests of 25 trees, and its ProbabilityThresholdEarlyClassifier (0.85) over
  forests of 100 (TimeSeriesForestClassifier), at the classification points that they take by default: T, T/2, .., T/20. With
  their default classifiers a fit takes minutes: on GunPoint with seed 0, TEASER takes 117 CPU seconds and costs .236, and both
  together had not finished after 15 minutes on a busy machine.
- `..., even`: the same at 20 evenly spaced points, as their documentation has it. Seven observations have too few default points
  for TEASER, so there every point from 3 on is taken, the least that it takes.

Accuracy, earliness t / T, and average cost (alpha 0.5) on the test series, and CPU seconds of a fit, after one to warm up. CPU
milliseconds of a live observation, one series at a time up to its decision: `update` of a stream for us; for aeon
`update_predict` with the whole prefix at each classification point. Between these it raises errors, so it is not called there,
and its time is spread over all observations; `call` is the time of the slowest one. `curve` is the balanced error of our whole
speed-accuracy curve at the mean time of the method, beside the method's own. One thread.

The rows of peers are kept in the record, so that a run that was cut goes on where it was; our own are always measured. Beside a
peer's times are ours of the same run, and the ratios are taken from these: a machine is not equally busy on two days.
"""

import argparse
import importlib.metadata
import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from aeon.classification.early_classification import TEASER, ProbabilityThresholdEarlyClassifier
from aeon.classification.interval_based import TimeSeriesForestClassifier
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from sooner import EarlyClassifier
from sooner.data.sets.archives import cases
from sooner.evaluate import average_cost, balanced_error, earliness, midpoint_rule, threshold_of_least_average_cost
from sooner.evaluate.metrics import over_seeds
from sooner.types import Decisions

RECORD = Path(__file__).parents[1] / "results" / "peers.json"
SETS = ("GunPoint", "BasicMotions", "JapaneseVowels", "JapaneseVowelsUnequal")
THREADS, LIVE, LEAST = 1, 10, 3
ALPHA = 0.5  # of the average cost that all are compared by
PACKAGES = ("sooner", "torch", "numpy", "scikit-learn", "aeon", "numba")
TIMES = {"fit_seconds": "fit_speedup", "live_ms": "live_speedup", "live_call_ms": "call_speedup"}
METHODS = {
    "sooner": "EarlyClassifier(random_state=seed), least average cost (alpha 0.5) on its left-out series",
    "fixed time": "EarlyClassifier(rule='fixed_time', random_state=seed), likewise",
    "TEASER": "TEASER(TimeSeriesForestClassifier(n_estimators=25), random_state=seed)",
    "threshold": "ProbabilityThresholdEarlyClassifier(TimeSeriesForestClassifier(n_estimators=100), random_state=seed)",
    "..., even": "classification_points=sorted({max(3, round(T * part / 20)) for part in range(1, 21)})",
}


@dataclass(frozen=True, eq=False)
class Data:
    """A set, in aeon's layout."""

    x: Any
    y: np.ndarray
    new: Any
    truth: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.array([case.shape[1] for case in self.new])

    @property
    def live(self) -> np.ndarray:
        """A few test series of all classes."""
        return np.linspace(0, len(self.truth) - 1, LIVE).astype(int)

    @property
    def even(self) -> list[int]:
        time = self.x.shape[2]
        return sorted({max(LEAST, round(time * part / 20)) for part in range(1, 21)})


def load(name: str) -> Data:
    (x, y), (new, truth) = cases(name.removesuffix("Unequal"))
    if isinstance(x, list) and not name.endswith("Unequal"):
        least = min(case.shape[1] for case in (*x, *new))
        x, new = (np.stack([case[:, :least] for case in part]) for part in (x, new))
    return Data(x, y, new, truth)


def ours(rule: str) -> Callable[[Data, int], dict[str, Any]]:
    def run(data: Data, seed: int) -> dict[str, Any]:
        start = time.process_time()
        clf = EarlyClassifier(rule=rule, random_state=seed).fit(data.x, data.y)
        curve = clf.speed_accuracy()
        clf.threshold = midpoint_rule(type(clf.rule_), curve, threshold_of_least_average_cost(curve, alpha=ALPHA))
        spent = time.process_time() - start
        decisions = clf.decide(data.new)
        return {
            "fit_seconds": spent,
            **judged(decisions, data),
            **live_times([lambda x=data.new[i]: streamed(clf, x) for i in data.live]),
            "threshold": float(clf.threshold),
            "curve": clf.speed_accuracy(data.new, data.truth),
        }

    return run


def streamed(clf: EarlyClassifier, x: np.ndarray) -> list[float]:
    """CPU seconds of each observation up to the decision."""
    live, spent = clf.stream(), []
    for observation in x.T:
        start = time.process_time()
        decision = live.update(observation)
        spent.append(time.process_time() - start)
        if decision is not None:
            break
    return spent


def theirs(make: Callable[..., Any], trees: int, points: str) -> Callable[[Data, int], dict[str, Any]]:
    def run(data: Data, seed: int) -> dict[str, Any]:
        chosen = data.even if points == "even" else None
        clf = make(TimeSeriesForestClassifier(n_estimators=trees), classification_points=chosen, random_state=seed)
        start = time.process_time()
        clf.fit(data.x, data.y)
        spent = time.process_time() - start
        labels, safe = clf.predict(data.new)
        decisions = Decisions(labels, clf.get_state_info()[:, 3], safe)
        return {
            "fit_seconds": spent,
            **judged(decisions, data),
            **live_times([lambda x=data.new[i]: updated(clf, x) for i in data.live]),
        }

    return run


def updated(clf: Any, x: np.ndarray) -> list[float]:
    clf.reset_state_info()
    spent = [0.0] * x.shape[1]
    for point in clf._classification_points:
        start = time.process_time()
        _, safe = clf.update_predict(x[None, :, :point])
        spent[point - 1] = time.process_time() - start
        if safe[0]:
            return spent[:point]
    return spent


def judged(decisions: Decisions, data: Data) -> dict[str, float]:
    return {
        "accuracy": float((decisions.labels == data.truth).mean()),
        "earliness": earliness(decisions, data.lengths),
        "cost": average_cost(decisions, data.truth, lengths=data.lengths, alpha=ALPHA),
        "mean_time": float(decisions.times.mean()),
        "balanced_error": balanced_error(decisions, data.truth),
    }


def live_times(series: list[Callable[[], list[float]]]) -> dict[str, float]:
    series[0]()
    spent = np.concatenate([one() for one in series])
    return {"live_ms": 1e3 * spent.mean(), "live_call_ms": 1e3 * spent.max()}


OURS = {"sooner": ours("msprt"), "fixed time": ours("fixed_time")}
PEERS = {
    "TEASER": theirs(TEASER, 25, "default"),
    "TEASER, even": theirs(TEASER, 25, "even"),
    "threshold": theirs(ProbabilityThresholdEarlyClassifier, 100, "default"),
    "threshold, even": theirs(ProbabilityThresholdEarlyClassifier, 100, "even"),
}


def peers_of(name: str) -> list[str]:
    """Those that can: equal lengths, and for the default points more than a few observations."""
    if name.endswith("Unequal"):
        return []
    return [peer for peer in PEERS if peer.endswith("even") or name != "JapaneseVowels"]


def measure(name: str, seed: int, known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All methods on one set with one seed; what the peers did before is taken as known."""
    data = load(name)
    rows = {method: run(data, seed) for method, run in OURS.items()}
    curve = rows["sooner"].pop("curve")
    rows["fixed time"].pop("curve")
    for peer in peers_of(name):
        beside = {f"our_{field}": rows["sooner"][field] for field in TIMES}
        rows[peer] = known.get(f"{name}, seed {seed}, {peer}") or {**PEERS[peer](data, seed), **beside}
    for method in rows.keys() - {"sooner"}:
        at = rows[method]["mean_time"]
        rows[method]["our_balanced_error_then"] = curve.error_at(at)
        rows[method]["our_error_then"] = float(np.interp(at, curve.mean_times, curve.error_rates, left=np.nan))
    return rows


def warm_up(name: str) -> None:
    """What is compiled or loaded at the first call is no part of a fit."""
    data = load(name)
    for run in OURS.values():
        run(data, 0)
    few = np.unique(np.searchsorted(np.sort(data.y), np.unique(data.y)))
    order = np.argsort(data.y, kind="stable")
    rows = np.concatenate([order[few + step] for step in range(4)])
    if peers_of(name):
        for make in (TEASER, ProbabilityThresholdEarlyClassifier):
            clf = make(TimeSeriesForestClassifier(n_estimators=2), classification_points=data.even[::4], random_state=0)
            clf.fit(data.x[rows], data.y[rows]).predict(data.new[:2])


def over(rows: list[dict[str, Any]], field: str) -> list[float]:
    """The mean over seeds and, of several, its standard error."""
    means = over_seeds([[row[field]] for row in rows])
    return [round(float(part[0]), 4) for part in (means.mean, means.sem)[: len(rows)]]


def summary(results: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Means (and standard errors) over seeds; the cost of a method minus ours is taken seed by seed."""
    told: dict[str, Any] = {name: {} for name in ("cost", "cost_above_ours", "fit_seconds", "live_ms")}
    told |= {**{key: {} for key in TIMES.values()}, "curve_below": {}, "curve_below_plain": {}, "threads": THREADS}
    for name, methods in results.items():
        mine = methods["sooner"]
        others = {method: rows for method, rows in methods.items() if method != "sooner"}
        told["cost"][name] = {method: over(rows, "cost") for method, rows in methods.items()}
        told["cost_above_ours"][name] = {
            method: over([{"cost": row["cost"] - own["cost"]} for row, own in zip(rows, mine, strict=True)], "cost")
            for method, rows in others.items()
        }
        for field in ("fit_seconds", "live_ms"):
            told[field][name] = {method: round(over(rows, field)[0], 3) for method, rows in methods.items()}
        for field, key in TIMES.items():
            told[key][name] = {
                method: round(over(rows, field)[0] / over(rows, f"our_{field}")[0], 1)
                for method, rows in others.items()
                if method in PEERS
            }
        for key, own, his in (
            ("curve_below", "our_balanced_error_then", "balanced_error"),
            ("curve_below_plain", "our_error_then", "error"),
        ):
            told[key][name] = {
                method: [
                    over([{**row, "error": 1 - row["accuracy"]} for row in rows], field)[0] for field in (own, his)
                ]
                for method, rows in others.items()
            }
    return told


def table(name: str, methods: dict[str, list[dict[str, Any]]]) -> Table:
    shown = Table(title=f"{name}, {len(methods['sooner'])} seeds", title_justify="left")
    for column in ("method", "accuracy", "earliness", "cost", "fit s", "live ms", "call ms", "curve: ours", "its own"):
        shown.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for method, rows in methods.items():
        pairs = [over(rows, field) for field in ("accuracy", "earliness", "cost")]
        times = [f"{over(rows, field)[0]:.2f}" for field in ("fit_seconds", "live_ms", "live_call_ms")]
        fields = ("our_balanced_error_then", "balanced_error")
        curve = ["", ""] if method == "sooner" else [f"{over(rows, field)[0]:.3f}" for field in fields]
        shown.add_row(method, *(" ± ".join(f"{part:.3f}" for part in pair) for pair in pairs), *times, *curve)
    return shown


def settings() -> dict[str, Any]:
    versions = {"python": platform.python_version()} | {each: importlib.metadata.version(each) for each in PACKAGES}
    told = {"command": "python benchmarks/peers.py", "versions": versions, "methods": METHODS}
    return {**told, "threads": THREADS, "live_series": LIVE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record, one row for each set, seed and method")
    parser.add_argument("--again", action="store_true", help="measure the peers again, too")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    numba.set_num_threads(THREADS)
    known = {} if asked.again or not asked.out.exists() else json.loads(asked.out.read_text())["rows"]
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with threadpool_limits(THREADS):
        for name in asked.sets:
            warm_up(name)
            for seed in range(asked.seeds):
                for method, row in measure(name, seed, known).items():
                    results.setdefault(name, {}).setdefault(method, []).append(row)
                    known[f"{name}, seed {seed}, {method}"] = row
                    print(f"{name}, seed {seed}, {method}: cost {row['cost']:.4f}", flush=True)
                asked.out.parent.mkdir(exist_ok=True)
                asked.out.write_text(json.dumps({**settings(), "rows": known}, indent=1) + "\n")
    console = Console(width=130)
    for name, methods in results.items():
        console.print(table(name, methods))
    print(json.dumps(summary(results)))


if __name__ == "__main__":
    main()
