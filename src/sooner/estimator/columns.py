"""What a classifier expects the columns of a table to be called."""

from dataclasses import replace

from sooner.data.columns import Columns
from sooner.data.tables import GAP, Gaps
from sooner.estimator.classifier import EarlyClassifier


def columns_for(classifier: EarlyClassifier, columns: Columns | None) -> tuple[Columns, Gaps]:
    """The columns that it is to read, as in training but for what is named anew, and whether gaps are one of its channels."""
    known = classifier.columns_ or Columns()
    gaps: Gaps = "channel" if GAP in (known.channels or ()) else "none"
    measured = [name for name in known.channels or () if name != GAP]
    known = replace(known, channels=measured or None, group=None)  # groups only matter in training
    return replace(known, **({} if columns is None else columns.given())), gaps
