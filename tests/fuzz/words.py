"""TOML: settings, what to search, and plans of experiments."""

import random
import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.case import Case, Target
from fuzz.mutations import TEXT, spoiled

SETTINGS = b"""[model]
name = "recurrent"
order = 15
hidden = 8
cell = "gru"
penalty = 0.5

[loss]
gamma = 2.0
[loss.weights]
multiplet = 1.0
lsel = 10.0

[optimizer]
name = "rmsprop"
lr = 1e-4
weight_decay = 0

[training]
iterations = 50
patience = "none"
gradient_clip = 1
seed = 3

[search]
model.order = [0, 5, "full"]
optimizer.lr = { low = 1e-4, high = 1e-2, log = true }
"""


@cache
def _plans() -> list[bytes]:
    from sooner.lab.experiments.plan_file import folder_of_plans

    return [path.read_bytes() for path in sorted(folder_of_plans().glob("*.toml"))]


def _as_floats(value: Any) -> Any:
    """Whole numbers where the settings have others."""
    if isinstance(value, dict):
        return {key: _as_floats(part) for key, part in value.items()}
    return float(value) if isinstance(value, int) else value


def make_settings(chance: random.Random, folder: Path) -> Case:
    from sooner.train.settings import read_settings, to_dict, write_toml

    path, again = folder / "settings.toml", folder / "again.toml"
    path.write_bytes(spoiled(chance, SETTINGS, _plans(), TEXT))

    def judge(settings: Any) -> str | None:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        read = to_dict(settings)
        for name, table in tables.items():
            for key, value in table.items() if name != "search" else ():
                if read[name][key] not in (value, _as_floats(value)):
                    return f"{name}.{key} = {read[name][key]!r}, not {value!r}"
        write_toml(settings, again)
        return None if read_settings(again) == settings else "other settings once they are written"

    return Case(path.read_bytes(), lambda: read_settings(path), judge)


def make_search(chance: random.Random, folder: Path) -> Case:
    from sooner.lab.tuning.space import read_search
    from sooner.train.settings import read_settings

    path = folder / "search.toml"
    path.write_bytes(spoiled(chance, SETTINGS, _plans(), TEXT))

    def run() -> Any:
        settings, space = read_settings(path), read_search(path)
        space.check(settings)
        return space

    def judge(space: Any) -> str | None:
        text = tomllib.loads(path.read_text(encoding="utf-8"))["search"]
        return None if bool(text) else f"{space} of nothing"

    return Case(path.read_bytes(), run, judge)


def make_plan(chance: random.Random, folder: Path) -> Case:
    from sooner.lab.experiments.plan_file import folder_of_plans, read_plan

    # Plans include files of this folder.
    shutil.copytree(folder_of_plans() / "shared", folder / "shared", dirs_exist_ok=True)
    path, profile = folder / "plan.toml", chance.choice(("paper", "cpu"))
    path.write_bytes(spoiled(chance, chance.choice(_plans()), _plans(), TEXT))

    def judge(plan: Any) -> str | None:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        included = tables.get("include")
        below = {} if included is None else tomllib.loads((folder / included).read_text(encoding="utf-8"))
        profiles = [each.get("profiles", {}).get(profile, {}) for each in (below, tables)]
        laid = {**below, **tables, **profiles[0], **profiles[1]}
        if plan.title != laid["title"] or list(plan.times) != laid["times"]:
            return f"{plan.title!r} at {plan.times}"
        return None if {each.name for each in plan.contenders} >= set(tables["models"]) else "other models"

    return Case(path.read_bytes(), lambda: read_plan(path, profile), judge)


TARGETS = [Target("settings", 7, make_settings), Target("search", 2, make_search), Target("plans", 2, make_plan)]
