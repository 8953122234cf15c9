"""What a classifier expects the columns of a table to be called."""

from collections.abc import Sequence
from dataclasses import replace

from sooner.errors import InvalidArgument
from sooner.estimator.classifier import EarlyClassifier
from sooner.series.columns import GAP, Columns, Gaps


def columns_for(classifier: EarlyClassifier, columns: Columns | None) -> tuple[Columns, Gaps]:
    """The columns that it is to read, as in training but for what is named anew, and whether gaps are one of its channels."""
    known = classifier.columns_ or Columns()
    gaps: Gaps = "channel" if GAP in (known.channels or ()) else "none"
    measured = [name for name in known.channels or () if name != GAP]
    known = replace(known, channels=measured or None, group=None)  # groups only matter in training
    given = {} if columns is None else columns.given()
    # What is named anew may have been something else in training.
    lost = {role: None for role in ("series", "time", "label") if getattr(known, role) in given.values()}
    return replace(known, **{**lost, **given}), gaps


def refuse_other_channels(classifier: EarlyClassifier, channels: Sequence[str]) -> None:
    """A table has as many channels as the model reads."""
    known = classifier.standardizer_.mean.shape
    if known != (len(channels),):
        expected = f"{known[0]} columns of numbers" if len(known) == 1 else "none: the model reads no tables"
        remedy = "Name those that the model was trained on, in that order."
        raise InvalidArgument("channels", expected, f"{list(channels)}", remedy)
