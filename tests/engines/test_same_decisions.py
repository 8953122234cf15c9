"""The same series through every engine: the decisions are those of `clf.decide`.

An engine is a package in `sooner.engines`, and has a module of its name in `carriers` with

- `MISSING`: a sentence that says why it cannot run here, or None;
- `decide(model_file, table, folder)`: the label, the time and whether the rule fired, by series ID. The table has the columns
  series, time, hum and flow; whatever the engine writes is in the folder.

Another module there is another way of an engine, which gets the same test.
"""

import importlib
import pkgutil
from pathlib import Path

import pytest

import sooner.engines
from engines.many_series import task_in

SERIES = 5_000
FOLDER = Path(__file__).parent / "carriers"
NAMES = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_in(tmp_path_factory.mktemp("task"), SERIES)


def test_every_engine_has_a_carrier():
    assert {package.name for package in pkgutil.iter_modules(sooner.engines.__path__)} <= set(NAMES)


@pytest.mark.engines
@pytest.mark.parametrize("name", NAMES)
def test_an_engine_decides_as_the_classifier_does(name, task, tmp_path):
    carrier = importlib.import_module(f"engines.carriers.{name}")
    if carrier.MISSING is not None:
        pytest.skip(carrier.MISSING)
    found = carrier.decide(task.model_file, task.table, tmp_path)
    assert len(found) == SERIES
    assert found == task.decided
    crossed = sum(crossed for _, _, crossed in found.values())
    assert 0 < crossed < SERIES  # some by the rule, some at the end
