"""Compilation of the C files, once for each machine, and its trial in a child process.

The first training step on a machine compiles them with the system's C compiler for its CPU, into the user's cache folder, and
compares it with PyTorch's operations in a child process: a compiler may be broken, and a virtual machine may report instructions
that kill the process. If compiler or trial fail, the next flags are tried; if all fail, PyTorch's operations are used. Everything
else (no compiler, no cache folder, another type or device, an exported graph) uses them too, without a warning.

A process that only predicts or reads live series uses the file if it is there, but does not build it: that takes some seconds.
With SOONER_FUSED=1 in the environment it builds it too; with SOONER_FUSED=0 the file is never used.
"""

import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sooner.bfloat16.probe import FAULTS, cpu_identity
from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.fused.library import CODES, Library
from sooner.models.recurrent.fused.trial import DISAGREES
from sooner.storage import cache_folder, locked, whole_file, write_whole

_FOLDER = Path(__file__).parent
_SOURCES, _HEADER, _TRIAL = ("windows.c", "readout.c", "live.c"), "shared.h", _FOLDER / "trial.py"
_COMPILERS = ("cc", "gcc", "clang")
# Not -ffast-math: some compilers then switch off denormal numbers in the whole process.
_FLAGS = (
    "-O3",
    "-std=c11",
    "-fPIC",
    "-shared",
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
)
_TARGETS = (
    ("-march=native", "-mprefer-vector-width=512"),
    ("-march=native",),
    ("-mcpu=native",),
    ("-march=x86-64-v3",),
    (),
)
_COMPILE_TIMEOUT = 120.0  # seconds; it takes about one
_TRIAL_TIMEOUT = 120.0  # seconds, nearly all of them for the import of torch on a busy machine
_FORMAT = 1  # in the cache key: raised when the build or the trial changes


def fused_for(tensor: Tensor, activation: Activation) -> Library | None:
    """The compiled kernel, if it may read this tensor; the first call that needs it builds it.

    A tensor without a gradient to come uses it where it is built already, so that a process that only predicts never compiles.
    """
    switch = os.environ.get("SOONER_FUSED", "")
    if switch == "0" or tensor.dtype != torch.float32 or not tensor.is_cpu:
        return None
    # A tensor of another class stands for something else than numbers in memory, as in a graph that is exported.
    if type(tensor) not in (Tensor, nn.Parameter) or torch.compiler.is_compiling() or torch._C._get_tracing_state():
        return None
    compiles = torch.is_grad_enabled() or switch == "1"
    return built_library(compiles=compiles) if type(activation) in CODES else None


@functools.cache
def built_library(*, compiles: bool) -> Library | None:
    """The compiled kernel that passed its trial on this machine, or None.

    Args:
        compiles: whether to build it if it is not in the cache.
    """
    compiler = _compiler()
    if compiler is None:
        return None
    key = _key(compiler)
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    try:
        record = cache_folder("fused") / f"{digest}.json"
    except RuntimeError:  # a user without a home folder
        return None
    cached, found = _read(record, key)
    if found or not compiles:
        return cached
    with ExitStack() as stack, suppress(OSError, NotImplementedError):  # a folder may be read-only or without locks
        record.parent.mkdir(parents=True, exist_ok=True)
        # Workers that start together wait for the first one's result.
        stack.enter_context(locked(record.with_suffix(".lock")))
        cached, found = _read(record, key)
        return cached if found else _built(compiler, record, key)
    return None


def _compiler() -> Path | None:
    """The path of the C compiler that CC names, or of the system's."""
    wanted = os.environ.get("CC")
    paths = (shutil.which(name) for name in ((wanted,) if wanted else _COMPILERS))
    return next((Path(path).resolve() for path in paths if path), None)


def _key(compiler: Path) -> dict[str, Any]:
    """All that the compiled file and the result of its trial depend on."""
    stat = compiler.stat()
    return {
        "format": _FORMAT,
        "source": hashlib.sha256(b"".join((_FOLDER / name).read_bytes() for name in (*_SOURCES, _HEADER))).hexdigest(),
        # Asking a compiler for its version would cost more time than loading the compiled file.
        "compiler": [str(compiler), stat.st_size, stat.st_mtime_ns],
        "flags": [*_FLAGS, *map(list, _TARGETS)],
        "cpu": cpu_identity(),
        "system": platform.platform(),
        "torch": version("torch"),
    }


def _built(compiler: Path, record: Path, key: dict[str, Any]) -> Library | None:
    """Compile and try with one set of flags after another, and record what works, or that nothing does."""
    conclusive = True
    for number, target in enumerate(_TARGETS):
        file = record.with_name(f"{record.stem}-{number}.so")
        with suppress(OSError, subprocess.SubprocessError):
            with whole_file(file) as temporary:
                subprocess.run(
                    [
                        str(compiler),
                        *_FLAGS,
                        *target,
                        *(str(_FOLDER / name) for name in _SOURCES),
                        "-o",
                        str(temporary),
                    ],
                    **_quiet(_COMPILE_TIMEOUT),
                    check=True,
                )
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            works, certain = _tried(file)
            if works:
                _write(record, key, {"file": file.name, "sha256": digest})
                return _read(record, key)[0] or _loaded(file)
            file.unlink()
            conclusive = conclusive and certain
            continue
        conclusive = False  # a compiler may be repaired
    if conclusive:
        _write(record, key, {"file": None, "sha256": None})
    return None


def _tried(file: Path) -> tuple[bool, bool]:
    """Whether the file passes its trial in a child process, and whether that is certain to be the file's doing."""
    # -P: the folder of the trial must not come before the standard library.
    command = [sys.executable, "-P", str(_TRIAL), str(file)]
    try:
        code = subprocess.call(command, **_quiet(_TRIAL_TIMEOUT))
    except (OSError, subprocess.SubprocessError):
        return False, False
    return code == 0, code == DISAGREES or -code in FAULTS or code > 255


def _quiet(timeout: float) -> dict[str, Any]:
    null = subprocess.DEVNULL
    return {"timeout": timeout, "stdin": null, "stdout": null, "stderr": null}


def _write(record: Path, key: dict[str, Any], result: dict[str, Any]) -> None:
    with suppress(OSError):  # a cache that cannot be written costs only seconds the next time
        write_whole(record, json.dumps({"identity": key, **result}, indent=1) + "\n")


def _read(record: Path, key: dict[str, Any]) -> tuple[Library | None, bool]:
    """The cached result, and whether there is one: a file that is missing or damaged is built again."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        if content["identity"] != key:
            return None, False
        if content["file"] is None:
            return None, True
        file = record.with_name(content["file"])
        if hashlib.sha256(file.read_bytes()).hexdigest() != content["sha256"]:
            return None, False
        return _loaded(file), True
    except (OSError, ValueError, KeyError, TypeError):
        return None, False


def _loaded(file: Path) -> Library | None:
    try:
        return Library(str(file))
    except (OSError, AttributeError):  # it cannot be loaded, or PyTorch has no such function
        return None
