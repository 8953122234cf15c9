"""Consistency from series to decisions, in small; `benchmarks/consistency.py` is the large one, with its record."""

import importlib.util
from pathlib import Path

import pytest

_BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def consistency(monkeypatch):
    monkeypatch.syspath_prepend(str(_BENCHMARKS))
    spec = importlib.util.spec_from_file_location("consistency", _BENCHMARKS / "consistency.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [("gaussian", 0), ("ar1", 1)])
def test_learned_scores_approach_the_exact_ones_as_the_training_set_grows(consistency, name, order):
    few, many = (consistency.run(name, order, series) for series in (1000, 16_000))
    assert many["score_error"] < few["score_error"]
    assert many["area"] < 0.1


@pytest.mark.slow
def test_order_one_holds_what_order_zero_misses_of_an_autoregression(consistency):
    blind, enough = (consistency.run("ar1", order, 4000) for order in (0, 1))
    assert enough["area"] < 0.1 < blind["area"]
