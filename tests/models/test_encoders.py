"""Encoders: their published sizes, their shapes, and features that go through a file."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from sooner import checks
from sooner.errors import InvalidArgument, UnknownName
from sooner.models import FrameClassifier, Recurrent, build_model
from sooner.models.image.encoders import (
    ENCODERS,
    Dense,
    Identity,
    ResidualNetwork,
    TokenEncoder,
    encoder_named,
)
from sooner.models.image.features import encode_to_file, features_from_file
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import Settings, changed, settings_from_dict


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def test_resnet_110_has_as_many_parameters_as_the_paper_says():
    assert parameters(FrameClassifier(ResidualNetwork.resnet110((28, 28)), 10)) == 6_904_608


def test_resnet_110_has_110_layers_besides_its_projections():
    network = FrameClassifier(ResidualNetwork.resnet110((28, 28)), 10)
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Linear) or getattr(m, "kernel_size", 0) == (3, 3)]
    projections = [module for module in network.modules() if getattr(module, "kernel_size", 0) == (1, 1)]
    assert (len(layers), len(projections)) == (110, 3)


def test_resnet_110_halves_the_image_twice_and_gives_128_numbers():
    network = ResidualNetwork.resnet110((28, 28)).eval()
    seen = []
    network.layers.register_forward_hook(lambda _module, _inputs, images: seen.append(images.shape))
    with torch.no_grad():
        assert network(torch.zeros(2, 28, 28)).shape == (2, 128)
    assert seen == [(2, 128, 7, 7)]


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("features", [(3, 8, 8), (8, 8)])
def test_every_encoder_gives_one_vector_for_each_row(name, features):
    torch.manual_seed(0)
    encoder = encoder_named(name, features).eval()
    rows = torch.randn(5, *features)
    with torch.no_grad():
        vectors = encoder(rows)
        assert vectors.shape == (5, encoder.width)
        torch.testing.assert_close(encoder(rows[2:3]), vectors[2:3], atol=1e-4, rtol=2e-3)  # 110 layers round a lot
        assert encoder(rows[:0]).shape == (0, encoder.width)
    assert encoder.features == features


@pytest.mark.parametrize("name", ["dense", "resnet110", "resnet_small"])
def test_the_width_of_an_encoder_can_be_chosen(name):
    encoder = encoder_named(name, (8, 8), width=32).eval()
    assert encoder.width == 32
    assert encoder(torch.zeros(2, 8, 8)).shape == (2, 32)


def _sparse(rows, features=(4, 3), *, background=255, share=0.3):
    """Frames that show a share of their pixels, of any value; the rest is background."""
    shown = torch.rand(rows, *features) < share
    return torch.where(shown, torch.randint(256, (rows, *features)), background).to(torch.uint8)


def _by_hand(encoder, frames, background, levels):
    """The sum of vectors that the tokens of each frame have, one pixel at a time."""
    sums = []
    for frame in frames.flatten(1).tolist():
        total = torch.zeros(encoder.tokens.weight.shape[1], dtype=encoder.tokens.weight.dtype)
        for place, value in enumerate(frame):
            if value != background:
                level = sum(
                    value * (levels - 1) > 255 * step for step in range(levels - 1)
                )  # so many steps end below it
                total = total + encoder.tokens.weight[place * levels + level]
        sums.append(total)
    return encoder.layers(torch.stack(sums))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("background", "levels"), [(255, 8), (0, 8), (7, 1), (200, 3), (255, 256)])
def test_tokens_are_the_pixels_that_differ_from_the_background(background, levels, training):
    torch.manual_seed(0)
    encoder = TokenEncoder((4, 3), 5, background=background, levels=levels, hidden=6).double().train(training)
    frames = _sparse(9, background=background)
    frames[2] = background
    weights, found = torch.randn(9, 5, dtype=torch.float64), []
    for encode in (encoder, lambda rows: _by_hand(encoder, rows, background, levels)):
        encoder.zero_grad()
        vectors = encode(frames)
        (vectors * weights).sum().backward()
        found.append((vectors.detach(), encoder.tokens.weight.grad.clone()))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)
    assert float(found[0][1].abs().sum()) > 0


def test_every_value_has_the_vector_of_its_level():
    """256 levels tell all values apart, 8 tell black and 7 steps apart, 1 sees only that something is shown."""
    for levels, steps in ((256, 255), (8, 8), (2, 2), (1, 1)):  # the background takes the last of 256 for itself
        encoder = TokenEncoder((1,), 5, levels=levels, hidden=6).eval()
        seen = []
        encoder.tokens.register_forward_hook(lambda _module, tokens, _sums, seen=seen: seen.append(tokens[0]))
        encoder(torch.arange(255, dtype=torch.uint8)[:, None])
        assert seen[0].tolist() == [math.ceil(value * (levels - 1) / 255) for value in range(255)]
        assert len(seen[0].unique()) == steps


def test_the_background_adds_nothing():
    """Neither do the vectors of a place matter where nobody shows it, nor do they learn."""
    torch.manual_seed(0)
    encoder = TokenEncoder((4, 3), 5, hidden=6).eval()
    frames = _sparse(9)
    frames[:, 1:3] = 255
    before = encoder(frames)
    (before * torch.randn(9, 5)).sum().backward()
    with torch.no_grad():
        encoder.tokens.weight.view(12, 8, 6)[3:9] = 1e6
        assert torch.equal(encoder(frames), before)
    gradient = encoder.tokens.weight.grad.view(12, 8, 6)
    assert not gradient[3:9].any()
    assert gradient[:3].any()
    assert gradient[9:].any()


@pytest.mark.parametrize("empty", [[0], [4], [8], [0, 1], [3, 4, 8], list(range(9))])
def test_a_frame_without_any_shown_pixel_is_an_empty_sum_and_leaves_its_neighbours_alone(empty):
    torch.manual_seed(0)
    encoder = TokenEncoder((4, 3), 5, hidden=6).eval()
    torch.nn.init.normal_(encoder.layers[0].bias)  # so that an empty sum is not a vector of zeros
    frames = _sparse(9)
    with torch.no_grad():
        expected = encoder(frames)
        expected[empty] = encoder.layers(torch.zeros(1, 6))
        frames[empty] = 255
        torch.testing.assert_close(encoder(frames), expected)
    assert expected[empty].any()


def test_a_batch_in_which_nothing_is_shown_can_be_trained_on():
    encoder = TokenEncoder((4, 3), 5, hidden=6)
    encoder(torch.full((4, 4, 3), 255, dtype=torch.uint8)).sum().backward()
    assert not encoder.tokens.weight.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("background", [255, 0])
def test_tokens_read_8_bit_values_and_their_scaled_form_alike(background, dtype):
    encoder = TokenEncoder((4, 4), 5, background=background, levels=256).eval()
    frames = torch.arange(256, dtype=torch.uint8).view(16, 4, 4)
    with torch.no_grad():
        assert torch.equal(encoder(frames.to(dtype) / 127.5 - 1), encoder(frames))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"background": 256}, "`background` must be in 0..255, got 256. It is an 8-bit value."),
        ({"background": -1}, "`background` must be at least 0, got -1.0. It is an 8-bit value."),
        ({"levels": 257}, "`levels` must be in 1..256, got 257. There are no more 8-bit values."),
        ({"levels": 0}, "`levels` must be at least 1, got 0.0. It counts the steps of the values."),
        ({"hidden": 0}, "`hidden` must be at least 1, got 0.0. It is the length of a token's vector."),
    ],
)
def test_tokens_refuse_levels_that_8_bits_do_not_have(change, sentence):
    with pytest.raises(InvalidArgument) as error:
        TokenEncoder((4, 4), 5, **change)
    assert str(error.value) == sentence


def _reading_tokens(kind):
    torch.manual_seed(0)
    encoder = TokenEncoder((4, 3), 5, hidden=6)
    return FrameClassifier(encoder, 3) if kind == "frames" else Recurrent((4, 3), 3, hidden=4, order=2, encoder=encoder)


@pytest.mark.parametrize("law", checks.MODEL_LAWS)
@pytest.mark.parametrize("kind", ["frames", "recurrent"])
def test_a_model_that_reads_tokens_obeys_the_laws(kind, law):
    checks.check_model_law(_reading_tokens(kind), law)


@pytest.mark.parametrize("kind", ["frames", "recurrent"])
def test_sparse_frames_stream_as_they_score(kind):
    model = _reading_tokens(kind).eval()
    frames = _sparse(42).view(6, 7, 4, 3)
    frames[1] = 255  # a series that never shows anything
    frames[:, 3] = 255  # and a time at which nobody does
    with torch.no_grad():
        scores, state = model.scores(frames), model.init(6)
        for time in range(7):
            state, now, _ = model.step(state, frames[:, time])
            torch.testing.assert_close(now, scores[:, time], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["frames", "recurrent"])
def test_settings_can_ask_for_tokens(name):
    table = {"name": name, "encoder": "tokens", "width": 7, "hidden": 4, "batch_norm": "keras"}
    model = build_model(settings_from_dict({"model": table}).model, (4, 3), 3)
    assert isinstance(model.encoder, TokenEncoder)
    assert (model.encoder.features, model.encoder.width) == ((4, 3), 7)
    assert model.encoder.layers[0].eps == 1e-3
    assert model.scores(_sparse(10).view(2, 5, 4, 3)).shape == (2, 5, 3)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 6)])
def test_a_dense_front_has_one_layer_more_than_hidden_widths(hidden):
    encoder = Dense((3,), 5, hidden=hidden)
    sizes = (3, *hidden, 5)
    assert parameters(encoder) == sum((a + 1) * b for a, b in pairwise(sizes))
    assert encoder(torch.zeros(2, 3, dtype=torch.float64)).dtype == torch.float32


def test_the_identity_leaves_features_as_they_are():
    rows = torch.randn(4, 3)
    assert torch.equal(Identity((3,))(rows), rows)
    assert Identity((3,)).width == 3
    assert parameters(Identity((3,))) == 0


def test_a_small_network_learns_single_frames():
    torch.manual_seed(0)
    labels = torch.arange(40) % 2
    images = torch.randn(40, 8, 8) + labels[:, None, None] * torch.linspace(-2, 2, 8)
    network = FrameClassifier(ResidualNetwork.small((8, 8), width=16), 2)
    examples = Series.from_arrays(images[:, None], labels)
    changes = {"optimizer.lr": 0.01, "training.iterations": 15, "training.batch_size": 40, "loss.weights.lsel": 0.0}
    assert train(network, examples, examples, changed(Settings(), changes)).best.metric > 0.9


def test_features_come_back_from_the_file_as_the_encoder_gave_them(tmp_path):
    encoder = ResidualNetwork.small((8, 8), width=16)
    x = torch.randn(5, 3, 8, 8)
    features = encode_to_file(encoder, x, tmp_path / "features.npy", rows=4)
    with torch.no_grad():
        expected = encoder.eval()(x.flatten(0, 1)).view(5, 3, 16)
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), features.numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["features.npy"]


def test_batches_made_on_the_fly_give_the_same_file_as_the_array(tmp_path):
    encoder = Dense((3,), 4)
    x = np.random.default_rng(0).normal(size=(7, 2, 3))
    np.save(tmp_path / "x.npy", x)
    batches = encode_to_file(encoder, (x[start : start + 3] for start in (0, 3, 6, 9)), tmp_path / "batches.npy")
    mapped = encode_to_file(encoder, np.load(tmp_path / "x.npy", mmap_mode="r"), tmp_path / "mapped.npy", rows=5)
    assert batches.shape == (7, 2, 4)
    torch.testing.assert_close(batches, mapped)


def test_encoding_leaves_the_encoder_as_it_was(tmp_path):
    encoder = ResidualNetwork.small((8, 8), width=16)
    encoder.layers[1].eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    encode_to_file(encoder, torch.randn(2, 3, 8, 8), tmp_path / "features.npy")
    assert encoder.training
    assert not encoder.layers[1].training
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_what_is_written_to_the_features_does_not_reach_the_file(tmp_path):
    np.save(tmp_path / "features.npy", np.ones((2, 3, 4), dtype=np.float32))
    features_from_file(tmp_path / "features.npy").zero_()
    assert bool((features_from_file(tmp_path / "features.npy") == 1).all())


def test_a_failed_encoding_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "features.npy"
    encode_to_file(Identity((2,)), torch.ones(1, 3, 2), path)

    def batches():
        yield torch.zeros(2, 3, 2)
        yield torch.zeros(2, 4, 2)

    with pytest.raises(
        InvalidArgument, match=r"`observations` must be of the same time in all batches, got 4 after 3\."
    ):
        encode_to_file(Identity((2,)), batches(), path)
    assert bool((features_from_file(path) == 1).all())
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (None, "which does not exist"),
        (np.zeros((2, 3)), r"with float64 of shape \(2, 3\)"),
        (np.zeros((2, 3, 4), dtype=int), r"with int64 of shape \(2, 3, 4\)"),
        (np.zeros((2, 3, 4), dtype=">f4"), r"with >f4 of shape \(2, 3, 4\)"),
        (b"no array at all", "which cannot be read"),
    ],
)
def test_a_file_without_features_is_refused(tmp_path, content, got):
    path = tmp_path / "features.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(InvalidArgument, match=rf"^`path` must be a \.npy file of floats.*{got}.*Write it with"):
        features_from_file(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Dense((3,))(torch.zeros(2, 4)),
            "`rows` must be of shape (rows, 3), got shape (2, 4). That is what the encoder reads.",
        ),
        (
            lambda: encode_to_file(Dense((3,)), torch.zeros(2, 5, 4), "never-written.npy"),
            "`observations` must be of shape (series, time, 3), got shape (2, 5, 4). That is what the encoder reads.",
        ),
        (
            lambda: encode_to_file(Dense((3,)), torch.zeros(0, 5, 3), "never-written.npy"),
            "`observations` must be at least 1 series, got none. An empty file would be of no use.",
        ),
        (
            lambda: ResidualNetwork.small((28,)),
            "`features` must be (height, width) or (channels, height, width), got (28,). It reads images.",
        ),
        (
            lambda: ResidualNetwork.small((8, 8), width=10),
            "`width` must be a multiple of 4, got 10. The stages take a quarter, a half and all of it.",
        ),
        (
            lambda: ResidualNetwork((8, 8), blocks=(1, 2), widths=(8,)),
            "`blocks` must be one number for each of the 1 widths, got (1, 2). Each stage has its blocks and its width.",
        ),
        (
            lambda: encoder_named("identity", (3,), width=4),
            "`width` must be 3, that of one observation, got 4. The identity changes nothing.",
        ),
        (
            lambda: FrameClassifier(Identity((3,)), 1),
            "`classes` must be at least 2, got 1.0. With one class there is nothing to decide.",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_an_unknown_encoder_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'resnet110'"):
        encoder_named("resnet11", (28, 28))
