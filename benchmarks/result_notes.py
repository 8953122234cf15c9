"""The notes above a table of docs/results.md: how a record was made, and how training was shortened."""

import re
from collections.abc import Mapping
from typing import Any

from result_plans import Record, plan_of, published_settings

RECKONED = "2026-11-18"
"""Records of earlier dates were trained before the published settings got their meaning (docs/results.md says which)."""
ENCODERS = {
    "dense": "one linear layer",
    "convolution": "six convolutional layers and a linear one",
    "convolution_of_levels": "six convolutional layers and a linear one on a table of the 256 values",
    "tokens": "a sum of vectors, one for each shown pixel, and two linear layers",
    "resnet110": "ResNet-110",
}
FRAME_ACCURACY = {"nmnist-h": 84.1, "nmnist-100f": 43.1}
"""Published, in percent: of ResNet-110 on single frames."""
SETS = {"nmnist": "NMNIST", "nmnist-h": "NMNIST-H", "nmnist-100f": "NMNIST-100f"}
SHORTENED = "Training was not as published (settings of the profile `paper` in brackets)."


def kept(record: Record) -> str:
    """The models that another command made, which this one did not run again."""
    made: dict[tuple[str, str], list[str]] = {}
    for name, model in record["models"].items():
        origin = (model.get("command", record["command"]), model.get("date", record["date"]))
        made.setdefault(origin, []).append(name)
    made.pop((record["command"], record["date"]), None)
    return " ".join(f"{', '.join(names)}: `{command}`, {date}." for (command, date), names in made.items())


def incomplete(record: Record) -> str:
    """Which trials of the plan are not in the record."""
    missing = missing_trials(record)
    if not missing:
        return ""
    text = ", ".join(f"{name}: {done} of {asked}" for name, (done, asked) in missing.items())
    if "--only" in record["command"]:
        return f"Not every trial of the plan was run: {text}."
    return (
        f"Not every trial of the plan was run: {text}. The record does not contain the `--only` options with which it "
        "was made, so the command above runs more trials than the record contains."
    )


def missing_trials(record: Record) -> dict[str, tuple[int, int]]:
    """Trials that are done and that the command asks for, of each model that has fewer."""
    found = re.search(r"--seeds (\d+)", record["command"])
    asked = int(found[1]) if found else 0
    # The settings are there of every model of the plan, run or not.
    done = {name: len(record["models"].get(name, {"seeds": ()})["seeds"]) for name in record["settings"]}
    return {name: (count, asked) for name, count in done.items() if count < asked}


def shortened(record: Record) -> str:
    """How training was shortened, from the settings of the record and those of the plan."""
    plan = plan_of(record)
    lines = [SHORTENED, *([text] if (text := encoder_of(record, plan)) else [])]
    alike: dict[tuple[str, str], list[str]] = {}
    for name, settings in record["settings"].items():
        if name in record["models"]:
            given = published_settings(plan, name)
            ours, paper = (
                f"{steps_of(each['training'], each['optimizer'])}{other}"
                for each, other in zip((settings, given), other_choices(settings, given), strict=True)
            )
            own = name not in record["published"] and ours == paper
            alike.setdefault((ours, "not in the paper" if own else paper), []).append(name)
    lines += [f"{', '.join(names)}: {ours} ({paper})." for (ours, paper), names in alike.items()]
    return " ".join(lines)


def encoder_of(record: Record, plan: Mapping[str, Any]) -> str:
    """The encoder of ours and that of the paper; nothing for videos, whose features come from outside."""
    if record["encoder"] is None:
        return ""
    ours, paper = (
        f"{ENCODERS[each['model']['encoder']]}, {frames(each):.3g} million frames"
        for each in (record["encoder"], plan["encoder"])
    )
    origin, own = record.get("encoder_set"), record["data"]["set"]
    trained = f" It was trained on {SETS[origin]}." if origin and origin != own else ""
    return f"Encoder: {ours} ({paper}).{trained}{accuracy_of(record)}"


def accuracy_of(record: Record) -> str:
    """What the encoder reaches on single frames; records before it was measured do not say."""
    found = record.get("frame_accuracy")
    if not found:
        return ""
    given = FRAME_ACCURACY.get(record["data"]["set"])
    published = f" (published: {given}%)" if given and record["data"].get("frequencies", "equal") == "equal" else ""
    text = ", ".join(f"{100 * accuracy:.1f}% on the {split} set" for split, accuracy in found.items())
    return f" Its accuracy on single frames: {text}{published}."


def frames(each: Mapping[str, Any]) -> float:
    """Millions of frames that an encoder saw."""
    return float(each["training"]["batch_size"] * each["training"]["iterations"] * each["model"]["moments"] / 1e6)


def other_choices(*both: Mapping[str, Any]) -> list[str]:
    """The order N and the weight decay of a model and of the published one, where they differ."""
    texts = [""] * len(both)
    for table, key, name in (("model", "order", "N ="), ("optimizer", "weight_decay", "weight decay")):
        values = [each[table].get(key) for each in both]
        if len({*values, None}) > 2:
            texts = [f"{text}, {name} {value}" for text, value in zip(texts, values, strict=True)]
    return texts


def steps_of(training: Mapping[str, Any], optimizer: Mapping[str, Any]) -> str:
    rate = ", cosine schedule" if optimizer.get("schedule", "constant") == "cosine" else ""
    crop, whole = training.get("crop", "none"), training.get("whole_every", "none")
    crops = "" if crop == "none" else f", all but every {whole}th of them on crops of {crop} frames"
    return f"{training['iterations']:,} steps of {training['batch_size']:,} series{crops}{rate}"


def earlier_meaning(record: Record) -> str:
    if record["date"] >= RECKONED:
        return ""
    return "These trials [differ from the published settings](#differences-from-the-published-settings) and will be run again."
