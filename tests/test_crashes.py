import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("xdist")
from xdist.scheduler import LoadGroupScheduling

from crashes import LOG, Scheduling

TESTS = """
import os, signal, pytest

@pytest.mark.parametrize("number", range(3))
def test_before(number):
    pass

@pytest.mark.parametrize("number", range(2))
def test_that_dies(number):
    os.kill(os.getpid(), signal.SIGILL)

@pytest.mark.parametrize("number", range(3))
def test_after(number):
    pass
"""


def test_a_worker_that_dies_fails_its_test_and_hides_no_other(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "crashes", "-p", "no:faulthandler"]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [*command, "-n", "2", "--dist", "loadgroup"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 failed, 6 passed" in done.stdout
    assert "INTERNALERROR" not in done.stdout
    for number in range(2):
        assert f"FAILED test_some.py::test_that_dies[{number}] - worker" in done.stdout
    lines = [line.split("\t") for line in (tmp_path / LOG).read_text().splitlines()]
    by = {what: sorted(test for _, said, test in lines if said == what) for what in ("began", "passed", "crashed")}
    assert by["crashed"] == ["test_some.py::test_that_dies[0]", "test_some.py::test_that_dies[1]"]
    assert len(by["passed"]) == 6
    assert by["began"] == sorted(by["passed"] + by["crashed"])
    assert "All that has run is in" in done.stdout


class Worker:
    """A worker as a scheduler sees it: tests are sent to it, and it is told to end."""

    def __init__(self):
        self.sent, self.shutting_down = [], False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices):
        self.sent += indices

    def shutdown(self):
        self.shutting_down = True


def _second_death(scheduling):
    """Two workers; one dies, and while its replacement collects the tests, so does the other one."""
    option = SimpleNamespace(loadscopereorder=False, tx=["popen", "popen"], px=[], numprocesses=2, dist="loadgroup")
    config = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduler, first, second, third = scheduling(config), Worker(), Worker(), Worker()
    for worker in (first, second):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, [f"test_{place}" for place in range(8)])
    scheduler.schedule()
    lost = [scheduler.remove_node(first)]
    scheduler.add_node(third)
    lost.append(scheduler.remove_node(second))
    scheduler.add_node_collection(third, [f"test_{place}" for place in range(8)])
    scheduler.schedule()
    for index in third.sent:  # it grows meanwhile
        scheduler.mark_test_complete(third, index)
    return lost, third.sent


def test_a_second_death_while_a_worker_is_replaced_is_survived():
    lost, run = _second_death(Scheduling)
    assert lost == ["test_0", "test_1"]
    assert sorted(run) == [2, 3, 4, 5, 6, 7]


def test_xdist_itself_still_needs_help():
    """When this fails, `crashes.Scheduling` has done its service."""
    with pytest.raises(KeyError):
        _second_death(LoadGroupScheduling)
