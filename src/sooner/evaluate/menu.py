"""What a threshold could be set to: the mean time that each error would take."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sooner.evaluate.choose import settled
from sooner.rules import MSPRT, ThresholdRule
from sooner.types import SATCurve

ERRORS = (0.1, 0.05, 0.02, 0.01)
COLUMNS = ("error at most", "error", "mean time", "threshold")


@dataclass(frozen=True)
class Offer:
    """The soonest decisions within an error.

    Attributes:
        max_error: the balanced error asked for; None for the least that can be reached.
        threshold: the least one that meets it; None, as all that follows, where none does.
        error: what it has.
        mean_time: what it takes, counted from 1.
    """

    max_error: float | None
    threshold: float | None
    error: float | None
    mean_time: float | None


@dataclass(frozen=True)
class Menu:
    """Offers of a speed-accuracy curve; printed, a table. They are estimates: the curve is that of so many held-out series.

    >>> from sooner.evaluate import sat_curve
    >>> print(menu_of(sat_curve([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]], [0, 1]), series=2))
    error at most  error  mean time  threshold
              10%   0.0%       1.50        1.5
               5%   0.0%       1.50        1.5
               2%   0.0%       1.50        1.5
               1%   0.0%       1.50        1.5
            least   0.0%       1.50        1.5
    Estimates on 2 held-out series.
    """

    offers: tuple[Offer, ...]
    series: int

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The table as texts: error at most, error, mean time, threshold."""
        return [_row(offer) for offer in self.offers]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [COLUMNS, *self.rows()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, self.note])

    @property
    def note(self) -> str:
        """What the numbers are."""
        return f"Estimates on {self.series:,} held-out series."


def menu_of(curve: SATCurve, *, series: int, rule: type[ThresholdRule] = MSPRT) -> Menu:
    """What can be had for 10%, 5%, 2% and 1% error, and the least error there is.

    Args:
        curve: of series that the model did not learn from.
        series: how many they were.
        rule: the family of rules that the curve belongs to.
    """
    return Menu(tuple(_offer(curve, error, rule) for error in (*ERRORS, None)), series)


def _offer(curve: SATCurve, max_error: float | None, rule: type[ThresholdRule]) -> Offer:
    limit = float(curve.errors.min()) if max_error is None else max_error
    meets = np.flatnonzero(curve.errors <= limit)
    if not len(meets):
        return Offer(max_error, None, None, None)
    index = meets[0]
    at = settled(rule, curve, float(curve.thresholds[index]))
    threshold = float(next(iter(vars(at).values())))  # a threshold rule has one field, whatever its family calls it
    return Offer(max_error, threshold, float(curve.errors[index]), float(curve.mean_times[index]))


def _row(offer: Offer) -> tuple[str, str, str, str]:
    asked = "least" if offer.max_error is None else f"{offer.max_error:.0%}"
    if offer.threshold is None or offer.error is None or offer.mean_time is None:
        return asked, "not reachable", "", ""
    return asked, f"{offer.error:.1%}", f"{offer.mean_time:.2f}", f"{offer.threshold:.4g}"
