"""Spark, killed: a shorter form of `benchmarks/engines.py`."""

from pathlib import Path

import pytest

from engines.spark_kills import survive
from engines.sparking import MISSING

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc: workers cannot be found"),
]


def test_a_killed_driver_and_a_killed_worker_lose_no_decision_and_double_none(tmp_path):
    found = survive(tmp_path, series=600, files=5, kills=1)
    assert (found.drivers_killed, found.workers_killed) == (1, 1)
    assert (found.equal, found.doubled) == (600, 0)
