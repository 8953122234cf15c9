"""What the plan of a record says: the paper's settings, outside of the profiles, and the paper's rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sooner.lab.experiments.plan_file import read_plan_tables
from sooner.lab.experiments.published import published

ROOT = Path(__file__).parents[1]

Record = Mapping[str, Any]


def plan_of(record: Record) -> dict[str, Any]:
    """The published settings of a record's plan."""
    return read_plan_tables(ROOT / "experiments" / f"{record['name']}.toml")


def published_settings(plan: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Those of the model of that name, or of the one that the paper calls so."""
    models: Mapping[str, Any] = plan["models"]
    return models[name] if name in models else next(each for each in models.values() if each.get("published") == name)


def published_rows(record: Record) -> Mapping[str, Any]:
    """The paper's rows, with their numbers of trials, by the names of the record."""
    plan = plan_of(record)
    rows = published(plan["published"]) if "published" in plan else {}
    ours = {each["published"]: name for name, each in plan["models"].items() if "published" in each}
    return {name if name in record["published"] else ours[name]: each for name, each in rows.items()}
