"""A machine whose CPU reports bfloat16 and traps on it, simulated: with this folder on PYTHONPATH, every product and
convolution in bfloat16 on the CPU kills its process by SIGILL, in this process, in its children and on Ray.

With TRAPPING=amx they work where ONEDNN_MAX_CPU_ISA is AVX512_CORE_BF16, as on a machine that only traps on AMX.
`make test-trapping` runs tests under both.
"""

import atexit
import importlib.abc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile

OPERATORS = (
    "mm",
    "mv",
    "addmm",
    "addmv",
    "bmm",
    "baddbmm",
    "addbmm",
    "_addmm_activation",
    "convolution",
    "convolution_backward",
    "convolution_overrideable",
    "mkldnn_rnn_layer",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def _lifted():
    return os.environ.get("TRAPPING") == "amx" and os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX512_CORE_BF16"


def _set_traps(torch):
    """Kernels in front of those of every backend, in C++ and in all threads, forward and backward."""
    library = torch.library.Library("aten", "IMPL")
    trapped, front = torch.bfloat16, torch._C.DispatchKey.BackendSelect
    for name in OPERATORS:
        operator = getattr(torch.ops.aten, name).default

        def trap(keys, *args, _operator=operator, **options):
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            if any(each.dtype == trapped and each.device.type == "cpu" for each in tensors):
                os.kill(os.getpid(), signal.SIGILL)
            return _operator.redispatch(keys.remove(front), *args, **options)

        library.impl(operator, trap, "BackendSelect", with_keyset=True)
    return library


class _Finder(importlib.abc.MetaPathFinder):
    """Sets the traps as soon as torch is imported: a process without torch must stay one."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        usual = spec.loader.exec_module

        def exec_module(module):
            usual(module)
            module._traps = _set_traps(module)

        spec.loader.exec_module = exec_module
        return spec


if "TRAPPING_CACHE" not in os.environ:  # the first of all processes: what is found here must not be believed elsewhere
    os.environ["TRAPPING_CACHE"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="trapping-")
    atexit.register(shutil.rmtree, os.environ["TRAPPING_CACHE"], ignore_errors=True)
if not _lifted():
    sys.meta_path.insert(0, _Finder())
