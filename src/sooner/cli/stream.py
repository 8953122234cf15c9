"""`sooner stream`."""

import sys
import time as clock
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from sooner.cli.on_engine import StreamJob, refuse_of_other_engines, stopped_by_signals
from sooner.cli.on_kafka import KafkaOptions, stream_on_kafka
from sooner.cli.on_spark import SparkOptions, stream_on_spark
from sooner.cli.options import EndOptions, FieldOptions, ModelFile, Threshold, grouped
from sooner.cli.screen import NO_DEADLINE, as_json
from sooner.cli.standard_input import StandardInput
from sooner.errors import InvalidArgument
from sooner.estimator import load
from sooner.estimator.columns import fields_for
from sooner.stream import LiveSeries
from sooner.stream.decisions import Follower
from sooner.stream.journal import Journal
from sooner.stream.lines import reader_of

_ENGINES: dict[str, Callable[[StreamJob, Any], None]] = {"kafka": stream_on_kafka, "spark": stream_on_spark}
"""What carries the work elsewhere; each imports its packages when it is called."""


@grouped
def stream(
    model: ModelFile,
    layout: Annotated[
        Literal["jsonl", "csv"], Option("--format", help="Input format: JSON lines, or CSV with a header.")
    ] = "jsonl",
    threshold: Threshold = None,
    journal: Annotated[
        Path | None,
        Option(
            help="Folder of a journal: open series and decisions survive a crash, SIGTERM and Ctrl-C. Default: none."
        ),
    ] = None,
    bad_lines: Annotated[
        Literal["skip", "stop"],
        Option(help="Stop at a line that cannot be used, or skip it; skipped lines are counted on standard error."),
    ] = "stop",
    engine: Annotated[
        Literal["local", "kafka", "spark"],
        Option(
            help="`kafka` follows a topic (extra `sooner[kafka]`), `spark` decides on Apache Spark (`sooner[spark]`)."
        ),
    ] = "local",
    *,
    ends: EndOptions,
    names: FieldOptions,
    kafka: KafkaOptions,
    spark: SparkOptions,
) -> None:
    """Decide live series: read one observation per line, and print each decision as soon as it is made.

    An input line is `{"series": "pump-7", "x": [0.1, 2.3]}`, or has one field per channel; CSV input has a header. An output line
    is `{"series": "pump-7", "label": "leak", "time": 12, "crossed": true, "margin": 3.2, "posterior": 0.96, "at": null, "run": 1,
    "ended": "rule", "event": 1}`: after 12 observations the rule fired. `at` is the time of the last one, if lines have times;
    `event` numbers the decisions. If the ID has another name than `series`, it is in the line under both.

    A series ends with its decision, with a line in which `end` is true, by a deadline, by silence (`--idle`), or with the input.
    Open series then get forced decisions, with `"crossed": false`; with `--at-end set` the label is the list of the labels left.
    A model that was trained with `--gaps channel` computes the time since the previous observation from the time field; if there
    is none, it reads it from the field `gap`.

    With `--journal`, observations are on disk before their decisions are printed. After a crash, SIGTERM or Ctrl-C, start the
    same command again: open series continue, and decisions that may not have been read are printed again, with the same `event`.

    Example: `tail -f sensors.jsonl | sooner stream pumps.sooner --idle 1m`
    """
    options = {"kafka": kafka, "spark": spark}
    refuse_of_other_engines(engine, options)
    settings = ends.settings()
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    if (promise := clf.promise_) is not None:
        _tell(NO_DEADLINE if ends.has_deadline else str(promise))
    if engine != "local":
        if journal is not None:
            raise InvalidArgument("journal", "left out with --engine", str(journal), "An engine keeps its own state.")
        _ENGINES[engine](StreamJob(clf, layout, bad_lines, ends, names, _tell), options[engine])
        return
    fields = fields_for(clf, names.columns(), end=names.end)
    written = None if journal is None else Journal(journal)
    try:
        live = LiveSeries(clf, settings, journal=written, now=clock.time())
        if written is not None and threshold is not None and live.rule != clf.rule_:
            live.set_rule(clf.rule_, clock.time())
        source = StandardInput()
        follower = Follower(live, reader_of(fields, layout, encoding=source.encoding), bad_lines)
        if written is None:
            _follow(follower, source)
        else:
            _go_on(live, written)
            with stopped_by_signals(source.stop):
                _follow(follower, source)
            _close(live, written, stopped=source.stopped)
    finally:
        if written is not None:
            written.close()
    if follower.skipped:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in follower.skipped.most_common())
        _tell(f"{follower.skipped.total():,} lines were skipped ({kinds}). The first: {follower.first}")


def _follow(follower: Follower, source: StandardInput) -> None:
    """Print decisions until the input ends."""
    live = follower.live
    _print(live, follower.records(live.events(live.delivered, 1 << 60)))
    while (lines := source.lines(live.next_tick())) is not None:
        now = clock.time()
        _print(live, follower.take(lines, now) if lines else follower.records(live.tick(now)))
    if not source.stopped:
        _print(live, follower.finish(clock.time()))


def _print(live: LiveSeries, records: Iterable[dict[str, Any]]) -> None:
    """Print decisions as soon as what they rest on is on disk."""
    for record in records:
        live.sync()
        sys.stdout.write(as_json(record) + "\n")
        sys.stdout.flush()
    live.sync()
    live.deliver(live.last_id)


def _go_on(live: LiveSeries, journal: Journal) -> None:
    """Say what a journal held."""
    for finding in journal.findings:
        _tell(finding)
    again = live.last_id - live.delivered
    if len(live) or again:
        _tell(f"{journal.folder} continues: {len(live):,} series are open, and {again:,} decisions are printed again.")


def _close(live: LiveSeries, journal: Journal, *, stopped: bool) -> None:
    """Write a snapshot, and say what it keeps."""
    live.snapshot()
    if stopped:
        _tell(f"Stopped. {len(live):,} open series are kept in {journal.folder}.")


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
