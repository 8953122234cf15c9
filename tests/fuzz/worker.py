"""The process that hands inputs in: one after the other, and a line for each that ends."""

import json
import math
import mmap
import os
import resource
import struct
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from fuzz.case import GOOD, Case, Outcome, Quiet, Target, drawn, outcome

NOW = struct.Struct("<qd")
"""What a worker is at: the number of the input, and since when (on the monotonic clock; infinity while it is made)."""
IDLE = -1


def scratch() -> str:
    """Where small files cost nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def targets_of(module: str, only: str = "") -> list[Target]:
    """The targets that a module names, all or one."""
    targets: list[Target] = import_module(module).TARGETS
    return [target for target in targets if only in ("", target.name)]


def work(module: str, only: str, seed: int, indices: range, memory: int, slot: str) -> None:
    """Hand the inputs of these numbers in, and write a line of JSON for each to the standard output."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdin.close()
    with Path(slot).open("r+b") as file, mmap.mmap(file.fileno(), NOW.size) as now:
        targets = targets_of(module, only)
        _show_warnings()
        _limit(memory)
        quiet = Quiet()
        try:
            for index in indices:
                target, chance = drawn(targets, seed, index)
                with tempfile.TemporaryDirectory(dir=scratch()) as folder:
                    now[:] = NOW.pack(index, math.inf)
                    case = target.make(chance, Path(folder))
                    now[:] = NOW.pack(index, time.monotonic())  # in one move: the watch looks at any time
                    found = _watched(case, quiet, memory)
                    now[:] = NOW.pack(IDLE, time.monotonic())
                lines.write(json.dumps(_record(index, target, case, found)) + "\n")
                if found.kind == "memory":
                    break  # the high-water mark does not fall: the next input gets a new process
        finally:
            quiet.end()
            lines.close()


def _record(index: int, target: Target, case: Case, found: Outcome) -> dict[str, Any]:
    record = {"index": index, "target": target.name, "kind": found.kind}
    return record if found.kind in GOOD else record | {"said": found.said, "payload": case.payload.hex()}


def _show_warnings() -> None:
    """Every time, but for what only concerns developers of other packages."""
    warnings.simplefilter("always")
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.filterwarnings("always", category=DeprecationWarning, module="sooner")


def _watched(case: Case, quiet: Quiet, memory: int) -> Outcome:
    quiet.noise()  # that of making the input is not its own
    before = _peak()
    found = outcome(case)
    noise = quiet.noise()
    if _peak() > max(before, memory) or (found.kind == "tracebacks" and "MemoryError" in found.said):
        return Outcome("memory", f"{_peak() / 1e9:.1f} GB at most. {found.said}")
    if noise and found.kind in GOOD:
        return Outcome("noise", noise)
    return found


def _peak() -> int:
    """Peak resident memory in bytes. `ru_maxrss` starts at the parent's own peak, so Linux is asked for that of this program."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _limit(memory: int) -> None:
    """An input that asks for much more than is allowed gets a MemoryError, and this machine goes on."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = 2 * memory + _peak()
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
