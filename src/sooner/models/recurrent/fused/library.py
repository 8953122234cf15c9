"""The compiled functions, with PyTorch's matrix product and threads for them."""

import ctypes
from pathlib import Path

import torch

from sooner.models.recurrent.activations import Activation, B2BSqrt, Tanh

CODES: dict[type[Activation], int] = {Tanh: 0, B2BSqrt: 1}
"""The activations of shared.h."""
INTEGER, POINTER = ctypes.c_int64, ctypes.c_void_p


class Library:
    """The functions of one compiled file.

    Args:
        path: the file.

    Raises OSError or AttributeError if the file cannot be loaded, or if PyTorch has no such matrix product.
    """

    def __init__(self, path: str) -> None:
        self._functions, torch_functions = ctypes.CDLL(path), ctypes.CDLL(_torch_library())
        self.sgemm = ctypes.cast(torch_functions.sgemm_, POINTER).value
        parallel = getattr(torch_functions, "GOMP_parallel", None)
        self.parallel = None if parallel is None else ctypes.cast(parallel, POINTER).value

    def call(self, name: str, arguments: ctypes.Structure) -> None:
        """Call a function of the file; the GIL is released."""
        getattr(self._functions, name)(ctypes.byref(arguments))

    def shares(self, most: int) -> int:
        """The number of shares into which work is divided: that of PyTorch's threads, and at most `most`."""
        return max(1, min(torch.get_num_threads(), most)) if self.parallel else 1


def structure(integers: str, pointers: str, numbers: str = "") -> type[ctypes.Structure]:
    """A C structure of integers, pointers and doubles; `sgemm` and `parallel` are the first pointers."""
    fields = [*((name, INTEGER) for name in integers.split()), ("sgemm", POINTER), ("parallel", POINTER)]
    fields += [(name, POINTER) for name in pointers.split()]
    fields += [(name, ctypes.c_double) for name in numbers.split()]
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


def _torch_library() -> str:
    names = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")
    paths = (Path(torch.__file__).parent / "lib" / name for name in names)
    found = next((str(path) for path in paths if path.is_file()), None)
    if found is None:
        raise OSError("PyTorch has no such file")
    return found
