"""The published numbers: errors, p-values of the differences between models, and how much was tuned and trained.

Errors are in percent, at mean hitting times, with standard errors and numbers of trials.

Miyagawa and Ebihara, "The Power of Log-Sum-Exp: Sequential Density Ratio Matrix Estimation for Speed-Accuracy Optimization",
ICML 2021.
"""

import csv
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

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
        tuning_trials: trainings that looked for the best settings.
        trials: trainings with the best settings, one for each seed. None if the paper does not say how many.
        grid: the values of each setting. Empty if they are the `search` of a plan.
    """

    tuning_trials: int
    trials: int | None = None
    grid: Mapping[str, tuple[str | float, ...]] = MappingProxyType({})


def published(name: str) -> dict[str, tuple[PublishedRow, ...]]:
    """The rows of each model in the table of that name, by ascending mean time.

    >>> published("sat_nmnist_h")["MSPRT-TANDEM"][0]
    PublishedRow(mean_time=2.0, error=44.172, sem=0.046, trials=300)
    """
    found: dict[str, list[PublishedRow]] = {}
    for row in _read("published", name, [each for each in _stems() if not each.startswith(_P_VALUES)]):
        time, error, sem = (float(row[key]) for key in ("mean_hitting_time", "error_percent", "sem_percent"))
        found.setdefault(row["model"], []).append(PublishedRow(time, error, sem, int(row["trials"])))
    return {model: tuple(sorted(rows)) for model, rows in found.items()}


def published_p_values(name: str) -> tuple[PublishedP, ...]:
    """The entries of the table of p-values of that experiment, row by row: every pair of cells once.

    "EARLIEST" is another model in each phase: the penalty whose mean time is nearest to that phase.

    >>> entry = published_p_values("sat_hmdb51")[4]
    >>> str(entry.row), str(entry.column), entry.p, entry.stars
    ('NP test, late', 'MSPRT-TANDEM, late', 0.2, '')
    """
    known = [each.removeprefix(_P_VALUES) for each in _stems() if each.startswith(_P_VALUES)]
    entries = []
    for entry in _read("published_p_values", name, known, _P_VALUES):
        row, column = (AnovaCell(entry[f"{at}_model"], entry[f"{at}_phase"] or None) for at in ("row", "column"))
        entries.append(PublishedP(row, column, float(entry["p"]), entry["stars"]))
    return tuple(entries)


def published_searches() -> dict[str, dict[str, PublishedSearch]]:
    """The search of each model in each experiment; that of an experiment's encoder, where it was tuned, is "encoder".

    An experiment has the name of its error table or, without one, of its plan.

    >>> published_searches()["sat_nmnist_h"]["EARLIEST 1e2"].trials
    45
    """
    tables = tomllib.loads(_TABLES.joinpath("searches.toml").read_text(encoding="utf-8"))
    return {name: {model: _search(**search) for model, search in models.items()} for name, models in tables.items()}


def _search(
    tuning_trials: int, trials: int | None = None, grid: Mapping[str, list[str | float]] | None = None
) -> PublishedSearch:
    values = {key: tuple(values) for key, values in (grid or {}).items()}
    return PublishedSearch(tuning_trials, trials, MappingProxyType(values))


def _stems() -> list[str]:
    return sorted(each.name.removesuffix(".csv") for each in _TABLES.iterdir() if each.name.endswith(".csv"))


def _read(argument: str, name: str, known: list[str], prefix: str = "") -> list[dict[str, str]]:
    if name not in known:
        raise UnknownName(argument, name, known)
    return list(csv.DictReader(_TABLES.joinpath(f"{prefix}{name}.csv").read_text(encoding="utf-8").splitlines()))
