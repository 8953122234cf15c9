"""What an earlier version wrote down (settings in model files and studies, checkpoints), in the meaning it has today.

Until `model.batch_norm` there was one batch norm, PyTorch's, the weight decay of AdamW and SGDW was multiplied by the learning
rate, and EARLIEST did not explore. `to_dict` writes every key out, so a record without that key is of that time.
"""

from collections.abc import Mapping
from typing import Any

from sooner.train.settings import Settings, SettingsDict, settings_from_dict


def recorded_settings(tables: Mapping[str, Any]) -> Settings:
    """The settings of a record, whichever version wrote it with `to_dict`."""
    return settings_from_dict(upgraded(tables))


def upgraded(tables: Mapping[str, Any]) -> SettingsDict:
    """The tables of a record in today's meaning.

    >>> before = {"model": {}, "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.001}}
    >>> upgraded(before)
    {'model': {'batch_norm': 'torch'}, 'optimizer': {'name': 'adamw', 'lr': 0.01, 'weight_decay': 1e-05}}
    """
    if not of_before(tables):
        return dict(tables)
    model, optimizer = {**tables["model"], "batch_norm": "torch"}, dict(tables["optimizer"])
    if model.get("name") == "earliest":
        model.setdefault("epsilon", 0.0)
    if optimizer["name"] in ("adamw", "sgdw"):
        optimizer["weight_decay"] = decay_of_a_step(optimizer["weight_decay"], optimizer["lr"])
    return {**tables, "model": model, "optimizer": optimizer}


def upgraded_checkpoint(state: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint of the time when Lightning wrote them, as the training loop of today writes it."""
    weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
    selection = next(kept for name, kept in state["callbacks"].items() if name.startswith("Selection"))
    optimizer = state["optimizer_states"][0]
    learner = {"step": state["global_step"], "model": weights, "optimizer": optimizer, "scaler": {}}
    return {"settings": state["settings"], "learner": learner, "selection": selection}


def of_before(tables: Mapping[str, Any]) -> bool:
    """Whether an earlier version wrote the record."""
    return "batch_norm" not in tables["model"]


def decay_of_a_step(share: float, lr: float) -> float:
    """The weight decay of one step that PyTorch's AdamW takes for `weight_decay=share`.

    >>> decay_of_a_step(1e-4, 1e-3)
    1e-07
    """
    # Rounded, so that the product of two short decimals is the short decimal that a person would write.
    return float(f"{share * lr:.12g}")
