"""Significance tests of the differences between models: analysis of variance, then all pairs by Tukey and Kramer.

========== ==============================================================================================
symbol     meaning
========== ==============================================================================================
cell       a model, or a model in a phase (early or late on the speed-accuracy curve)
n_i, m_i   trials of cell i, and the mean of their errors
s^2        residual variance: the spread within cells, pooled over all of them
q          studentized range of a pair: abs(m_i - m_j) / sqrt(s^2 (1/n_i + 1/n_j) / 2)
========== ==============================================================================================

Both tests assume that the trials are independent and have the same variance in every cell. As in the published tests, the early
and the late error of one trained model count as two trials; their correlation is ignored.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from sooner.errors import InvalidArgument, UnknownName
from sooner.extras import optional
from sooner.inputs import as_between, as_real
from sooner.types import ArrayLike, FloatArray, IntArray

_ALIKE = 1e-12
"""A spread within cells below this share of the largest error is a rounding error."""
_RESOLUTION = 1e-10
"""The accuracy of the integral of the studentized range."""
_STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


class AnovaCell(NamedTuple):
    """A cell of the analysis of variance: a model, or a model in a phase."""

    model: str
    phase: str | None = None

    def __str__(self) -> str:
        return self.model if self.phase is None else f"{self.model}, {self.phase}"


@dataclass(frozen=True)
class Trials:
    """Model, error and phase of each trial; every model must have trials in every phase. `phases` is None if there is only one.

    >>> trials = Trials(["A", "A", "B", "B"], [0.1, 0.3, 0.2, 0.4], ["early", "late", "early", "late"])
    >>> [str(cell) for cell in trials.cells]
    ['A, early', 'A, late', 'B, early', 'B, late']
    >>> trials.at("late")
    Trials(models=('A', 'B'), errors=(0.3, 0.4), phases=None)
    """

    models: tuple[str, ...]
    errors: tuple[float, ...]
    phases: tuple[str, ...] | None = None

    def __init__(self, models: Iterable[str], errors: ArrayLike, phases: Iterable[str] | None = None) -> None:
        checked = _as_errors(errors)
        object.__setattr__(self, "errors", checked)
        object.__setattr__(self, "models", _as_names(models, len(checked), name="models"))
        object.__setattr__(self, "phases", None if phases is None else _as_names(phases, len(checked), name="phases"))
        present = set(self.cell_of_each)
        for cell in (cell for cell in self.cells if cell not in present):
            got, remedy = (
                f"none of {cell.model!r} in {cell.phase!r}",
                "Add them, leave the model out, or compare one phase.",
            )
            raise InvalidArgument("trials", "there for every model in every phase", got, remedy)

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def cells(self) -> tuple[AnovaCell, ...]:
        """Every model, within it every phase, in the order in which they first occur."""
        phases = (None,) if self.phases is None else dict.fromkeys(self.phases)
        return tuple(AnovaCell(*names) for names in itertools.product(dict.fromkeys(self.models), phases))

    def at(self, phase: str) -> "Trials":
        """The trials of one phase."""
        if self.phases is None:
            raise InvalidArgument("trials", "of named phases", "one phase without a name", "Name them in `phases`.")
        if phase not in self.phases:
            raise UnknownName("phase", phase, set(self.phases))
        kept = [index for index, name in enumerate(self.phases) if name == phase]
        return Trials([self.models[index] for index in kept], [self.errors[index] for index in kept])

    @property
    def cell_of_each(self) -> list[AnovaCell]:
        """The cell of each trial."""
        phases = itertools.repeat(None) if self.phases is None else self.phases
        return [AnovaCell(*names) for names in zip(self.models, phases, strict=False)]


@dataclass(frozen=True)
class AnovaRow:
    """One source of variation. `f` and `p` are None for the residual, and for all where the residual is 0."""

    source: str
    sum_of_squares: float
    degrees_of_freedom: int
    f: float | None
    p: float | None


@dataclass(frozen=True)
class AnovaTable:
    """The effects, then the residual.

    The sums of squares are of type III: the increase of the residual if the effect alone is left out of the full model, with
    effects coded to sum to zero. So a main effect compares unweighted means of the cell means for any numbers of trials.
    """

    rows: tuple[AnovaRow, ...]

    def __getitem__(self, source: str) -> AnovaRow:
        rows = {row.source: row for row in self.rows}
        if source not in rows:
            raise UnknownName("source", source, rows)
        return rows[source]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"sums_of_squares": "type III", "rows": [asdict(row) for row in self.rows]}


@dataclass(frozen=True)
class PairwiseRow:
    """Two cells: the mean error of the first minus that of the second, its confidence limits, and p.

    Limits and p are adjusted for the number of pairs: the confidence is for all intervals of a table together. They
    are None if the residual variance is 0.
    """

    first: AnovaCell
    second: AnovaCell
    difference: float
    low: float | None
    high: float | None
    p: float | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "first": self.first._asdict(), "second": self.second._asdict()}


@dataclass(frozen=True)
class PairwiseTable:
    """Every pair of cells, the earlier cell first; s^2 and its degrees of freedom are those of all cells."""

    cells: tuple[AnovaCell, ...]
    rows: tuple[PairwiseRow, ...]
    confidence: float
    residual_variance: float
    degrees_of_freedom: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "confidence": self.confidence,
            "residual_variance": self.residual_variance,
            "degrees_of_freedom": self.degrees_of_freedom,
            "rows": [row.to_dict() for row in self.rows],
        }


@dataclass(frozen=True)
class PValues:
    """The p-values as a triangle: `p[i][j]` compares `rows[i]` with `columns[j]`, j <= i; None if the residual variance is 0."""

    rows: tuple[AnovaCell, ...]
    columns: tuple[AnovaCell, ...]
    p: tuple[tuple[float | None, ...], ...]

    def starred(self) -> tuple[tuple[str, ...], ...]:
        """The triangle as text, with stars for p below 0.05, 0.01 and 0.001; a dash for None."""
        return tuple(tuple(_starred(p) for p in row) for row in self.p)


def two_way_anova(trials: Trials) -> AnovaTable:
    """Two-way analysis of variance: effects of the model, the phase, and their interaction.

    The rows are `model`, `phase`, `model x phase` and `residual`.

    >>> trials = Trials(["A", "A", "B", "B"] * 2, [4, 2, 7, 3, 5, 3, 8, 4], ["early", "late"] * 4)
    >>> table = two_way_anova(trials)
    >>> [(row.source, round(row.sum_of_squares, 6)) for row in table.rows]
    [('model', 8.0), ('phase', 18.0), ('model x phase', 2.0), ('residual', 2.0)]
    >>> round(table["phase"].p, 4)
    0.0039
    """
    phases = () if trials.phases is None else tuple(dict.fromkeys(trials.phases))
    if len(phases) < 2:
        remedy = "With one phase use `one_way_anova`, without naming the phase."
        raise InvalidArgument("trials", "of at least 2 phases", len(phases), remedy)
    models = len(set(trials.models))
    cells, errors = _grouped(trials, compared=models)
    model, phase = _sum_coded(cells // len(phases), models), _sum_coded(cells % len(phases), len(phases))
    both = (model[:, :, None] * phase[:, None, :]).reshape(len(cells), -1)
    return _anova(cells, errors, {"model": model, "phase": phase, "model x phase": both})


def one_way_anova(trials: Trials) -> AnovaTable:
    """One-way analysis of variance: the effect of the model in one phase. The rows are `model` and `residual`.

    >>> table = one_way_anova(Trials(["A", "A", "B", "B", "B"], [1.0, 2.0, 4.0, 5.0, 6.0]))
    >>> round(table["model"].f, 4), round(table["model"].p, 4)
    (17.64, 0.0246)
    """
    if trials.phases is not None:
        names = tuple(dict.fromkeys(trials.phases))
        got, remedy = f"phases {', '.join(names)}", f"Pick one: `.at({names[0]!r})`."
        raise InvalidArgument("trials", "of one phase without a name", got, remedy)
    models = len(set(trials.models))
    cells, errors = _grouped(trials, compared=models)
    return _anova(cells, errors, {"model": _sum_coded(cells, models)})


def tukey_kramer(trials: Trials, *, confidence: float = 0.95) -> PairwiseTable:
    """The Tukey-Kramer test of all pairs of cells, for equal and unequal numbers of trials (Kramer 1956).

    With phases the pairs are those of all (model, phase) cells, also across phases.

    Args:
        trials: of at least 2 cells.
        confidence: that all limits hold at once, between 0 and 1.

    >>> table = tukey_kramer(Trials(["A", "A", "B", "B", "B"], [1.0, 2.0, 4.0, 5.0, 6.0]))
    >>> [(str(row.first), str(row.second), row.difference, round(row.p, 4)) for row in table.rows]
    [('A', 'B', -3.5, 0.0246)]
    """
    remedy = "It is the probability that all limits hold at once."
    level = as_between(confidence, name="confidence", low=0.0, high=1.0, remedy=remedy)
    cells, left = trials.cells, len(trials) - len(trials.cells)
    groups, errors = _grouped(trials, compared=len(cells))
    pairs = list(itertools.combinations(range(len(cells)), 2))
    if _constant(groups, errors):
        means = [float(errors[groups == index][0]) for index in range(len(cells))]
        rows = [PairwiseRow(cells[i], cells[j], means[i] - means[j], None, None, None) for i, j in pairs]
        return PairwiseTable(cells, tuple(rows), level, 0.0, left)

    with optional("statistics", "computed by statsmodels"):
        from statsmodels.stats.multicomp import pairwise_tukeyhsd

    # One error is subtracted so that a large common offset takes no digits from the differences. statsmodels sorts the groups,
    # which are numbers here, so its pairs are ours; its differences are the second minus the first.
    test = pairwise_tukeyhsd(errors - errors[0], groups, alpha=1 - level)
    adjusted = _within_bounds(test.pvalues, np.abs(test.meandiffs) / test.std_pairs, pairs=len(pairs), left=left)
    limits = np.column_stack([-test.meandiffs, -test.confint[:, 1], -test.confint[:, 0], adjusted]).tolist()
    rows = [PairwiseRow(cells[i], cells[j], *numbers) for (i, j), numbers in zip(pairs, limits, strict=True)]
    return PairwiseTable(cells, tuple(rows), level, float(test.variance), left)


def p_values(pairwise: PairwiseTable) -> PValues:
    """The p-values in the layout of the paper: a row for each cell but the first, a column for each but the last.

    >>> table = p_values(tukey_kramer(Trials(["A", "A", "B", "B", "C", "C"], [1, 2, 11, 12, 11, 13])))
    >>> [str(cell) for cell in table.columns]
    ['A', 'B']
    >>> for cell, row in zip(table.rows, table.starred()):
    ...     print(cell, *row)
    B **4E-03
    C **4E-03 0.9
    """
    p = {(row.first, row.second): row.p for row in pairwise.rows}
    cells = pairwise.cells
    triangle = (tuple(p[first, cells[i]] for first in cells[:i]) for i in range(1, len(cells)))
    return PValues(cells[1:], cells[:-1], tuple(triangle))


def _anova(groups: IntArray, errors: FloatArray, effects: dict[str, FloatArray]) -> AnovaTable:
    """The full model against the one without the effect, for each effect in turn."""
    from scipy import special

    with optional("statistics", "computed by statsmodels"):
        from statsmodels.regression.linear_model import OLS

    def residual(*columns: FloatArray) -> float:
        # One error is subtracted so that a large common offset takes no digits from the sums of squares.
        return float(OLS(errors - errors[0], np.column_stack([np.ones(len(errors)), *columns])).fit().ssr)

    full, left, exact = residual(*effects.values()), len(errors) - int(groups.max()) - 1, _constant(groups, errors)
    rows = []
    for source, columns in effects.items():
        lost = max(residual(*(other for name, other in effects.items() if name != source)) - full, 0.0)
        degrees = columns.shape[1]
        f = None if exact else (lost / degrees) / (full / left)
        p = None if f is None else float(special.fdtrc(degrees, left, f))
        rows.append(AnovaRow(source, lost, degrees, f, p))
    return AnovaTable((*rows, AnovaRow("residual", 0.0 if exact else full, left, None, None)))


def _sum_coded(levels: IntArray, count: int) -> FloatArray:
    """One column for each level but the last, which is minus all the others: effects sum to zero over the levels."""
    coded: FloatArray = np.vstack([np.eye(count - 1), -np.ones(count - 1)])[levels]
    return coded


def _grouped(trials: Trials, *, compared: int) -> tuple[IntArray, FloatArray]:
    """The index of the cell of each trial, and its error; there must be 2 models or cells, and a residual."""
    if compared < 2:
        raise InvalidArgument("trials", "of at least 2 models", compared, "There is nothing to compare it with.")
    index = {cell: number for number, cell in enumerate(trials.cells)}
    if len(trials) == len(index):
        expected = f"more than one for some of the {len(index)} cells"
        remedy = "Add seeds: without a spread within cells no difference can be judged."
        raise InvalidArgument("trials", expected, "one for each", remedy)
    return np.array([index[cell] for cell in trials.cell_of_each]), np.array(trials.errors)


def _constant(groups: IntArray, errors: FloatArray) -> bool:
    """True if the trials of every cell agree, up to rounding."""
    spread = max(float(np.ptp(errors[groups == group])) for group in np.unique(groups))
    return spread <= _ALIKE * float(np.abs(errors).max())


def _within_bounds(p: FloatArray, q: FloatArray, *, pairs: int, left: int) -> FloatArray:
    """The adjusted p, kept between that of the pair alone and Bonferroni's bound, both of Student's t = q / sqrt(2).

    The integral of the studentized range is exact to about 1e-10, and with few degrees of freedom it gives zero even where p
    is near 1e-4. There Bonferroni's bound stands for it: a p that is never too small.
    """
    from scipy import special

    alone = 2 * special.stdtr(left, -q / math.sqrt(2))
    most = np.minimum(pairs * alone, 1.0)
    bounded: FloatArray = np.where(p > _RESOLUTION, np.clip(p, alone, most), most)
    return bounded


def _starred(p: float | None) -> str:
    if p is None:
        return "-"
    stars = next((mark for level, mark in _STARS if p < level), "")
    return stars + (f"{p:.0E}" if p < 0.095 else f"{p:.1f}")


def _as_errors(value: ArrayLike) -> tuple[float, ...]:
    errors = as_real(value, name="errors")
    if errors.ndim != 1 or len(errors) == 0:
        expected = "one number for each of at least 1 trial"
        raise InvalidArgument("errors", expected, f"shape {errors.shape}", "Give them in long form.")
    for index in np.flatnonzero(~np.isfinite(errors)):
        remedy = "Leave out a trial that failed, with its names: numbers of trials may differ."
        raise InvalidArgument("errors", "finite", f"{errors[index]} at index {index}", remedy)
    return tuple(errors.tolist())


def _as_names(value: Iterable[str], count: int, *, name: str) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for given in names:
        if not isinstance(given, str):
            raise InvalidArgument(name, "names", repr(given), "Write each of them as a string.")
    if len(names) != count:
        remedy = "Give one name for each trial, repeated as needed."
        raise InvalidArgument(name, f"as many as the errors, {count}", len(names), remedy)
    return tuple(map(str, names))  # NumPy's strings become plain ones
