"""`sooner threshold`."""

import warnings
from typing import Annotated

from typer import Argument, Option

from sooner.cli.options import ModelFile, Split, TableOptions, read_for
from sooner.cli.screen import Screen
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
    value: Annotated[float | None, Option("--set", help="The threshold itself.")] = None,
    part: Split = "validation",
    *,
    table: TableOptions,
    screen: Screen,
) -> None:
    """Change the threshold of a trained model, and write the model back.

    Without a target, the command prints the current threshold and a menu of others. Error and mean time are measured on the same
    series that the threshold is chosen on: for an unbiased estimate, use `sooner evaluate` on a separate test set.

    Example: `sooner threshold pumps.sooner --max-error 0.02`
    """
    clf = load(model)
    targets = (max_error, max_mean_time, cost_of_waiting, value)
    names = ("max_error", "max_mean_time", "cost_of_waiting", "value")
    given = [name for name, target in zip(names, targets, strict=True) if target is not None]
    if len(given) > 1:
        raise InvalidArgument("`, `".join(given), "given alone", "several targets", "Give one of them.")
    held = clf.judged(None if source is None else read_for(clf, source, table.columns(), part))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearChance)  # said below, in the words of the command line
        if value is not None:
            clf.threshold = value
        elif given:
            clf.choose_threshold(
                held, max_error=max_error, max_mean_time=max_mean_time, cost_of_waiting=cost_of_waiting
            )
    found = clf.evaluate(held)
    screen.achieved(found)
    if isinstance(clf.rule_, ThresholdRule) and not given:
        screen.menu(clf.menu(held))
    if given:
        clf.save(model)
        screen.file("Written", model)
    screen.json({**found.to_dict(), "threshold": clf.threshold, "file": str(model)})
