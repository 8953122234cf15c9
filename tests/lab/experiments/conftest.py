"""The small plan, carried out once for all who look at what came out."""

from types import SimpleNamespace

import pytest

import small_plan
from sooner.lab.experiments import Work, result_of, run, sets


@pytest.fixture(autouse=True, scope="module")
def _digits():
    """Nobody has to have MNIST."""
    made = small_plan.digits()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "_digits", lambda: made)
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Two seeds of the small plan: `plan`, `work`, `stages`, `result`, and what its observer has `heard`."""
    folder = tmp_path_factory.mktemp("small")
    plan, heard = small_plan.read(folder), small_plan.Heard()
    work = Work(folder / "runs", seeds=2, observer=heard)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "_digits", small_plan.digits)
        stages = run(plan, work)
    return SimpleNamespace(
        plan=plan, work=work, stages=stages, heard=heard, result=result_of(plan, stages, work.folder)
    )
