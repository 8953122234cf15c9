"""The journal of live series in files, as it is, beside one in SQLite, and what it costs.

Entries as `LiveSeries.take` makes them of 1, 100 and 1,000 lines (three channels, IDs of nine characters) are appended and put on
disk one by one, by both in turns on the same disk: SQLite in WAL mode with `synchronous=FULL`, one transaction for each entry,
with its automatic checkpoints. Then the CPU time of `take` and `sync` over that of `take` without a journal, and the time of a
restart. `python benchmarks/journal.py [FOLDER]`: the folder is on the disk that is measured; by default the current one.
"""

import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from measure import finish
from sooner.models import Recurrent
from sooner.rules import MSPRT
from sooner.stream import ArrivalBatch, Fleet, LiveSeries
from sooner.stream.journal import Journal
from sooner.stream.journal.entries import packed_batch

CHANNELS, SERIES, ROUNDS = 3, 10_000, 200
SIZES = (1, 100, 1000)


def batches(size: int, count: int) -> list[ArrivalBatch]:
    random = np.random.default_rng(0)
    picks = (random.permutation(SERIES)[:size] for _ in range(count))
    return [ArrivalBatch([f"pump-{i:04d}" for i in pick], random.normal(size=(size, CHANNELS))) for pick in picks]


def sqlite_in(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "journal.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, content BLOB)")
    return database


def appended(folder: Path, size: int) -> dict[str, float]:
    """Median milliseconds of an entry that is appended and put on disk, by the clock and of the CPU: in files, in SQLite."""
    entries = [packed_batch(batch, 0.0) for batch in batches(size, ROUNDS)]
    (folder / "files").mkdir()
    journal, database = Journal(folder / "files"), sqlite_in(folder)

    def into_files(entry: bytes) -> None:
        journal.append(entry)
        journal.sync()

    def into_sqlite(entry: bytes) -> None:
        database.execute("INSERT INTO entries (content) VALUES (?)", (entry,))

    spent: dict[str, list[float]] = {}
    for entry in entries:
        for name, way in (("files", into_files), ("sqlite", into_sqlite)):
            start, cpu = time.perf_counter(), time.process_time()
            way(entry)
            spent.setdefault(f"{name}_cpu_ms", []).append(time.process_time() - cpu)
            spent.setdefault(f"{name}_ms", []).append(time.perf_counter() - start)
    journal.close()
    database.close()
    return {name: 1e3 * float(np.median(times)) for name, times in spent.items()}


def added(folder: Path, size: int) -> tuple[float, float]:
    """The CPU time of `take` and `sync` over that of `take` alone, and the seconds of a restart for 100,000 lines."""
    torch.manual_seed(0)
    model = Recurrent((CHANNELS,), 4, hidden=64, order=None).eval()
    never = MSPRT(float("inf"))
    bare = LiveSeries(Fleet(model, never))
    kept = LiveSeries(Fleet(model, never), journal=Journal(folder / "taken", snapshot_bytes=1 << 40))
    first = ArrivalBatch([f"pump-{i:04d}" for i in range(SERIES)], np.zeros((SERIES, CHANNELS)))
    bare.take(first, 0.0)
    kept.take(first, 0.0)
    spent: tuple[list[float], list[float]] = ([], [])
    for now, (one, other) in enumerate(zip(batches(size, ROUNDS), batches(size, ROUNDS), strict=True)):
        start = time.process_time()
        bare.take(one, float(now))
        middle = time.process_time()
        kept.take(other, float(now))
        kept.sync()
        spent[0].append(middle - start)
        spent[1].append(time.process_time() - middle)
    kept.journal.close()
    start = time.perf_counter()
    again = LiveSeries(Fleet(model, never), journal=Journal(folder / "taken"))
    seconds = (time.perf_counter() - start) * 100_000 / (SERIES + ROUNDS * size)
    again.close()
    return float(np.median(spent[1]) / np.median(spent[0])), seconds


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    for size in SIZES:
        folder = Path(tempfile.mkdtemp(dir=home, prefix="journal-"))
        try:
            found = appended(folder, size)
            ratio, restart = added(folder, size)
        finally:
            shutil.rmtree(folder)
        print(f"{size} lines an entry: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
        print(f"  with the journal {ratio:.2f} times the CPU of none; a restart reads 100,000 lines in {restart:.2f} s")
        found |= {
            "sqlite_over_files_cpu": found["sqlite_cpu_ms"] / found["files_cpu_ms"],
            "journal_over_none_cpu": ratio,
        }
        results |= {f"{name}_{size}": value for name, value in (found | {"restart_s": restart}).items()}
    finish(**results)


if __name__ == "__main__":
    main()
