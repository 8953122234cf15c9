"""Settings: a TOML file as frozen, validated records.

    [model]
    name = "recurrent"
    order = 15                  # or "full"

    [loss.weights]
    multiplet = 1.0
    lsel = 10.0

    [optimizer]
    name = "rmsprop"
    lr = 1e-4

    [training]
    iterations = 5000

Every key has a default; an unknown key is an error that names the nearest one. A `[search]` table is read by `sooner.lab.tuning`.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sooner.errors import InvalidArgument, UnknownName
from sooner.fields import check_choice, check_number, check_whole
from sooner.losses.settings import LossSettings as LossSettings
from sooner.models.settings import ModelSettings as ModelSettings

SettingsDict: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class OptimizerSettings:
    """Settings of the optimizer.

    Args:
        name: "adamw" or "sgdw" (decoupled weight decay), or "rmsprop" (weight decay added to the gradient).
        lr: learning rate.
        weight_decay: share that "adamw" and "sgdw" take off each weight at every step, times the factor of the schedule but not
            times the learning rate; "rmsprop" adds it times the weight to the gradient. PyTorch's AdamW multiplies by the
            learning rate: its 1e-4 at lr = 1e-3 is 1e-7 here, the default.
        momentum: of "sgdw".
        schedule: of the learning rate: "constant", or "cosine", which falls to zero at the last iteration.
    """

    name: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-7
    momentum: float = 0.9
    schedule: str = "constant"

    def __post_init__(self) -> None:
        check_choice(self, "optimizer.name", ("adamw", "sgdw", "rmsprop"))
        check_choice(self, "optimizer.schedule", ("constant", "cosine"))
        check_number(self, "optimizer.lr", "A learning rate is a small number such as 1e-3.", above_zero="strictly")
        check_number(self, "optimizer.weight_decay", "It pulls weights to zero.")
        check_number(self, "optimizer.momentum", "It is the share of the last step that is kept.", high=1.0)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop.

    Args:
        batch_size: number of series in a step.
        iterations: total number of steps.
        validate_every: number of steps between validations; the last step is always validated.
        crop: number of consecutive observations, from a random time, that a step reads of each series; "none" reads whole
            series. Windows of a model of order N are learned from crops of N + 1 observations at a fraction of the cost.
        whole_every: with `crop`, every n-th step reads whole series, which the formula over all windows needs; "none" for never.
        patience: number of validations without a new best after which the training stops, or "none".
        gradient_clip: maximum norm of the gradient, or "none".
        precision: "32", "bf16-mixed" or "16-mixed". A CPU whose bfloat16 fails a trial uses "32".
        seed: of the order of the series and of the random numbers in forward passes.
        device: "auto", "cpu", "cuda" or "mps".
        engine: "local" for this process, or "ray" for a cluster.
        workers: number of workers of "ray" that share each batch. The result depends on it, because sums over shares are rounded
            differently and each share is normalised separately; the result does not depend on the engine.
    """

    batch_size: int = 128
    iterations: int = 1000
    validate_every: int = 50
    crop: int | Literal["none"] = "none"
    whole_every: int | Literal["none"] = "none"
    patience: int | Literal["none"] = "none"
    gradient_clip: float | Literal["none"] = "none"
    precision: str = "32"
    seed: int = 0
    device: str = "auto"
    engine: str = "local"
    workers: int = 1

    def __post_init__(self) -> None:
        check_whole(self, "training.batch_size", 1, "It is the number of series in a step.")
        check_whole(self, "training.iterations", 1, "It is the number of steps in all.")
        check_whole(self, "training.validate_every", 1, "It is the number of steps between validations.")
        check_whole(self, "training.crop", 1, "It is a number of observations.", word="none")
        check_whole(self, "training.whole_every", 1, "It is a number of steps.", word="none")
        check_whole(self, "training.patience", 1, "It is a number of validations.", word="none")
        remedy = "It is the largest norm a gradient may have."
        check_number(self, "training.gradient_clip", remedy, above_zero="strictly", word="none")
        check_choice(self, "training.precision", ("32", "bf16-mixed", "16-mixed"))
        check_whole(self, "training.seed", 0, "The same seed gives the same run.")
        check_choice(self, "training.device", ("auto", "cpu", "cuda", "mps"))
        check_choice(self, "training.engine", ("local", "ray"))
        check_whole(self, "training.workers", 1, "It is the number of those who share a batch.")
        if self.engine == "local" and self.workers > 1:
            remedy = 'This process has no workers: set engine = "ray" as well.'
            raise InvalidArgument("training.workers", "1 where training.engine is 'local'", self.workers, remedy)
        if self.workers > self.batch_size:
            remedy = f"{self.batch_size} series cannot be shared by so many."
            raise InvalidArgument("training.workers", "at most training.batch_size", self.workers, remedy)


@dataclass(frozen=True)
class Settings:
    """All settings, with one record for each table of the file."""

    model: ModelSettings = field(default_factory=ModelSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


_TABLES = {"model": ModelSettings, "loss": LossSettings, "optimizer": OptimizerSettings, "training": TrainingSettings}
_ALLOWED = (*_TABLES, "search")
_NOT_IN_CACHE_KEY = ("engine",)  # results do not depend on it


def read_settings(path: str | PathLike[str]) -> Settings:
    """The settings of a TOML file."""
    return settings_from_dict(read_tables(path))


def read_tables(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file, unchecked except for its syntax."""
    name = Path(path).name
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InvalidArgument(name, "a TOML file", "bytes that are not UTF-8", "Save it as UTF-8 text.") from None
    except (ValueError, RecursionError) as error:  # invalid TOML, or a number or a nesting beyond Python's limits
        raise InvalidArgument(name, "a TOML file", f"a slip: {error}", "Correct it there.") from None
    except OSError as error:
        raise InvalidArgument(name, "a file that can be read", error.strerror, f"Looked for {path}.") from None


def settings_from_dict(tables: Mapping[str, Any]) -> Settings:
    """The settings of a mapping from tables to their keys; missing keys get their defaults.

    >>> settings_from_dict({"model": {"order": 5}}).model.order
    5
    >>> settings_from_dict({"model": {"oder": 5}})
    Traceback (most recent call last):
    sooner.errors.UnknownName: `key in [model]` must be one of 'activation', ..., got 'oder'. Did you mean 'order'?
    """
    for name in tables:
        if name not in _ALLOWED:
            raise UnknownName("table", str(name), _ALLOWED)
    return Settings(**{name: _table(name, tables[name]) for name in _TABLES if name in tables})


def to_dict(settings: Settings) -> SettingsDict:
    """The inverse of `settings_from_dict`, with every key."""
    return {name: asdict(getattr(settings, name)) for name in _TABLES}


def cache_key(settings: Settings) -> SettingsDict:
    """The non-default settings that a result depends on, so that new keys leave old hashes unchanged.

    >>> cache_key(Settings(ModelSettings(order=3)))
    {'model': {'order': 3}}
    >>> cache_key(Settings(training=TrainingSettings(engine="ray", workers=2)))
    {'training': {'workers': 2}}
    """
    default = to_dict(Settings())
    tables = {
        name: {
            key: value for key, value in table.items() if value != default[name][key] and key not in _NOT_IN_CACHE_KEY
        }
        for name, table in to_dict(settings).items()
    }
    return {name: table for name, table in tables.items() if table}


def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with new values for dotted keys.

    >>> changed(Settings(), {"loss.weights.lsel": 10.0, "model.order": 3}).loss.weights["lsel"]
    10.0
    """
    tables: dict[str, Any] = to_dict(settings)
    for dotted, value in values.items():
        *path, key = dotted.split(".")
        table = tables
        for name in path:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                known = [f"{name}.{key}" for name, table in to_dict(settings).items() for key in table]
                raise UnknownName("setting", dotted, known)
        table[key] = value
    return settings_from_dict(tables)


def write_toml(settings: Settings, path: str | PathLike[str]) -> None:
    """Write a file from which `read_settings` reads the same settings."""
    tables = to_dict(settings)
    weights = tables["loss"].pop("weights")
    text = "\n".join(_toml_table(name, table) for name, table in {**tables, "loss.weights": weights}.items())
    Path(path).write_text(text, encoding="utf-8")


def _toml_table(name: str, table: Mapping[str, Any]) -> str:
    # Strings and numbers are written in JSON as in TOML, and there are no other values.
    rows = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items()]
    return f"[{name}]\n{''.join(rows)}"


def _table(name: str, table: Any) -> Any:
    if not isinstance(table, Mapping):
        raise InvalidArgument(name, "a table", repr(table), f"Write [{name}] on a line of its own, its keys below.")
    record = _TABLES[name]
    keys = [entry.name for entry in fields(record)]
    for key in table:
        if key not in keys:
            raise UnknownName(f"key in [{name}]", str(key), keys)
    return record(**table)
