"""Significance tests between the models of a record: analysis of variance, then all pairs, from the errors of their trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sooner.lab.statistics import AnovaTable, PairwiseTable, Trials, one_way_anova, tukey_kramer, two_way_anova


@dataclass(frozen=True)
class Significance:
    """The tests, and the mean times of the phases at which the errors were compared."""

    anova: AnovaTable
    pairs: PairwiseTable
    phases: tuple[tuple[str, float], ...]

    @property
    def at(self) -> str:
        """The mean times in words; a single one may have no name."""
        if not self.phases[0][0]:
            return f"Mean time: {self.phases[0][1]:g}."
        return "Mean times: " + ", ".join(f"{phase} {time:g}" for phase, time in self.phases) + "."

    def to_dict(self) -> dict[str, Any]:
        """For the record."""
        return {"anova": self.anova.to_dict(), "pairs": self.pairs.to_dict(), "at": self.at}


def significance_of(models: Mapping[str, Any], phases: Sequence[tuple[str, float]]) -> Significance | None:
    """Compare the models of a record that have 2 trials or more at every phase; None if there are fewer than 2 of them.

    Args:
        models: the entry `models` of a record.
        phases: the name and the mean time of each phase.

    >>> models = {"a": {"seeds": [{"errors": {"5": 2.0}}, {"errors": {"5": 2.2}}]}, "b": {"seeds": [{"errors": {"5": 9.0}}] * 2}}
    >>> found = significance_of(models, [("", 5.0)])
    >>> found.at, round(found.pairs.rows[0].p, 4)
    ('Mean time: 5.', 0.0002)
    """
    cells = [
        (name, phase, [seed["errors"][f"{time:g}"] for seed in model["seeds"] if f"{time:g}" in seed["errors"]])
        for name, model in models.items()
        for phase, time in phases
    ]
    few = {name for name, _, errors in cells if len(errors) < 2}
    rows = [(name, error, phase) for name, phase, errors in cells if name not in few for error in errors]
    if len({name for name, _, _ in rows}) < 2:
        return None
    names, errors, phase_names = zip(*rows, strict=True)
    trials = Trials(names, errors, phase_names if len(phases) > 1 else None)
    anova = two_way_anova(trials) if len(phases) > 1 else one_way_anova(trials)
    return Significance(anova, tukey_kramer(trials), tuple(phases))
