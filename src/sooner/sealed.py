"""Sealed bytes: tensors with a JSON header and a digest of both. Safetensors inside, so reading never executes anything."""

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


class Kind(NamedTuple):
    """What is sealed: the argument it comes in by, what it is called, its format and version, and what to do if it is not."""

    argument: str
    what: str
    format: str
    version: int
    remedy: str


def seal(kind: Kind, about: Mapping[str, Any], tensors: Tensors) -> bytes:
    """The bytes of these tensors and of what JSON can say about them."""
    from safetensors.torch import save

    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header = {"format": kind.format, "version": str(kind.version), "about": json.dumps(about)}
    return save(kept, {**header, "contents": _contents(header, kept)})


def unseal(kind: Kind, data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What was sealed; bytes that are foreign, newer, cut or changed are refused."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not isinstance(data, bytes):
        raise InvalidArgument(kind.argument, "bytes", f"a {type(data).__name__}", kind.remedy)
    header = _header(data)
    version = header.get("version", "")
    if header.get("format") != kind.format or _VERSION.fullmatch(version) is None:
        got = f"{len(data)} bytes of something else, or of a part of one"
        raise InvalidArgument(kind.argument, kind.what, got, kind.remedy)
    if int(version) > kind.version:
        expected = f"{kind.what} of version {kind.version} of its format"
        raise InvalidArgument(kind.argument, expected, f"version {version}", "Update sooner to read it.")
    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        got = f"{len(data)} bytes that cannot be read ({error})"
        raise InvalidArgument(kind.argument, f"{kind.what}, whole", got, kind.remedy) from None
    if _contents(header, tensors) != header.get("contents"):
        expected = f"{kind.what}, as it was written"
        raise InvalidArgument(kind.argument, expected, "bytes that were changed since", kind.remedy)
    about: dict[str, Any] = json.loads(header["about"])
    return about, tensors


def digest(pieces: Iterable[bytes]) -> str:
    """One sha256 for all of them in their order."""
    total = hashlib.sha256()
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "little"))
        total.update(piece)
    return total.hexdigest()


def pieces_of(tensors: Mapping[str, Any]) -> Iterator[bytes]:
    """Names, types, shapes and bytes of tensors, for a digest."""
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
    """The texts in front of the tensors, or nothing where there are none."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {name: str(value) for name, value in header.items()} if isinstance(header, dict) else {}
