"""The snapshots of a journal: the fleet, the runs, the rule, the settings and the last event."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import torch

from sooner.container import ContainerFormat, seal, unseal
from sooner.stream.settings import LiveSettings, Rearm

_FORMAT = ContainerFormat(
    "journal", "that of live series", "sooner.journal", 1, "Name another folder, or restore this one from a copy."
)


class SavedFleet(NamedTuple):
    """The open series of one model: its name, the snapshot of its fleet, its rule, and its runs as JSON types."""

    model: str
    fleet: bytes
    rule: dict[str, Any]
    runs: dict[str, Any]


class SavedState(NamedTuple):
    """What a restart needs, beside the model.

    Attributes:
        newest: the series of the newest model.
        settings: when series end.
        now: the last time.
        last_id: the ID of the last event.
        delivered: the ID of the last event that was delivered, where that is counted.
        older: the open series of older models.
    """

    newest: SavedFleet
    settings: LiveSettings
    now: float
    last_id: int
    delivered: int
    older: list[SavedFleet]


def packed_state(state: SavedState) -> bytes:
    """The bytes of a snapshot."""
    about = {"rule": state.newest.rule, "settings": asdict(state.settings), "now": state.now}
    about |= {"last_id": state.last_id, "delivered": state.delivered}
    # What has one model for all, as most journals do, needs no names.
    about |= {"model": state.newest.model} if state.newest.model else {}
    about |= {"older": [{"model": saved.model, "rule": saved.rule} for saved in state.older]} if state.older else {}
    tensors = _tensors(state.newest, "")
    for index, saved in enumerate(state.older):
        tensors |= _tensors(saved, f".{index}")
    return seal(_FORMAT, about, tensors)


def unpacked_state(snapshot: bytes) -> SavedState:
    """The state in a snapshot; foreign and damaged bytes are refused."""
    about, tensors = unseal(_FORMAT, snapshot)
    settings = LiveSettings(**{**about["settings"], "rearm": Rearm(**about["settings"]["rearm"])})
    newest = _saved(about, tensors, "")
    older = [_saved(each, tensors, f".{index}") for index, each in enumerate(about.get("older", ()))]
    return SavedState(newest, settings, about["now"], about["last_id"], about["delivered"], older)


def _tensors(saved: SavedFleet, suffix: str) -> dict[str, torch.Tensor]:
    return {f"fleet{suffix}": _tensor(saved.fleet), f"runs{suffix}": _tensor(json.dumps(saved.runs).encode())}


def _saved(about: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], suffix: str) -> SavedFleet:
    runs = json.loads(tensors[f"runs{suffix}"].numpy().tobytes())
    return SavedFleet(about.get("model", ""), tensors[f"fleet{suffix}"].numpy().tobytes(), about["rule"], runs)


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
