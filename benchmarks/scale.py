"""`sooner score` on a Ray cluster of one worker against the same work in this process.

Each way has a process of its own, and does the work twice: on a small table to warm up, so that the cluster is there and its
worker has imported what it needs, and on the large one, which is timed. `cold` is what the first, small one took beyond that.
Memory is the peak of resident memory of a process above what it was after warming up; for Ray that of the worker.
With `--record` the numbers go to results/scale.json, from which `benchmarks/results.py` fills docs/scaling.md.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import sooner
from sooner.data import Gaussian, Series
from sooner.engines.ray.cluster import connected
from sooner.estimator.bulk import score_table

RECORD = Path(__file__).parents[1] / "results" / "scale.json"
CLASSES = 3
SMALL = 200  # series to warm up


def write_tables(folder: Path, series: int, length: int, files: int) -> None:
    """Both tables, a file at a time, and the model."""
    process = Gaussian.equidistant(classes=CLASSES, distance=0.5)
    x, labels = process.sample(300, length, seed=0)
    names = [f"x{channel}" for channel in range(x.shape[2])]
    training = Series.from_arrays(x.double(), labels, channels=names)
    sooner.EarlyClassifier().fit(training).save(folder / "model.sooner")
    for name, count, parts in (("small", SMALL, 1), ("large", series, files)):
        (folder / name).mkdir()
        for part, ids in enumerate(np.array_split(np.arange(count), parts)):
            x, _ = process.sample(len(ids), length, seed=part + 1)
            flat = x.double().flatten(0, 1).numpy()
            columns = {"series": np.repeat(ids, length), "time": np.tile(np.arange(length), len(ids))}
            columns |= {f"x{channel}": flat[:, channel] for channel in range(flat.shape[1])}
            pq.write_table(pa.table(columns), folder / name / f"{part:05}.parquet")


def resident(pid: int | str, key: str) -> int:
    """VmRSS or VmHWM (the peak) of a process, in bytes; 0 if it has none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)


def workers() -> dict[int, int]:
    """The processes of this user's cluster that have imported torch, and their resident memory."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::" in (place / "cmdline").read_bytes() and _ancestor(int(place.name), os.getpid()):
                found[int(place.name)] = resident(place.name, "VmRSS")
        except OSError:
            continue
    return found


def _ancestor(pid: int, wanted: int) -> bool:
    while pid > 1:
        if pid == wanted:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


@contextmanager
def watched():
    """Yields a dict that, at the end, has the largest memory of each worker that was seen."""
    seen: dict[int, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for pid, size in workers().items():
                seen[pid] = max(seen.get(pid, 0), size)

    thread = threading.Thread(target=look)
    thread.start()
    yield seen
    over.set()
    thread.join()


def scored(folder: Path, name: str, engine: str, count: int) -> float:
    clf = sooner.load(folder / "model.sooner")
    start = time.perf_counter()
    given = {"engine": "ray", "workers": count} if engine == "ray" else {}
    score_table(clf, folder / name, folder / f"{engine}_{name}.parquet", threads=1, **given)
    return time.perf_counter() - start


def measure(folder: str, engine: str, count: str, store: str) -> None:
    """In a process of its own: seconds and memory of one way."""
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    place = Path(folder)
    if engine == "local":
        first = scored(place, "small", "local", 1)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = resident("self", "VmRSS")
        spent = time.process_time()
        taken = scored(place, "large", "local", 1)
        spent = time.process_time() - spent
        peak = resident("self", "VmHWM") - before
        print(json.dumps({"seconds": taken, "processor": spent, "first": first, "peak": peak}))
        return
    start = time.perf_counter()
    with connected(cpus=int(count), object_store_bytes=int(store)):
        up = time.perf_counter() - start
        first = scored(place, "small", "ray", int(count))
        before, driver = workers(), resident("self", "VmRSS")
        with watched() as seen:
            taken = scored(place, "large", "ray", int(count))
        peak = max((size - before.get(pid, 0) for pid, size in seen.items()), default=0)
        own = resident("self", "VmHWM") - driver
    print(json.dumps({"seconds": taken, "first": first, "peak": peak, "driver": own, "start": up}))


def way(folder: Path, engine: str, count: int, store: int) -> dict[str, float]:
    command = [sys.executable, __file__, "measure", str(folder), engine, str(count), str(store)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    return json.loads(said.splitlines()[-1])


def same_rows(folder: Path) -> bool:
    tables = [pq.read_table(folder / f"{engine}_large.parquet") for engine in ("local", "ray")]
    one, other = (table.sort_by("series").combine_chunks() for table in tables)
    return one.equals(other) and len(one) == len(set(one["series"].to_pylist()))


def bytes_of_a_row(folder: Path) -> dict[str, float]:
    """What a decided series takes on its way back from a worker, and in the file that is written."""
    path = folder / "local_large.parquet"
    rows = pq.read_table(path)
    return {"moved_bytes": rows.nbytes / len(rows), "written_bytes": path.stat().st_size / len(rows)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--series", type=int, default=20_000)
    options.add_argument("--time", type=int, default=100)
    options.add_argument("--files", type=int, default=10)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--object-store", type=int, default=200_000_000, help="bytes")
    options.add_argument("--record", action="store_true", help="write results/scale.json")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, given.series, given.time, given.files)
        local = way(folder, "local", 1, 0)
        ray = way(folder, "ray", given.workers, given.object_store)
        equal, row = same_rows(folder), bytes_of_a_row(folder)
    observations = given.series * given.time
    print(f"{observations:,} observations of {given.series:,} series in {given.files} files, 1 thread a process")
    for title, found in (("one process", local), (f"ray, {given.workers} worker(s)", ray)):
        each = 1e6 * found["seconds"] / observations
        print(
            f"  {title:18} {found['seconds']:7.2f} s  {each:6.2f} us an observation, {found['peak'] / 1e6:5.0f} MB above "
            f"the start; the first small table {found['first']:.2f} s"
        )
    print(f"  the cluster was up after {ray['start']:.1f} s; its driver took {ray['driver'] / 1e6:.0f} MB more")
    found = {
        "ray_overhead": round(ray["seconds"] / local["seconds"] - 1, 4),
        "ray_overhead_with_cold_workers": round(
            (ray["seconds"] + ray["first"] - local["first"]) / local["seconds"] - 1, 4
        ),
        "rows_equal": equal,
        "peak_bytes": int(local["peak"]),
        "peak_bytes_of_a_ray_worker": int(ray["peak"]),
        "object_store_bytes": given.object_store,
        "threads": 1,
    }
    print(json.dumps(found))
    if given.record:
        words = [word for word in sys.argv[1:] if word != "--record"]
        about = {"command": shlex.join(["python", "benchmarks/scale.py", *words]), "date": date.today().isoformat()}
        shape = {"series": given.series, "time": given.time, "channels": CLASSES, "classes": CLASSES}
        measured = {"microseconds": 1e6 * local["processor"] / observations, **row}
        # Ratios of seconds on the clock are left to the last line: they hold what else the machine does.
        found = {key: value for key, value in found.items() if not key.startswith("ray_overhead")}
        versions = {name: version(name) for name in ("torch", "pyarrow", "ray")}
        RECORD.write_text(json.dumps({**about, "versions": versions, **shape, **measured, **found}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    else:
        main()
