"""A pytest plugin: a worker of xdist that dies fails the test it was running, and hides no other.

What has run stands in .pytest_cache/ran.txt, line by line as it happens: worker, what, test. A line "began" without an outcome
is what a process was at when it died.
"""

import pytest

try:
    from xdist.scheduler import LoadGroupScheduling
except ImportError:  # run without xdist
    LoadGroupScheduling = object
LOG = ".pytest_cache/ran.txt"


class Scheduling(LoadGroupScheduling):
    """xdist's own loadgroup (3.8) ends with an INTERNALERROR when a second worker dies while a first one is being replaced
    (pytest-dev/pytest-xdist 1189 and 1362), and gives a test that kills its worker to the next one, until none is left (1371).
    """

    def _split_scope(self, nodeid):
        """Tests of a file stay together unless they name a group: they share fixtures, which each worker would build anew."""
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope

    def remove_node(self, node):
        units = self.assigned_work.pop(node)
        pending = [test for unit in units.values() for test, done in unit.items() if not done]
        for scope, unit in units.items():
            left = {test: False for test in unit if test in pending[1:]}
            if left:  # a unit without tests would keep its worker waiting for ever
                self.workqueue[scope] = left
        if pending:
            for other in self.nodes:
                self._reschedule(other)
        return pending[0] if pending else None

    def _reschedule(self, node):
        if node not in self.registered_collections:  # it is still collecting, and is given work when it has done so
            return
        super()._reschedule(node)
        if self.workqueue and self._pending_of(self.assigned_work[node]) == 1:
            super()._reschedule(node)  # a worker begins a test when it knows of the next one


class Log:
    """Writes lines; of a distributed run each worker writes its own, and the controller those of workers that died."""

    def __init__(self, config):
        self.path = config.rootpath / LOG
        self.worker = getattr(config, "workerinput", {"workerid": "main"})["workerid"]
        self.controls = self.worker == "main" and bool(getattr(config.option, "numprocesses", None))
        self.crashed = []

    def write(self, worker, what, test):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{worker}\t{what}\t{test}\n")

    def pytest_runtest_logstart(self, nodeid):
        if not self.controls:
            self.write(self.worker, "began", nodeid)

    def pytest_runtest_logreport(self, report):
        if not self.controls and (report.when == "call" or not report.passed):
            self.write(self.worker, report.outcome, report.nodeid)
        if report.when == "???":  # what xdist says of the test that a dead worker was running
            self.crashed.append(report.nodeid)
            self.write(report.node.gateway.id, "crashed", report.nodeid)

    def pytest_terminal_summary(self, terminalreporter):
        if self.crashed:
            terminalreporter.section("workers died")
            terminalreporter.write_line("\n".join(f"while running {test}" for test in self.crashed))
            terminalreporter.write_line(f"All that has run is in {self.path}.")


def pytest_configure(config):
    log = Log(config)
    try:
        log.path.parent.mkdir(exist_ok=True)
        if log.worker == "main":
            log.path.write_text("", encoding="utf-8")
    except OSError:  # a tree that cannot be written to
        return
    config.pluginmanager.register(log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None
