"""Entries of a journal: what was asked of `LiveSeries`, as bytes, so that it can be repeated."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from sooner.rules.base import Rule
from sooner.rules.described import description, rule_described
from sooner.stream.batch import ArrivalBatch
from sooner.stream.fleet import Key

_LENGTH = struct.Struct("<I")


def packed(operation: str, now: float, fields: Mapping[str, Any] | None = None, data: bytes = b"") -> bytes:
    """An entry: a JSON object, and bytes after it."""
    about = json.dumps({"operation": operation, "now": now, **(fields or {})}, separators=(",", ":")).encode()
    return _LENGTH.pack(len(about)) + about + data


def unpacked(entry: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON object of an entry, and the bytes after it."""
    (length,) = _LENGTH.unpack_from(entry)
    start = _LENGTH.size + length
    about: dict[str, Any] = json.loads(entry[_LENGTH.size : start])
    return about, entry[start:]


def packed_batch(batch: ArrivalBatch, now: float) -> bytes:
    """The entry of some arrivals; what was refused before is left out."""
    fields: dict[str, Any] = {"keys": batch.keys, "width": batch.values.shape[1:]}
    if batch.rows is not None:
        fields["rows"] = batch.rows.tolist()
    optional = {"times": batch.times, "ats": batch.ats, "ends": batch.ends}
    fields |= {name: value for name, value in optional.items() if value}
    return packed("take", now, fields, batch.values.astype(np.float64, copy=False).tobytes())


def unpacked_batch(about: Mapping[str, Any], data: bytes) -> ArrivalBatch:
    """The arrivals of an entry."""
    values = np.frombuffer(data, dtype=np.float64).reshape(-1, *about["width"]).copy() if data else np.empty((0, 0))
    rows = about.get("rows")
    return ArrivalBatch(
        about["keys"],
        values,
        None if rows is None else np.array(rows, dtype=np.int64),
        about.get("times"),
        about.get("ats"),
        about.get("ends", []),
    )


def packed_rule(rule: Rule, now: float) -> bytes:
    """The entry of a new rule, which is refused if it cannot be read again."""
    described = description(rule)
    rule_described(described)
    return packed("set_rule", now, {"rule": described})


def packed_key(operation: str, key: Key, now: float) -> bytes:
    """The entry of what is asked of one series."""
    return packed(operation, now, {"key": key})
