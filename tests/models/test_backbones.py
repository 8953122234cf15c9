"""Backbones: the published size and names of ResNet-50, and what comes out of files."""

import warnings
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sooner.errors import InvalidArgument
from sooner.models.image.backbones import ResNet50, backbone_from_file


def _published(seed=0):
    """Random weights under the names and in the order of torchvision's resnet50, with its classifier."""
    generator = torch.Generator().manual_seed(seed)
    state = {}

    def convolution(name, leaving, entering, side):
        scale = (2 / (entering * side * side)) ** 0.5
        state[f"{name}.weight"] = scale * torch.randn(leaving, entering, side, side, generator=generator)

    def norm(name, width):
        state[f"{name}.weight"] = 0.5 + torch.rand(width, generator=generator)
        state[f"{name}.bias"] = 0.1 * torch.randn(width, generator=generator)
        state[f"{name}.running_mean"] = 0.1 * torch.randn(width, generator=generator)
        state[f"{name}.running_var"] = 0.5 + torch.rand(width, generator=generator)
        state[f"{name}.num_batches_tracked"] = torch.tensor(7)

    convolution("conv1", 64, 3, 7)
    norm("bn1", 64)
    entering = 64
    for stage, (narrow, depth) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=1):
        for block in range(depth):
            name = f"layer{stage}.{block}"
            for number, (leaving, arriving, side) in enumerate(
                [(narrow, entering, 1), (narrow, narrow, 3), (4 * narrow, narrow, 1)], start=1
            ):
                convolution(f"{name}.conv{number}", leaving, arriving, side)
                norm(f"{name}.bn{number}", leaving)
            if block == 0:
                convolution(f"{name}.downsample.0", 4 * narrow, entering, 1)
                norm(f"{name}.downsample.1", 4 * narrow)
            entering = 4 * narrow
    state["fc.weight"] = torch.randn(1000, 2048, generator=generator)
    state["fc.bias"] = torch.randn(1000, generator=generator)
    return state


STATE = _published()


def _vectors(state, images):
    """ResNet-50 as a formula over the published names: no modules, the stride in the 3x3."""

    def normed(x, name):
        mean, var, weight, bias = (
            state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return nn.functional.batch_norm(x, mean, var, weight, bias)

    def block(x, name, stride):
        y = normed(nn.functional.conv2d(x, state[f"{name}.conv1.weight"]), f"{name}.bn1").relu()
        y = nn.functional.conv2d(y, state[f"{name}.conv2.weight"], stride=stride, padding=1)
        y = normed(y, f"{name}.bn2").relu()
        y = normed(nn.functional.conv2d(y, state[f"{name}.conv3.weight"]), f"{name}.bn3")
        if f"{name}.downsample.0.weight" in state:
            x = normed(
                nn.functional.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride), f"{name}.downsample.1"
            )
        return (x + y).relu()

    x = nn.functional.conv2d(images, state["conv1.weight"], stride=2, padding=3)
    x = nn.functional.max_pool2d(normed(x, "bn1").relu(), 3, stride=2, padding=1)
    for stage, depth in enumerate([3, 4, 6, 3], start=1):
        for place in range(depth):
            x = block(x, f"layer{stage}.{place}", 2 if stage > 1 and place == 0 else 1)
    return x.mean(dim=(2, 3))


def test_resnet_50_has_as_many_parameters_as_published_without_the_classifier():
    assert sum(parameter.numel() for parameter in ResNet50().parameters()) == 23_508_032


def test_the_names_and_shapes_are_those_of_torchvision():
    own = {name: tuple(value.shape) for name, value in ResNet50().state_dict().items()}
    assert own == {name: tuple(value.shape) for name, value in STATE.items() if not name.startswith("fc.")}


@pytest.mark.parametrize("form", ["zip", "legacy", "nested", "old", "safetensors"])
def test_published_weights_give_the_vectors_of_the_formula(tmp_path, form):
    path = tmp_path / ("weights.safetensors" if form == "safetensors" else "resnet50.pth")
    if form == "safetensors":
        save_file(STATE, path)
    elif form == "old":
        torch.save({name: value for name, value in STATE.items() if "num_batches" not in name}, path)
    elif form == "nested":
        torch.save({"state_dict": STATE, "epoch": 3}, path)
    else:
        torch.save(STATE, path, _use_new_zipfile_serialization=form == "zip")
    backbone = backbone_from_file(path)
    images = torch.randn(2, 3, 64, 48, generator=torch.Generator().manual_seed(1))
    assert isinstance(backbone, ResNet50)
    assert not backbone.training
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    torch.testing.assert_close(backbone(images), _vectors(STATE, images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda state: {name: value for name, value in state.items() if not name.startswith("layer4.2")},
            "lacks layer4.2.conv1.weight, layer4.2.bn1.weight, layer4.2.bn1.bias and 12 more",
        ),
        (lambda state: {**state, "layer5.weight": torch.zeros(1)}, "has no place for layer5.weight"),
        (
            lambda state: {**state, "layer1.0.conv1.weight": torch.zeros(128, 64, 1, 1)},
            "has layer1.0.conv1.weight of shape (128, 64, 1, 1) instead of (64, 64, 1, 1)",
        ),
        (
            lambda _state: {"encoder.weight": torch.zeros(1), "bias": torch.zeros(1)},
            "lacks conv1.weight, bn1.weight, bn1.bias and 262 more and has no place for encoder.weight, bias",
        ),
    ],
)
def test_weights_of_another_network_are_refused_by_their_keys(tmp_path, change, fault):
    torch.save(change(STATE), tmp_path / "other.pth")
    with pytest.raises(InvalidArgument) as caught:
        backbone_from_file(tmp_path / "other.pth")
    assert str(caught.value) == (
        f"`backbone` must be the weights of a ResNet-50 with torchvision's names, got 'other.pth', which {fault}. "
        "Export another network whole, with torch.export.save."
    )


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU())

    def forward(self, images):
        return self.layers(images).mean(dim=(2, 3))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A small network, and files of it: for any rows, for two rows, and as TorchScript."""
    torch.manual_seed(0)
    network, images, folder = Small().eval(), torch.randn(2, 3, 16, 16), tmp_path_factory.mktemp("programs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = ({0: torch.export.Dim("rows")},)
        torch.export.save(torch.export.export(network, (images,), dynamic_shapes=rows), folder / "any.pt2")
        torch.export.save(torch.export.export(network, (images,)), folder / "two.pt2")
        torch.jit.save(torch.jit.script(network.train()), folder / "script.pt")
    return network.eval(), folder


@pytest.mark.parametrize("name", ["any.pt2", "script.pt"])
def test_an_exported_network_works_as_it_did_and_cannot_be_put_into_training(programs, name):
    network, folder = programs
    backbone = backbone_from_file(folder / name)
    images = torch.randn(5, 3, 16, 16)
    for candidate in (backbone, backbone.train()):
        torch.testing.assert_close(candidate(images), network(images))
        torch.testing.assert_close(candidate(images[:1]), network(images[:1]))
    assert not backbone.training


def test_a_program_for_a_fixed_number_of_rows_is_refused_with_the_way_out(programs):
    with pytest.raises(InvalidArgument) as caught:
        backbone_from_file(programs[1] / "two.pt2")
    assert str(caught.value) == (
        "`backbone` must be a program of images (rows, 3, height, width) for any rows, got 'two.pt2', which takes shape "
        '(2, 3, 16, 16). Export it with dynamic_shapes=({0: torch.export.Dim("rows")},).'
    )


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (None, ", which is no file. Give the path"),
        (b"", ", from which no weights can be read (EOFError). Of"),
        (b"PK not a zip file", ", from which no weights can be read ("),
        ([1, 2], " with a list. Of your own network save"),
        ({"conv1.weight": 1}, " with a dict. Of your own network save"),
    ],
)
def test_files_of_another_kind_are_refused_in_one_sentence(tmp_path, content, got):
    path = tmp_path / "no.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(InvalidArgument) as caught:
        backbone_from_file(path)
    form = "a file of ResNet-50 weights with torchvision's names, or a torch.export or TorchScript file"
    named = str(path) if content is None else "no.pth"
    assert str(caught.value).startswith(f"`backbone` must be {form}, got {named!r}{got}")


def test_a_damaged_program_is_refused_by_name(programs, tmp_path):
    for name in ("any.pt2", "script.pt"):
        with zipfile.ZipFile(programs[1] / name) as whole, zipfile.ZipFile(tmp_path / name, "w") as damaged:
            for member in whole.namelist():
                damaged.writestr(
                    member, b"" if member.endswith((".json", ".py", "constants.pkl")) else whole.read(member)
                )
        with pytest.raises(InvalidArgument, match=rf"^`backbone` must be a file of .*, got '{name}' \("):
            backbone_from_file(tmp_path / name)


def test_a_pickled_module_is_refused_without_running_it(tmp_path):
    torch.save(Small(), tmp_path / "module.pth")
    with pytest.raises(InvalidArgument, match=r"save the state_dict\(\), or export it with torch\.export\.save\.$"):
        backbone_from_file(tmp_path / "module.pth")


@pytest.mark.parametrize(
    "images", [torch.zeros(2, 3, 8), torch.zeros(2, 1, 64, 64), torch.zeros(2, 3, 64, 64, dtype=torch.uint8)]
)
def test_images_of_another_form_are_refused(images):
    with pytest.raises(
        InvalidArgument, match=r"^`images` must be floats of shape \(rows, 3, height, width\), got torch\."
    ):
        ResNet50()(images)
