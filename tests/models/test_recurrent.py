"""The paper's integrator: its size, its kernel against a plain transcription, and the laws."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from sooner import checks
from sooner.errors import InvalidArgument, SecondBackward, UnknownName
from sooner.models import Dense, Recurrent, ResidualNetwork
from sooner.models.recurrent import kernel as window_kernel
from sooner.models.recurrent import readout as normed_readout
from sooner.models.recurrent.activations import ACTIVATIONS
from sooner.models.recurrent.kernel import Workspace, lstm_windows
from sooner.models.recurrent.readout import Readout

PLAIN = {"tanh": torch.tanh, "b2bsqrt": lambda x: x.sign() * ((1 + x.abs()).sqrt() - 1)}


@pytest.mark.parametrize(
    ("channels", "hidden", "classes", "count"),
    [(128, 128, 10, 133_504), (2048, 256, 101, 2_387_456), (2048, 256, 51, 2_374_656)],
)
def test_peephole_integrator_has_the_published_number_of_parameters(channels, hidden, classes, count):
    model = Recurrent((channels,), classes, hidden=hidden, order=3)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize("law", checks.MODEL_LAWS)
@pytest.mark.parametrize("index", range(12))
def test_every_example_obeys(law, index):
    torch.manual_seed(index)
    checks.check_model_law(list(Recurrent.examples())[index], law)


def test_initial_weights_are_those_of_the_paper():
    cell = Recurrent((7,), 3, hidden=6, order=1).cell
    assert torch.equal(cell.bias[1], torch.ones(6))
    assert not cell.bias[[0, 2, 3]].any()
    torch.testing.assert_close(cell.recurrent.T @ cell.recurrent, torch.eye(6), rtol=0, atol=1e-5)
    assert cell.input.abs().max() <= (6 / (7 + 24)) ** 0.5


def _transcription(projected, recurrent, peepholes, positions, phi):
    """The formulas of the kernel, window by window; states (position, window, batch, hidden)."""
    _, time, batch, hidden = projected.shape
    p_i, p_f, p_o = torch.zeros(3, hidden).to(projected) if peepholes is None else peepholes
    windows = []
    for start in range(time - positions + 1):
        h = c = projected.new_zeros(batch, hidden)
        shown = []
        for j in range(positions):
            x_i, x_f, x_g, x_o = (projected[k, start + j] + h @ recurrent[k] for k in range(4))
            i, f = torch.sigmoid(x_i + p_i * c), torch.sigmoid(x_f + p_f * c)
            c = f * c + i * phi(x_g)
            h = torch.sigmoid(x_o + p_o * c) * phi(c)
            shown.append(h)
        windows.append(torch.stack(shown))
    return torch.stack(windows, dim=1).flatten(1, 2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_peepholes", [True, False])
@pytest.mark.parametrize("positions", [1, 2, 4, 7])
@pytest.mark.parametrize("block", [1, 40, 10**6])
def test_window_kernel_is_its_transcription_in_values_and_gradients(
    activation, with_peepholes, positions, block, monkeypatch
):
    monkeypatch.setattr(window_kernel, "_BLOCK", block)
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    inputs = [draw(4, 7, 3, 5), draw(4, 5, 5)] + ([draw(3, 5)] if with_peepholes else [])
    peepholes = inputs[2] if with_peepholes else None
    ours = lstm_windows(
        inputs[0],
        inputs[1],
        peepholes,
        positions=positions,
        activation=ACTIVATIONS[activation],
        workspace=Workspace(),
    ).clone()
    plain = _transcription(inputs[0], inputs[1], peepholes, positions, PLAIN[activation])
    torch.testing.assert_close(ours, plain)
    weights = torch.randn(ours.shape, generator=generator, dtype=torch.float64)
    gradients = [torch.autograd.grad((out * weights).sum(), inputs, allow_unused=True) for out in (ours, plain)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if theirs is None else theirs)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_readout_is_batch_norm_activation_and_linear_layer(activation, monkeypatch):
    monkeypatch.setattr(normed_readout, "_BLOCK", 40)
    torch.manual_seed(0)
    ours = Readout(5, 3, ACTIVATIONS[activation]).double()
    nn.init.normal_(ours.norm.weight)
    nn.init.normal_(ours.norm.bias)
    norm, linear = copy.deepcopy(ours.norm), copy.deepcopy(ours.linear)
    hidden = torch.randn(33, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(33, 3, dtype=torch.float64)

    def values(logits, module, layer):
        wanted = [hidden, module.weight, module.bias, layer.weight]
        return [logits, *torch.autograd.grad((logits * weights).sum(), wanted), module.running_mean, module.running_var]

    plain = values(linear(PLAIN[activation](norm(hidden))), norm, linear)
    torch.testing.assert_close(values(ours(hidden), ours.norm, ours.linear), plain)
    assert ours.norm.num_batches_tracked == 1


def test_plain_lstm_is_pytorchs_own():
    """The same weights in nn.LSTM give the same windows."""
    torch.manual_seed(0)
    model = Recurrent((3,), 4, hidden=5, order=2, cell="lstm")
    twin = nn.LSTM(3, 5, batch_first=True)
    with torch.no_grad():
        twin.weight_ih_l0.copy_(model.cell.input)
        twin.weight_hh_l0.copy_(model.cell.recurrent)
        twin.bias_ih_l0.copy_(model.cell.bias.flatten())
        twin.bias_hh_l0.zero_()
    x = torch.randn(2, 6, 3)
    for start in range(4):
        expected = twin(x[:, start : start + 3])[0]
        torch.testing.assert_close(
            model.cell.windows(x, 3)[:, :, start].transpose(0, 1), expected, rtol=1e-5, atol=1e-6
        )


def test_gru_windows_are_pytorchs_own():
    torch.manual_seed(0)
    cell = Recurrent((3,), 4, hidden=5, order=2, cell="gru").cell
    x = torch.randn(2, 6, 3)
    for start in range(4):
        expected = cell.gru(x[:, start : start + 3])[0]
        torch.testing.assert_close(cell.windows(x, 3)[:, :, start].transpose(0, 1), expected, rtol=1e-5, atol=1e-6)


def test_two_batches_may_wait_for_their_way_back_at_once():
    """The kernel's memory is lent to one step at a time; a second one gets its own."""
    torch.manual_seed(0)
    model = Recurrent((3,), 4, hidden=5, order=2)
    batches = torch.randn(2, 6, 7, 3).unbind()

    def gradient(*parts):
        model.zero_grad()
        sum(model(x).logits.square().sum() for x in parts).backward()
        return model.cell.recurrent.grad.clone()

    torch.testing.assert_close(gradient(*batches), gradient(batches[0]) + gradient(batches[1]))
    model.zero_grad()
    losses = [model(x).logits.square().sum() for x in batches]
    with torch.no_grad():
        model(batches[1])
    losses[0].backward()
    torch.testing.assert_close(model.cell.recurrent.grad, gradient(batches[0]))


def test_memory_of_the_kernel_is_kept_between_steps_and_let_go_after_training():
    model = Recurrent((3,), 4, hidden=5, order=2)
    x = torch.randn(6, 7, 3)
    model(x).logits.sum().backward()
    (piece,) = model.cell.workspace._idle
    model(x).logits.sum().backward()
    assert model.cell.workspace._idle[0] is piece
    assert pickle.loads(pickle.dumps(model)).cell.workspace._idle == []
    model.eval()
    assert model.cell.workspace._idle == []


@pytest.mark.parametrize("order", [0, 3, 10, None])
def test_a_live_series_takes_bounded_memory_that_the_model_states(order):
    model = Recurrent((3,), 4, hidden=5, order=order).eval()
    state = model.init(2)
    stated = model.bytes_per_stream()
    for _ in range(25):
        state = model.step(state, torch.randn(2, 3)).state
        assert sum(part.element_size() * part[0].numel() for part in state) == stated
    kept = 1 if order is None else order
    assert stated == 4 * (kept * 10 + 4 + 4 + 1)


def test_memory_is_let_go_where_no_way_back_is_taken():
    """Nothing holds it in a circle that only the garbage collector would find."""
    model = Recurrent((3,), 4, hidden=5, order=2)
    gc.collect()
    gc.disable()
    try:
        taken = []
        take = model.cell.workspace.take
        model.cell.workspace.take = lambda *given: taken.append(weakref.ref(piece := take(*given))) or piece
        model.scores(torch.randn(6, 7, 3)).detach()
        assert len(taken) == 1
        assert taken[0]() is None
    finally:
        gc.enable()


def test_inference_mode_leaves_nothing_behind():
    model = Recurrent((3,), 4, hidden=5, order=2)
    with torch.inference_mode():
        model(torch.randn(9, 9, 3))
    model(torch.randn(6, 9, 3)).logits.sum().backward()


def test_a_second_way_back_is_refused_in_words():
    value = Recurrent((3,), 4, hidden=5, order=2)(torch.randn(6, 7, 3)).logits.sum()
    value.backward(retain_graph=True)
    with pytest.raises(SecondBackward, match="One backward pass is allowed for each forward pass"):
        value.backward()


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("cell", ["peephole", "lstm", "gru"])
def test_mixed_precision_reaches_the_encoder_and_spares_the_integrator(cell):
    model = Recurrent((3,), 4, hidden=5, order=2, cell=cell, encoder=Dense((3,), width=7))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(torch.randn(6, 7, 3)).logits
    assert logits.dtype == torch.float32
    logits.sum().backward()


@pytest.mark.parametrize("order", [0, 1, 2, 4, None])
def test_padding_is_inert_in_training_too(order):
    """Neither the encoder's batch norm nor the readout's sees it: padded and unpadded batches give the same logits."""
    torch.manual_seed(0)
    model = Recurrent((6, 6), 3, hidden=5, order=order, encoder=ResidualNetwork.small((6, 6), 8)).train()
    x, lengths = torch.randn(4, 5, 6, 6), torch.full((4,), 5)
    padded = torch.cat([x, torch.full((4, 4, 6, 6), torch.nan)], dim=1)
    plain, wide = copy.deepcopy(model).scores(x), copy.deepcopy(model).scores(padded, lengths)
    torch.testing.assert_close(wide[:, :5], plain, rtol=1e-4, atol=1e-4)


def test_live_steps_leave_a_model_in_training_alone():
    model = Recurrent((3,), 4, hidden=5, order=2).train()
    before = copy.deepcopy(model.state_dict())
    model.step(model.init(2), torch.randn(2, 3))
    torch.testing.assert_close(model.state_dict(), before)


def test_arrays_lists_and_other_types_are_read():
    model = Recurrent((3,), 4, hidden=5, order=2).eval()
    x = torch.randn(2, 5, 3)
    expected = model.scores(x, torch.tensor([5, 3]))
    for observations in (x.numpy(), x.double(), x.tolist()):
        torch.testing.assert_close(model.scores(observations, [5, 3]), expected)
    state = model.init(2)
    torch.testing.assert_close(model.step(state, x[:, 0].double().numpy()).scores, expected[:, 0])


def test_an_encoder_reads_each_observation_and_is_trained_with_the_rest():
    model = Recurrent((2, 3), 4, hidden=5, order=1, encoder=Dense((2, 3), width=7))
    for law in checks.MODEL_LAWS:
        checks.check_model_law(model, law)


def test_bad_shapes_and_names_are_answered():
    with pytest.raises(
        UnknownName, match=r"`cell` must be one of 'gru', 'lstm', 'peephole', got 'pephole'. Did you mean 'peephole'"
    ):
        Recurrent((3,), 4, cell="pephole")
    with pytest.raises(InvalidArgument, match=r"`features` must be \(channels,\) where there is no encoder"):
        Recurrent((3, 3), 4)
    with pytest.raises(
        InvalidArgument, match=r"`observations` must be of shape \(batch, time, 3\), got shape \(2, 5, 4\)"
    ):
        Recurrent((3,), 4)(torch.zeros(2, 5, 4))
    with pytest.raises(InvalidArgument, match=r"`lengths` must be in 1..5, got 6 at index 0"):
        Recurrent((3,), 4)(torch.zeros(2, 5, 3), [6, 1])
    with pytest.raises(InvalidArgument, match=r"`observations` must be finite, got nan at series 1, time 4"):
        Recurrent((3,), 4).scores(torch.cat([torch.zeros(9, 3), torch.full((1, 3), torch.nan)]).view(2, 5, 3))
    with pytest.raises(InvalidArgument, match=r"`observations` must be of 2 stream\(s\), got 5"):
        Recurrent((3,), 4).step(Recurrent((3,), 4).init(2), torch.zeros(5, 3))
    with pytest.raises(InvalidArgument, match=r"`log_prior` must be 4 finite numbers, got \[-1.0\]"):
        Recurrent((3,), 4, log_prior=[-1.0])
    with pytest.raises(InvalidArgument, match=r"`encoder` must be a module that reads \(3,\)"):
        Recurrent((3,), 4, encoder=Dense((2,), 4))
    with pytest.raises(InvalidArgument, match=r"`features` must be a shape, for example \(3,\), got 3"):
        Recurrent(3, 4)
    with pytest.raises(InvalidArgument, match=r"`order` must be at least 0"):
        Recurrent((3,), 4, order=-1)
