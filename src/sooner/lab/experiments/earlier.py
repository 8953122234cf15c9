"""Models of an earlier record that were not run again stay in the record, with their own command and date."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sooner.errors import InvalidArgument, UnreadableFile
from sooner.lab.experiments.plan import Contender, Plan
from sooner.train.settings import Settings, cache_key, changed
from sooner.train.upgrade import recorded_settings


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a file, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableFile(str(path), "a record of `sooner reproduce`", str(error)) from None
    if not isinstance(record, dict) or not isinstance(record.get("models"), dict):
        raise UnreadableFile(str(path), "a record of `sooner reproduce`", "other content")
    return record


def with_earlier(record: dict[str, Any], plan: Plan, earlier: dict[str, Any] | None) -> dict[str, Any]:
    """The record of a run, with the models of an earlier record whose data and settings are those of the plan.

    For models that read features, the settings and the data set of the encoder must be the same too. The trials of tuning
    stay in the record when a model is trained again with the settings of the plan.
    """
    if earlier is None:
        return record
    record = {**record, "tuning": {**_kept_tuning(record, plan, earlier), **record["tuning"]}}
    kept = {each.name: each for each in plan.contenders if _stays(each, record, plan, earlier)}
    if not kept:
        return record
    origin = {"command": earlier["command"], "date": earlier["date"]}
    entries = {name: {**origin, **earlier["models"][name]} for name in kept}
    models = {**record["models"], **entries}
    rows = {name: {time: mean[0] for time, mean in entry["mean"].items()} for name, entry in entries.items()}
    settings = {name: earlier["settings"][name] for name, each in kept.items() if not each.scores_of}
    merged = {
        **record,
        "models": {each.name: models[each.name] for each in plan.contenders if each.name in models},
        "rows": {**record["rows"], **rows},
        "settings": {**record["settings"], **settings},
        "left_out": {name: seeds for name, seeds in record["left_out"].items() if name not in kept},
    }
    if plan.headline in kept:
        merged |= {key: earlier[key] for key in ("headline", "seeds")}
    return merged


def _kept_tuning(record: Mapping[str, Any], plan: Plan, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Earlier tunings of models that were not tuned again, whose trials would be the same today."""
    known = earlier.get("tuning", {})
    tuned = [each for each in plan.contenders if each.name in known and each.name not in record["tuning"]]
    return {
        each.name: known[each.name]
        for each in tuned
        if each.search is not None
        and each.search.to_dict() == known[each.name]["space"]
        and same_settings(plan.tuning_settings(each), known[each.name]["settings_of_trials"])
        and _same_inputs(each, plan, earlier)
    }


def _stays(contender: Contender, record: dict[str, Any], plan: Plan, earlier: dict[str, Any]) -> bool:
    if contender.name in record["models"] or contender.name not in earlier["models"]:
        return False
    name = contender.trained_as
    # The settings of a tuned model follow from its tuning.
    if earlier["models"][contender.name].get("tuned"):
        return name in record["tuning"] and _same_inputs(contender, plan, earlier)
    return same_settings(contender.settings, earlier["settings"].get(name)) and _same_inputs(contender, plan, earlier)


def _same_inputs(contender: Contender, plan: Plan, earlier: Mapping[str, Any]) -> bool:
    data = {key: value for key, value in asdict(plan.data).items() if key in earlier.get("data", {})}
    return earlier.get("data") == data and (contender.reads == "frames" or _same_encoder(plan, earlier))


def _same_encoder(plan: Plan, earlier: Mapping[str, Any]) -> bool:
    encoder = None if plan.encoder is None else plan.encoder.settings
    # Records without the set are of versions in which an encoder was trained on the set of its plan.
    trained_on = earlier.get("encoder_set") or plan.data.set
    return same_settings(encoder, earlier.get("encoder")) and trained_on == plan.encoder_data.set


def same_settings(settings: Settings | None, tables: Mapping[str, Any] | None) -> bool:
    """Whether settings and recorded settings agree, up to the seed."""
    if settings is None or tables is None:
        return settings is None and tables is None
    try:
        recorded = recorded_settings(tables)
    except (InvalidArgument, KeyError):  # written by a version with other settings
        return False
    ours, theirs = (cache_key(changed(each, {"training.seed": 0})) for each in (settings, recorded))
    return ours == theirs
