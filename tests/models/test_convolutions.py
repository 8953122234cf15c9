"""Convolutions made for a CPU: their sizes, what they are built of, and that they learn."""

import pytest
import torch
from torch import nn

from sooner.errors import InvalidArgument, UnknownName
from sooner.models import FrameClassifier, build_model
from sooner.models.image.convolutions import READERS, convolutions, halved
from sooner.models.image.encoders import ENCODERS, ConvolutionEncoder, encoder_named
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import ModelSettings, Settings, changed


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


# --- the stack ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "times", "left"), [(28, 3, 4), (28, 0, 28), (7, 1, 4), (1, 5, 1), (32, 3, 4), (9, 2, 3)]
)
def test_a_half_is_rounded_up(size, times, left):
    assert halved(size, times) == left


@pytest.mark.parametrize("size", [(28, 28), (9, 5), (1, 1), (8, 13)])
@pytest.mark.parametrize("widths", [(4,), (4, 6), (2, 3, 5)])
@pytest.mark.parametrize("reader", READERS)
def test_every_stage_halves_height_and_width(size, widths, reader):
    maps = convolutions(3, widths, reader).eval()(torch.zeros(2, 3, *size))
    assert maps.shape == (2, widths[-1], halved(size[0], len(widths)), halved(size[1], len(widths)))


def test_a_stage_is_two_convolutions_without_bias_each_with_norm_and_relu():
    layers = convolutions(3, (4, 6))
    assert [type(layer) for layer in layers] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * 4
    found = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    assert [(each.in_channels, each.out_channels) for each in found] == [(3, 4), (4, 4), (4, 6), (6, 6)]
    assert [each.stride for each in found] == [(2, 2), (1, 1), (2, 2), (1, 1)]
    assert all(each.kernel_size == (3, 3) and each.bias is None for each in found)
    assert parameters(layers) == 9 * (3 * 4 + 4 * 4 + 4 * 6 + 6 * 6) + 2 * (4 + 4 + 6 + 6)


def test_a_pooled_stage_keeps_the_size_up_to_the_maximum_at_its_end_and_has_the_same_weights():
    layers = convolutions(3, (4, 6), "pooled")
    assert [type(layer) for layer in layers] == ([nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * 2 + [nn.MaxPool2d]) * 2
    assert {each.stride for each in layers if isinstance(each, nn.Conv2d)} == {(1, 1)}
    assert parameters(layers) == parameters(convolutions(3, (4, 6)))
    seen = []
    layers[5].register_forward_hook(lambda _layer, _maps, out: seen.append(out.shape))
    layers(torch.zeros(2, 3, 9, 5))
    assert seen == [(2, 4, 9, 5)]


def test_an_unknown_reader_is_told_those_there_are():
    with pytest.raises(UnknownName, match=r"^`reader` must be one of 'pooled', 'strided', got 'stride'\. Did you mean"):
        convolutions(3, (4,), "stride")


def test_without_widths_maps_stay_as_they_are():
    maps = torch.randn(2, 3, 5, 5)
    assert torch.equal(convolutions(3, ())(maps), maps)


@pytest.mark.parametrize("width", [0, -2, 1.5])
def test_a_stage_without_channels_is_refused(width):
    with pytest.raises(InvalidArgument, match=r"^`widths` must be .* It holds the channels of each stage\.$"):
        convolutions(1, (4, width))


# --- the encoder --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [(28, 28), (1, 28, 28), (3, 28, 28), (9, 13), (1, 1)])
@pytest.mark.parametrize("width", [8, 24])
def test_images_of_any_size_become_one_vector_each(features, width):
    encoder = ConvolutionEncoder(features, width).eval()
    rows = torch.randn(5, *features)
    with torch.no_grad():
        vectors = encoder(rows)
        torch.testing.assert_close(encoder(rows[2:3]), vectors[2:3], atol=1e-5, rtol=1e-4)
        assert encoder(rows[:0]).shape == (0, width)
    assert vectors.shape == (5, width)
    assert float(vectors.min()) >= 0.0
    assert (encoder.features, encoder.width) == (features, width)


def test_a_gray_image_is_one_of_a_single_channel():
    torch.manual_seed(0)
    flat = ConvolutionEncoder((8, 8), 16).eval()
    deep = ConvolutionEncoder((1, 8, 8), 16).eval()
    deep.load_state_dict(flat.state_dict())
    rows = torch.randn(4, 8, 8)
    assert torch.equal(flat(rows), deep(rows[:, None]))


@pytest.mark.parametrize("name", ["convolution", "convolution_of_levels"])
def test_bytes_are_read_as_numbers_from_minus_one_to_one(name):
    encoder = encoder_named(name, (8, 8), width=8).eval()
    rows = torch.randint(0, 256, (3, 8, 8)).to(torch.uint8)
    assert torch.equal(encoder(rows), encoder(rows / 127.5 - 1))


def test_a_table_of_levels_tells_254_from_255_as_easily_as_black_from_white():
    torch.manual_seed(0)
    encoder = encoder_named("convolution_of_levels", (8, 8), width=8).eval()
    with torch.no_grad():
        encoder.stem.table[254] = -encoder.stem.table[255]
        bright, hidden = (encoder(torch.full((1, 8, 8), level, dtype=torch.uint8)) for level in (254, 255))
    assert not torch.allclose(bright, hidden)
    assert encoder.stem.table.shape == (256, 8)


def test_its_stages_have_three_eighths_three_quarters_and_all_of_the_width():
    encoder = ConvolutionEncoder((28, 28))
    found = [layer.out_channels for layer in encoder.layers if isinstance(layer, nn.Conv2d)]
    assert (encoder.width, found) == (128, [48, 48, 96, 96, 128, 128])
    assert parameters(encoder.head) == 128 * 16 * 128 + 2 * 128
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in encoder.modules()) == 7


def test_it_is_known_by_name_and_settings_build_it():
    assert ENCODERS["convolution"] is ConvolutionEncoder
    assert encoder_named("convolution", (8, 8)).width == 128
    assert encoder_named("convolution", (8, 8), width=16).width == 16
    model = build_model(ModelSettings(name="frames", encoder="convolution", width=16, moments=2), (8, 8), 3)
    assert isinstance(model, FrameClassifier)
    assert isinstance(model.encoder, ConvolutionEncoder)
    assert (model.moments, model.encoder.width) == (2, 16)
    recurrent = build_model(ModelSettings(encoder="convolution", width=16, order=1), (8, 8), 3).eval()
    assert recurrent.scores(torch.zeros(2, 4, 8, 8)).shape == (2, 4, 3)


@pytest.mark.parametrize("features", [(28,), (1, 2, 3, 4), ()])
def test_what_is_no_image_is_refused(features):
    with pytest.raises(InvalidArgument) as caught:
        ConvolutionEncoder(features, 128)
    expected = f"`features` must be (height, width) or (channels, height, width), got {features}. It reads images."
    assert str(caught.value) == expected


@pytest.mark.parametrize("width", [12, 1])
def test_a_width_that_8_does_not_divide_is_refused(width):
    with pytest.raises(InvalidArgument) as caught:
        ConvolutionEncoder((28, 28), width)
    assert str(caught.value) == f"`width` must be a multiple of 8, got {width}. The stages take shares of it."


def test_the_gradient_reaches_every_parameter():
    torch.manual_seed(0)
    encoder = ConvolutionEncoder((12, 12), 8)
    encoder(torch.randn(6, 12, 12)).square().sum().backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in encoder.parameters())


def test_where_something_is_in_an_image_matters():
    """The last layer reads places, not their mean."""
    torch.manual_seed(0)
    encoder = ConvolutionEncoder((16, 16), 8).eval()
    rows = torch.zeros(2, 16, 16)
    rows[0, 2:6, 2:6] = rows[1, 10:14, 10:14] = 1.0
    with torch.no_grad():
        one, other = encoder.layers(rows[:, None]).flatten(1)
    assert encoder.head[0].in_features == 8 * 4
    assert not torch.allclose(one, other)


def test_it_learns_what_images_show_in_a_few_steps():
    labels = torch.arange(80) % 4
    images = torch.rand(80, 2, 12, 12, generator=torch.Generator().manual_seed(0))
    for k in range(4):
        images[labels == k, :, 3 * k : 3 * k + 3] += 1.0
    torch.manual_seed(0)
    model = FrameClassifier(ConvolutionEncoder((12, 12), 8), 4, moments=1)
    values = {
        "loss.weights": {"multiplet": 1.0},
        "optimizer.lr": 0.02,
        "training.batch_size": 40,
        "training.iterations": 40,
        "training.validate_every": 20,
    }
    examples = Series.from_arrays(images, labels)
    assert train(model, examples, examples, changed(Settings(), values)).best.metric > 0.9
