"""The published tables: error in percent at mean hitting times, with standard errors and numbers of trials.

Miyagawa and Ebihara, "The Power of Log-Sum-Exp: Sequential Density Ratio Matrix Estimation for Speed-Accuracy Optimization",
ICML 2021.
"""

import csv
from importlib.resources import files
from typing import NamedTuple

from sooner.errors import UnknownName


class PublishedRow(NamedTuple):
    """One line of a table."""

    mean_time: float
    error: float
    sem: float
    trials: int


def published(name: str) -> dict[str, tuple[PublishedRow, ...]]:
    """The rows of each model in the table of that name, by ascending mean time.

    >>> published("sat_nmnist_h")["MSPRT-TANDEM"][0]
    PublishedRow(mean_time=2.0, error=44.172, sem=0.046, trials=300)
    """
    folder = files("sooner.experiment").joinpath("tables")
    known = sorted(each.name.removesuffix(".csv") for each in folder.iterdir() if each.name.endswith(".csv"))
    if name not in known:
        raise UnknownName("published", name, known)
    found: dict[str, list[PublishedRow]] = {}
    for row in csv.DictReader(folder.joinpath(f"{name}.csv").read_text(encoding="utf-8").splitlines()):
        time, error, sem = (float(row[key]) for key in ("mean_hitting_time", "error_percent", "sem_percent"))
        found.setdefault(row["model"], []).append(PublishedRow(time, error, sem, int(row["trials"])))
    return {model: tuple(sorted(rows)) for model, rows in found.items()}
