"""The menu of thresholds: error and mean time of each."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sooner.evaluate.choose import midpoint_rule
from sooner.rules import MSPRT, ThresholdRule
from sooner.types import SATCurve

ERRORS = (0.1, 0.05, 0.02, 0.01)
COLUMNS = ("error at most", "error", "mean time", "threshold")


@dataclass(frozen=True)
class Offer:
    """The earliest decisions within a maximum error.

    Attributes:
        max_error: maximum balanced error; None for the least error on the curve.
        threshold: the least threshold within the maximum error. It is None, like error and mean time, if there is none.
        error: balanced error at the threshold.
        mean_time: mean time at the threshold, counted from 1.
    """

    max_error: float | None
    threshold: float | None
    error: float | None
    mean_time: float | None

    def row(self) -> tuple[str, str, str, str]:
        """The row of the table as text."""
        maximum = "least" if self.max_error is None else f"{self.max_error:.0%}"
        if self.threshold is None or self.error is None or self.mean_time is None:
            return maximum, "not reachable", "", ""
        return maximum, f"{self.error:.1%}", f"{self.mean_time:.2f}", f"{self.threshold:.4g}"


@dataclass(frozen=True)
class Menu:
    """Offers of a speed-accuracy curve of held-out series; its text is a table.

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
        """The rows of the table as text: error at most, error, mean time, threshold."""
        return [offer.row() for offer in self.offers]

    def to_dict(self) -> dict[str, Any]:
        """The menu for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [COLUMNS, *self.rows()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, self.note])

    @property
    def note(self) -> str:
        """The line below the table."""
        return f"Estimates on {self.series:,} held-out series."


def menu_of(curve: SATCurve, *, series: int, rule: type[ThresholdRule] = MSPRT) -> Menu:
    """The offers for 10%, 5%, 2% and 1% error and for the least error, from the curve of held-out series."""
    return Menu(tuple(_offer(curve, error, rule) for error in (*ERRORS, None)), series)


def _offer(curve: SATCurve, max_error: float | None, rule: type[ThresholdRule]) -> Offer:
    limit = float(curve.errors.min()) if max_error is None else max_error
    meets = np.flatnonzero(curve.errors <= limit)
    if not len(meets):
        return Offer(max_error, None, None, None)
    index = meets[0]
    threshold = float(midpoint_rule(rule, curve, float(curve.thresholds[index])).cutoff)
    return Offer(max_error, threshold, float(curve.errors[index]), float(curve.mean_times[index]))
