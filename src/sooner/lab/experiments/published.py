"""The published numbers: errors, p-values of the differences between models, and how much each model was tuned.

Errors are in percent, at mean hitting times, with standard errors and numbers of trials (trainings that differ in their seeds).

Miyagawa and Ebihara, "The Power of Log-Sum-Exp: Sequential Density Ratio Matrix Estimation for Speed-Accuracy Optimization",
ICML 2021.
"""

import csv
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from sooner.errors import UnknownName
from sooner.lab.statistics import AnovaCell

_TABLES = files("sooner.lab.experiments").joinpath("tables")
_P_VALUES = "p_values_"


class PublishedRow(NamedTuple):
    """One row of a published table."""

    mean_time: float
    error: float
    sem: float
    trials: int


class PublishedP(NamedTuple):
    """One entry of a published table of p-values: the cells of its row and its column, p, and the stars as printed.

    One star stands for p < 0.05, two for p < 0.01, three for p < 0.001. Four entries have other stars than their p; both are
    left as they were printed.
    """

    row: AnovaCell
    column: AnovaCell
    p: float
    stars: str


class PublishedSearch(NamedTuple):
    """How much a model was tuned and trained.

    Args:
        tuning_trials: number of trainings that looked for the best settings.
        trials: number of trainings with the best settings, or None where the paper gives none.
        grid: the searched values by setting, for an encoder; empty for a model, whose grid is its [search] in the plan.
    """

    tuning_trials: int
    trials: int | None
    grid: Mapping[str, tuple[Any, ...]]


def published(name: str) -> dict[str, tuple[PublishedRow, ...]]:
    """The rows of each model in the table of that name, by ascending mean time.

    >>> published("sat_nmnist_h")["MSPRT-TANDEM"][0]
    PublishedRow(mean_time=2.0, error=44.172, sem=0.046, trials=300)
    """
    models: dict[str, list[PublishedRow]] = {}
    for row in _read("published", name, [table for table in _tables() if not table.startswith(_P_VALUES)]):
        time, error, sem = (float(row[key]) for key in ("mean_hitting_time", "error_percent", "sem_percent"))
        models.setdefault(row["model"], []).append(PublishedRow(time, error, sem, int(row["trials"])))
    return {model: tuple(sorted(rows)) for model, rows in models.items()}


def published_p_values(name: str) -> tuple[PublishedP, ...]:
    """The entries of the table of p-values of that experiment, row by row: every pair of cells once.

    "EARLIEST" has another penalty in each phase: the one whose mean time is nearest to that phase.

    >>> entry = published_p_values("sat_hmdb51")[4]
    >>> str(entry.row), str(entry.column), entry.p, entry.stars
    ('NP test, late', 'MSPRT-TANDEM, late', 0.2, '')
    """
    known = [table.removeprefix(_P_VALUES) for table in _tables() if table.startswith(_P_VALUES)]
    entries = []
    for entry in _read("published_p_values", name, known, _P_VALUES):
        row, column = (AnovaCell(entry[f"{axis}_model"], entry[f"{axis}_phase"] or None) for axis in ("row", "column"))
        entries.append(PublishedP(row, column, float(entry["p"]), entry["stars"]))
    return tuple(entries)


def published_searches(name: str) -> dict[str, PublishedSearch]:
    """How much each model of an experiment was tuned and trained; "encoder" is its encoder, where the experiment tuned one.

    An experiment has the name of its error table; those on videos have no such table.

    >>> found = published_searches("sat_nmnist_h")
    >>> found["EARLIEST 1e2"]
    PublishedSearch(tuning_trials=500, trials=45, grid={})
    >>> found["encoder"].tuning_trials, found["encoder"].grid["optimizer.weight_decay"]
    (96, (0.001, 0.0001, 1e-05))
    """
    searches = tomllib.loads(_TABLES.joinpath("searches.toml").read_text(encoding="utf-8"))
    if name not in searches:
        raise UnknownName("published_searches", name, searches)
    grid = {key: tuple(values) for key, values in searches[name].get("encoder_grid", {}).items()}
    rows = published(name) if name in _tables() else {}
    return {
        model: PublishedSearch(
            count, rows[model][0].trials if model in rows else None, grid if model == "encoder" else {}
        )
        for model, count in searches[name]["tuning_trials"].items()
    }


def _tables() -> list[str]:
    return sorted(file.name.removesuffix(".csv") for file in _TABLES.iterdir() if file.name.endswith(".csv"))


def _read(argument: str, name: str, known: list[str], prefix: str = "") -> list[dict[str, str]]:
    if name not in known:
        raise UnknownName(argument, name, known)
    return list(csv.DictReader(_TABLES.joinpath(f"{prefix}{name}.csv").read_text(encoding="utf-8").splitlines()))
