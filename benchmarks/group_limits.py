"""Coverage of the balanced error by confidence limits by group and by limits that ignore groups; nominally 95%.

Series of two classes, ten to a group on average, whose groups each have an error of their own (beta, with the intraclass
correlation `alike`). Groups span both classes or hold one each; they are equally large, or their sizes are exponential.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from sooner.evaluate import balanced_limits, group_limits
from sooner.evaluate.group_intervals import group_counts

RECORD = Path(__file__).parents[1] / "results" / "group_limits.json"
GROUPS, ERRORS, ALIKE = (8, 20, 60), (0.05, 0.2, 0.4), (0.1, 0.5, 0.9)


def draw(
    random: np.random.Generator, groups: int, error: float, alike: float, held: str, sizes: str
) -> tuple[np.ndarray, ...]:
    spread = (1 - alike) / alike
    own = random.beta(error * spread, (1 - error) * spread, groups)
    each = np.full(groups, 10) if sizes == "equal" else np.maximum(random.poisson(random.exponential(10, groups)), 1)
    members = np.repeat(np.arange(groups), each)
    labels = members % 2 if held == "one class" else random.integers(0, 2, len(members))
    return random.random(len(members)) < own[members], labels, members


def coverage(draws: int, *case: object) -> dict[str, float]:
    """The share of the draws in which each interval holds the true error."""
    random, error = np.random.default_rng(0), case[1]
    held = {"by_group": 0, "ignoring_groups": 0}
    for _ in range(draws):
        wrong, labels, members = draw(random, *case)
        counts = group_counts(labels, members, classes=2)
        bad = group_counts(labels, members, classes=2, weights=wrong)
        for name, (low, high) in {
            "by_group": group_limits(bad, counts),
            "ignoring_groups": balanced_limits(bad.sum(axis=0), counts.sum(axis=0)),
        }.items():
            held[name] += bool(low <= error <= high)
    return {name: round(count / draws, 4) for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    cases = itertools.product(GROUPS, ERRORS, ALIKE, ("both classes", "one class"), ("equal", "unequal"))
    names = ("groups", "error", "alike", "a group holds", "sizes")
    rows = [dict(zip(names, case, strict=True)) | coverage(draws, *case) for case in cases]
    summary: dict[str, dict[str, dict[str, float]]] = {"equal": {}, "unequal": {}}
    for sizes, name in itertools.product(summary, ("by_group", "ignoring_groups")):
        shares = [row[name] for row in rows if row["sizes"] == sizes]
        summary[sizes][name] = {"least": min(shares), "median": float(np.median(shares)), "most": max(shares)}
    RECORD.write_text(
        json.dumps({"draws": draws, "summary": summary, "cases": rows}, indent=1) + "\n", encoding="utf-8"
    )
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
