"""What a certificate says: an error that is promised, how surely, and what the promise rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sooner.container import digest, pieces_of
from sooner.rules import Rule
from sooner.rules.described import description, rule_described
from sooner.scores import Scored

RISKS: Mapping[str, str] = {
    "error": "error",
    "balanced_error": "balanced error",
    "class_error": "error of each class",
    "gap": "share of decisions that waiting would have set right",
    "early_error": "error among the series decided by any one time",
}
"""The risks for which a threshold can be certified, and what they are called in a sentence."""
CLAIMS: Mapping[str, str] = {**RISKS, "answered_error": "error among the answered series"}
"""All risks that can be promised: those, and that of giving up."""


@dataclass(frozen=True)
class Promise:
    """An upper limit of an error that holds for new series with a given confidence, by a finite-sample proof.

    It rests on one assumption: the calibration series and the new ones are exchangeable (drawn alike and independently, or in
    groups that are), and neither training nor any earlier choice has seen the calibration series.

    Attributes:
        risk: one of `RISKS`, or "answered_error" where a rule may give up.
        level: the risk is at most this, as a fraction.
        confidence: the probability, over the draw of calibration series, that the promise holds.
        series: number of calibration series that the bound counts.
        groups: number of groups, if the series come in groups; the promise is then about new groups.
        date: the day of the certificate, YYYY-MM-DD.
        data: SHA-256 of the calibration scores and labels.
        rule: the rule that was certified.
        bound: the name of the bound.
        answered: for "answered_error", the share of those series that got a label; it is seen, not promised.
    """

    risk: str
    level: float
    confidence: float
    series: int
    groups: int | None
    date: str
    data: str
    rule: Rule
    bound: str
    answered: float | None = None

    def __str__(self) -> str:
        return f"promised: {self.claim}, certified on {self.where}, {self.date}"

    @property
    def claim(self) -> str:
        """What is promised."""
        claim = claim_of(self.risk, self.level, self.confidence)
        share = "" if self.answered is None else f"; {100 * self.answered:.3g}% of the calibration series were answered"
        return f"{claim}{share}"

    @property
    def where(self) -> str:
        """What it was certified on."""
        return f"{self.series:,} series" + ("" if self.groups is None else f" in {self.groups:,} groups")

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it."""
        known = {name: value for name, value in vars(self).items() if name != "answered" or value is not None}
        return {**known, "rule": description(self.rule)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Promise":
        """The promise of `to_dict`."""
        return cls(**{**value, "rule": rule_described(value["rule"])})


def claim_of(risk: str, level: float, confidence: float) -> str:
    """The claim of a promise in words.

    >>> claim_of("balanced_error", 0.05, 0.95)
    'balanced error at most 5% with 95% confidence'
    """
    return f"{CLAIMS[risk]} at most {100 * level:.6g}% with {100 * confidence:.6g}% confidence"


def data_hash(scored: Scored) -> str:
    """The SHA-256 of scores, lengths, labels and groups."""
    return digest(pieces_of({name: torch.from_numpy(a) for name, a in vars(scored).items() if a is not None}))
