"""The fuzzers: a small share of `make fuzz` that finds nothing, and the driver, which finds all there is to find."""

import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from fuzz import __main__ as command
from fuzz import broken
from fuzz.case import BAD, GOOD, Outcome, drawn, outcome
from fuzz.driver import Run, run
from fuzz.targets import TARGETS

INPUTS = 60
SEED = 86  # draws each of the eight broken targets once
SLOWER = {"fit": 2, "classifier": 20, "model files": 20, "snapshots": 20}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_reader_answers_spoiled_input_with_a_right_result_or_one_sentence(target, tmp_path, capfd):
    for index in range(SLOWER.get(target.name, INPUTS)):
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)
            case = target.make(drawn([target], 0, index)[1], Path(folder))
            capfd.readouterr()
            warned.clear()
            found = outcome(case)
        assert found.kind in GOOD, f"make fuzz SEED=0 CASE={index} ONLY={target.name!r}: {found.said}"
        assert (capfd.readouterr(), [str(one.message) for one in warned]) == (("", ""), [])


@pytest.fixture(scope="module")
def counts():
    return run(Run(8, SEED, workers=2, module="fuzz.broken", seconds=3.0, memory=300_000_000))


def test_the_driver_counts_every_end_for_what_it_is_and_goes_on_behind_it(counts):
    assert counts.ends == {kind: {kind: 1} for kind in (*GOOD, *BAD)}


def test_inputs_that_fail_are_kept_with_what_it_takes_to_run_them_again(counts, tmp_path):
    command._keep(counts, tmp_path, SEED)
    assert len(list(tmp_path.glob("*.input"))) == len(BAD)
    fault = next(fault for fault in counts.faults if fault["kind"] == "crashes")
    kept = tmp_path / f"crashes-{SEED}-{fault['index']}.json"
    assert f"make fuzz SEED={SEED} CASE={fault['index']}" in kept.read_text()
    target, chance = drawn(broken.TARGETS, SEED, fault["index"])
    assert kept.with_suffix(".input").read_bytes() == target.make(chance, tmp_path).payload


def test_the_command_fails_if_an_input_does(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fuzz", "--case", "1", "--only", "settings"])
    assert command.main() == 0
    assert "settings: " in capsys.readouterr().out
    monkeypatch.setattr(command, "outcome", lambda _case: Outcome("wrong", "another result"))
    assert command.main() == 1
