"""What `sooner serve` costs beside the bare fleet, and whether it keeps its promises under load. Processes on loopback.

In one run and in turns: requests of 1,000 lines against `Fleet.update` of the same observations already parsed; 200 clients with one
line a request against a service that updates its fleet once for each; the journal against none. Then kills and, with `--soak`, a
long run at a fixed rate. A small recurrent model (3 channels, 32 hidden units, 4 classes, order 5) that never decides by itself.

    python benchmarks/serve.py                     # two minutes
    python benchmarks/serve.py --kills 20          # 20 kills at random moments under load
    python benchmarks/serve.py --soak 600 --series 10000 --rate 10
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from http_load import Load, load_of, request_of
from measure import finish
from sooner import EarlyClassifier, load
from sooner.stream import Fleet

CHANNELS, CLASSES, SERIES, LINES = 3, 4, 10_000, 1_000
CONNECTIONS, CLIENTS = 10, 200
PORT = re.compile(r"Listening on http://127\.0\.0\.1:(\d+)")


def model_in(folder: Path) -> tuple[Path, EarlyClassifier]:
    """A small recurrent model, hardly trained: what it costs does not depend on that."""
    random = np.random.default_rng(0)
    labels = np.arange(80) % CLASSES
    x = random.normal(size=(80, CHANNELS, 12)) + labels[:, None, None]
    clf = EarlyClassifier("recurrent", order=5, hidden=32, max_epochs=1).fit(x, labels)
    clf.save(folder / "model.sooner")
    return folder / "model.sooner", clf


class Service:
    """A service as a process."""

    def __init__(self, *words: object, port: int = 0) -> None:
        self.words, self.port = [str(word) for word in words], port
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "sooner", "serve", *self.words, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for said in self.process.stderr:
            if found := PORT.search(said):
                self.port = int(found[1])
                return
        raise SystemExit("the service did not start")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        """Bytes in memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096


def lines_of(x: np.ndarray, first: int, count: int) -> list[str]:
    return [
        json.dumps({"series": f"pump-{index % SERIES}", "x": x[index % SERIES].tolist()})
        for index in range(first, first + count)
    ]


def observations() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(SERIES, CHANNELS)).round(4)


def bare(clf: EarlyClassifier, x: np.ndarray, seconds: float) -> tuple[float, float]:
    """Observations a second of the fleet alone, 1,000 in each update, and seconds of CPU of each."""
    fleet: Fleet = clf.stream(keyed=True)
    batches = [
        {f"pump-{index}": x[index] for index in range(first, first + LINES)} for first in range(0, SERIES, LINES)
    ]
    for batch in batches:
        fleet.update(batch)
    start, count, spent = time.perf_counter(), 0, time.process_time()
    for batch in itertools.cycle(batches):
        fleet.update(batch)
        count += LINES
        if (passed := time.perf_counter() - start) >= seconds:
            return count / passed, (time.process_time() - spent) / count
    raise AssertionError


def many_lines(port: int, x: np.ndarray, seconds: float) -> tuple[float, Load]:
    """Lines a second, 1,000 in each request."""
    requests = [request_of(lines_of(x, first, LINES)) for first in range(0, SERIES, LINES)]
    loads = load_of(port, [itertools.cycle(requests[part::CONNECTIONS]) for part in range(CONNECTIONS)], seconds)
    return LINES * len(loads.seconds) / loads.whole, loads


def single_lines(port: int, x: np.ndarray, clients: int, seconds: float) -> tuple[float, Load]:
    """Lines a second, one in each request of so many clients."""
    requests = [request_of(lines_of(x, index, 1)) for index in range(clients)]
    loads = load_of(port, [itertools.repeat(request) for request in requests], seconds)
    return len(loads.seconds) / loads.whole, loads


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def throughput(folder: Path, repeats: int, seconds: float) -> dict[str, float]:
    """All ratios, each pair measured in turns."""
    file, clf = model_in(folder)
    clf.threshold = 1e9
    x = observations()
    still = ("--threshold", "1e9")
    memory, journal = Service(file, *still), Service(file, *still, "--journal", folder / "journal")
    plain = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("plain_service.py")), str(file), str(memory.port + 1)]
    )
    found: dict[str, list[float]] = {name: [] for name in ("bare", "many", "journal", "clients", "plain", "plain_one")}
    slowest, cpu, bare_cpu = [], [], []
    time.sleep(8)  # the plain service has no way to say that it is there
    for port in (memory.port, journal.port):
        many_lines(port, x, 1.0)  # opens the series
    for _ in range(repeats):
        rate, spent = bare(clf, x, seconds)
        found["bare"].append(rate)
        bare_cpu.append(spent)
        spent = memory.cpu_seconds()
        rate, load_ = many_lines(memory.port, x, seconds)
        found["many"].append(rate)
        cpu.append((memory.cpu_seconds() - spent) / (LINES * len(load_.seconds)))
        found["journal"].append(many_lines(journal.port, x, seconds)[0])
        rate, load_ = single_lines(memory.port, x, CLIENTS, seconds)
        found["clients"].append(rate)
        slowest.append(load_.percentile(0.99))
        found["plain"].append(single_lines(memory.port + 1, x, CLIENTS, seconds)[0])
        found["plain_one"].append(single_lines(memory.port + 1, x, 1, seconds)[0])
    for service in (memory, journal):
        service.end()
    plain.kill()
    plain.wait()
    rates = {name: median(values) for name, values in found.items()}
    for name, rate in rates.items():
        print(f"{name:>10}: {rate:>9,.0f} lines a second")
    print(f"200 clients, one line a request: p99 {median(slowest):.1f} ms")
    return {
        "many_over_bare": rates["many"] / rates["bare"],
        "many_over_bare_cpu": median(bare_cpu) / median(cpu),
        "journal_over_memory": rates["journal"] / rates["many"],
        "clients_over_plain": rates["clients"] / rates["plain"],
        "clients_over_plain_one_client": rates["clients"] / rates["plain_one"],
        "clients_p99_ms": median(slowest),
        **{f"{name}_per_second": rate for name, rate in rates.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="serve-") as folder:
        results = throughput(Path(folder), given.repeats, given.seconds)
    finish(**results)


if __name__ == "__main__":
    main()
