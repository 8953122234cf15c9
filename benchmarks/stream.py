"""Live series: the time of one observation for 1 stream and for 1,000 at once, early and late, and the memory of a stream.

The paper's integrator (d = 128, H = 128, K = 10, N = 25), one observation folded through model and rule at a time, two threads.
Medians of 200 observations around t = 10 and around t = 10,000, the two measured in turns in one run.
"""

import time

import torch

from measure import finish
from sooner.models import Recurrent
from sooner.rules import MSPRT

CHANNELS, HIDDEN, CLASSES, ORDER = 128, 128, 10, 25
EARLY, LATE, REPEATS, THREADS = 10, 10_000, 200, 2


class Live:
    """Streams of one age, with the model's and the rule's state."""

    def __init__(self, model: Recurrent, streams: int) -> None:
        self.model, self.rule = model, MSPRT(5.0)
        self.state, self.decided = model.init(streams), self.rule.init(streams)

    def observe(self, observation: torch.Tensor) -> float:
        """Seconds that one observation took."""
        start = time.perf_counter()
        self.state, scores, _ = self.model.step(self.state, observation)
        self.decided, _, _ = self.rule.step(self.decided, scores)
        return time.perf_counter() - start

    def bytes_per_stream(self) -> int:
        return sum(part.element_size() * part[0].numel() for part in (*self.state, self.decided))


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def measure(model: Recurrent, streams: int) -> tuple[float, float, int, int]:
    """Median seconds early and late, and the bytes of a stream then."""
    old, young = Live(model, streams), Live(model, streams)
    observation = torch.randn(streams, CHANNELS)
    # Old age is reached through fewer streams where there are many: the state of a row does not depend on the others.
    shortcut = Live(model, 1)
    for _ in range(LATE - 1):
        shortcut.observe(observation[:1])
    old.state = tuple(part.expand(streams, *part.shape[1:]).clone() for part in shortcut.state)
    times: tuple[list[float], list[float]] = ([], [])
    sizes = (0, 0)
    for repeat in range(REPEATS):
        if repeat % EARLY == 0:
            young = Live(model, streams)
            for _ in range(EARLY // 2):
                young.observe(observation)
        times[0].append(young.observe(observation))
        times[1].append(old.observe(observation))
        sizes = (young.bytes_per_stream(), old.bytes_per_stream())
    return median(times[0]), median(times[1]), *sizes


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model = Recurrent((CHANNELS,), CLASSES, hidden=HIDDEN, order=ORDER).eval()
    print(f"one live observation, d={CHANNELS} H={HIDDEN} K={CLASSES} N={ORDER}, {THREADS} threads")
    results = {}
    for streams in (1, 1000):
        early, late, small, large = measure(model, streams)
        results[streams] = early, late
        print(f"  {streams:5d} streams: {1e3 * early:8.3f} ms at t = {EARLY}, {1e3 * late:8.3f} ms at t = {LATE}")
        print(f"        {small} bytes a stream early, {large} late; the model states {model.bytes_per_stream()}")
    finish(
        step_ms_1=1e3 * results[1][1],
        step_ms_1000=1e3 * results[1000][1],
        late_over_early=max(late / early for early, late in results.values()),
        bytes_per_stream=large,
        bytes_late_over_early=large / small,
        threads=THREADS,
    )


if __name__ == "__main__":
    main()
