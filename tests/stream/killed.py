"""A process that is killed: it takes one batch after another into a journal, and prints what is on disk.

`python killed.py FOLDER BATCHES` goes on after the batches that the journal holds, and prints, as JSON lines, each event once it
is on disk, and then the number of batches.
"""

import json
import sys

import numpy as np

from sooner.stream import ArrivalBatch, LiveSeries, LiveSettings, Rearm
from sooner.stream.journal import Journal
from stream.live_parts import fleet_of

SERIES = 50
SETTINGS = LiveSettings(idle=5.0, rearm=Rearm("next"))


def batch(number):
    """Some observations of some series; that of the series `clock` never decides."""
    random = np.random.default_rng(number)
    keys = [f"s{key}" for key in random.choice(SERIES, size=20, replace=False)]
    return ArrivalBatch(["clock", *keys], np.concatenate([np.zeros((1, 2)), random.normal(size=(20, 2))]))


def live_in(folder, now):
    # Small segments and snapshots, so that kills meet all of them.
    return LiveSeries(
        fleet_of(), SETTINGS, journal=Journal(folder, segment_bytes=5_000, snapshot_bytes=20_000), now=now
    )


def taken(live):
    """How many batches the journal holds."""
    clock = live.show("clock")
    return 0 if clock is None else clock.time


def main(folder, batches):
    live = live_in(folder, 0.0)
    told = 0
    while True:
        live.sync()
        for event in live.events(told, 10_000):
            sys.stdout.write(json.dumps(event.record()) + "\n")
            told = event.id
        sys.stdout.write(f"{taken(live)}\n")
        sys.stdout.flush()
        if taken(live) == batches:
            live.close()
            return
        number = taken(live)
        live.take(batch(number), 0.01 * number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
