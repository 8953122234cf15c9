"""What `sooner serve` costs beside the bare fleet, and whether it keeps its promises under load. Processes on loopback.

In one run and in turns: requests of 1,000 lines against `Fleet.update` of the same observations already parsed; 200 clients with
one line a request against `plain_service.py`, a naive FastAPI service (uvicorn with uvloop and httptools, no log) that updates
its fleet once for each line: with a Pydantic model for the body, and, as `unchecked`, without any check; the journal against
none. Then kills under load, and a run at a fixed rate. A small recurrent model (3 channels, 32 hidden units, 4 classes, order 5)
that never decides by itself.

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
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from http_load import Load, load_of, request_of
from measure import finish
from sooner import EarlyClassifier
from sooner.stream import Fleet

CHANNELS, CLASSES, SERIES, LINES = 3, 4, 10_000, 1_000
CONNECTIONS, CLIENTS, SOAK_LENGTH = 10, 200, 50
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


class ResumingSender:
    """Sends some series; where a connection breaks, it asks how far each of them came."""

    def __init__(self, port: int, x: np.ndarray, rows: Iterable[int]) -> None:
        self.url, self.x, self.sent = f"http://127.0.0.1:{port}", x, dict.fromkeys(rows, 0)

    def run(self) -> None:
        unsure: list[int] = []
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while self.sent:
                try:
                    for row in list(unsure):
                        self.ask(client, row)
                        unsure.remove(row)
                    chosen = list(self.sent)[:50]
                    unsure = list(chosen)
                    client.post("/v1/observations", content="\n".join(map(self.line, chosen))).raise_for_status()
                    unsure = []
                    for row in chosen:
                        self.count(row, self.sent.pop(row) + 1)
                except httpx.HTTPError:
                    time.sleep(0.2)

    def line(self, row: int) -> str:
        time_ = self.sent[row]
        last = time_ == self.x.shape[2] - 1
        return json.dumps({"series": f"s-{row}", "x": self.x[row, :, time_].tolist(), "end": last})

    def count(self, row: int, sent: int) -> None:
        if sent < self.x.shape[2]:
            self.sent[row] = sent

    def ask(self, client: httpx.Client, row: int) -> None:
        answer = client.get(f"/v1/series/s-{row}")
        self.sent.pop(row)
        if answer.status_code == 404:
            self.count(row, 0)
        elif answer.json()["state"] == "open":
            self.count(row, answer.json()["time"])


class EventReader:
    """Follows the event stream, again and again from where it was cut."""

    def __init__(self, port: int) -> None:
        self.url, self.found, self.delays, self.doubled = f"http://127.0.0.1:{port}/v1/decisions", {}, [], 0

    def run(self) -> None:
        while True:
            headers = {"accept": "text/event-stream", "last-event-id": str(max(self.found, default=0))}
            try:
                with httpx.stream("GET", self.url, headers=headers, timeout=30) as answer:
                    for text in answer.iter_lines():
                        if text.startswith("data: "):
                            self.hear(json.loads(text[6:]))
            except httpx.HTTPError:
                time.sleep(0.1)

    def hear(self, record: dict[str, Any]) -> None:
        self.delays.append(time.time() - record["arrived"])
        self.doubled += record["id"] in self.found
        self.found[record["id"]] = {name: record[name] for name in ("series", "label", "time")}

    def until(self, count: int, seconds: float = 60.0) -> None:
        until = time.time() + seconds
        while len(self.found) < count and time.time() < until:
            time.sleep(0.1)


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


def single_lines(
    port: int, x: np.ndarray, clients: int, seconds: float, path: str = "/v1/observations"
) -> tuple[float, Load]:
    """Lines a second, one in each request of so many clients."""
    requests = [request_of(lines_of(x, index, 1), path) for index in range(clients)]
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
    names = ("bare", "many", "journal", "clients", "plain", "unchecked", "plain_one")
    found: dict[str, list[float]] = {name: [] for name in names}
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
        found["unchecked"].append(single_lines(memory.port + 1, x, CLIENTS, seconds, "/v1/unchecked")[0])
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
        "clients_over_unchecked": rates["clients"] / rates["unchecked"],
        "clients_over_plain_one_client": rates["clients"] / rates["plain_one"],
        "clients_p99_ms": median(slowest),
        **{f"{name}_per_second": rate for name, rate in rates.items()},
    }


def killed(folder: Path, kills: int) -> dict[str, float]:
    """`kill -9` at random moments under load; clients ask how far they came, and send the rest."""
    file, clf = model_in(folder)
    clf.choose_threshold(max_mean_time=6)
    clf.save(file)
    random = np.random.default_rng(2)
    count = max(2000, 700 * kills)
    labels = np.arange(count) % CLASSES
    x = (random.normal(size=(count, CHANNELS, 12)) + labels[:, None, None]).round(4)
    service = Service(file, "--journal", folder / "killed")
    senders = [ResumingSender(service.port, x, range(part, count, 4)) for part in range(4)]
    reader = EventReader(service.port)
    threads = [threading.Thread(target=each.run, daemon=True) for each in (*senders, reader)]
    for thread in threads:
        thread.start()
    done = 0
    while done < kills and any(thread.is_alive() for thread in threads[:-1]):
        time.sleep(float(random.uniform(0.05, 1.0)))
        service.kill()
        service.start()
        done += 1
    for thread in threads[:-1]:
        thread.join()
    reader.until(count)
    service.end()
    decided = clf.decide(x)
    found = {record["series"]: record for record in reader.found.values()}
    equal = [
        found[f"s-{index}"]["label"] == decided.labels[index] and found[f"s-{index}"]["time"] == decided.times[index]
        for index in range(count)
    ]
    print(
        f"{done} kills under load: {sum(equal):,} of {count:,} decisions equal those of the batch; {reader.doubled} came twice"
    )
    return {"kills": done, "decisions_equal": sum(equal) / count, "ids_without_gap": float(max(reader.found) == count)}


def soaked(folder: Path, seconds: float, series: int, rate: float) -> dict[str, float]:
    """A fixed rate for a long time: memory, decisions, and the time from arrival to event."""
    file, _ = model_in(folder)
    never = ("--threshold", "1e9", "--deadline", str(SOAK_LENGTH), "--rearm", "next", "--max-new", str(10 * series))
    service = Service(file, *never, "--journal", folder / "soak")
    reader = EventReader(service.port)
    threading.Thread(target=reader.run, daemon=True).start()
    start, sent, memory = time.perf_counter(), 0, []
    share = np.array_split(np.arange(series), max(1, series // LINES))
    values = observations()
    requests = [
        request_of([json.dumps({"series": f"s-{i}", "x": values[i % SERIES].tolist()}) for i in part]) for part in share
    ]
    slowest, slots = Load(), 0
    while (now := time.perf_counter() - start) < seconds:
        load_ = load_of(service.port, [iter([request]) for request in requests], 60.0)
        slowest.seconds += load_.seconds
        assert not load_.refused, load_.refused[:3]
        sent, slots = sent + series, slots + 1
        if len(memory) <= now / 10:
            memory.append((now, service.resident()))
        time.sleep(max(0.0, slots / rate - (time.perf_counter() - start)))
    passed = time.perf_counter() - start
    expected = series * (slots // SOAK_LENGTH)
    reader.until(expected)
    late = sorted(reader.delays)
    early = [size for at, size in memory if at >= min(60.0, seconds / 4)]
    growth = early[-1] / early[0] - 1
    p99 = late[int(0.99 * len(late))] if late else 0.0
    print(
        f"{passed:.0f} s: {sent / passed:,.0f} observations a second of {series:,} series; memory {early[0] / 2**20:.0f} to "
        f"{early[-1] / 2**20:.0f} MiB; {len(reader.found):,} of {expected:,} decisions, {reader.doubled} twice; "
        f"from arrival to event p99 {1e3 * p99:.0f} ms; a request p99 {slowest.percentile(0.99):.0f} ms"
    )
    service.end()
    return {
        "soak_per_second": sent / passed,
        "soak_memory_growth": growth,
        "soak_decisions": len(reader.found) / max(1, expected),
        "soak_event_p99_ms": 1e3 * p99,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="of the throughputs; 0 leaves them out")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each throughput")
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--soak", type=float, default=20.0, help="seconds; 0 leaves it out")
    parser.add_argument("--series", type=int, default=2_000, help="of the soak")
    parser.add_argument("--rate", type=float, default=10.0, help="observations a second of each series of the soak")
    given = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="serve-") as name:
        folder = Path(name)
        if given.repeats:
            results |= throughput(folder, given.repeats, given.seconds)
        if given.kills:
            results |= killed(folder, given.kills)
        if given.soak:
            results |= soaked(folder, given.soak, given.series, given.rate)
    finish(**results)


if __name__ == "__main__":
    main()
