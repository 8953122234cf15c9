"""`sooner stream`."""

import io
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

from typer import Option

from sooner.cli.options import Deadline, ModelFile, TableOptions, Threshold
from sooner.cli.screen import NO_DEADLINE, as_json
from sooner.errors import InvalidArgument
from sooner.estimator import load
from sooner.estimator.columns import columns_for
from sooner.series.columns import GAP
from sooner.stream import decisions_of


def stream(
    model: ModelFile,
    layout: Annotated[
        Literal["jsonl", "csv"], Option("--format", help="Input format: JSON lines, or CSV with a header.")
    ] = "jsonl",
    threshold: Threshold = None,
    deadline: Deadline = None,
    at_end: Annotated[
        Literal["force", "abstain", "set"],
        Option(help="If the rule has not fired: name the leading class, abstain, or list the labels left."),
    ] = "force",
    coverage: Annotated[
        float | None,
        Option(help="Probability that the labels left contain the true one, with --at-end set. Default: 0.9."),
    ] = None,
    series: Annotated[str | None, Option(help="Field with the series ID. Default: as in training.")] = None,
    time: Annotated[
        str | None, Option(help="Field with the time, used for gaps only. Default: as in training.")
    ] = None,
    end: Annotated[str, Option(help="Field that is true in the last line of a series.")] = "end",
    channels: Annotated[
        str | None,
        Option(help="Fields of an observation, separated by commas. Default: as in training."),
    ] = None,
    late: Annotated[Literal["ignore", "refuse"], Option(help="Treatment of observations after a decision.")] = "ignore",
) -> None:
    """Decide live series: read one observation per line, and print each decision as soon as it is made.

    An input line is `{"series": "pump-7", "x": [0.1, 2.3]}`, or has one field per channel; CSV input has a header. An output line
    is `{"series": "pump-7", "label": "leak", "time": 12, "crossed": true}`. When the input ends, the open series get forced
    decisions, with `"crossed": false`; with `--at-end set` their label is the list of the labels left. A model that was trained
    with `--gaps channel` computes the time since the previous observation from the time field; if there is none, it reads it from
    the field `gap`.

    Example: `tail -f sensors.jsonl | sooner stream pumps.sooner`
    """
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    if coverage is not None and at_end != "set":
        remedy = "Without it, no label sets are written."
        raise InvalidArgument("coverage", "given with --at-end set only", f"{coverage:g} with {at_end}", remedy)
    if (promise := clf.promise_) is not None:
        sys.stderr.write(f"{promise if deadline is None else NO_DEADLINE}\n")
    fleet = clf.stream(keyed=True, deadline=deadline, at_end=at_end, coverage=coverage)
    known, gaps = columns_for(clf, TableOptions(series=series, time=time, channels=channels).columns())
    names = [name for name in known.channels or () if name != GAP] or None
    for record in decisions_of(
        _lines(),
        fleet,
        layout=layout,
        # If the channels are known, series and time may have any of the default names of a table.
        series=known.series or (None if names else "series"),
        time=known.time or (None if names else "time"),
        end=end,
        channels=names,
        gaps=gaps,
        late=late,
    ):
        sys.stdout.write(as_json(record) + "\n")
        sys.stdout.flush()


def _lines() -> Iterator[str]:
    """The lines of standard input; a line with invalid bytes is refused, with its number."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    # `readline`, because iterating over stdin reads ahead.
    for number, line in enumerate(iter(sys.stdin.readline, ""), start=1):
        if any("\ud800" <= character <= "\udfff" for character in line):
            remedy = "Use this encoding in the sender."
            raise InvalidArgument(f"line {number}", f"text in {sys.stdin.encoding}", "other bytes", remedy)
        yield line
