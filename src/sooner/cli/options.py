"""Options that several commands share."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from sooner.data.read import is_table, read
from sooner.estimator import EarlyClassifier
from sooner.estimator.columns import columns_for, refuse_other_channels
from sooner.series import Series
from sooner.series.columns import Columns

_COLUMNS = "Columns of a table"

Source: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A CSV or Parquet table in long form (one row per observation), a folder or a pattern of tables, an .npz or "
        ".ts file, `digits`, or the name of a UCR or UEA data set such as `JapaneseVowels`.",
    ),
]
ModelFile: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `sooner train`.")]
SeriesColumn: TypeAlias = Annotated[
    str | None, typer.Option("--series", help="Column with the series ID.", rich_help_panel=_COLUMNS)
]
TimeColumn: TypeAlias = Annotated[
    str | None, typer.Option("--time", help="Column with the time of an observation.", rich_help_panel=_COLUMNS)
]
LabelColumn: TypeAlias = Annotated[
    str | None, typer.Option("--label", help="Column with the class.", rich_help_panel=_COLUMNS)
]
GroupColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Column with a group ID (for example the patient); a group is never split.",
        rich_help_panel=_COLUMNS,
    ),
]
ChannelColumns: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--channels",
        help="Measured columns, separated by commas: a,b,c. Default: all other columns.",
        rich_help_panel=_COLUMNS,
    ),
]
IgnoredColumns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="Columns that are not read, separated by commas.", rich_help_panel=_COLUMNS),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Random seed.")]
Part: TypeAlias = Annotated[
    Literal["train", "validation", "test"], typer.Option("--part", help="Split of a named data set.")
]


def columns_of(
    series: str | None,
    time: str | None,
    label: str | None,
    group: str | None,
    channels: str | None,
    ignore: Sequence[str] | None = None,
) -> Columns | None:
    """The columns given as options, or None if there are none."""
    names = None if channels is None else listed(channels)
    left_out = tuple(name for each in ignore or () for name in listed(each))
    if all(each is None for each in (series, time, label, group, names)) and not left_out:
        return None
    return Columns(series=series, time=time, label=label, group=group, channels=names, ignore=left_out)


def listed(names: str) -> tuple[str, ...]:
    """Names separated by commas.

    >>> listed("hum, flow")
    ('hum', 'flow')
    """
    return tuple(name.strip() for name in names.split(","))


def read_for(classifier: EarlyClassifier, source: str, columns: Columns | None, part: Part) -> Series:
    """Labelled series as the classifier was trained on: its columns, its classes, its way with what is missing."""
    named, gaps = columns_for(classifier, columns)
    classes, missing = classifier.classes_, classifier.missing
    columns = named if is_table(source) else None
    table = read(source, columns=columns, classes=classes, missing=missing, gaps=gaps, part=part)
    if columns is not None:
        refuse_other_channels(classifier, table.channels or ())
    # Columns that were named anew, and arrays, which have none, stand for the channels of the training by their order.
    return replace(table, channels=None)
