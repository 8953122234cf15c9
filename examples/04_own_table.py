"""Your own table: train on a CSV file in long form, with one row per observation, and decide new series.

The program writes pumps.csv and new_pumps.csv into the given folder, or into a temporary folder:

    python examples/04_own_table.py .
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

from sooner import EarlyClassifier, load
from sooner.data import Columns
from sooner.data.read import read
from sooner.evaluate import achieved

STATES = {"fine": 0.0, "leak": 0.25, "worn": 0.5}  # how fast the hum rises above its usual level


def write_pumps(path: Path, pumps: int, seed: int) -> None:
    """Pumps that have run for 20 to 40 minutes, each in one of three states."""
    random = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["pump", "minute", "hum", "flow", "state"])
        for pump in range(pumps):
            state = list(STATES)[pump % len(STATES)]
            for minute in range(1, 1 + random.integers(20, 41)):
                hum = 50 + STATES[state] * minute + random.normal(0, 2.0)
                flow = 10 - (0.05 * minute if state == "leak" else 0) + random.normal(0, 1.0)
                table.writerow([f"pump-{pump}", minute, f"{hum:.2f}", f"{flow:.2f}", state])


def main(folder: Path) -> None:
    """From two tables to decisions."""
    write_pumps(folder / "pumps.csv", pumps=450, seed=1)
    write_pumps(folder / "new_pumps.csv", pumps=600, seed=2)
    columns = Columns(series="pump", time="minute", label="state")
    table = read(folder / "pumps.csv", columns=columns)
    print(f"{len(table)} series, channels {table.channels}, classes {table.classes.tolist()}")
    clf = EarlyClassifier().fit(table)
    print("held out:", clf.choose_threshold(max_error=0.05))
    clf.save(folder / "pumps.sooner")

    clf = load(folder / "pumps.sooner")
    new = read(folder / "new_pumps.csv", columns=columns, classes=clf.classes_)
    scores, lengths = clf.scores(new)
    print("new pumps:", achieved(clf.rule_, scores, new.labels, lengths=lengths))


if len(sys.argv) > 1:
    main(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
