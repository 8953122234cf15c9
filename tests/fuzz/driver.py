"""Workers, watched: what dies, hangs or eats the memory is counted, and another worker goes on behind it."""

import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from fuzz.case import BAD, GOOD, drawn
from fuzz.worker import IDLE, NOW, scratch, targets_of

MEMORY = 2_000_000_000
SECONDS = 20.0


@dataclass(frozen=True)
class Run:
    """Which inputs.

    Args:
        inputs: how many.
        seed: of all of them.
        workers: processes.
        module: whose `TARGETS` are tried.
        only: one of them, by name.
        memory: bytes an input may take.
        seconds: an input may take.
    """

    inputs: int
    seed: int = 0
    workers: int = 2
    module: str = "fuzz.targets"
    only: str = ""
    memory: int = MEMORY
    seconds: float = SECONDS


@dataclass
class Counts:
    """How often each target came to each end, and the records of the bad ends."""

    ends: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def add(self, record: dict[str, Any]) -> None:
        self.ends.setdefault(record["target"], Counter())[record["kind"]] += 1
        if record["kind"] in BAD:
            self.faults.append(record)

    def total(self, kind: str) -> int:
        return sum(ends[kind] for ends in self.ends.values())

    def table(self) -> str:
        """One row for each target, and one for all."""
        kinds = (*GOOD, *BAD)
        rows = [("", "inputs", *kinds)]
        for name in sorted(self.ends):
            ends = self.ends[name]
            rows.append((name, f"{ends.total():,}", *(f"{ends[kind]:,}" for kind in kinds)))
        counts = [self.total(kind) for kind in kinds]
        rows.append(("all", f"{sum(counts):,}", *(f"{count:,}" for count in counts)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(pairs))
            for pairs in (list(zip(row, widths, strict=True)) for row in rows)
        )


def run(plan: Run) -> Counts:
    """Hand all inputs in, on so many processes."""
    counts = Counts()
    lanes = [range(lane, plan.inputs, plan.workers) for lane in range(plan.workers)]
    with ThreadPoolExecutor(plan.workers) as pool:
        list(pool.map(lambda lane: _lane(plan, lane, counts), lanes))
    return counts


def _lane(plan: Run, lane: range, counts: Counts) -> None:
    """One worker after the other, until all inputs of the lane have come to an end."""
    while len(lane):
        done = 0
        for record in _records(plan, lane):
            done = lane.index(record["index"]) + 1
            counts.add(record)
        if not done:
            raise RuntimeError("a worker ended before its first input")
        lane = lane[done:]


def _records(plan: Run, lane: range) -> Iterator[dict[str, Any]]:
    """What came of each input, to the end of the lane or of the worker."""
    with tempfile.NamedTemporaryFile(dir=scratch()) as slot:
        slot.write(NOW.pack(IDLE, time.monotonic()))
        slot.flush()
        worker = _started(plan, lane, slot.name)
        with worker, mmap.mmap(slot.fileno(), NOW.size) as now:
            watch = _Watch(worker, now, plan)
            watch.start()
            last = None
            for line in worker.stdout or ():
                last = json.loads(line)
                yield last
            worker.wait()
            watch.join()
            index, _ = NOW.unpack_from(now)
        if index != IDLE:
            yield _death(plan, index, watch.reason or f"exit code {worker.returncode}", watch.kind)
        elif worker.returncode:
            yield _death(plan, lane[-1] if last is None else last["index"], f"exit code {worker.returncode} at its end")


def _started(plan: Run, lane: range, slot: str) -> "subprocess.Popen[str]":
    program = (
        "import sys, json; from fuzz.worker import work; a = json.loads(sys.argv[1]); a[3] = range(*a[3]); work(*a)"
    )
    given = [plan.module, plan.only, plan.seed, [lane.start, lane.stop, lane.step], plan.memory, slot]
    place = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program, json.dumps(given)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(place)},
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def _death(plan: Run, index: int, reason: str, kind: str = "crashes") -> dict[str, Any]:
    target, chance = drawn(targets_of(plan.module, plan.only), plan.seed, index)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        payload = target.make(chance, Path(folder)).payload
    return {"index": index, "target": target.name, "kind": kind, "said": reason, "payload": payload.hex()}


class _Watch(Thread):
    """Ends a worker that is too long at an input, or takes too much memory for it."""

    def __init__(self, worker: "subprocess.Popen[str]", now: mmap.mmap, plan: Run) -> None:
        super().__init__(daemon=True)
        self.worker, self.now, self.plan = worker, now, plan
        self.kind, self.reason = "crashes", ""

    def run(self) -> None:
        while self.worker.poll() is None:
            time.sleep(0.05)
            index, since = NOW.unpack_from(self.now)
            if index == IDLE:
                continue
            if time.monotonic() - since > self.plan.seconds:
                self.kind, self.reason = "hangs", f"over {self.plan.seconds:g} s"
            elif _resident(self.worker.pid) > self.plan.memory:
                self.kind, self.reason = "memory", f"over {self.plan.memory / 1e9:g} GB"
            if self.reason:
                self.worker.kill()
                return


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0
