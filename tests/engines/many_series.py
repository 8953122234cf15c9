"""The series that every engine decides: a model file, a table in Parquet that is sorted by time, and what `clf.decide` says."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sooner import EarlyClassifier
from sooner.data import Columns, Series
from waves import waves

LENGTH = 30


class Task(NamedTuple):
    """What an engine is given, and what it must say."""

    model_file: object
    table: object
    decided: dict


def task_in(folder, series):
    """The task of so many series, each with `LENGTH` observations of two channels."""
    x, y = waves(90, LENGTH, seed=1)
    clf = EarlyClassifier().fit(Series.from_aeon(x, y))
    clf.columns_ = Columns(series="series", time="time", channels=("hum", "flow"))
    clf.save(folder / "waves.sooner")
    x = waves(series, LENGTH, seed=2)[0]
    pq.write_table(rows_of(x), folder / "waves.parquet")
    found = clf.decide(x)
    said = zip(found.labels.tolist(), found.times.tolist(), found.crossed.tolist(), strict=True)
    return Task(folder / "waves.sooner", folder / "waves.parquet", dict(zip(names_of(x), said, strict=True)))


def rows_of(x):
    """A row for each observation: all first observations, all second ones, and so on."""
    names = np.array(names_of(x))
    return pa.table(
        {
            "series": np.tile(names, LENGTH),
            "time": np.repeat(np.arange(LENGTH), len(names)),
            "hum": x[:, 0].T.ravel(),
            "flow": x[:, 1].T.ravel(),
        }
    )


def names_of(x):
    return [f"p{number:05}" for number in range(len(x))]
