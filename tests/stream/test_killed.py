"""Processes that are killed at random moments lose no event and give none another meaning."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sooner.stream import LiveSeries
from stream.killed import SETTINGS, batch, live_in, taken
from stream.live_parts import fleet_of

TESTS = Path(__file__).parents[1]
KILLS, BATCHES = 5, 1500


@pytest.mark.faults
def test_kills_at_random_moments_lose_nothing(tmp_path):
    chance, printed = random.Random(1), {}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TESTS / "stream" / "killed.py"), str(tmp_path), str(BATCHES)]
    acknowledged = 0
    for number in range(KILLS + 1):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            last = number == KILLS
            assert process.stdout.readline(), "it did not begin"  # the first line comes when it has been restored
            if not last:
                time.sleep(chance.uniform(0.0, 0.7))
                process.kill()
            output = process.stdout.read()
        for line in map(json.loads, output.splitlines()[: None if last else -1]):  # the last line may be torn
            if isinstance(line, int):
                assert line >= acknowledged
                acknowledged = line
            else:
                assert printed.setdefault(line["id"], line) == line
    assert acknowledged == BATCHES
    expected = LiveSeries(fleet_of(), SETTINGS)
    events = [event for n in range(BATCHES) for event in expected.take(batch(n), 0.01 * n).events]
    assert printed.keys() <= {event.id for event in events}
    again = live_in(tmp_path, 0.0)
    assert taken(again) == BATCHES
    assert again.events(0, 1 << 60) == events
    assert all(printed[event.id] == event.record() for event in events if event.id in printed)
    again.close()
