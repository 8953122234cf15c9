"""The container format: tensors, a JSON header and a hash of both, as safetensors, so that reading never executes code."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sooner.errors import InvalidArgument

Tensors = Mapping[str, Tensor]

_VERSION = re.compile("[0-9]{1,9}")


class ContainerFormat(NamedTuple):
    """A container format for error messages: the argument, what it should be, format, version, and the remedy."""

    argument: str
    what: str
    format: str
    version: int
    remedy: str


def seal(container: ContainerFormat, about: Mapping[str, Any], tensors: Tensors) -> bytes:
    """The container with these tensors and JSON data, as bytes."""
    from safetensors.torch import save

    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header = {"format": container.format, "version": str(container.version), "about": json.dumps(about)}
    return save(copies, {**header, "contents": _contents(header, copies)})


def unseal(container: ContainerFormat, data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON data and the tensors of a container; foreign, newer, truncated or modified bytes are refused."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not isinstance(data, bytes):
        raise InvalidArgument(container.argument, "bytes", f"a {type(data).__name__}", container.remedy)
    header = _header(data)
    version = header.get("version", "")
    if header.get("format") != container.format or _VERSION.fullmatch(version) is None:
        got = f"{len(data)} bytes of something else, or of a part of one"
        raise InvalidArgument(container.argument, container.what, got, container.remedy)
    if int(version) > container.version:
        expected = f"{container.what} of version {container.version} of its format"
        raise InvalidArgument(container.argument, expected, f"version {version}", "Update sooner to read it.")
    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        got = f"{len(data)} bytes that cannot be read ({error})"
        raise InvalidArgument(container.argument, f"{container.what}, whole", got, container.remedy) from None
    if _contents(header, tensors) != header.get("contents"):
        expected = f"{container.what}, as it was written"
        raise InvalidArgument(container.argument, expected, "bytes that were changed since", container.remedy)
    about: dict[str, Any] = json.loads(header["about"])
    return about, tensors


def digest(pieces: Iterable[bytes]) -> str:
    """The SHA-256 of all pieces in their order."""
    sha256 = hashlib.sha256()
    for piece in pieces:
        sha256.update(len(piece).to_bytes(8, "little"))
        sha256.update(piece)
    return sha256.hexdigest()


def pieces_of(tensors: Mapping[str, Any]) -> Iterator[bytes]:
    """Names, types, shapes and bytes of tensors, as input for `digest`."""
    for name, value in sorted(tensors.items()):
        if isinstance(value, Tensor):
            yield f"{name} {value.dtype} {tuple(value.shape)}".encode()
            yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        else:
            yield f"{name} {value!r}".encode()


def _contents(header: Mapping[str, str], tensors: Tensors) -> str:
    about = {name: value for name, value in header.items() if name != "contents"}
    return digest([json.dumps(about, sort_keys=True).encode(), *pieces_of(tensors)])


def _header(data: bytes) -> dict[str, str]:
    """The metadata of the safetensors header, or an empty dictionary."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {name: str(value) for name, value in header.items()} if isinstance(header, dict) else {}
