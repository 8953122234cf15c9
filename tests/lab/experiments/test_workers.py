"""A plan that workers of a cluster share."""

import numpy as np
import pytest

import small_plan
from on_ray import small_digits, two_cores
from sooner.errors import InvalidArgument
from sooner.lab.experiments import Work, run, run_together

pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = pytest.mark.ray


@pytest.mark.cluster
def test_workers_share_the_stages_of_a_plan_and_come_to_the_same_scores(tmp_path):
    plan, heard = small_plan.read(tmp_path), small_plan.Heard()
    here, there = (Work(tmp_path / name, seeds=2, only=("pooling",), observer=heard) for name in ("here", "there"))
    with two_cores(small_digits):
        stages = run_together(plan, there, 2)
    kinds = ("pooling", "scores of pooling")
    assert sorted(heard.labels) == sorted(f"{kind}, seed {seed}, done" for kind in kinds for seed in range(2))
    assert heard.places == [(1, 4), (2, 4), (3, 4), (4, 4)]
    run(plan, here)
    for trial in stages.trials:
        if trial.contender.name == "pooling":
            one, two = (np.load(trial.scores.folder(work.folder) / "scores.npy") for work in (here, there))
            assert np.array_equal(one, two)


def test_a_plan_whose_trainings_ask_for_workers_is_not_shared(tmp_path):
    shared = "iterations = 12, validate_every = 6", 'iterations = 12, validate_every = 6, engine = "ray"'
    with pytest.raises(InvalidArgument) as caught:
        run_together(small_plan.read(tmp_path, shared), Work(tmp_path / "runs"))
    assert str(caught.value) == (
        "`engine` must be 'local' for this plan, got 'ray'. Its trainings use workers themselves: run it without --engine."
    )
