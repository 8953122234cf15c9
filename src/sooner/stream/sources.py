"""From a classifier to the runs of its series, new or as a snapshot holds them."""

from collections.abc import Callable
from typing import Any, Protocol

from sooner.errors import InvalidArgument
from sooner.rules.described import description, rule_described
from sooner.stream.evidence import softmax
from sooner.stream.fleet import Fleet
from sooner.stream.fold import AtEnd
from sooner.stream.journal.state import SavedFleet
from sooner.stream.runs import Runs
from sooner.stream.settings import LiveSettings


class Streamable(Protocol):
    """A fitted classifier."""

    def stream(self, *, keyed: Any, deadline: int | None, at_end: AtEnd, coverage: float | None) -> Any:
        """A fleet."""
        ...


def runs_of(source: Streamable | Fleet, settings: LiveSettings, now: float) -> Runs:
    """New runs of a classifier, or of a fleet, whose open series begin now."""
    fleet = source if isinstance(source, Fleet) else _fleet_of(source, settings)
    return Runs(fleet, settings, getattr(source, "live_posterior", softmax), now)


def runs_named(model: str, models: Callable[[str], Streamable] | None, settings: LiveSettings, now: float) -> Runs:
    """New runs of a classifier that a journal names."""
    if models is None:
        remedy = "Go on with the program that changed the model: sooner serve."
        raise InvalidArgument("journal", "one with a single model", f"one with the model {model}", remedy)
    return runs_of(models(model), settings, now)


def saved_runs(model: str, runs: Runs) -> Callable[[], SavedFleet]:
    """The series of one model as they are now, for a snapshot that may be made later."""
    fleet, rule, about = runs.fleet.later_snapshot(), description(runs.fleet.rule), runs.to_json()
    return lambda: SavedFleet(model, fleet(), rule, about)


def resume(runs: Runs, saved: SavedFleet, settings: LiveSettings) -> None:
    """Continue with the series of one model."""
    if description(runs.fleet.rule) != saved.rule:
        runs.fleet.rule = rule_described(saved.rule)
    try:
        runs.fleet.restore(saved.fleet)
    except InvalidArgument as error:
        raise error.about("journal") if error.argument == "snapshot" else error from None
    runs.change(settings)
    runs.restore(saved.runs)


def _fleet_of(classifier: Streamable, settings: LiveSettings) -> Fleet:
    fleet: Fleet = classifier.stream(
        keyed=True, deadline=settings.deadline, at_end=settings.at_end, coverage=settings.coverage
    )
    return fleet
