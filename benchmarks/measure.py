"""What the benchmarks share: seconds of the better runs, and bytes of tensors alive at once."""

import gc
import json
import time
from collections.abc import Callable
from typing import Any
from weakref import finalize

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def seconds(function: Callable[[], Any], *, repeats: int) -> float:
    """The median time of a call, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


class TensorBytes(TorchDispatchMode):
    """Counts the bytes of storages that operations allocate while it is on: the largest sum alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive, self.peak, self._seen = 0, 0, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {
            leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        out = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage(), given)
        return out

    def _count(self, storage, given) -> None:
        key = storage._cdata
        if key in given or key in self._seen:
            return
        self._seen.add(key)
        size = storage.nbytes()
        self.alive += size
        self.peak = max(self.peak, self.alive)
        finalize(storage, self._free, key, size)

    def _free(self, key, size) -> None:
        self._seen.discard(key)
        self.alive -= size


def peak_bytes(function: Callable[[], Any]) -> int:
    gc.collect()
    with TensorBytes() as counter:
        function()
    return counter.peak


def finish(**ratios: float) -> None:
    """The last line of every benchmark."""
    print(json.dumps({name: round(value, 4) for name, value in ratios.items()}))
