"""`sooner threshold`."""

import warnings
from typing import Annotated, Literal

from typer import Argument, Option

from sooner.cli.options import ModelFile, Split, TableOptions, read_for
from sooner.cli.screen import Screen, promise_record
from sooner.errors import InvalidArgument, NearChance
from sooner.estimator import load
from sooner.rules import ThresholdRule


def threshold(
    model: ModelFile,
    source: Annotated[
        str | None,
        Argument(
            metavar="SOURCE", help="Labelled series as for `train`. Default: the held-out series of the training."
        ),
    ] = None,
    max_error: Annotated[float | None, Option(help="Maximum balanced error: 0.02 means 2%.")] = None,
    max_mean_time: Annotated[float | None, Option(help="Maximum mean number of observations.")] = None,
    cost_of_waiting: Annotated[float | None, Option(help="Cost of one observation if an error costs 1.")] = None,
    cost_matrix: Annotated[
        str | None,
        Option(
            help="Costs of errors with --cost-of-waiting: a row of decided classes for each true class, as 0,1;5,0."
        ),
    ] = None,
    value: Annotated[float | None, Option("--set", help="The threshold itself.")] = None,
    confidence: Annotated[
        float | None, Option(help="Certify --max-error with this probability: 0.95 means 95%.")
    ] = None,
    risk: Annotated[
        Literal["balanced_error", "error", "class_error", "gap", "early_error"],
        Option(help="What is certified: by default the balanced error."),
    ] = "balanced_error",
    calibration: Annotated[
        str | None,
        Option(
            "--on", help="Calibration series to certify on, used for nothing else. Default: those kept with the model."
        ),
    ] = None,
    part: Split = "validation",
    *,
    table: TableOptions,
    screen: Screen,
) -> None:
    """Change the threshold of a trained model, and write the model back.

    Without a target, the command prints the current threshold and a menu of others. Error and mean time are measured on the same
    series that the threshold is chosen on: for an unbiased estimate, use `sooner evaluate` on a separate test set.

    With `--confidence` the threshold is certified: the model then holds a promise about new series, which all commands print. It
    needs calibration series that were used for nothing else: name them with `--on`, or train with `--calibration-share 0.2`.

    A rule that was fitted for a cost is fitted again with `--cost-of-waiting`.

    Example: `sooner threshold pumps.sooner --max-error 0.05 --confidence 0.95 --on calibration.csv`
    """
    clf = load(model)
    targets = (max_error, max_mean_time, cost_of_waiting, value)
    names = ("max_error", "max_mean_time", "cost_of_waiting", "value")
    given = [name for name, target in zip(names, targets, strict=True) if target is not None]
    if len(given) > 1:
        raise InvalidArgument("`, `".join(given), "given alone", "several targets", "Give one of them.")
    if cost_matrix is not None and cost_of_waiting is None:
        remedy = "The two are weighed: 0.0 makes waiting free."
        raise InvalidArgument("cost_matrix", "given with --cost-of-waiting", "alone", remedy)
    if calibration is not None and (source is not None or confidence is None):
        got = "no confidence" if confidence is None else f"SOURCE {source} too"
        remedy = "Without --confidence, name the series after the model."
        raise InvalidArgument("calibration", "given with --confidence and without SOURCE", got, remedy)
    source = source or calibration
    series = None if source is None else read_for(clf, source, table.columns(), part)
    held = None if confidence is not None else clf.judged(series)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearChance)  # said below, in the words of the command line
        if value is not None and confidence is None:
            clf.threshold = value
            found = clf.evaluate(held)
        elif given or held is None:
            found = clf.choose_threshold(
                series if held is None else held,
                max_error=max_error,
                max_mean_time=max_mean_time,
                cost_of_waiting=cost_of_waiting,
                cost_matrix=None if cost_matrix is None else matrix_of(cost_matrix),
                confidence=confidence,
                risk=risk,
            )
        else:
            found = clf.evaluate(held)
    screen.achieved(found)
    screen.promise(clf.promise_)
    if given and clf.promise_ is None:
        screen.message("An estimate, not a promise: `--confidence 0.95` certifies a maximum error.")
    if isinstance(clf.rule_, ThresholdRule) and not given:
        screen.menu(clf.menu(held))
    if given:
        clf.save(model)
        screen.file("Written", model)
    promise = promise_record(clf.promise_)
    screen.json({**found.to_dict(), "threshold": clf.threshold, "promise": promise, "file": str(model)})


def matrix_of(text: str) -> list[list[float]]:
    """The rows of a matrix, separated by semicolons.

    >>> matrix_of("0,1;5,0")
    [[0.0, 1.0], [5.0, 0.0]]
    """
    try:
        rows = [[float(entry) for entry in row.split(",")] for row in text.split(";")]
    except ValueError:
        rows = []
    if len({len(row) for row in rows}) != 1:
        remedy = "Rows are separated by semicolons, entries by commas."
        raise InvalidArgument("cost_matrix", "rows of numbers such as 0,1;5,0", repr(text), remedy)
    return rows
