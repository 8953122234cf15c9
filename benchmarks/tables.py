"""Series from a long Parquet table against `pyarrow.parquet.read_table` alone, which leaves the sorting to the user.

Memory is measured in a process of its own, after a small table has warmed it up: the peak of resident memory above what
was there before, over the bytes of the observations that come out.

Then the same rows are trained on and scored once sorted by series and once sorted by time, each in a process of its own: the
ratios are those of seconds, and of the peak of all resident memory of the process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import sooner
from measure import finish, seconds
from sooner.data import read, read_table, table_parts
from sooner.errors import NearChance
from sooner.estimator.bulk import score_table
from sooner.train.settings import settings_from_dict

SERIES, TIME, CHANNELS = 20_000, 100, 4
CLASSES = ("ant", "bee", "cat", "dog", "elk")
ROWS_A_PART = 100_000
THREADS = 2
REPEATS = 3  # of training and scoring, of which the best counts: a busy machine only adds


def table(series: int, layout: str) -> pa.Table:
    random = np.random.default_rng(0)
    rows = series * TIME
    owners = np.repeat(np.arange(series), TIME)
    labels = random.integers(0, len(CLASSES), size=series)[owners]
    columns = {
        "series": owners,
        "time": np.tile(np.arange(TIME), series),
        "label": pa.array(CLASSES).take(pa.array(labels)),
        **{f"x{channel}": random.normal(size=rows) + 0.5 * (labels == channel) for channel in range(CHANNELS)},
    }
    made = pa.table(columns)
    if layout in ("text ids", "by time"):
        names = pa.array([f"unit-{name:06}" for name in range(series)])
        made = made.set_column(0, "series", names.take(pa.array(owners)))
    if layout == "by time":
        made = made.take(pa.array(np.arange(rows).reshape(series, TIME).T.ravel()))
    if layout == "shuffled":
        made = made.take(pa.array(random.permutation(rows)))
    return made


def resident(key: str) -> int:
    """VmRSS or VmHWM (the peak) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def measure_memory(path: str, small: str, how: str) -> None:
    """In a process of its own: the peak above the start."""
    pa.set_cpu_count(THREADS)
    torch.set_num_threads(THREADS)
    read_table(small)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = resident("VmRSS")
    if how == "whole":
        read_table(path)
    elif how == "parts":
        for _ in table_parts(path, classes=CLASSES, rows=ROWS_A_PART):
            pass
    else:
        pq.read_table(path)
    print(resident("VmHWM") - before)


def peak(path: Path, small: Path, how: str) -> int:
    command = [sys.executable, __file__, "memory", str(path), str(small), how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def work(verb: str, path: str, folder: str) -> None:
    """In a process of its own: train on a table, or score it, and say how long it took and how much memory."""
    pa.set_cpu_count(THREADS)
    torch.set_num_threads(THREADS)
    model, start = Path(folder, "model.sooner"), time.perf_counter()
    if verb == "train":
        series = read.read(path)
        # A few steps of a small recurrent model: reading is the point.
        few = {"iterations": 10, "validate_every": 10}
        settings = settings_from_dict({"model": {"hidden": 8, "order": 1}, "training": few})
        clf = sooner.EarlyClassifier("recurrent", settings=settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearChance)  # the labels are random
            clf.fit(series).save(model)
    else:
        score_table(sooner.load(model), path, Path(folder, "out.parquet"), threads=THREADS)
    spent = time.perf_counter() - start
    print(json.dumps({"seconds": spent, "peak": resident("VmHWM")}))


def in_both_orders(folder: Path) -> dict[str, float | bool]:
    """The table by time over the table by series: seconds and memory of training and scoring, and whether results agree."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for layout in ("text ids", "by time"):
        path, home = folder / f"{layout}.parquet", folder / layout
        pq.write_table(table(SERIES, layout), path)
        home.mkdir()
        for verb in ("train", "score"):
            command = [sys.executable, __file__, verb, str(path), str(home)]
            # Arrow's own pool keeps up to twice the memory that is in use, more on a busy machine than on an idle one.
            given = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
            runs = [
                json.loads(
                    subprocess.run(command, stdout=subprocess.PIPE, check=True, env=given).stdout.splitlines()[-1]
                )
                for _ in range(REPEATS)
            ]
            here = found[verb, layout] = {key: min(run[key] for run in runs) for key in runs[0]}
            print(f"  {verb} {layout:10} {here['seconds']:6.1f} s, {here['peak'] / 1e6:5.0f} MB")
    ratios: dict[str, float | bool] = {
        f"{word}_ratio_{verb}": found[verb, "by time"][key] / found[verb, "text ids"][key]
        for verb in ("train", "score")
        for word, key in (("time", "seconds"), ("memory", "peak"))
    }
    # The margins of all series agree to the last bit only if both models are the same.
    rows = [(folder / layout / "out.parquet").read_bytes() for layout in ("text ids", "by time")]
    return {**ratios, "same_results": rows[0] == rows[1]}


def main() -> None:
    pa.set_cpu_count(THREADS)
    torch.set_num_threads(THREADS)
    payload = SERIES * TIME * CHANNELS * 4
    ratios, peaks = {}, {}
    print(f"{SERIES * TIME:,} rows, {SERIES:,} series, {CHANNELS} channels of float64, {THREADS} threads")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small.parquet")
        pq.write_table(table(50, "number ids"), small)
        for layout in ("number ids", "text ids", "by time", "shuffled"):
            path = Path(folder, f"{layout}.parquet")
            pq.write_table(table(SERIES, layout), path)
            alone = seconds(lambda path=path: pq.read_table(path), repeats=9)
            ours = seconds(lambda path=path: read_table(path), repeats=9)
            ratios[layout] = ours / alone
            peaks[layout] = peak(path, small, "whole") / payload
            arrow = peak(path, small, "pyarrow") / payload
            print(
                f"  {layout:10}  pyarrow {1e3 * alone:6.1f} ms, {arrow:4.1f} x payload"
                f"   read_table {1e3 * ours:6.1f} ms, {peaks[layout]:4.1f} x payload"
            )
        longer = Path(folder, "longer.parquet")
        pq.write_table(table(4 * SERIES, "text ids"), longer)
        parts, longer_parts = (peak(at, small, "parts") for at in (Path(folder, "text ids.parquet"), longer))
        print(
            f"  in parts of {ROWS_A_PART:,} rows: {parts / 1e6:.0f} MB, and {longer_parts / 1e6:.0f} MB if the table is four "
            "times as long (its payload alone: {:.0f} MB)".format(4 * payload / 1e6)
        )
        both = Path(folder, "orders")
        both.mkdir()
        orders = in_both_orders(both)
    finish(
        **orders,
        load_over_pyarrow=max(ratios["number ids"], ratios["text ids"]),
        peak_over_payload=max(peaks["number ids"], peaks["text ids"]),
        load_over_pyarrow_by_time=ratios["by time"],
        load_over_pyarrow_shuffled=ratios["shuffled"],
        peak_over_payload_shuffled=peaks["shuffled"],
        parts_peak_of_four_times_the_rows=longer_parts / parts,
        threads=THREADS,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        measure_memory(*sys.argv[2:])
    elif sys.argv[1:2] in (["train"], ["score"]):
        work(*sys.argv[1:])
    else:
        main()
