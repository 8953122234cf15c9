"""Options that several commands share, alone or in groups; a group is one parameter of a command (see `grouped`)."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from typer import Argument, Option

from sooner.data.read import is_table, read
from sooner.errors import InvalidArgument
from sooner.estimator import EarlyClassifier
from sooner.estimator.columns import columns_for, refuse_other_channels
from sooner.series import Series
from sooner.series.columns import Columns
from sooner.stream import LiveSettings, Rearm
from sooner.stream.settings import seconds_of
from sooner.train.settings import Settings, changed

_COLUMNS, _CLUSTER = "Columns of a table", "On a cluster"
_ENDS, _FIELDS = "End of a series", "Fields of a line"

Source: TypeAlias = Annotated[
    str,
    Argument(
        metavar="SOURCE",
        help="A CSV or Parquet table in long form (one row per observation), a folder or a pattern of tables, an .npz or "
        ".ts file, `digits`, or the name of a UCR or UEA data set such as `JapaneseVowels`.",
    ),
]
ModelFile: TypeAlias = Annotated[Path, Argument(metavar="MODEL", help="Model file written by `sooner train`.")]
Split: TypeAlias = Annotated[
    Literal["train", "validation", "test"], Option("--part", help="Split of a named data set.")
]
Threshold: TypeAlias = Annotated[float | None, Option(help="A different threshold than the model's.")]
Deadline: TypeAlias = Annotated[int | None, Option(min=1, help="Force a decision at this observation.")]
Seed: TypeAlias = Annotated[int, Option(help="Random seed.")]
SeriesColumn: TypeAlias = Annotated[
    str | None, Option("--series", help="Column with the series ID.", rich_help_panel=_COLUMNS)
]
TimeColumn: TypeAlias = Annotated[
    str | None, Option("--time", help="Column with the time of an observation.", rich_help_panel=_COLUMNS)
]
ChannelColumns: TypeAlias = Annotated[
    str | None,
    Option(
        "--channels",
        help="Measured columns, separated by commas: a,b,c. Default: all other columns.",
        rich_help_panel=_COLUMNS,
    ),
]
IgnoredColumns: TypeAlias = Annotated[
    list[str] | None,
    Option("--ignore", help="Columns that are not read, separated by commas.", rich_help_panel=_COLUMNS),
]


@dataclass(frozen=True)
class TableOptions:
    """The columns of a labelled table."""

    series: SeriesColumn = None
    time: TimeColumn = None
    label: Annotated[str | None, Option(help="Column with the class.", rich_help_panel=_COLUMNS)] = None
    group: Annotated[
        str | None,
        Option(
            help="Column with a group ID (for example the patient); a group is never split.", rich_help_panel=_COLUMNS
        ),
    ] = None
    channels: ChannelColumns = None

    def columns(self, ignore: Sequence[str] | None = None) -> Columns | None:
        """The given columns, or None if no option was given."""
        columns = Columns(
            series=self.series,
            time=self.time,
            label=self.label,
            group=self.group,
            channels=None if self.channels is None else names_in(self.channels),
            ignore=tuple(name for names in ignore or () for name in names_in(names)),
        )
        return None if columns == Columns() else columns


@dataclass(frozen=True)
class ClusterOptions:
    """The engine, and the cluster that it runs on."""

    engine: Annotated[
        Literal["local", "ray"] | None,
        Option(help="`ray` runs on a Ray cluster (extra `sooner[ray]`). Default: `local`.", rich_help_panel=_CLUSTER),
    ] = None
    workers: Annotated[
        int | None,
        Option(min=1, help="Number of worker processes, with one core each.", rich_help_panel=_CLUSTER),
    ] = None
    address: Annotated[
        str | None,
        Option(help="Ray address (host:port or auto). Default: a temporary local cluster.", rich_help_panel=_CLUSTER),
    ] = None

    def check(self, engine: str | None) -> None:
        """Refuse `--workers` and `--address` without a cluster."""
        for name, value in (("workers", self.workers), ("address", self.address)):
            if engine != "ray" and value is not None:
                raise InvalidArgument(f"--{name}", "given together with --engine ray", "alone", "Give both options.")

    @contextmanager
    def connected(self, engine: str | None) -> Iterator[None]:
        """Connect to the cluster at the address; without an address, a local cluster is started where it is needed."""
        self.check(engine)
        if self.address is None:
            yield
            return
        from sooner.engines.ray.cluster import connected

        with connected(self.address):
            yield

    def training_settings(self, settings: Settings, workers: int | None) -> Settings:
        """The settings with this engine, and with the number of workers if it is given."""
        training = settings.training
        engine = self.engine or training.engine
        workers = workers or (training.workers if engine == training.engine else 1)
        return changed(settings, {"training.engine": engine, "training.workers": workers})


@dataclass(frozen=True)
class EndOptions:
    """When live series end."""

    deadline: Annotated[
        int | None, Option(min=1, help="Force a decision at this observation.", rich_help_panel=_ENDS)
    ] = None
    deadline_seconds: Annotated[
        float | None,
        Option(help="Force a decision so many seconds after the first observation.", rich_help_panel=_ENDS),
    ] = None
    idle: Annotated[
        str | None,
        Option(help="End a series after this silence, for example 30s or 5m. Default: never.", rich_help_panel=_ENDS),
    ] = None
    rearm: Annotated[
        str,
        Option(
            help="Whether an ID may begin another series after its decision: never, next (with the next observation), or "
            "gap:10s (after a silence of ten seconds).",
            rich_help_panel=_ENDS,
        ),
    ] = "never"
    late: Annotated[
        Literal["ignore", "refuse"],
        Option(help="Treatment of observations after a decision.", rich_help_panel=_ENDS),
    ] = "ignore"
    at_end: Annotated[
        Literal["force", "abstain", "set"],
        Option(
            help="If the rule has not fired: name the leading class, abstain, or list the labels left.",
            rich_help_panel=_ENDS,
        ),
    ] = "force"
    coverage: Annotated[
        float | None,
        Option(
            help="Probability that the labels left contain the true one, with --at-end set. Default: 0.9.",
            rich_help_panel=_ENDS,
        ),
    ] = None

    @property
    def has_deadline(self) -> bool:
        """Whether a series may end before its rule fires, so that a promise does not hold."""
        return self.deadline is not None or self.deadline_seconds is not None

    def settings(self) -> LiveSettings:
        """The settings of these options."""
        if self.coverage is not None and self.at_end != "set":
            remedy = "Without it, no label sets are written."
            got = f"{self.coverage:g} with {self.at_end}"
            raise InvalidArgument("coverage", "given with --at-end set only", got, remedy)
        return LiveSettings(
            idle=None if self.idle is None else seconds_of(self.idle, name="idle"),
            rearm=Rearm.parse(self.rearm),
            deadline=self.deadline,
            deadline_seconds=self.deadline_seconds,
            at_end=self.at_end,
            coverage=self.coverage,
            late=self.late,
        )


@dataclass(frozen=True)
class FieldOptions:
    """The fields of a line of live observations."""

    series: Annotated[
        str | None, Option(help="Field with the series ID. Default: as in training.", rich_help_panel=_FIELDS)
    ] = None
    time: Annotated[
        str | None,
        Option(
            help="Field with the time, for gaps and for `at` in the output. Default: as in training.",
            rich_help_panel=_FIELDS,
        ),
    ] = None
    end: Annotated[str, Option(help="Field that is true in the last line of a series.", rich_help_panel=_FIELDS)] = (
        "end"
    )
    channels: Annotated[
        str | None,
        Option(help="Fields of an observation, separated by commas. Default: as in training.", rich_help_panel=_FIELDS),
    ] = None

    def columns(self) -> Columns | None:
        """The given fields as columns, or None if no option was given."""
        return TableOptions(series=self.series, time=self.time, channels=self.channels).columns()


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option for each field of its parameters that are dataclasses.

    What it makes can also be called from Python, with the options that differ from their defaults.
    """
    groups: dict[str, Any] = {}
    options = []
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            group = groups[parameter.name] = parameter.annotation
            options += [(field.name, field.default, field.type) for field in fields(group)]
        else:
            options.append((parameter.name, parameter.default, parameter.annotation))

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        defaults = {name: default for name, default, _ in options if default is not inspect.Parameter.empty}
        values = {**defaults, **dict(zip([name for name, *_ in options], arguments, strict=False)), **given}
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, default=value, annotation=type_) for name, value, type_ in options]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {name: type_ for name, _, type_ in options}
    return run


def names_in(text: str) -> tuple[str, ...]:
    """Names separated by commas.

    >>> names_in("hum, flow")
    ('hum', 'flow')
    """
    return tuple(name.strip() for name in text.split(","))


def read_for(classifier: EarlyClassifier, source: str, columns: Columns | None, split: Split) -> Series:
    """Labelled series, read with the columns, classes and options that the classifier was trained with."""
    named, gaps = columns_for(classifier, columns)
    classes, missing = classifier.classes_, classifier.missing
    columns = named if is_table(source) else None
    series = read(source, columns=columns, classes=classes, missing=missing, gaps=gaps, part=split)
    if columns is not None:
        refuse_other_channels(classifier, series.channels or ())
    # Renamed columns, and arrays, which have no columns, are matched with the channels of the training by their order.
    return replace(series, channels=None)
