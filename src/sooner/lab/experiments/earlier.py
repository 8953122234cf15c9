"""Models of an earlier record that were not run again: they stay in the record, with the command and the date that made them."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from sooner.errors import InvalidArgument, UnreadableFile
from sooner.lab.experiments.plan import Contender, Plan
from sooner.train.settings import Settings, cache_key, changed, to_dict
from sooner.train.upgrade import recorded_settings

Record: TypeAlias = dict[str, Any]


def read_record(path: Path) -> Record | None:
    """The record of a file, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableFile(str(path), "a record of `sooner reproduce`", str(error)) from None
    if not isinstance(found, dict) or not isinstance(found.get("models"), dict):
        raise UnreadableFile(str(path), "a record of `sooner reproduce`", "other content")
    return found


def with_earlier(record: Record, plan: Plan, earlier: Record | None) -> Record:
    """The record, and the models of an earlier one that the plan would train today as they were trained then.

    Data and settings must be the same, and for models that read features, those of the encoder too.

    Args:
        record: of this run.
        plan: what it ran.
        earlier: the record that it replaces.
    """
    kept = (
        {} if earlier is None else {each.name: each for each in plan.contenders if _stays(each, record, plan, earlier)}
    )
    if earlier is None or not kept:
        return record
    entries = {
        name: {"command": earlier["command"], "date": earlier["date"], **earlier["models"][name]} for name in kept
    }
    models = {**record["models"], **entries}
    trained = {name: to_dict(each.settings) for name, each in kept.items() if not each.scores_of}
    merged = {
        **record,
        "models": {each.name: models[each.name] for each in plan.contenders if each.name in models},
        "rows": {**record["rows"], **{name: _row(entry) for name, entry in entries.items()}},
        "settings": {**record["settings"], **trained},
        "left_out": {name: seeds for name, seeds in record["left_out"].items() if name not in kept},
    }
    if plan.headline in kept:
        merged |= {key: earlier[key] for key in ("headline", "seeds")}
    return merged


def _stays(each: Contender, record: Record, plan: Plan, earlier: Record) -> bool:
    if each.name in record["models"] or each.name not in earlier["models"]:
        return False
    data = {key: value for key, value in asdict(plan.data).items() if key in earlier.get("data", {})}
    trained = each.scores_of or each.name
    return (
        earlier.get("data") == data
        and _same(each.settings, earlier["settings"].get(trained))
        and (
            each.reads == "frames"
            or _same(None if plan.encoder is None else plan.encoder.settings, earlier.get("encoder"))
        )
    )


def _same(settings: Settings | None, tables: Mapping[str, Any] | None) -> bool:
    if settings is None or tables is None:
        return settings is None and tables is None
    try:
        recorded = recorded_settings(tables)
    except (InvalidArgument, KeyError):  # written by a version with other settings
        return False
    return bool(_key(recorded) == _key(settings))


def _key(settings: Settings) -> Any:
    return cache_key(changed(settings, {"training.seed": 0}))


def _row(entry: Mapping[str, Any]) -> dict[str, float]:
    return {time: mean[0] for time, mean in entry["mean"].items()}
