"""Plans: one TOML file for each published table or figure, read for one of its profiles.

    title = "Speed against accuracy on NMNIST-H"
    times = [2, 5, 10, 20]

    [data]
    set = "nmnist-h"

    [encoder.model]             # what reads single frames first; left out, models read the data as they are
    name = "frames"
    encoder = "resnet110"

    [models.MSPRT-TANDEM.model] # the tables of `sooner.train.settings`, for each model that is compared
    order = 15

    [profiles.cpu]              # what this profile changes, as the tables above; `each` speaks of all models
    about = "A small encoder, and 1,000 steps for each model."
    each.training.iterations = 1000

What stands outside of the profiles are the published settings, so the profile `paper` changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from sooner.data.sets.nmnist import FRAMES
from sooner.data.sets.video.frames import VIEWS
from sooner.data.sets.video.lists import VIDEO_SETS
from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_number, as_whole
from sooner.lab.experiments.published import published
from sooner.lab.tuning.space import SearchSpace
from sooner.train.settings import Settings, read_tables, settings_from_dict

Tables: TypeAlias = dict[str, Any]
Share: TypeAlias = int | Literal["all"]

R = TypeVar("R")

SETS = (*FRAMES, *VIDEO_SETS)
PROFILES = ("cpu", "paper")
RULES = ("msprt", "fixed_time", "halting")
_SETTINGS = ("model", "loss", "optimizer", "training", "search")


@dataclass(frozen=True)
class DataPlan:
    """Which series.

    Args:
        set: by name.
        frequencies: "equal" takes the training set as it is; "tenfold" thins its classes out, and those of the validation
            set, from all of class 0 to a tenth of the last.
        train, validation, test: how many series of each split, the first ones, or "all".
        view: of videos, the view that their features must have been made with: "crop", "whole", or "any".
    """

    set: str
    frequencies: str = "equal"
    train: Share = "all"
    validation: Share = "all"
    test: Share = "all"
    view: str = "any"

    def __post_init__(self) -> None:
        _check_choice("data.set", self.set, SETS)
        _check_choice("data.frequencies", self.frequencies, ("equal", "tenfold"))
        _check_choice("data.view", self.view, ("any", *VIEWS))
        for key in ("train", "validation", "test"):
            _check_share(f"data.{key}", getattr(self, key))
        if self.view != "any" and self.set not in VIDEO_SETS:
            raise InvalidArgument("data.view", f"'any' for {self.set}", repr(self.view), "Only videos have a view.")
        if self.frequencies != "equal" and self.set in VIDEO_SETS:
            remedy = "Only digits are thinned out."
            raise InvalidArgument("data.frequencies", f"'equal' for {self.set}", repr(self.frequencies), remedy)


@dataclass(frozen=True)
class Contender:
    """One model, as it is trained and as it stops.

    Args:
        name: as tables call it.
        settings: of its training.
        reads: "features" of the encoder, or "frames", the data as they are.
        masks: "fixed", or "redrawn" in every epoch of training (of sets that are made on the fly).
        rule: "msprt", "fixed_time" or "halting" (`sooner.rules.RULES`).
        validation: how many series of the validation set it is judged by while it is trained, or "all".
        published: its name in the published table, where that is another one.
        scores_of: the model whose training and scores it shares, so that only the rule is its own; "" for none.
        search: where tuning would look for better settings.
    """

    name: str
    settings: Settings
    reads: str = "features"
    masks: str = "fixed"
    rule: str = "msprt"
    validation: Share = "all"
    published: str = ""
    scores_of: str = ""
    search: SearchSpace | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        _check_choice(f"models.{self.name}.reads", self.reads, ("features", "frames"))
        _check_choice(f"models.{self.name}.masks", self.masks, ("fixed", "redrawn"))
        _check_choice(f"models.{self.name}.rule", self.rule, RULES)
        _check_share(f"models.{self.name}.validation", self.validation)
        if self.masks == "redrawn" and self.reads == "features":
            remedy = 'Features are written once. Let it read "frames".'
            raise InvalidArgument(f"models.{self.name}.masks", "'fixed' where features are read", "'redrawn'", remedy)
        if self.rule == "halting" and self.settings.model.name != "earliest":
            remedy = 'Only model.name = "earliest" says when to stop.'
            raise InvalidArgument(f"models.{self.name}.rule", "'msprt' or 'fixed_time' here", "'halting'", remedy)


@dataclass(frozen=True)
class Plan:
    """What is compared, on what, and how it is told.

    Args:
        name: that of the file.
        profile: the one it was read for.
        title: one line.
        data: which series.
        contenders: the models.
        encoder: the model of single frames whose features the others read, trained with seed 0 on masks that are redrawn in every
            epoch; None where models read the data as they are.
        times: the mean times of the table.
        headline: the name of the model that is to win, and the mean times at which.
        phases: the mean times "early" and "late" of the two-way analysis of variance; with a single one it is one-way, and
            without any it is one-way at the last of `times`.
        published: the paper's table, by name, or "".
        about: what the profile has shortened.
        seeds: how many trials each model has, if nobody says otherwise.
        trajectories: how many series are drawn with their log-likelihood ratios.
    """

    name: str
    profile: str
    title: str
    data: DataPlan
    contenders: tuple[Contender, ...]
    times: tuple[float, ...]
    encoder: Contender | None = None
    headline: str = ""
    headline_times: tuple[float, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    published: str = ""
    about: str = ""
    seeds: int = 3
    trajectories: int = 0

    def __post_init__(self) -> None:
        known = [each.name for each in self.contenders]
        if not known:
            raise InvalidArgument("models", "at least 1", "none", "Name one: [models.MSPRT-TANDEM.model].")
        trained = [each.name for each in self.contenders if not each.scores_of]
        for each in self.contenders:
            if each.scores_of and each.scores_of not in trained:
                raise UnknownName(f"models.{each.name}.scores_of", each.scores_of, trained)
        if self.headline and self.headline not in known:
            raise UnknownName("headline", self.headline, known)
        as_whole(self.seeds, name="seeds", low=1, remedy="It counts the trials of each model.")
        as_whole(self.trajectories, name="trajectories", low=0, remedy="It counts series.")
        for key in ("times", "headline_times"):
            if not isinstance(getattr(self, key), tuple):
                remedy = f"For example {key} = [2, 5, 10]."
                raise InvalidArgument(key, "a list of mean times", repr(getattr(self, key)), remedy)
        for time in (*self.times, *self.headline_times, *(time for _, time in self.phases)):
            as_number(time, name="times", low=1.0, remedy="A mean time is at least 1.")
        rows = published(self.published) if self.published else {}
        for each in self.contenders:
            if each.published and each.published not in rows:
                raise UnknownName(f"models.{each.name}.published", each.published, rows)
        for each in self.contenders:
            if each.masks == "redrawn" and self.data.set in VIDEO_SETS:
                remedy = "Features of videos are what they are."
                raise InvalidArgument(f"models.{each.name}.masks", f"'fixed' for {self.data.set}", "'redrawn'", remedy)
        if not self.times:
            raise InvalidArgument("times", "at least 1 mean time", "none", "For example times = [2, 5, 10].")

    def contender(self, name: str) -> Contender:
        """The model of that name."""
        found = {each.name: each for each in self.contenders}
        if name not in found:
            raise UnknownName("model", name, found)
        return found[name]


def folder_of_plans() -> Path:
    """Where the plans of this package are: beside the source, or inside the installed package."""
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
    tables = read_tables(path)
    profiles = _table(tables, "profiles")
    choices = sorted({*profiles, "paper"})
    if profile not in choices:
        raise UnknownName("profile", profile, choices)
    return plan_from_tables(Path(path).stem, profile, merged(tables, _table(profiles, profile)))


def merged(tables: Tables, change: Mapping[str, Any]) -> Tables:
    """The tables with the values of a profile in their places; `each` stands for every model with settings of its own.

    >>> merged({"models": {"a": {"lr": 1}, "b": {"lr": 2}}}, {"each": {"lr": 3}, "models": {"b": {"lr": 4}}})
    {'models': {'a': {'lr': 3}, 'b': {'lr': 4}}}
    """
    change = dict(change)
    each = change.pop("each", {})
    models = tables.get("models", {})
    if isinstance(models, Mapping) and models:
        own = [name for name, table in models.items() if isinstance(table, Mapping) and "scores_of" not in table]
        tables = {**tables, "models": {**models, **{name: _overlaid(models[name], each) for name in own}}}
    laid: Tables = _overlaid(tables, change)
    return laid


def plan_from_tables(name: str, profile: str, tables: Tables) -> Plan:
    """The plan that the tables describe, profiles laid over them already."""
    tables = dict(tables)
    _refuse_unknown("the plan", tables, [*_keys(Plan, "name", "profile", "contenders"), "models"])
    data = _record(DataPlan, "data", _table(tables, "data"))
    encoder = None
    if "encoder" in tables:
        encoder = _encoder(_table(tables, "encoder"))
    models = _table(tables, "models")
    contenders = tuple(_contender(each, models[each], models) for each in models)
    phases = tuple(_table(tables, "phases").items())
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in tables.items()}
    return _record(
        Plan,
        "the plan",
        {**given, "name": name, "profile": profile, "data": data, "contenders": contenders, "phases": phases}
        | ({} if encoder is None else {"encoder": encoder}),
    )


def _encoder(table: Tables) -> Contender:
    # It is compared with nobody: what else a model may say (a rule, scores of another, a search) would never be heeded.
    _refuse_unknown("encoder", table, ["masks", "validation", *(key for key in _SETTINGS if key != "search")])
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
    if not isinstance(own.get("scores_of", ""), str):
        raise InvalidArgument(f"models.{name}.scores_of", "the name of a model", repr(own["scores_of"]), "Name one.")
    for key in _SETTINGS:
        if "scores_of" in own and key in table:
            remedy = f"It is trained as {own['scores_of']!r} is: leave it out, or leave `scores_of` out."
            raise InvalidArgument(f"models.{name}.{key}", "that of another model", "one of its own", remedy)
    source = models.get(own.get("scores_of", ""), {}) if "scores_of" in own else table
    tables = {key: source[key] for key in _SETTINGS if key in source and key != "search"}
    settings = settings_from_dict(tables)
    if "scores_of" in own:
        own = {key: source[key] for key in ("reads", "masks") if key in source} | own
    search = _search(_table(dict(table), "search"), settings) if "search" in table else None
    return _record(Contender, f"models.{name}", {**own, "name": name, "settings": settings, "search": search})


def _search(table: Tables, settings: Settings) -> SearchSpace:
    space = SearchSpace.from_dict(table)
    space.check(settings)
    return space


def _record(kind: type[R], where: str, values: Mapping[str, Any]) -> R:
    known = _keys(kind)
    _refuse_unknown(where, values, known)
    required = [key for key in ("set", "title", "times") if key in known and key not in values]
    if required:
        raise InvalidArgument(f"{where}.{required[0]}", "given", "nothing", "Every plan has one.")
    return kind(**values)


def _keys(kind: type[Any], *without: str) -> list[str]:
    return [each.name for each in fields(kind) if each.name not in without]


def _refuse_unknown(where: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise UnknownName(f"key in {where}", str(key), known)


def _table(tables: Tables, name: str) -> Tables:
    table = tables.pop(name, {})
    if not isinstance(table, Mapping):
        raise InvalidArgument(name, "a table", repr(table), f"Write [{name}] on a line of its own, its keys below.")
    return dict(table)


def _overlaid(table: Any, change: Any) -> Any:
    if not (isinstance(table, Mapping) and isinstance(change, Mapping)):
        return change
    return {**table, **{key: _overlaid(table.get(key), value) for key, value in change.items()}}


def _check_share(argument: str, got: Any) -> None:
    if got != "all":
        if isinstance(got, bool):
            raise InvalidArgument(argument, "a number", repr(got), 'It counts series; or write "all".')
        as_whole(got, name=argument, low=1, remedy='It counts series; or write "all".')


def _check_choice(argument: str, got: Any, choices: Sequence[str]) -> None:
    if got not in choices:
        raise UnknownName(argument, str(got), choices)
