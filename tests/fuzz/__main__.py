"""`python -m fuzz`: run inputs, keep those that fail, and end with counts."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from fuzz.case import BAD, drawn, outcome
from fuzz.driver import Counts, Run, run
from fuzz.worker import targets_of


def main() -> int:
    """The exit code: 0 if no input came to a bad end."""
    parser = argparse.ArgumentParser(prog="fuzz", description=sys.modules["fuzz"].__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="one target, by name")
    parser.add_argument("--case", type=int, help="run the input of this number alone, in this process")
    parser.add_argument("--kept", type=Path, default=Path("build/fuzz"), help="folder for inputs that fail")
    given = parser.parse_args()
    if given.case is not None:
        return _alone(given.seed, given.case, given.only)
    start = time.monotonic()
    counts = run(Run(given.inputs, given.seed, given.workers, only=given.only))
    _keep(counts, given.kept, given.seed, given.only)
    bad = sum(counts.total(kind) for kind in BAD)
    sys.stdout.write(f"{counts.table()}\n")
    sys.stdout.write(f"seed {given.seed}, {time.monotonic() - start:.0f} s on {given.workers} processes")
    sys.stdout.write(f"; {bad} bad ends are kept in {given.kept}\n" if bad else "; no bad end\n")
    return 1 if bad else 0


def _keep(counts: Counts, folder: Path, seed: int, only: str = "") -> None:
    """Each input that fails as it was handed in, and beside it what happened and how to run it again."""
    for fault in counts.faults:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{fault['target'].replace(' ', '-')}-{seed}-{fault['index']}"
        (folder / f"{name}.input").write_bytes(bytes.fromhex(fault["payload"]))
        again = f"make fuzz SEED={seed} CASE={fault['index']}" + (f" ONLY='{only}'" if only else "")
        about = {"kind": fault["kind"], "target": fault["target"], "again": again, "said": fault["said"]}
        (folder / f"{name}.json").write_text(json.dumps(about, indent=1))


def _alone(seed: int, index: int, only: str) -> int:
    target, chance = drawn(targets_of("fuzz.targets", only), seed, index)
    with tempfile.TemporaryDirectory() as folder:
        case = target.make(chance, Path(folder))
        sys.stdout.write(f"{target.name}: {case.payload[:2000]!r}\n")
        found = outcome(case)
    sys.stdout.write(f"{found.kind}: {found.said}\n")
    return int(found.kind in BAD)


if __name__ == "__main__":
    sys.exit(main())
