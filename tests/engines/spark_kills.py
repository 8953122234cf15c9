"""`sooner stream --engine spark` on files, one a batch, killed at random batches: what its restarts find, and their time."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.many_series import LENGTH, task_in

SHARDS = 4
_SETTINGS = "--conf spark.driver.memory=1g --conf spark.python.authenticate.socketTimeout=120s pyspark-shell"


@dataclass
class Survived:
    """What came of a query that was killed."""

    series: int
    equal: int = 0
    doubled: int = 0
    drivers_killed: int = 0
    workers_killed: int = 0
    recoveries: list = field(default_factory=list)
    latencies: list = field(default_factory=list)
    per_second: float = 0.0


class Query:
    """A query in a process group of its own."""

    def __init__(self, folder, model_file):
        words = ["stream", model_file, "--engine", "spark", "--source", folder / "in", "--sink", folder / "out"]
        words += ["--shards", SHARDS, "--files", 1, "--deadline", LENGTH, "--master", "local[2,4]", "--once"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYSPARK_SUBMIT_ARGS": _SETTINGS}
        self.started = time.time()
        self._log = folder / "log.txt"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sooner", *map(str, words)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._commits = folder / "out" / "_checkpoint" / "commits"

    def commits(self):
        """When each batch was done."""
        paths = [path for path in self._commits.glob("[0-9]*") if path.name.isdigit()] if self._commits.exists() else []
        return {int(path.name): path.stat().st_mtime for path in paths}

    def wait_for(self, batches):
        """Wait until so many batches are done; False if the query ends before."""
        while len(self.commits()) < batches:
            if self._process.poll() is not None:
                return False
            time.sleep(0.05)
        return True

    def kill(self):
        """Kill the driver: Python and the JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self):
        """Kill one of the processes that decide; whether there was one."""
        for place in Path("/proc").glob("[0-9]*"):
            try:
                parent = place / "stat"
                ours = os.getpgid(int(place.name)) == self._process.pid or _group_of(place) == self._process.pid
                if ours and b"pyspark.daemon" in (place / "cmdline").read_bytes() and _is_worker(parent):
                    os.kill(int(place.name), signal.SIGKILL)
                    return True
            except OSError:
                continue
        return False

    def end(self):
        """Wait for its end, which must be a good one."""
        assert self._process.wait(600) == 0, self._log.read_text()[-3000:]


def _group_of(place):
    """The session of a process: a daemon of Spark begins a group of its own."""
    return int((place / "stat").read_text().rpartition(")")[2].split()[3])


def _is_worker(stat):
    """Whether the parent of a process is the daemon too, which forks the workers."""
    parent = stat.read_text().rpartition(")")[2].split()[1]
    return b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()


def survive(folder, series, files, kills, seed=0):
    """Kill the driver so often and a worker once; count the decisions that equal those of `clf.decide`."""
    task = task_in(folder, series)
    _write(folder / "in", task.table, files)
    found = Survived(series)
    moments = sorted(
        np.random.default_rng(seed).choice(np.arange(1, files - 1), size=kills + 1, replace=False).tolist()
    )
    victim, query = moments.pop(len(moments) // 2), Query(folder, task.model_file)
    for batches in sorted([victim, *moments]):
        query.wait_for(batches)
        if batches == victim:
            deadline = time.time() + 60
            while not found.workers_killed and time.time() < deadline:
                found.workers_killed += query.kill_worker()
            continue
        query.kill()
        found.drivers_killed += 1
        done, stopped = len(query.commits()), time.time()
        query = Query(folder, task.model_file)
        query.wait_for(done + 1)
        found.recoveries.append(time.time() - stopped)
    query.end()
    times = [moment for _, moment in sorted(query.commits().items()) if moment > query.started]
    found.latencies = np.diff(times).tolist()
    _count(found, folder / "out", task.decided)
    return found


def _write(source, table, files):
    source.mkdir()
    rows = pq.read_table(table)
    step = LENGTH // files
    for number in range(files):
        within = pc.and_(pc.greater_equal(rows["time"], number * step), pc.less(rows["time"], (number + 1) * step))
        lines = "".join(json.dumps(row) + "\n" for row in rows.filter(within).to_pylist())
        path = source / f"{number:03}.jsonl"
        path.write_text(lines)
        os.utime(path, (1e9 + number, 1e9 + number))  # the order in which Spark reads them


def _count(found, sink, decided):
    said = {}
    for path in sorted(sink.glob("decisions-*.jsonl")):
        for record in map(json.loads, path.read_text().splitlines()):
            found.doubled += record["series"] in said
            said[record["series"]] = (record["label"], record["time"], record["crossed"])
    found.equal = sum(said.get(name) == wanted for name, wanted in decided.items())
