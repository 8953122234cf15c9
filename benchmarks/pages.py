"""Run the commands and examples whose output is shown in README.md and docs/, and write results/pages.json.

`python benchmarks/results.py` then takes the numbers over into the pages. The parts are `pumps` (README, getting started), `demo`
and `exact` (the first page), `chosen` (rules and thresholds) and `live` (live streams, from laptop to cluster). If some are
named as arguments, only those are run, and the others are kept.

    python benchmarks/pages.py
    python benchmarks/pages.py pumps demo

Times of `live` are CPU times, because other work on the same machine increases wall times.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "pages.json"
PACKAGES = ("torch", "numpy", "scikit-learn")
WIDTH = "100"  # columns of the printed tables
BENCHES, STREAMS = 5, 1000

PUMPS = (
    "sooner train pumps.csv --series pump --time minute --label state --out pumps.sooner",
    "sooner threshold pumps.sooner --max-error 0.05",
    "sooner evaluate pumps.sooner new_pumps.csv",
)
STREAM = "sooner stream pumps.sooner --format csv"


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            record[name] = {**about(), **PARTS[name](Path(folder))}
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({name: sorted(record[name]) for name in wanted}))


def about() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": {"processor": platform.machine(), "cores": cores, "threads": 1},
    }


def printed(command: str, folder: Path, **given: Any) -> str:
    """What a command of `sooner`, or a program of this tree, prints."""
    first, *words = shlex.split(command)
    program = ["-m", "sooner"] if first == "sooner" else [str(ROOT / words.pop(0))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": WIDTH, "PYTHONPATH": str(ROOT / "src")}
    whole = [sys.executable, *program, *words]
    return subprocess.run(
        whole, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True, **given
    ).stdout


def pumps(folder: Path) -> dict[str, Any]:
    """The first commands on one's own data, as README and getting started show them."""
    printed("python examples/04_own_table.py .", folder)
    said = {command: printed(command, folder) for command in PUMPS}
    with (folder / "new_pumps.csv").open() as table:
        decided = printed(STREAM, folder, stdin=table).splitlines()
    return {
        "commands": [*PUMPS, f"{STREAM} < new_pumps.csv"],
        "table": (folder / "pumps.csv").read_text(encoding="utf-8").splitlines()[:4],
        "evaluate": json.loads(printed(f"{PUMPS[-1]} --json", folder)),
        "evaluate_printed": [line.rstrip() for line in said[PUMPS[-1]].splitlines()],
        "stream_printed": decided[:2],
    }


def demo(folder: Path) -> dict[str, Any]:
    """`sooner demo`."""
    found = json.loads(printed("sooner demo --json", folder))
    return {"commands": ["sooner demo"], "error_at": found["error_at"], "reached": found["reached"]}


def exact(folder: Path) -> dict[str, Any]:
    """The table of examples/05_exact_scores.py."""
    command = "python examples/05_exact_scores.py"
    keys = ("target", "threshold", "error", "worst_class", "mean_time", "fixed_error", "fixed_time")
    rows = [dict(zip(keys, line.split(), strict=True)) for line in printed(command, folder).splitlines()[2:]]
    return {"commands": [command], "rows": rows}


def chosen(_: Path) -> dict[str, Any]:
    """What a threshold reaches on the series that chose it, and on others."""
    from sooner import EarlyClassifier
    from sooner.data import archives
    from sooner.evaluate import balanced_error

    rows = {}
    for name, target in (("JapaneseVowels", 0.03), ("GunPoint", None)):
        (x, y), (new, truth) = archives.cases(name)
        clf = EarlyClassifier().fit(x, y)
        found = clf.achieved_ if target is None else clf.choose_threshold(max_error=target)
        error = balanced_error(clf.decide(new), truth)
        rows[name] = {"series": len(x), "max_error": target, **found.to_dict(), "test_error": float(error)}
    return {"commands": ["python benchmarks/pages.py chosen"], "rows": rows}


def live(folder: Path) -> dict[str, Any]:
    """`sooner bench` on the models of the pumps and the demo, and on recurrent ones, whose cost is that of any weights."""
    from sooner import EarlyClassifier
    from sooner.data import digits

    printed("python examples/04_own_table.py .", folder)
    printed(PUMPS[0], folder)
    train, _, _ = digits.load(0)
    EarlyClassifier(random_state=0).fit(train).save(folder / "digits.sooner")
    for name, order in (("full", "full"), ("order-4", 4)):
        clf = EarlyClassifier("recurrent", order=order, hidden=64, max_epochs=1, random_state=0).fit(train)
        clf.save(folder / f"{name}.sooner")
    names = ("pumps", "digits", "full", "order-4")
    rows = {name: benched(f"{name}.sooner", folder) for name in names}
    return {"commands": ["python benchmarks/pages.py live"], "rows": rows}


def benched(model: str, folder: Path) -> dict[str, Any]:
    """As `sooner bench`, but in CPU time, which other work on the machine does not affect; the minimum of several runs."""
    from sooner import load
    from sooner.cli import bench

    clf = load(folder / model)
    with patch.object(bench.time, "perf_counter", time.process_time):
        one = [bench._seconds(clf, 1) for _ in range(BENCHES)]
        many = [bench._seconds(clf, STREAMS) for _ in range(BENCHES)]
    return {
        "runs": BENCHES,
        "one_microseconds": 1e6 * min(early for early, _ in one),
        "many_microseconds": 1e6 * min(early for early, _ in many) / STREAMS,
        "late_over_early": min(late for _, late in many) / min(early for early, _ in many),
        "bytes": clf.stream(keyed=True).bytes_per_stream,
    }


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "pumps": pumps,
    "demo": demo,
    "exact": exact,
    "chosen": chosen,
    "live": live,
}

if __name__ == "__main__":
    main()
