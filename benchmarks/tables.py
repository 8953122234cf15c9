"""Series from a long Parquet table against `pyarrow.parquet.read_table` alone, which leaves the sorting to the user.

Memory is measured in a process of its own, after a small table has warmed it up: the peak of resident memory above what
was there before, over the bytes of the observations that come out.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from measure import finish, seconds
from sooner.data import read_table, table_parts

SERIES, TIME, CHANNELS = 20_000, 100, 4
CLASSES = ("ant", "bee", "cat", "dog", "elk")
ROWS_A_PART = 100_000
THREADS = 2


def table(series: int, layout: str) -> pa.Table:
    random = np.random.default_rng(0)
    rows = series * TIME
    owners = np.repeat(np.arange(series), TIME)
    labels = random.integers(0, len(CLASSES), size=series)[owners]
    columns = {
        "series": owners,
        "time": np.tile(np.arange(TIME), series),
        "label": pa.array(CLASSES).take(pa.array(labels)),
        **{f"x{channel}": random.normal(size=rows) for channel in range(CHANNELS)},
    }
    made = pa.table(columns)
    if layout == "text ids":
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
    finish(
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
    else:
        main()
