"""Stages: known by what they depend on, done once, by one process at a time, and begun again where they were cut."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from itertools import combinations

import pytest

from sooner import storage
from sooner.lab.experiments import stages
from sooner.lab.experiments.stages import Stage, taken


def _nothing(_folder):
    return {}


def _stage(name="training", label="a label", ingredients=None, needs=(), act=_nothing):
    return Stage(name, label, {"lr": 0.1, "data": {"set": "x"}} if ingredients is None else ingredients, needs, act)


def _done(stage, work):
    with taken(stage.folder(work)) as mine:
        assert mine
        stage.perform(work)
    return stage.outcome(work)


# --- what a stage is known by -------------------------------------------------------------------------------------------


def test_every_ingredient_and_every_need_is_in_the_digest():
    need, other = _stage(), _stage(ingredients={"lr": 0.2})
    family = [
        _stage(),
        _stage(name="scores"),
        _stage(ingredients={"lr": 0.2, "data": {"set": "x"}}),
        _stage(ingredients={"lr": 0.1, "data": {"set": "y"}}),
        _stage(ingredients={"lr": 0.1}),
        _stage(ingredients={"lr": "0.1", "data": {"set": "x"}}),
        _stage(ingredients={}),
        _stage(needs=(need,)),
        _stage(needs=(other,)),
        _stage(needs=(need, other)),
        _stage(needs=(other, need)),
        _stage(needs=(_stage(needs=(other,)),)),
    ]
    for one, two in combinations(family, 2):
        assert one.digest != two.digest
    assert len({stage.folder(stages.Path()) for stage in family}) == len(family)


def test_label_act_and_order_of_keys_are_not():
    alike = _stage(label="another", ingredients={"data": {"set": "x"}, "lr": 0.1}, act=lambda _folder: {"other": 1})
    assert alike.digest == _stage().digest
    assert _stage(needs=(alike,)).digest == _stage(needs=(_stage(),)).digest


def test_another_format_makes_all_stages_of_the_past_worth_nothing(monkeypatch):
    before = _stage().digest
    monkeypatch.setattr(stages, "FORMAT", stages.FORMAT + 1)
    assert _stage().digest != before


# --- doing it -----------------------------------------------------------------------------------------------------------


def test_a_stage_is_done_when_its_file_says_so_and_not_before(tmp_path):
    def act(folder):
        seen.append((folder, stage.outcome(tmp_path)))
        folder.joinpath("weights").write_text("w")
        return {"series": 3}

    seen = []
    stage = _stage(act=act)
    assert stage.outcome(tmp_path) is None
    outcome = _done(stage, tmp_path)
    assert seen == [(tmp_path / f"training-{stage.digest}", None)]
    assert (outcome["series"], outcome["label"]) == (3, "a label")
    folder = stage.folder(tmp_path)
    assert json.loads((folder / "ingredients.json").read_text()) == stage.ingredients
    (folder / "done.json").unlink()
    assert stage.outcome(tmp_path) is None


@pytest.mark.parametrize("blow", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_stage_that_was_cut_is_begun_again_finds_what_it_left_and_adds_its_seconds_up(tmp_path, monkeypatch, blow):
    now = [100.0]
    monkeypatch.setattr(stages.time, "monotonic", lambda: now[0])

    def act(folder):
        now[0] += 40.0
        found = (folder / "half").exists()
        (folder / "half").write_text("half")
        if not found:
            raise blow
        return {"found": found}

    stage = _stage(act=act)
    with pytest.raises(blow):
        _done(stage, tmp_path)
    assert stage.outcome(tmp_path) is None
    now[0] += 1000.0
    assert _done(stage, tmp_path) == {"found": True, "label": "a label", "seconds": 80.0}


def test_what_is_cut_between_the_act_and_its_last_word_is_not_done(tmp_path, monkeypatch):
    def cut(source, target):
        if target.name == "done.json":
            raise KeyboardInterrupt
        replace(source, target)

    replace = os.replace
    stage = _stage()
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "replace", cut)
        with pytest.raises(KeyboardInterrupt):
            _done(stage, tmp_path)
    assert stage.outcome(tmp_path) is None
    assert _done(stage, tmp_path) is not None


# --- several processes --------------------------------------------------------------------------------------------------

# `stages.py` needs nothing but the standard library and locks; read from its file, a process starts in no time.
PROGRAM = textwrap.dedent(
    f"""
    import importlib.util, os, pathlib, signal, sys, time
    spec = importlib.util.spec_from_file_location("stages", {stages.__file__!r})
    stages = importlib.util.module_from_spec(spec)
    sys.modules["stages"] = stages
    spec.loader.exec_module(stages)
    work, me, verb = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]

    def share(folder):
        busy = folder / "busy"
        busy.open("x").close()
        with (work / "log").open("a") as log:
            log.write(f"{{me}} {{folder.name}}\\n")
        time.sleep(0.02)
        busy.unlink()
        return {{}}

    def die(folder):
        (folder / "half").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    def hold(folder):
        (work / "held").write_text("")
        time.sleep(60)

    act = {{"share": share, "die": die, "hold": hold}}[verb]
    family = [stages.Stage("training", "", {{"number": number}}, (), act) for number in range(int(sys.argv[4]))]
    while verb == "share" and not (work / "go").exists():
        time.sleep(0.001)
    while any(stage.outcome(work) is None for stage in family):
        for stage in family:
            with stages.taken(stage.folder(work)) as mine:
                if mine and stage.outcome(work) is None:
                    stage.perform(work)
    """
)


def _process(work, name, verb, count):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(work), name, verb, str(count)])


def _wait_for(path):
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def test_two_processes_share_the_work_and_never_do_the_same(tmp_path):
    processes = [_process(tmp_path, name, "share", 20) for name in "AB"]
    (tmp_path / "go").write_text("")
    # Had both been in one stage at a time, the second one would have found the first one's mark and failed.
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    log = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert set(Counter(folder for _, folder in log).values()) == {1}
    assert len(log) == 20
    assert {who for who, _ in log} == {"A", "B"}


def test_what_another_process_has_is_not_ours_until_it_dies(tmp_path):
    stage = _stage(ingredients={"number": 0})
    holder = _process(tmp_path, "A", "hold", 1)
    try:
        _wait_for(tmp_path / "held")
        with taken(stage.folder(tmp_path)) as mine:
            assert not mine
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(timeout=30)
        assert (stage.folder(tmp_path) / "lock").exists()
        with taken(stage.folder(tmp_path)) as mine:
            assert mine
    finally:
        holder.kill()
        holder.wait()


def test_a_stage_whose_process_was_killed_is_begun_again(tmp_path):
    process = _process(tmp_path, "A", "die", 1)
    assert process.wait(timeout=30) == -signal.SIGKILL
    stage = _stage(ingredients={"number": 0}, act=lambda folder: {"found": (folder / "half").exists()})
    assert stage.outcome(tmp_path) is None
    assert _done(stage, tmp_path)["found"]


def test_one_process_cannot_take_a_folder_twice_and_gives_it_back(tmp_path):
    with taken(tmp_path / "a") as first, taken(tmp_path / "a") as second, taken(tmp_path / "b") as other:
        assert (first, second, other) == (True, False, True)
    with taken(tmp_path / "a") as again:
        assert again
    with pytest.raises(ValueError, match="oops"), taken(tmp_path / "a"):
        raise ValueError("oops")
    with taken(tmp_path / "a") as again:
        assert again
