"""`sooner threshold`."""

from typing import Annotated

import typer
from rich.markup import escape

from sooner.cli.options import (
    AsJson,
    ChannelColumns,
    GroupColumn,
    LabelColumn,
    ModelFile,
    Part,
    Quiet,
    SeriesColumn,
    TimeColumn,
    columns_of,
    read_for,
)
from sooner.cli.screen import Screen
from sooner.errors import InvalidArgument
from sooner.estimator import load
from sooner.estimator.dial import family_of
from sooner.estimator.learning import HeldOut
from sooner.evaluate import choose_rule, menu_of
from sooner.rules import ThresholdRule


def threshold(
    model: ModelFile,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="Labelled series as for `train`; by default those that were held out in training."
        ),
    ] = None,
    max_error: Annotated[float | None, typer.Option(help="Largest balanced error: 0.02 means 2 %.")] = None,
    max_mean_time: Annotated[float | None, typer.Option(help="Largest mean number of observations.")] = None,
    cost_of_waiting: Annotated[float | None, typer.Option(help="For one observation, where an error costs 1.")] = None,
    value: Annotated[float | None, typer.Option("--set", help="The threshold itself.")] = None,
    part: Part = "validation",
    series: SeriesColumn = None,
    time: TimeColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    channels: ChannelColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Turn the dial of a trained model, by a target or by hand, and write it back.

    Without a target it says where the dial stands, and what other thresholds would reach. What the threshold reaches is measured
    on the same series that it is chosen on: for an honest figure evaluate it on others.

    Example: `sooner threshold pumps.sooner --max-error 0.02`
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    clf = load(model)
    targets = (max_error, max_mean_time, cost_of_waiting, value)
    names = ("max_error", "max_mean_time", "cost_of_waiting", "value")
    given = [name for name, target in zip(names, targets, strict=True) if target is not None]
    if len(given) > 1:
        raise InvalidArgument("`, `".join(given), "given alone", "several targets", "Give one of them.")
    held = clf.held_out_scores()
    if source is not None:
        table = read_for(clf, source, columns_of(series, time, label, group, channels), part)
        scored = clf.scores_of_series(table.series.observations, table.series.lengths)
        held = HeldOut.of(scored, table.series.labels, table.series.groups)
    if value is not None:
        clf.rule_ = clf.rule_named_by(value)
    elif any(target is not None for target in targets):
        clf.rule_ = choose_rule(
            family_of(clf.rule_),
            held.scores,
            held.labels,
            lengths=held.lengths,
            max_error=max_error,
            max_mean_time=max_mean_time,
            cost_of_waiting=cost_of_waiting,
        )
    found = held.achieved(clf.rule_)
    screen.achieved(found)
    screen.near_chance(found)
    if isinstance(clf.rule_, ThresholdRule) and all(target is None for target in targets):
        family = family_of(clf.rule_)
        screen.menu(menu_of(held.curve(family), series=len(held.labels), rule=family))
    if any(target is not None for target in targets):
        clf.save(model)
        screen.result(f"Written: [bold]{escape(str(model))}[/]")
    screen.answer({**found.to_dict(), "threshold": clf.threshold, "file": str(model)})
