"""Live series as bytes, to go on with in another process (`sooner.container`: safetensors and JSON, never pickle).

With them goes what must be the same for the same decisions: the settings of the fleet, and a digest of the model and of the
names of its classes. So no series goes on under another model.
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

Of: TypeAlias = Literal["fleet", "stream"]

_KIND = ContainerFormat(
    "snapshot", "one of live series", "sooner.stream", 1, "Give the bytes that `snapshot()` returned, all of them."
)


class FleetState(NamedTuple):
    """All that a fleet remembers: the row of each open series, in the order in which they opened, the rows, the decisions, and
    the time of the newest observation of series that came with times."""

    row_of: dict[Any, int]
    rows: LiveState
    decided: dict[Any, Decision]
    times: dict[Any, Tick]


def pack(held: FleetState, fold: Fold, of: Of) -> bytes:
    """The bytes of a snapshot."""
    place_of = {name: index for index, name in enumerate(fold.classes)}
    sets = fold.at_end == "set"
    closed = [
        (place_of.get(made.label, -1) if made.crossed or not sets else -1, made.time, made.crossed)
        for made in held.decided.values()
    ]
    tensors = {f"rows.{part}": rows for part, rows in enumerate(held.rows)} | {
        "open.keys": _text(list(held.row_of)),
        "open": torch.tensor(list(held.row_of.values()), dtype=torch.int64),
        "closed.keys": _text(list(held.decided)),
        "closed": torch.tensor(closed, dtype=torch.int64).reshape(-1, 3),
    }
    if held.times:  # most series come without
        tensors["open.times"] = _text([held.times.get(key) for key in held.row_of])
    if sets:  # a set is named by the indices of its labels
        left = [None if made.crossed else [place_of[name] for name in made.label] for made in held.decided.values()]
        tensors["closed.sets"] = _text(left)
    about = {"of": of, "model": fingerprint(fold.model, fold.classes), "settings": settings_of(fold)}
    return seal(_KIND, about, tensors)


def unpack(snapshot: bytes, fold: Fold, of: Of) -> FleetState:
    """What was packed, if it belongs to this fold."""
    about, tensors = unseal(_KIND, snapshot)
    if about["of"] != of:
        remedy = f"A {about['of']} goes on as a {about['of']}."
        raise InvalidArgument("snapshot", f"of a {of}", f"one of a {about['of']}", remedy)
    if about["model"] != fingerprint(fold.model, fold.classes):
        remedy = "Its series can only go on with the same weights and the same names of classes."
        raise InvalidArgument("snapshot", "of this model and these classes", "one of others", remedy)
    settings = settings_of(fold)
    for name in {**settings, **about["settings"]}:
        ours, theirs = settings.get(name), about["settings"].get(name)
        if theirs != ours:
            remedy = "Restore with the same settings; the rule may be changed afterwards."
            raise InvalidArgument(name, f"that of the snapshot, {json.dumps(theirs)}", json.dumps(ours), remedy)
    # A copy, in memory that torch has aligned: what comes next is then the same to the last bit.
    rows = tuple(tensors[f"rows.{part}"].clone().to(like.device) for part, like in enumerate(fold.fresh(1)))
    names = (*fold.classes, None)  # the last one is what -1 stands for
    made = [Decision(names[label], time, bool(crossed)) for label, time, crossed in tensors["closed"].tolist()]
    if "closed.sets" in tensors:
        left = _keys(tensors["closed.sets"])
        made = [
            one if places is None else replace(one, label=tuple(fold.classes[place] for place in places))
            for one, places in zip(made, left, strict=True)
        ]
    row_of = dict(zip(_keys(tensors["open.keys"]), tensors["open"].tolist(), strict=True))
    newest = zip(row_of, _keys(tensors["open.times"]), strict=True) if "open.times" in tensors else ()
    times = {key: Tick(*tick) for key, tick in newest if tick is not None}
    return FleetState(row_of, rows, dict(zip(_keys(tensors["closed.keys"]), made, strict=True)), times)


def settings_of(fold: Fold) -> dict[str, Any]:
    """What must be the same for the same decisions, as JSON can say it."""
    offset = None if fold.offset is None else fold.offset.tolist()
    settings = {"rule": description(fold.rule), "offset": offset, "deadline": fold.deadline, "at_end": fold.at_end}
    return settings if fold.limit is None else {**settings, "limit": fold.limit}  # most series have no label sets


def fingerprint(model: Model, classes: Sequence[Any]) -> str:
    """A digest of the model's kind, its weights and the names of its classes.

    A `PrefixScorer` has no weights: its checkpoints stand for them, with the calibration of each.
    """
    # The eps of batch norm is no weight; only another one than PyTorch's is named, as snapshots of the past name none.
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
    # Keys are tensors of bytes, since a header of safetensors ends at 100 MB.
    return torch.frombuffer(bytearray(json.dumps(keys).encode()), dtype=torch.uint8)


def _keys(text: Tensor) -> list[Any]:
    keys: list[Any] = json.loads(text.numpy().tobytes())
    return keys
