"""The tuning of a model in the record: its trials, the chosen settings, and a table with the published choice beside them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sooner.lab.experiments.plan import Contender
from sooner.lab.tuning.space import SearchSpace
from sooner.lab.tuning.study import TuningRecord
from sooner.train.settings import Settings, changed, to_dict

_SHOWN = 5  # trials of a table; the record has all of them


def outcome_of(record: TuningRecord, own: Settings, of_trials: Settings, space: SearchSpace) -> dict[str, Any]:
    """The outcome of a stage of tuning: the settings to train with, and the trials they were chosen from.

    Args:
        record: the trials.
        own: the settings of the model.
        of_trials: the settings that all trials shared, which may be shorter.
        space: the search space.
    """
    return {
        "settings": to_dict(changed(own, record.best.values)),
        "chosen": dict(record.best.values),
        "metric": record.metric,
        "trials": [trial.to_dict() for trial in record.trials],
        "settings_of_trials": to_dict(of_trials),
        "space": space.to_dict(),
    }


def entry_of(outcome: Mapping[str, Any], contender: Contender) -> dict[str, Any]:
    """The entry of a tuned model in the record; `published` is the plan's own choice of the same settings."""
    kept = ("chosen", "metric", "trials", "settings_of_trials", "space", "seconds")
    own = to_dict(contender.settings)
    return {key: outcome[key] for key in kept} | {"published": {key: _value(own, key) for key in outcome["space"]}}


def table_of(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]:
    """Columns, rows and a note: the best trials, then the published choice, with its metric if it was tried.

    >>> trials = [{"number": 0, "state": "complete", "values": {"optimizer.lr": 0.1}, "metric": 0.9, "seconds": 60.0}]
    >>> lengths = {"training": {"iterations": 100, "batch_size": 5}}
    >>> entry = {"space": {"optimizer.lr": [0.1, 1]}, "trials": trials, "published": {"optimizer.lr": 1}}
    >>> table_of(entry | {"settings_of_trials": lengths, "seconds": 61.0})[1]
    (('0', '0.1', '0.9000', '1.0'), ('published choice', '1', 'not tried', ''))
    """
    keys, trials = list(entry["space"]), entry["trials"]
    finished = [trial for trial in trials if trial["metric"] is not None]
    best = sorted(finished, key=lambda trial: (-trial["metric"], trial["number"]))
    rows = [_row(f"{trial['number']}", trial, keys) for trial in best[:_SHOWN]]
    same = next((trial for trial in best if trial["values"] == entry["published"]), None)
    metric = "not tried" if same is None else f"{same['metric']:.4f}"
    rows.append(("published choice", *(f"{entry['published'][key]}" for key in keys), metric, ""))
    states = ", ".join(f"{count} {state}" for state, count in Counter(trial["state"] for trial in trials).items())
    training = entry["settings_of_trials"]["training"]
    note = (
        f"{len(trials)} trials ({states}) of at most {training['iterations']:,} steps of {training['batch_size']:,} series, "
        f"{entry['seconds'] / 60:.1f} minutes together. Mean accuracy over time, on the validation set."
    )
    return ("trial", *keys, "mean accuracy", "minutes"), tuple(rows), note


def _row(name: str, trial: Mapping[str, Any], keys: list[str]) -> tuple[str, ...]:
    minutes = "" if trial["seconds"] is None else f"{trial['seconds'] / 60:.1f}"
    return (name, *(f"{trial['values'][key]}" for key in keys), f"{trial['metric']:.4f}", minutes)


def _value(tables: Mapping[str, Any], dotted: str) -> Any:
    found: Any = tables
    for key in dotted.split("."):
        found = found[key]
    return found
