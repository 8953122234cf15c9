"""One process: the lines of the table through `LiveSeries`, as `sooner stream` does it."""

import json

import pyarrow.parquet as pq

import sooner
from sooner.estimator.columns import fields_for
from sooner.stream import LiveSeries
from sooner.stream.decisions import Follower
from sooner.stream.lines import reader_of

MISSING = None


def decide(model_file, table, folder):  # noqa: ARG001
    clf = sooner.load(model_file)
    lines = [json.dumps(row) for row in pq.read_table(table).sort_by("time").to_pylist()]
    follower = Follower(LiveSeries(clf), reader_of(fields_for(clf, None)))
    records = [*follower.take(lines, 0.0), *follower.finish(0.0)]
    return {record["series"]: (record["label"], record["time"], record["crossed"]) for record in records}
