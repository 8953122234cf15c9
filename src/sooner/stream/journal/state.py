"""The snapshots of a journal: the fleet, the runs, the rule, the settings and the last event."""

import json
from dataclasses import asdict
from typing import Any, NamedTuple

import torch

from sooner.container import ContainerFormat, seal, unseal
from sooner.stream.settings import LiveSettings, Rearm

_FORMAT = ContainerFormat(
    "journal", "that of live series", "sooner.journal", 1, "Name another folder, or restore this one from a copy."
)


class SavedState(NamedTuple):
    """What a restart needs, beside the model.

    Attributes:
        fleet: the snapshot of the fleet.
        rule: its description.
        runs: of all IDs, as JSON types.
        settings: when series end.
        now: the last time.
        last_id: the ID of the last event.
        delivered: the ID of the last event that was delivered, where that is counted.
    """

    fleet: bytes
    rule: dict[str, Any]
    runs: dict[str, Any]
    settings: LiveSettings
    now: float
    last_id: int
    delivered: int


def packed_state(state: SavedState) -> bytes:
    """The bytes of a snapshot."""
    about = {"rule": state.rule, "settings": asdict(state.settings), "now": state.now}
    about |= {"last_id": state.last_id, "delivered": state.delivered}
    return seal(_FORMAT, about, {"fleet": _tensor(state.fleet), "runs": _tensor(json.dumps(state.runs).encode())})


def unpacked_state(snapshot: bytes) -> SavedState:
    """The state in a snapshot; foreign and damaged bytes are refused."""
    about, tensors = unseal(_FORMAT, snapshot)
    settings = LiveSettings(**{**about["settings"], "rearm": Rearm(**about["settings"]["rearm"])})
    runs = json.loads(tensors["runs"].numpy().tobytes())
    fleet = tensors["fleet"].numpy().tobytes()
    return SavedState(fleet, about["rule"], runs, settings, about["now"], about["last_id"], about["delivered"])


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
