"""Snapshots: the state of live series as bytes (`sooner.container`: safetensors and JSON, never pickle).

A snapshot contains the settings of the fleet and a hash of the model and its class names, so that series never continue with
another model.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from sooner.container import ContainerFormat, digest, pieces_of, seal, unseal
from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.models.prefix import PrefixScorer
from sooner.rules.described import description
from sooner.stream.fold import Decision, Fold
from sooner.stream.times import Tick
from sooner.types import LiveState

Owner: TypeAlias = Literal["fleet", "stream"]

_FORMAT = ContainerFormat(
    "snapshot", "one of live series", "sooner.stream", 1, "Give the bytes that `snapshot()` returned, all of them."
)


class FleetState(NamedTuple):
    """The state of a fleet: the row of each open series in the order of opening, the rows, the decisions, the newest times."""

    row_of: dict[Any, int]
    rows: LiveState
    decided: dict[Any, Decision]
    times: dict[Any, Tick]


def pack(state: FleetState, fold: Fold, owner: Owner) -> bytes:
    """The bytes of a snapshot."""
    index_of = {name: index for index, name in enumerate(fold.classes)}
    decisions, sets = state.decided.values(), fold.at_end == "set"
    closed = [
        (index_of.get(decision.label, -1) if decision.crossed or not sets else -1, decision.time, decision.crossed)
        for decision in decisions
    ]
    tensors = {f"rows.{index}": rows for index, rows in enumerate(state.rows)} | {
        "open.keys": _text(list(state.row_of)),
        "open": torch.tensor(list(state.row_of.values()), dtype=torch.int64),
        "closed.keys": _text(list(state.decided)),
        "closed": torch.tensor(closed, dtype=torch.int64).reshape(-1, 3),
    }
    if state.times:  # most fleets have no times
        tensors["open.times"] = _text([state.times.get(key) for key in state.row_of])
    if sets:  # the indices of the labels of each set
        indices = [None if decision.crossed else [index_of[name] for name in decision.label] for decision in decisions]
        tensors["closed.sets"] = _text(indices)
    about = {"of": owner, "model": fingerprint(fold.model, fold.classes), "settings": settings_of(fold)}
    return seal(_FORMAT, about, tensors)


def unpack(snapshot: bytes, fold: Fold, owner: Owner) -> FleetState:
    """The state in a snapshot, if it belongs to this fold."""
    about, tensors = unseal(_FORMAT, snapshot)
    if about["of"] != owner:
        remedy = f"Restore it into a {about['of']}."
        raise InvalidArgument("snapshot", f"of a {owner}", f"one of a {about['of']}", remedy)
    if about["model"] != fingerprint(fold.model, fold.classes):
        remedy = "Its series can only continue with the same weights and class names."
        raise InvalidArgument("snapshot", "of this model and these classes", "one of others", remedy)
    settings = settings_of(fold)
    for name in {**settings, **about["settings"]}:
        ours, theirs = settings.get(name), about["settings"].get(name)
        if theirs != ours:
            remedy = "Restore with the same settings; the rule may be changed afterwards."
            raise InvalidArgument(name, f"that of the snapshot, {json.dumps(theirs)}", json.dumps(ours), remedy)
    # A copy, in memory that torch has aligned: the next step is then the same to the last bit.
    rows = tuple(tensors[f"rows.{index}"].clone().to(like.device) for index, like in enumerate(fold.fresh(1)))
    names = (*fold.classes, None)  # -1 is the index of None
    decisions = [Decision(names[label], time, bool(crossed)) for label, time, crossed in tensors["closed"].tolist()]
    for index, labels in enumerate(_keys(tensors["closed.sets"]) if "closed.sets" in tensors else []):
        if labels is not None:
            decisions[index] = replace(decisions[index], label=tuple(fold.classes[label] for label in labels))
    row_of = dict(zip(_keys(tensors["open.keys"]), tensors["open"].tolist(), strict=True))
    newest = zip(row_of, _keys(tensors["open.times"]), strict=True) if "open.times" in tensors else ()
    times = {key: Tick(*tick) for key, tick in newest if tick is not None}
    return FleetState(row_of, rows, dict(zip(_keys(tensors["closed.keys"]), decisions, strict=True)), times)


def settings_of(fold: Fold) -> dict[str, Any]:
    """The settings that the decisions depend on, as JSON types."""
    offset = None if fold.offset is None else fold.offset.tolist()
    settings = {"rule": description(fold.rule), "offset": offset, "deadline": fold.deadline, "at_end": fold.at_end}
    return settings if fold.limit is None else {**settings, "limit": fold.limit}  # most series have no label sets


def fingerprint(model: Model, classes: Sequence[Any]) -> str:
    """A hash of the model's class, its weights (of a `PrefixScorer` the fitted classifiers) and the class names."""
    # The eps of batch norm is not a weight. PyTorch's default is left out, as in older snapshots.
    norms = (module.eps for module in model.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d))
    unusual = sorted({eps for eps in norms if eps != 1e-5})
    about = [type(model).__qualname__, model.features, model.order, model.formula, list(map(repr, classes)), *unusual]
    pieces = [json.dumps(about).encode(), *pieces_of(model.state_dict())]
    if isinstance(model, PrefixScorer):
        for point in model.fitted:
            pieces += [json.dumps([point.time, point.floor, point.calibration.slope]).encode()]
            pieces += [array.tobytes() for array in (point.present, point.calibration.bias, point.log_prior)]
    return digest(pieces)


def _text(keys: list[Any]) -> Tensor:
    # Keys are tensors of bytes because the header of safetensors is limited to 100 MB.
    return torch.frombuffer(bytearray(json.dumps(keys).encode()), dtype=torch.uint8)


def _keys(text: Tensor) -> list[Any]:
    keys: list[Any] = json.loads(text.numpy().tobytes())
    return keys
