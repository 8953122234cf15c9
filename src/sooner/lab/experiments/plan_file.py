"""Plans: one TOML file for each published table or figure, read for one of its profiles.

    title = "Speed against accuracy on NMNIST-H"
    times = [2, 5, 10, 20]

    [data]
    set = "nmnist-h"

    [encoder.model]             # a model of single frames, whose features the others read; optional
    name = "frames"             # `[encoder] set = "nmnist-h"` trains it on another set than that of the plan
    encoder = "resnet110"

    [models.MSPRT-TANDEM.model] # the tables of `sooner.train.settings`, for each model that is compared
    order = 15

    [profiles.cpu]              # changes of the tables above; `each` applies to all models
    about = "A small encoder, and 1,000 steps for each model."
    each.training.iterations = 1000

The tables outside of the profiles are the published settings, so the profile `paper` changes nothing. With
`include = "shared/nmnist_h.toml"` a plan is laid over the tables of another file, key by key: what several plans share has one
home. The path is relative to the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from sooner.errors import InvalidArgument, UnknownName
from sooner.lab.experiments.plan import Contender, DataPlan, Plan
from sooner.lab.tuning.space import SearchSpace
from sooner.train.settings import read_tables, settings_from_dict

Tables: TypeAlias = dict[str, Any]

Record = TypeVar("Record")

_SETTINGS = ("model", "loss", "optimizer", "training", "search")
_REQUIRED = ("set", "title", "times")


def folder_of_plans() -> Path:
    """The folder with the plans of this package: beside the source, or inside the installed package."""
    inside = Path(__file__).parents[2] / "experiments"
    return inside if inside.is_dir() else Path(__file__).parents[4] / "experiments"


def names() -> list[str]:
    """The names of the plans that come with the package."""
    return sorted(path.stem for path in folder_of_plans().glob("*.toml"))


def find_plan(name: str) -> Path:
    """The file of a plan: `name` itself if it ends in .toml, else the plan of that name that comes with the package."""
    if name.endswith(".toml"):
        return Path(name)
    if name not in names():
        raise UnknownName("name", name, names())
    return folder_of_plans() / f"{name}.toml"


def read_plan(path: str | PathLike[str], profile: str = "cpu") -> Plan:
    """The plan of a file, for one of its profiles."""
    tables = read_plan_tables(path)
    profiles = _take_table(tables, "profiles")
    choices = sorted({*profiles, "paper"})
    if profile not in choices:
        raise UnknownName("profile", profile, choices)
    return plan_from_tables(Path(path).stem, profile, merged(tables, _take_table(profiles, profile)))


def read_plan_tables(path: str | PathLike[str]) -> Tables:
    """The tables of a plan's file, with those of the file that it includes."""
    tables = read_tables(path)
    if "include" not in tables:
        return tables
    included = tables.pop("include")
    if not isinstance(included, str):
        remedy = 'For example include = "shared/nmnist_h.toml".'
        raise InvalidArgument("include", "the path of a TOML file", repr(included), remedy)
    laid_over: Tables = _updated(read_tables(Path(path).parent / included), tables)
    return laid_over


def merged(tables: Tables, changes: Mapping[str, Any]) -> Tables:
    """The tables with the changes of a profile; `each` applies to every model with settings of its own.

    >>> merged({"models": {"a": {"lr": 1}, "b": {"lr": 2}}}, {"each": {"lr": 3}, "models": {"b": {"lr": 4}}})
    {'models': {'a': {'lr': 3}, 'b': {'lr': 4}}}
    """
    changes = dict(changes)
    for_all = changes.pop("each", {})
    models = tables.get("models", {})
    if isinstance(models, Mapping) and models:
        own = [name for name, table in models.items() if isinstance(table, Mapping) and "scores_of" not in table]
        tables = {**tables, "models": {**models, **{name: _updated(models[name], for_all) for name in own}}}
    updated: Tables = _updated(tables, changes)
    return updated


def plan_from_tables(name: str, profile: str, tables: Tables) -> Plan:
    """The plan of tables to which a profile has been applied."""
    tables = dict(tables)
    _refuse_unknown("the plan", tables, [*_keys(Plan, "name", "profile", "contenders", "encoder_set"), "models"])
    data = _record(DataPlan, "data", _take_table(tables, "data"))
    encoder_table = _take_table(tables, "encoder") if "encoder" in tables else None
    encoder_set = "" if encoder_table is None else encoder_table.pop("set", "")
    encoder = None if encoder_table is None else _encoder(encoder_table)
    models = _take_table(tables, "models")
    contenders = tuple(_contender(model, models[model], models) for model in models)
    phases, tuning = (tuple(_take_table(tables, key).items()) for key in ("phases", "tuning"))
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in tables.items()}
    values["history"] = _history(tables.get("history", False), contenders)
    values |= {"name": name, "profile": profile, "data": data, "encoder": encoder, "encoder_set": encoder_set}
    return _record(Plan, "the plan", {**values, "contenders": contenders, "phases": phases, "tuning": tuning})


def _history(asked: Any, contenders: Sequence[Contender]) -> tuple[str, ...]:
    if isinstance(asked, bool):
        return tuple(each.name for each in contenders if asked and not each.scores_of)
    if not isinstance(asked, list):
        raise InvalidArgument("history", "true, or a list of models", repr(asked), 'For example history = ["LSEL"].')
    return tuple(asked)


def _encoder(table: Tables) -> Contender:
    # It is not compared: a rule, scores of another model or a search would have no effect.
    _refuse_unknown("encoder", table, ["set", "masks", "validation", *(key for key in _SETTINGS if key != "search")])
    encoder = _contender("encoder", {"reads": "frames", "masks": "redrawn", **table}, {})
    name = encoder.settings.model.name
    if name != "frames":
        raise InvalidArgument("encoder.model.name", "'frames'", repr(name), "Others have no features of single frames.")
    return encoder


def _contender(name: str, table: Any, models: Tables) -> Contender:
    if not isinstance(table, Mapping):
        raise InvalidArgument(f"models.{name}", "a table", repr(table), f"Write [models.{name}.model].")
    own = {key: value for key, value in table.items() if key not in _SETTINGS}
    _refuse_unknown(f"models.{name}", own, _keys(Contender, "name", "settings"))
    source = table
    if "scores_of" in own:
        if not isinstance(own["scores_of"], str):
            raise InvalidArgument(
                f"models.{name}.scores_of", "the name of a model", repr(own["scores_of"]), "Name one."
            )
        for key in _SETTINGS:
            if key in table:
                remedy = f"It shares the training of {own['scores_of']!r}: leave it out, or leave `scores_of` out."
                raise InvalidArgument(f"models.{name}.{key}", "that of another model", "one of its own", remedy)
        source = models.get(own["scores_of"], {})
        own = {key: source[key] for key in ("reads", "masks") if key in source} | own
    settings = settings_from_dict({key: source[key] for key in _SETTINGS if key in source and key != "search"})
    search = None
    if "search" in table:
        search = SearchSpace.from_dict(_take_table(dict(table), "search"))
        search.check(settings)
    return _record(Contender, f"models.{name}", {**own, "name": name, "settings": settings, "search": search})


def _record(record_type: type[Record], table: str, values: Mapping[str, Any]) -> Record:
    known = _keys(record_type)
    _refuse_unknown(table, values, known)
    for key in _REQUIRED:
        if key in known and key not in values:
            raise InvalidArgument(f"{table}.{key}", "given", "nothing", "Every plan has one.")
    return record_type(**values)


def _keys(record_type: type[Any], *without: str) -> list[str]:
    return [key.name for key in fields(record_type) if key.name not in without]


def _refuse_unknown(table: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise UnknownName(f"key in {table}", str(key), known)


def _take_table(tables: Tables, name: str) -> Tables:
    table = tables.pop(name, {})
    if not isinstance(table, Mapping):
        raise InvalidArgument(name, "a table", repr(table), f"Write [{name}] on a line of its own, its keys below.")
    return dict(table)


def _updated(table: Any, changes: Any) -> Any:
    if not (isinstance(table, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**table, **{key: _updated(table.get(key), value) for key, value in changes.items()}}
