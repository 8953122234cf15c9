"""The columns of a table that a classifier reads."""

from collections.abc import Sequence
from dataclasses import replace

from sooner.errors import InvalidArgument
from sooner.estimator.classifier import EarlyClassifier
from sooner.series.columns import GAP, Columns, Gaps
from sooner.stream.lines import Fields


def columns_for(classifier: EarlyClassifier, columns: Columns | None) -> tuple[Columns, Gaps]:
    """The columns as in training, except for those that are renamed, and whether gaps are a channel."""
    known = classifier.columns_ or Columns()
    gaps: Gaps = "channel" if GAP in (known.channels or ()) else "none"
    measured = [name for name in known.channels or () if name != GAP]
    known = replace(known, channels=measured or None, group=None)  # groups only matter in training
    given = {} if columns is None else columns.given()
    # A renamed column may have had another role in training.
    replaced = {role: None for role in ("series", "time", "label") if getattr(known, role) in given.values()}
    return replace(known, **{**replaced, **given}), gaps


def fields_for(classifier: EarlyClassifier, columns: Columns | None, *, end: str = "end") -> Fields:
    """The fields of live lines: the columns as in training, except for those that are renamed."""
    known, gaps = columns_for(classifier, columns)
    names = tuple(name for name in known.channels or () if name != GAP) or None
    # If the channels are known, series and time may have any of the default names of a table.
    series, time = known.series or (None if names else "series"), known.time or (None if names else "time")
    return Fields(series, time, end, names, gaps)


def refuse_other_channels(classifier: EarlyClassifier, channels: Sequence[str]) -> None:
    """Refuse a table whose number of channels is not that of the model."""
    known = classifier.standardizer_.mean.shape
    if known != (len(channels),):
        expected = f"{known[0]} columns of numbers" if len(known) == 1 else "none: the model reads no tables"
        remedy = "Name those that the model was trained on, in that order."
        raise InvalidArgument("channels", expected, f"{list(channels)}", remedy)
