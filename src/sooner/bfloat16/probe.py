"""The trial of bfloat16, in a child process: some virtual machines report AMX and kill the process that uses it.

If the child is killed or its results differ from float32, a second child tries the instruction set below AMX. oneDNN reads
that choice once, at the first product of a process (measured with torch 2.13), so the message names the variable to set.
"""

import functools
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sooner.bfloat16.trial import DISAGREES
from sooner.errors import InvalidArgument
from sooner.storage import cache_folder, locked, write_whole

if TYPE_CHECKING:
    from torch import nn

_VARIABLE, _LOWER = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
_TRIAL = Path(__file__).with_name("trial.py")
_TIMEOUT = 120.0  # seconds, nearly all of them for the import of torch on a busy machine
_FORMAT = 1  # in the cache key: raised when the trial changes
# Signals from the processor. Any other end (memory, a user's signal, an exception) is not evidence about bfloat16.
FAULTS = {getattr(signal, name, None) for name in ("SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGABRT", "SIGTRAP")}


@dataclass(frozen=True)
class Support:
    """The result of the trial of bfloat16 on this CPU.

    Args:
        works: whether bfloat16 may be used in this process.
        fault: how the trial failed.
        remedy: environment variable with which it works, or empty.
    """

    works: bool
    fault: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """The result and the remedy, in one or two sentences.

        >>> print(Support(False, "was killed by SIGILL", "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"))
        A trial of bfloat16 on this CPU was killed by SIGILL. It works with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the \
environment before Python starts.
        """
        if self.works:
            return "bfloat16 works on this CPU."
        remedy = f" It works with {self.remedy} in the environment before Python starts." if self.remedy else ""
        return f"A trial of bfloat16 on this CPU {self.fault}.{remedy}"


class _Trial(NamedTuple):
    """The result of one child; only conclusive results are cached."""

    works: bool
    fault: str = ""
    conclusive: bool = True


@functools.cache
def bfloat16_support() -> Support:
    """Whether products in bfloat16 work on this CPU.

    The first call on a machine takes some seconds. The result is cached in the process and in the user's cache folder.
    """
    # The cache key includes the system, because a kernel or a hypervisor decides which instructions trap.
    key = {
        "format": _FORMAT,
        "cpu": cpu_identity(),
        "system": platform.platform(),
        "torch": version("torch"),
        "isa": os.environ.get(_VARIABLE, ""),
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    try:
        file = cache_folder("bfloat16") / f"{digest[:16]}.json"
    except RuntimeError:  # a user without a home folder
        return _probed()[0]
    cached = _read(file, key)
    if cached is not None:
        return cached
    with ExitStack() as stack:
        # Workers that start together wait for the first one's result. A folder may be read-only, a network disk without locks.
        with suppress(OSError, NotImplementedError):
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(file.with_suffix(".lock")))
        cached = _read(file, key)
        if cached is not None:
            return cached
        support, conclusive = _probed()
        if conclusive:
            content = json.dumps({"identity": key, "support": asdict(support)}, indent=1).encode() + b"\n"
            with suppress(OSError):  # a cache that cannot be written costs only seconds the next time
                write_whole(file, content)
        return support


def refuse_bfloat16(module: "nn.Module", name: str) -> None:
    """Refuse a module with bfloat16 weights on a CPU where bfloat16 does not work; `name` is the argument in the error."""
    import torch

    weights = (weight for weight in module.parameters() if weight.dtype == torch.bfloat16)
    if any(weight.device.type == "cpu" for weight in weights) and not bfloat16_support().works:
        remedy = f"{bfloat16_support()} Or convert it: `{name}.float()`."
        raise InvalidArgument(name, "in float32 on this CPU", "weights in bfloat16", remedy)


def _probed() -> tuple[Support, bool]:
    """The result of one or two trials, and whether it is conclusive."""
    first = _tried({})
    if first.works:
        return Support(True), True
    second = _tried({_VARIABLE: _LOWER})
    remedy = f"{_VARIABLE}={_LOWER}" if second.works else ""
    return Support(False, first.fault, remedy), first.conclusive and second.conclusive


def _tried(change: Mapping[str, str]) -> _Trial:
    """The trial in a new interpreter with this change of the environment."""
    # -P: the folder of the trial must not come before the standard library.
    command, environment = [sys.executable, "-P", str(_TRIAL)], {**os.environ, **change}
    null = subprocess.DEVNULL
    try:
        code = subprocess.call(command, env=environment, timeout=_TIMEOUT, stdin=null, stdout=null, stderr=null)
    except subprocess.TimeoutExpired:
        return _Trial(False, f"did not end within {_TIMEOUT:g} seconds", conclusive=False)
    except OSError as error:
        return _Trial(False, f"could not be started ({error.strerror})", conclusive=False)
    if code == DISAGREES:
        return _Trial(False, "gave other numbers than float32")
    if code < 0:
        return _Trial(False, f"was killed by {_signal_name(-code)}", conclusive=-code in FAULTS)
    # Windows has no signals: an illegal instruction gives a code of 32 bits.
    return _Trial(code == 0, "" if code == 0 else f"ended with code {code}", conclusive=code == 0 or code > 255)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def cpu_identity() -> list[str]:
    """Model and flags of the first processor on Linux, otherwise the values from `platform`."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return [platform.machine(), platform.processor()]
    fields = dict(line.partition(":")[::2] for line in first.splitlines())
    # Other fields, like the clock rate, change from second to second.
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU part", "Features")
    return [value.strip() for key, value in fields.items() if key.strip() in wanted]


def _read(file: Path, key: Mapping[str, Any]) -> Support | None:
    """The cached result, or None if the file is missing, damaged or has another key."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        cached = content["support"]
        support = Support(cached["works"], cached["fault"], cached["remedy"])
        types = (type(support.works), type(support.fault), type(support.remedy))
        return support if content["identity"] == key and types == (bool, str, str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
