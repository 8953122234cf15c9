"""`sooner stream`."""

import io
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from sooner.cli.options import ModelFile, columns_of
from sooner.cli.screen import as_json
from sooner.data.tables import GAP
from sooner.errors import InvalidArgument
from sooner.estimator import load
from sooner.estimator.columns import columns_for
from sooner.stream import decisions_of


def stream(
    model: ModelFile,
    layout: Annotated[
        Literal["jsonl", "csv"], typer.Option("--format", help="What comes in: JSON lines, or CSV with a header.")
    ] = "jsonl",
    threshold: Annotated[float | None, typer.Option(help="Another threshold than the model's.")] = None,
    deadline: Annotated[int | None, typer.Option(min=1, help="Decide by that observation, whatever it says.")] = None,
    at_end: Annotated[
        Literal["force", "abstain"], typer.Option(help="Where the rule has not fired: name the leader, or nobody.")
    ] = "force",
    series: Annotated[str | None, typer.Option(help="Field that names the series; by default as in training.")] = None,
    time: Annotated[str | None, typer.Option(help="Field of the time, read for gaps alone; as in training.")] = None,
    end: Annotated[str, typer.Option(help="Field that is true in the last line of a series.")] = "end",
    channels: Annotated[
        str | None,
        typer.Option(help="Fields of an observation, with commas between; by default those of the training."),
    ] = None,
    late: Annotated[
        Literal["ignore", "refuse"], typer.Option(help="What to do about observations after a decision.")
    ] = "ignore",
) -> None:
    """Decide live series: observations come in as lines, a decision goes out the moment it is made.

    In: `{"series": "pump-7", "x": [0.1, 2.3]}`, or a field for each channel; CSV has a header instead. Out:
    `{"series": "pump-7", "label": "leak", "time": 12, "crossed": true}`. When the input ends, series that are still open are
    decided by force, with `"crossed": false`. A model that was trained with `--gaps channel` reads the time too, and counts the
    time since the observation before as in training; without a time it reads that from the field `gap`.

    Example: `tail -f sensors.jsonl | sooner stream pumps.sooner`
    """
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    fleet = clf.stream(keyed=True, deadline=deadline, at_end=at_end)
    known, gaps = columns_for(clf, columns_of(series, time, None, None, channels))
    names = [name for name in known.channels or () if name != GAP] or None
    for record in decisions_of(
        _arriving(),
        fleet,
        layout=layout,
        # Where the channels are known, the series and the time may be called what a table may call them.
        series=known.series or (None if names else "series"),
        time=known.time or (None if names else "time"),
        end=end,
        channels=names,
        gaps=gaps,
        late=late,
    ):
        sys.stdout.write(as_json(record) + "\n")
        sys.stdout.flush()


def _arriving() -> Iterator[str]:
    """The lines of the standard input; one whose bytes are no text is refused by its number."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    # A line at a time: iterating over stdin itself would read ahead.
    for number, line in enumerate(iter(sys.stdin.readline, ""), start=1):
        if any("\ud800" <= letter <= "\udfff" for letter in line):
            remedy = "Let the sender encode it so."
            raise InvalidArgument(f"line {number}", f"text in {sys.stdin.encoding}", "other bytes", remedy)
        yield line
