"""Backbones: published image networks, modules from normalised images (rows, 3, height, width) to vectors (rows, width)."""

import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sooner.errors import InvalidArgument

_STAGES = {"layer1": (64, 3), "layer2": (128, 4), "layer3": (256, 6), "layer4": (512, 3)}  # narrow width, blocks
_EXPANSION = 4
_HEAD = ("fc.weight", "fc.bias")
_COUNTER = "num_batches_tracked"  # absent from older files, and only used in training
_FORM = "a file of ResNet-50 weights with torchvision's names, or a torch.export or TorchScript file"


class Bottleneck(nn.Module):
    """ReLU(shortcut(x) + BN(1x1(ReLU(BN(3x3(ReLU(BN(1x1(x))))))))); the stride is in the 3x3 (version 1.5).

    Args:
        entering: channels of x.
        narrow: channels in the middle; a quarter of the output's.
        stride: stride of the 3x3 and of the shortcut.
    """

    def __init__(self, entering: int, narrow: int, *, stride: int) -> None:
        super().__init__()
        leaving = _EXPANSION * narrow
        self.conv1 = nn.Conv2d(entering, narrow, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(narrow, narrow, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(narrow)
        self.conv3 = nn.Conv2d(narrow, leaving, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(leaving)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or entering != leaving:
            projection = nn.Conv2d(entering, leaving, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(leaving))

    def forward(self, images: Float[Tensor, "rows entering tall wide"]) -> Float[Tensor, "rows leaving height width"]:
        """Maps of four times `narrow` channels, smaller by the stride."""
        x = torch.relu(self.bn1(self.conv1(images)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return torch.relu(self.bn3(self.conv3(x)) + self.downsample(images))


class ResNet50(nn.Module):
    """ResNet-50 (He et al., 2016; version 1.5) without its classifier: the mean over the pixels of the last stage, 2048 numbers.

    Its parameters, 23,508,032 of them, have the names of torchvision, so that its published files fit.

    >>> ResNet50().eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 2048])
    """

    width = 2048

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        entering = 64
        for name, (narrow, depth) in _STAGES.items():
            blocks = nn.Sequential(Bottleneck(entering, narrow, stride=1 if name == "layer1" else 2))
            entering = _EXPANSION * narrow
            blocks.extend([Bottleneck(entering, narrow, stride=1) for _ in range(depth - 1)])
            self.add_module(name, blocks)

    def forward(self, images: Tensor) -> Float[Tensor, "rows 2048"]:
        """The vector of each image (rows, 3, height, width), normalised, of any size from about 32 pixels on."""
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            expected, got = "floats of shape (rows, 3, height, width)", f"{images.dtype} of shape {tuple(images.shape)}"
            raise InvalidArgument("images", expected, got, "Bytes have to be normalised first: `View.show`.")
        x = torch.relu(self.bn1(self.conv1(images.to(self.conv1.weight.dtype))))
        x = nn.functional.max_pool2d(x, 3, stride=2, padding=1)
        for name in _STAGES:
            x = self.get_submodule(name)(x)
        return x.mean(dim=(2, 3))


class Exported(nn.Module):
    """A network that was exported whole; it keeps the mode in which it was saved, and is not trained."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.training = False

    def train(self, mode: bool = True) -> "Exported":  # noqa: ARG002  (a program has no modes)
        """Does nothing."""
        return self

    def forward(self, images: Tensor) -> Tensor:
        """The output of the network."""
        return self.network(images)  # type: ignore[no-any-return]


def backbone_from_file(path: str | os.PathLike[str]) -> nn.Module:
    """The backbone in a file, on the CPU and in evaluation mode.

    Weights (.pth, .safetensors, or a checkpoint that holds them as "state_dict") go into a `ResNet50`, without the classifier
    `fc`. A torch.export file (.pt2) or a TorchScript file is used as it is; exported programs must take any number of rows.
    Reading weights does not execute code; exported programs can execute code, so load them only from trusted sources.
    """
    file = Path(path)
    if not file.is_file():
        remedy = "Give the path of a file that is on this machine."
        raise InvalidArgument("backbone", _FORM, f"{os.fspath(path)!r}, which is no file", remedy)
    names = _members(file)
    if any(name.endswith(("/archive_format", "serialized_exported_program.json")) for name in names):
        return _program(file)
    if any("/code/" in name for name in names):
        return _script(file)
    network = ResNet50()
    network.load_state_dict(_fitting(_weights(file), network.state_dict(), file.name), strict=False)
    return network.eval().requires_grad_(False)


def _members(file: Path) -> list[str]:
    """The names in a zip archive, which distinguish torch's file types; old weight files are not zip archives."""
    if not zipfile.is_zipfile(file):
        return []
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


def _weights(file: Path) -> Mapping[str, Tensor]:
    remedy = "Of your own network save the state_dict(), or export it with torch.export.save."
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # any exception: the file can be of any type
        got = f"{file.name!r}, from which no weights can be read ({type(error).__name__})"
        raise InvalidArgument("backbone", _FORM, got, remedy) from None
    content = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InvalidArgument("backbone", _FORM, f"{file.name!r} with a {type(content).__name__}", remedy)
    return content


def _fitting(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], name: str) -> Mapping[str, Tensor]:
    """The weights that the network uses; missing, unexpected or misshapen weights are refused by name."""
    missing = [key for key in wanted if key not in given and not key.endswith(_COUNTER)]
    unexpected = [key for key in given if key not in wanted and key not in _HEAD]
    misshapen = [key for key in wanted if key in given and given[key].shape != wanted[key].shape]
    faults = [f"lacks {_some(missing)}"] if missing else []
    faults += [f"has no place for {_some(unexpected)}"] if unexpected else []
    if misshapen:
        key = misshapen[0]
        faults.append(f"has {key} of shape {tuple(given[key].shape)} instead of {tuple(wanted[key].shape)}")
    if faults:
        got, remedy = f"{name!r}, which {' and '.join(faults)}", "Export another network whole, with torch.export.save."
        raise InvalidArgument("backbone", "the weights of a ResNet-50 with torchvision's names", got, remedy)
    return {key: value for key, value in given.items() if key in wanted}


def _loaded(load: Callable[[Path], Any], file: Path, remedy: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, but such files exist
            return load(file)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason if len(reason) <= 100 else f"{reason[:97]}..."
        raise InvalidArgument("backbone", _FORM, f"{file.name!r} ({reason})", remedy) from None


def _program(file: Path) -> nn.Module:
    program = _loaded(torch.export.load, file, "Export it again with this version of torch.")
    shape = _input_shape(program)
    if len(shape) != 4 or isinstance(shape[0], int):
        sizes = ", ".join(str(size) if isinstance(size, int) else "any" for size in shape)
        got = f"{file.name!r}, which takes shape ({sizes})" if shape else f"{file.name!r}, which takes no single tensor"
        remedy = 'Export it with dynamic_shapes=({0: torch.export.Dim("rows")},).'
        raise InvalidArgument("backbone", "a program of images (rows, 3, height, width) for any rows", got, remedy)
    return Exported(program.module()).requires_grad_(False)


def _input_shape(program: torch.export.ExportedProgram) -> tuple[Any, ...]:
    """The sizes of the only input, symbols where any size will do; empty if there is no such input."""
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    value = inputs[0].meta.get("val") if len(inputs) == 1 else None
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _script(file: Path) -> nn.Module:
    network = _loaded(partial(torch.jit.load, map_location="cpu"), file, "Export it with torch.export.save.")
    return Exported(network.eval()).requires_grad_(False)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
