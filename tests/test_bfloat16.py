"""The trial of bfloat16. Its children are stand-ins without torch, so that a test costs milliseconds; one is real."""

import contextlib
import json
import os
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from small_training import SETTINGS, TRAINING, VALIDATION, linear
from sooner.bfloat16 import Support, bfloat16_support, probe, refuse_bfloat16, trial
from sooner.errors import InvalidArgument, PrecisionChanged
from sooner.train import precision, train
from sooner.train.precision import Precision, precision_on, warn_of
from sooner.train.settings import changed

WORKS = "pass"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
DISAGREES = f"import sys; sys.exit({trial.DISAGREES})"
HANGS = "import time; time.sleep(60)"
RAISES = "raise ImportError('no torch')"
RUNS_OUT_OF_MEMORY = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
WORKS_LOWER = f"import os\nif os.environ.get('ONEDNN_MAX_CPU_ISA') != 'AVX512_CORE_BF16':\n    {DIES}"
LOWER = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
MIXED = changed(SETTINGS, {"training.precision": "bf16-mixed", "training.iterations": 2, "training.validate_every": 2})


class Machine:
    """A machine on which the trial does what a program says; every child leaves a mark."""

    def __init__(self, monkeypatch, folder):
        self.program, self.marks, self.cache = folder / "trial.py", folder / "marks", folder / "cache"
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
        monkeypatch.setattr(probe, "_TRIAL", self.program)

    def find(self, program):
        """What a new process on this machine finds."""
        mark = f"import pathlib\nwith pathlib.Path({str(self.marks)!r}).open('a') as file:\n    file.write('x')\n"
        self.program.write_text(mark + program)
        bfloat16_support.cache_clear()
        return bfloat16_support()

    @property
    def children(self):
        return len(self.marks.read_text()) if self.marks.exists() else 0

    def forget(self):
        for file in (*self.kept, self.marks):
            file.unlink()

    @property
    def kept(self):
        return list(self.cache.rglob("*.json"))


@pytest.fixture
def machine(monkeypatch, tmp_path):
    yield Machine(monkeypatch, tmp_path)
    bfloat16_support.cache_clear()  # what it found is not so
    warn_of.cache_clear()


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (WORKS, Support(True)),
        (DIES, Support(False, "was killed by SIGILL")),
        (DISAGREES, Support(False, "gave other numbers than float32")),
        (WORKS_LOWER, Support(False, "was killed by SIGILL", LOWER)),
    ],
    ids=["works", "dies", "disagrees", "works lower"],
)
def test_what_the_child_shows_is_found_and_kept(machine, program, found):
    assert machine.find(program) == found
    tried = machine.children
    assert tried == (1 if found.works else 2)
    assert machine.find(program) == found
    assert machine.children == tried


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (HANGS, "did not end within 0.5 seconds"),
        (RAISES, "ended with code 1"),
        (RUNS_OUT_OF_MEMORY, "was killed by SIGKILL"),
    ],
    ids=["hangs", "raises", "out of memory"],
)
def test_an_end_that_may_have_other_reasons_means_no_and_is_tried_again(machine, monkeypatch, program, fault):
    monkeypatch.setattr(probe, "_TIMEOUT", 0.5 if program == HANGS else 30.0)
    assert machine.find(program) == Support(False, fault)
    assert machine.kept == []
    monkeypatch.setattr(probe, "_TIMEOUT", 30.0)
    assert machine.find(WORKS) == Support(True)


def test_a_child_that_cannot_be_started_means_no(machine, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert machine.find(WORKS) == Support(False, "could not be started (No such file or directory)")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"identity": 1}', '{"support": {"works": "yes"}}', None])
def test_a_damaged_cache_is_tried_again(machine, damage):
    machine.find(DIES)
    (file,) = machine.kept
    if damage is None:  # whole, but of another machine
        kept = json.loads(file.read_text())
        damage = json.dumps({**kept, "identity": {**kept["identity"], "torch": "0.1"}})
    file.write_text(damage)
    assert machine.find(WORKS).works
    assert json.loads(file.read_text())["support"]["works"]


def test_the_cache_knows_instruction_set_torch_cpu_and_system(machine, monkeypatch):
    machine.find(DIES)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert machine.find(WORKS).works
    for name, value in (("version", lambda _: "9.9"), ("cpu_identity", lambda: ["another"])):
        monkeypatch.setattr(probe, name, value)
        machine.find(WORKS)
    monkeypatch.setattr(probe.platform, "platform", lambda: "another kernel")
    machine.find(WORKS)
    assert len(machine.kept) == 5


def test_the_child_has_the_instruction_set_that_is_asked_for(machine, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    assert machine.find(WORKS_LOWER) == Support(True)


@pytest.mark.parametrize("obstacle", ["file", "no home"])
def test_without_a_cache_it_is_tried_every_time(machine, monkeypatch, obstacle):
    if obstacle == "file":  # a folder without write permission would not stop root
        machine.cache.write_text("in the way")
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(probe.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert machine.find(WORKS).works
    assert machine.find(WORKS).works
    assert machine.children == 2


def test_processes_that_ask_at_once_try_once(machine):
    slow = f"import time; time.sleep(0.5)\n{DIES}"
    machine.find(WORKS)
    machine.forget()
    machine.program.write_text(machine.program.read_text() + "\n" + slow)
    asked = (
        "import sys, types; sys.modules['sooner'] = package = types.ModuleType('sooner'); package.__path__ = [sys.argv[2]]\n"
        "from pathlib import Path; from sooner.bfloat16 import probe; probe._TRIAL = Path(sys.argv[1])\n"
        "print(probe.bfloat16_support().fault)"
    )
    command = [sys.executable, "-c", asked, str(machine.program), os.path.dirname(os.path.dirname(probe.__file__))]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=60)[0].strip() for each in both] == ["was killed by SIGILL"] * 2
    assert machine.children == 2  # as it is, and with the lower instruction set


@pytest.mark.usefixtures("bfloat16")
def test_the_real_trial_agrees_with_what_is_found_here():
    assert trial.main() == 0


def test_the_trial_sees_wrong_numbers(monkeypatch):
    """In float32 throughout, so that it also runs where bfloat16 traps."""
    monkeypatch.setattr(torch, "autocast", lambda *_, enabled, **__: Wrong(enabled))
    Wrong.factor = 1.0
    assert trial.main() == 0
    for Wrong.factor in (1.1, float("nan")):
        assert trial.main() == trial.DISAGREES


class Wrong(torch.overrides.TorchFunctionMode):
    """Where it is enabled, products are off by a factor."""

    factor = 1.0

    def __init__(self, enabled):
        super().__init__()
        self.enabled = enabled

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * self.factor if self.enabled else result


class TestTraining:
    def test_is_in_float32_and_says_why_once(self, machine):
        machine.find(WORKS_LOWER)
        with pytest.warns(PrecisionChanged) as told:
            record, _ = (train(linear(), TRAINING, VALIDATION, MIXED) for _ in range(2))
        note = (
            "Training in float32 instead of bf16-mixed. A trial of bfloat16 on this CPU was killed by SIGILL. It works with "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment before Python starts."
        )
        assert [str(each.message) for each in told] == [note]
        assert record.precision == Precision("32", note)

    def test_that_does_not_ask_for_bfloat16_tries_nothing(self, machine):
        machine.program.write_text(DIES)
        bfloat16_support.cache_clear()
        assert precision_on("cpu", SETTINGS) == Precision("32")
        assert precision_on("cuda", MIXED) == Precision("bf16-mixed")
        assert not machine.cache.exists()

    def test_notes_the_precision_in_its_folder(self, machine, tmp_path):
        machine.find(DIES)
        with pytest.warns(PrecisionChanged, match=r"was killed by SIGILL\.$"):
            train(linear(), TRAINING, VALIDATION, MIXED, folder=tmp_path / "run")
        said = json.loads((tmp_path / "run" / "record.json").read_text())
        assert said["precision"] == "32"
        assert said["precision_note"].startswith("Training in float32 instead of bf16-mixed. A trial of bfloat16")
        assert said["settings"]["training"]["precision"] == "bf16-mixed"

    def test_where_it_works_is_in_bfloat16(self, machine, monkeypatch):
        machine.find(WORKS)
        asked = []

        def autocast(self, device):
            asked.append((self.used, device))
            return contextlib.nullcontext()  # it need not work where the tests run

        monkeypatch.setattr(Precision, "autocast", autocast)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            record = train(linear(), TRAINING, VALIDATION, MIXED)
        assert (set(asked), record.precision) == ({("bf16-mixed", "cpu")}, Precision("bf16-mixed"))

    def test_of_a_bfloat16_model_is_refused(self, machine):
        machine.find(DIES)
        with pytest.raises(InvalidArgument, match="`model` must be in float32 on this CPU, got weights in bfloat16"):
            train(linear().bfloat16(), TRAINING, VALIDATION, SETTINGS)


def test_workers_that_disagree_all_use_float32(machine):
    workers = pytest.importorskip("sooner.engines.ray.training")
    machine.find(WORKS)
    other = Precision("32", "as its CPU traps")

    class Two(workers.Team):
        def gather(self, own):
            return [own, other]

    assert workers._agreed_precision(MIXED, Two(0, 2)) == other
    other = precision_on("cpu", MIXED)
    assert workers._agreed_precision(MIXED, Two(0, 2)) == Precision("bf16-mixed")


def test_modules_in_bfloat16_are_refused_where_it_does_not_work(machine):
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Conv1d(1, 1, 1).bfloat16())
    machine.find(WORKS)
    refuse_bfloat16(mixed, "backbone")
    machine.forget()
    machine.find(WORKS_LOWER)
    refuse_bfloat16(mixed.float(), "backbone")
    refuse_bfloat16(mixed.to("meta"), "backbone")
    with pytest.raises(InvalidArgument) as refused:
        refuse_bfloat16(nn.Linear(2, 2).bfloat16(), "backbone")
    assert str(refused.value) == (
        "`backbone` must be in float32 on this CPU, got weights in bfloat16. A trial of bfloat16 on this CPU was killed by "
        "SIGILL. It works with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment before Python starts. Or convert it: "
        "`backbone.float()`."
    )


def test_the_command_line_warns_in_one_line(machine, capsys, monkeypatch):
    from sooner import cli

    machine.find(DIES)
    monkeypatch.setattr(cli, "app", lambda: precision.warn_of(precision_on("cpu", MIXED)))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        cli.main()
    said = capsys.readouterr().err
    assert said == (
        "warning: Training in float32 instead of bf16-mixed. A trial of bfloat16 on this CPU was killed by SIGILL.\n"
    )
