"""The compiled kernel: its numbers are those of PyTorch's operations, and whatever goes wrong leads back to them, silently."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sooner.models import Recurrent
from sooner.models.recurrent.activations import ACTIVATIONS, Tanh
from sooner.models.recurrent.fused import build
from sooner.models.recurrent.fused.build import built_library, fused_for
from sooner.models.recurrent.fused.library import Library
from sooner.models.recurrent.fused.trial import DISAGREES
from sooner.models.recurrent.fused.windows import fused_windows
from sooner.models.recurrent.kernel import Workspace, lstm_windows
from sooner.models.recurrent.readout import Readout

WORKS = "pass"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
WRONG = f"import sys; sys.exit({DISAGREES})"
HANGS = "import time; time.sleep(60)"
RAISES = "raise ImportError('no torch')"
X = torch.zeros(1)


@pytest.fixture
def library(monkeypatch):
    """The kernel of this machine, where there is a compiler; it is then used."""
    monkeypatch.delenv("SOONER_FUSED", raising=False)
    found = built_library(compiles=True)
    if found is None:
        pytest.skip("no C compiler, or its files fail their trial")
    return found


@pytest.fixture
def threads(request):
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


def both(monkeypatch, function):
    """The results without and with the compiled kernel."""
    results = []
    for switch in ("0", "1"):
        monkeypatch.setenv("SOONER_FUSED", switch)
        results.append(function())
    return results


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_peepholes", [True, False])
@pytest.mark.parametrize(
    ("series", "time", "positions", "hidden"),
    [(1, 1, 1, 1), (3, 7, 4, 1), (3, 7, 1, 5), (5, 7, 7, 17), (9, 11, 2, 128), (13, 150, 3, 128), (2, 3, 2, 700)],
)
def test_states_and_gradients_are_those_of_the_kernel_in_float64(
    library, threads, activation, with_peepholes, series, time, positions, hidden
):
    del threads
    generator = torch.Generator().manual_seed(0)
    shapes = [(series, time, 4 * hidden), (hidden, 4 * hidden), *([(3, hidden)] if with_peepholes else [])]
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    tensors[1] *= hidden**-0.5

    def results(hidden_states, leaves):
        value = hidden_states.detach().double().clone()  # its memory is returned by the backward pass
        weights = torch.linspace(-1, 1, value.numel()).view(value.shape).to(hidden_states.dtype)
        gradients = torch.autograd.grad((hidden_states * weights).sum(), leaves)
        return [value, *(gradient.double() for gradient in gradients)]

    options = {"positions": positions, "activation": ACTIVATIONS[activation]}
    single = [tensor.clone().requires_grad_() for tensor in tensors]
    ours = fused_windows(library, *single, *([] if with_peepholes else [None]), **options, workspace=Workspace())
    double = [tensor.double().requires_grad_() for tensor in tensors]
    projected = double[0].unflatten(2, (4, -1)).permute(2, 1, 0, 3)
    recurrent = double[1].unflatten(1, (4, -1)).transpose(0, 1)
    plain = lstm_windows(projected, recurrent, double[2] if with_peepholes else None, **options, workspace=Workspace())
    plain = plain.unflatten(1, (-1, series)).transpose(1, 2)
    for mine, exact in zip(results(ours, single), results(plain, double), strict=True):
        assert float((mine - exact).norm()) <= 3e-6 * float(exact.norm()) + 1e-12


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("rows", "hidden", "classes"), [(2, 1, 2), (33, 5, 3), (5000, 128, 10), (1001, 17, 101)])
def test_readout_is_that_of_pytorch_in_float64(library, threads, activation, rows, hidden, classes, monkeypatch):
    del threads, library
    torch.manual_seed(0)
    readout = Readout(hidden, classes, ACTIVATIONS[activation])
    torch.nn.init.normal_(readout.norm.weight)
    x, weights = torch.randn(rows, hidden).tanh(), torch.randn(rows, classes)

    def results(dtype):
        copied, leaf = copy.deepcopy(readout).to(dtype), x.to(dtype).requires_grad_()
        logits, norm = copied(leaf), copied.norm
        leaves = [leaf, norm.weight, norm.bias, copied.linear.weight]
        gradients = torch.autograd.grad((logits * weights.to(dtype)).sum(), leaves)
        return [logits.detach(), *gradients, norm.running_mean, norm.running_var]

    monkeypatch.setenv("SOONER_FUSED", "1")
    for mine, exact in zip(results(torch.float32), results(torch.float64), strict=True):
        assert float((mine.double() - exact).norm()) <= 2e-5 * float(exact.norm()) + 1e-6


def test_readout_keeps_the_variance_of_a_saturated_unit(library, monkeypatch):
    """Far from zero, in units that hardly move: the sum of squares alone would lose all digits."""
    del library
    torch.manual_seed(0)
    x = 0.999 + 1e-5 * torch.randn(5000, 3)
    x[0] = -1.0
    for switch in ("0", "1"):
        monkeypatch.setenv("SOONER_FUSED", switch)
        readout = Readout(3, 2, Tanh())
        readout.norm.momentum = 1.0
        readout(x)
        torch.testing.assert_close(readout.norm.running_var, x.double().var(dim=0).float(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("index", range(12))
def test_training_and_live_steps_are_those_without_it(library, index, monkeypatch):
    del library
    torch.manual_seed(index)
    model, x = list(Recurrent.examples())[index], torch.randn(6, 7, 3)

    def results():
        trained = copy.deepcopy(model).train()
        windows = trained(x, torch.tensor([7, 5, 7, 1, 2, 7])).logits
        (trained(x).logits.square().mean() + windows.square().mean()).backward()
        live = copy.deepcopy(model).eval()
        state, scores = live.init(6), []
        for time in range(7):
            state, newest, _ = live.step(state, x[:, time])
            scores.append(newest)
        gradients = [weight.grad for weight in trained.parameters() if weight.grad is not None]
        return [windows.detach(), *gradients, *state, *scores, live.scores(x).detach()]

    for plain, fused in zip(*both(monkeypatch, results), strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=2e-5)


def test_a_stream_steps_alike_alone_and_among_many(library, monkeypatch):
    """More series than fit a block, of different ages."""
    del library
    monkeypatch.setenv("SOONER_FUSED", "1")
    torch.manual_seed(0)
    model = Recurrent((3,), 4, hidden=128, order=7).eval()
    state = model.init(200)
    ages = torch.arange(200) % 10
    x = torch.randn(10, 200, 3)
    for time in range(10):
        after, running = model.step(state, x[time]).state, ages > time
        state = tuple(
            torch.where(running.view(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(after, state, strict=True)
        )
    together = model.step(state, x[0]).scores
    alone = torch.cat(
        [model.step(tuple(part[[row]] for part in state), x[0][[row]]).scores for row in range(0, 200, 17)]
    )
    torch.testing.assert_close(together[::17], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("formula", ["m_tandem", "m_tandem_oblivion"])
@pytest.mark.parametrize("prior", [None, "given"])
@pytest.mark.parametrize("order", [0, 1, 3, None])
def test_live_scores_are_those_of_pytorch_in_float64(library, threads, formula, prior, order, monkeypatch):
    """More classes than the gates of a hidden unit, from the first observation on until windows are dropped."""
    del library, threads
    monkeypatch.setenv("SOONER_FUSED", "1")
    torch.manual_seed(0)
    log_prior = None if prior is None else torch.randn(19)
    model = Recurrent((7,), 19, hidden=4, order=order, formula=formula, log_prior=log_prior).eval()
    torch.nn.init.normal_(model.readout.norm.bias)
    exact = copy.deepcopy(model).double()
    state, right, x = model.init(5), exact.init(5), torch.randn(8, 5, 7)
    for observation in x:
        state, scores, _ = model.step(state, observation)
        right, expected, _ = exact.step(right, observation)
        torch.testing.assert_close(scores.double(), expected, rtol=1e-4, atol=1e-5)
        for one, other in zip(state, right, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


def test_live_steps_read_weights_that_were_replaced_or_transposed(library, monkeypatch):
    del library
    torch.manual_seed(0)
    models = [Recurrent((3,), 4, hidden=5, order=2, log_prior=torch.randn(4)).eval() for _ in range(2)]
    weights = {
        name: tensor.T.contiguous().T if tensor.ndim == 2 else tensor for name, tensor in models[1].state_dict().items()
    }
    x = torch.randn(6, 2, 3)

    def scores(swap):
        model = copy.deepcopy(models[0])
        state = model.init(2)
        for time, observation in enumerate(x):
            if time == 3:
                swap(model)
            state, newest, _ = model.step(state, observation)
        return newest

    for swap in (
        lambda model: model.load_state_dict(weights, assign=True),
        lambda model: model.load_state_dict(weights),
        lambda model: model.double().float(),
    ):
        plain, fused = both(monkeypatch, lambda swap=swap: scores(swap))
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)


def test_not_a_number_stays_one(library):
    projected = torch.randn(3, 5, 16)
    projected[1, 2, 3] = torch.nan
    hidden = fused_windows(
        library, projected, torch.eye(4).repeat(1, 4), None, positions=2, activation=Tanh(), workspace=Workspace()
    )
    assert hidden[1:, 1, 1].isnan().any()
    assert not hidden[:, [0, 2]].isnan().any()


def test_other_types_and_switched_off_take_pytorchs_operations(library, monkeypatch):
    assert fused_for(X, Tanh()) is library
    assert fused_for(X.double(), Tanh()) is None
    assert fused_for(X.to("meta"), Tanh()) is None

    class Another(Tanh):
        pass

    assert fused_for(X, Another()) is None
    monkeypatch.setenv("SOONER_FUSED", "0")
    assert fused_for(X, Tanh()) is None


class Machine:
    """A machine with an empty cache, on which the trial does what a program says; every child leaves a mark."""

    def __init__(self, monkeypatch, folder):
        self.program, self.marks, self.cache = folder / "trial.py", folder / "marks", folder / "cache"
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.setattr(build, "_TRIAL", self.program)

    def build(self, program=WORKS):
        """What a new process on this machine gets."""
        mark = f"import pathlib\nwith pathlib.Path({str(self.marks)!r}).open('a') as file:\n    file.write('x')\n"
        self.program.write_text(mark + program)
        built_library.cache_clear()
        return built_library(compiles=True)

    @property
    def children(self):
        return len(self.marks.read_text()) if self.marks.exists() else 0

    def files(self, pattern):
        return list(self.cache.rglob(pattern))


@pytest.fixture
def machine(library, monkeypatch, tmp_path):
    del library
    yield Machine(monkeypatch, tmp_path)
    built_library.cache_clear()  # what it built is not there any more


def test_a_file_is_built_once_and_tried_once(machine):
    assert isinstance(machine.build(), Library)
    assert isinstance(machine.build(), Library)
    assert machine.children == 1
    assert len(machine.files("*.so")) == 1
    assert machine.files(".*.part") == []


def test_a_process_that_only_predicts_does_not_compile_unless_it_is_told_to(machine, monkeypatch):
    machine.program.write_text(WORKS)
    built_library.cache_clear()
    with torch.no_grad():
        assert fused_for(X, Tanh()) is None
        assert machine.files("*") == []
        monkeypatch.setenv("SOONER_FUSED", "1")
        assert fused_for(X, Tanh()) is not None
        monkeypatch.delenv("SOONER_FUSED")
        built_library.cache_clear()
        assert fused_for(X, Tanh()) is not None


@pytest.mark.parametrize(("program", "recorded"), [(DIES, True), (WRONG, True), (HANGS, False), (RAISES, False)])
def test_a_trial_that_fails_means_pytorchs_operations(machine, monkeypatch, program, recorded):
    monkeypatch.setattr(build, "_TRIAL_TIMEOUT", 1.5 if program == HANGS else 60.0)
    monkeypatch.setattr(build, "_TARGETS", ((), ("-O2",)))
    assert machine.build(program) is None
    assert machine.children == 2  # for each set of flags
    assert machine.files("*.so") == []
    monkeypatch.setattr(build, "_TRIAL_TIMEOUT", 60.0)
    assert (machine.build(WORKS) is None) == recorded


def test_the_next_flags_are_tried_where_the_first_ones_trap(machine, monkeypatch):
    monkeypatch.setattr(build, "_TARGETS", (("-no-such-option",), ("-O1",), ("-O2",)))
    assert machine.build(f"import sys\nif sys.argv[1].endswith('-1.so'):\n    {DIES}") is not None
    assert [file.name[-5:] for file in machine.files("*.so")] == ["-2.so"]


@pytest.mark.parametrize("compiler", ["/no/such/compiler", "false", "true"])
def test_without_a_compiler_or_with_a_broken_one_pytorchs_operations_are_used(machine, monkeypatch, compiler):
    monkeypatch.setenv("CC", compiler)
    assert machine.build() is None
    model = Recurrent((3,), 4, hidden=5, order=2)
    model(torch.randn(6, 7, 3)).logits.sum().backward()
    assert machine.children == 0
    assert [file for file in machine.files("*") if file.suffix in (".so", ".json", ".part")] == []


@pytest.mark.parametrize("damage", [b"", b"not a library", None])
@pytest.mark.parametrize("pattern", ["*.so", "*.json"])
def test_a_damaged_cache_is_built_again(machine, pattern, damage):
    machine.build()
    (file,) = machine.files(pattern)
    # Another file in its place, as a disk would leave it: a library in use must not be written to.
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    assert machine.build() is not None
    assert machine.children == 2
    assert json.loads(machine.files("*.json")[0].read_text())["file"] == machine.files("*.so")[0].name


@pytest.mark.parametrize("obstacle", ["file", "no home"])
def test_without_a_cache_folder_pytorchs_operations_are_used(machine, monkeypatch, obstacle):
    if obstacle == "file":  # a folder without write permission would not stop root
        machine.cache.write_text("in the way")
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert machine.build() is None


def test_a_library_without_pytorchs_matrix_product_is_not_used(machine, monkeypatch):
    monkeypatch.setattr("sooner.models.recurrent.fused.library._torch_library", lambda: None)
    monkeypatch.setattr("sooner.models.recurrent.fused.library.ctypes.CDLL", lambda _: object())
    assert machine.build() is None


def test_processes_that_start_at_once_build_once(machine):
    machine.build(f"import time; time.sleep(0.5)\n{WORKS}")
    for file in (*machine.files("*.*"), machine.marks):
        file.unlink()
    program = (
        "import sys; from pathlib import Path; from sooner.models.recurrent.fused import build\n"
        "build._TRIAL = Path(sys.argv[1]); print(build.built_library(compiles=True) is not None)"
    )
    source = Path(build.__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", program, str(machine.program)]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in processes] == ["True", "True"]
    assert machine.children == 1
    assert len(machine.files("*.so")) == 1
