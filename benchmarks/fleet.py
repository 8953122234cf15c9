"""What the shell around live series adds to `model.step` and `rule.step`: keys, conversion, checks and decisions.

Recurrent (d = 3, H = 64, K = 4) of order 5 and with full memory, MSPRT, one thread. Observations are float64 arrays, as
sensors give them; the bare fold beside it gets ready tensors, in inference mode too. Both are measured in turns in one run, and
medians are compared. `benchmarks/stream.py` measures the step itself.
"""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from measure import finish
from sooner.models import Recurrent
from sooner.rules import MSPRT
from sooner.stream import Fleet, Stream

CHANNELS, CLASSES, HIDDEN = 3, 4, 64
EARLY, LATE, MANY, CLOSED = 10, 10_000, 10_000, 100_000
NEVER = MSPRT(float("inf"))


class Bare:
    """The fold without a shell."""

    def __init__(self, model: Recurrent, streams: int) -> None:
        self.model, self.observation = model, torch.randn(streams, CHANNELS)
        self.state, self.memory = model.init(streams), NEVER.init(streams)

    @torch.inference_mode()
    def update(self) -> bool:
        self.state, scores, _ = self.model.step(self.state, self.observation)
        self.memory, fired, _ = NEVER.step(self.memory, scores)
        return bool(fired.any())


def medians(repeats: int, *doings: Callable[[], object]) -> list[float]:
    """Median microseconds of each, measured in turns."""
    times: list[list[float]] = [[] for _ in doings]
    for _ in range(repeats):
        for doing, spent in zip(doings, times, strict=True):
            start = time.perf_counter()
            doing()
            spent.append(time.perf_counter() - start)
    return [1e6 * sorted(spent)[repeats // 2] for spent in times]


def one_stream(model: Recurrent) -> tuple[float, float, float]:
    """Microseconds of an observation late, what of it the shell adds, and late over early."""
    x = np.random.default_rng(0).normal(size=CHANNELS)
    old, bare = Stream(model, NEVER), Bare(model, 1)
    for _ in range(LATE):
        old.update(x)
    young = Stream(model, NEVER)
    count = 0

    def early() -> None:
        young.update(x)

    def renewed() -> None:
        nonlocal young, count
        count += 1
        if count % EARLY == 0:
            young = Stream(model, NEVER)
            for _ in range(EARLY // 2):
                young.update(x)

    late_us, early_us, _, bare_us = medians(2000, lambda: old.update(x), early, renewed, bare.update)
    return late_us, late_us - bare_us, late_us / early_us


def many_streams(model: Recurrent) -> tuple[float, float]:
    """Microseconds of one observation among many in an update, and what of it the shell adds."""
    x = np.random.default_rng(0).normal(size=(MANY, CHANNELS))
    observations = {f"sensor-{i}": x[i] for i in range(MANY)}
    fleet, bare = Fleet(model, NEVER), Bare(model, MANY)
    fleet.update(observations)
    whole, alone = medians(20, lambda: fleet.update(observations), bare.update)
    return whole / MANY, (whole - alone) / MANY


def closed_keys(model: Recurrent) -> tuple[float, float]:
    """The time of an observation with many closed keys over that without, and the bytes of a closed key."""
    x = np.random.default_rng(0).normal(size=CHANNELS)
    fresh, used = Fleet(model, NEVER), Fleet(model, NEVER)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for start in range(0, CLOSED, MANY):
        used.update({f"closed-{i}": x for i in range(start, start + MANY)})
        used.finish_all()
    size = (tracemalloc.get_traced_memory()[0] - before) / CLOSED
    tracemalloc.stop()
    for fleet in (fresh, used):
        fleet.update({"a": x, "b": x})
    late, early = medians(1000, lambda: used.update({"a": x}), lambda: fresh.update({"a": x}))
    return late / early, size


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {}
    for name, order in (("order5", 5), ("full", None)):
        model = Recurrent((CHANNELS,), CLASSES, hidden=HIDDEN, order=order).eval()
        single, added, ratio = one_stream(model)
        each, added_each = many_streams(model)
        size = Fleet(model, NEVER).bytes_per_stream
        print(
            f"{name}: one stream {single:.0f} us an observation, {added:.0f} of them added; late over early {ratio:.2f}"
        )
        print(f"  {MANY} streams: {each:.2f} us each, {added_each:.2f} of them added; {size} bytes a stream")
        results |= {f"{name}_us_1": single, f"{name}_added_us_1": added, f"{name}_late_over_early": ratio}
        results |= {f"{name}_us_{MANY}": each, f"{name}_added_us_{MANY}": added_each, f"{name}_bytes_per_stream": size}
    ratio, size = closed_keys(model)
    print(f"after {CLOSED} closed keys: {ratio:.2f} times the time of an observation, {size:.0f} bytes a closed key")
    finish(**results, closed_over_none=ratio, bytes_per_closed_key=size, threads=1)


if __name__ == "__main__":
    main()
