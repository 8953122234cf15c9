"""Settings and checkpoints of earlier versions, converted to today's meaning.

Before `model.batch_norm` existed, batch normalisation was PyTorch's, the weight decay of AdamW and SGDW was multiplied by the
learning rate, and EARLIEST did not explore. `to_dict` writes every key, so a record without that key is of such a version.
"""

from collections.abc import Mapping
from typing import Any

from sooner.train.settings import Settings, SettingsDict, settings_from_dict


def recorded_settings(tables: Mapping[str, Any]) -> Settings:
    """The settings that `to_dict` of any version wrote."""
    return settings_from_dict(upgraded(tables))


def upgraded(tables: Mapping[str, Any]) -> SettingsDict:
    """The tables of a record in today's meaning.

    >>> before = {"model": {}, "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.001}}
    >>> upgraded(before)
    {'model': {'batch_norm': 'torch'}, 'optimizer': {'name': 'adamw', 'lr': 0.01, 'weight_decay': 1e-05}}
    """
    if not is_outdated(tables):
        return dict(tables)
    model, optimizer = {**tables["model"], "batch_norm": "torch"}, dict(tables["optimizer"])
    if model.get("name") == "earliest":
        model.setdefault("epsilon", 0.0)
    if optimizer["name"] in ("adamw", "sgdw"):
        optimizer["weight_decay"] = decay_per_step(optimizer["weight_decay"], optimizer["lr"])
    return {**tables, "model": model, "optimizer": optimizer}


def upgraded_checkpoint(state: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint that Lightning wrote, in today's form."""
    weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
    selection = next(value for name, value in state["callbacks"].items() if name.startswith("Selection"))
    optimizer = state["optimizer_states"][0]
    learner = {"step": state["global_step"], "model": weights, "optimizer": optimizer, "scaler": {}}
    return {"settings": state["settings"], "learner": learner, "selection": selection}


def is_outdated(tables: Mapping[str, Any]) -> bool:
    """Whether an earlier version wrote the record."""
    return "batch_norm" not in tables["model"]


def decay_per_step(weight_decay: float, lr: float) -> float:
    """The share that PyTorch's AdamW takes off each weight in a step.

    >>> decay_per_step(1e-4, 1e-3)
    1e-07
    """
    # Rounded, so that the product of two short decimals is again a short decimal.
    return float(f"{weight_decay * lr:.12g}")
