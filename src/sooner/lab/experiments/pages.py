"""The tables, the significance tests, and the page that compares our curves with the published ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sooner.errors import InvalidArgument
from sooner.lab.experiments.history import HistoryPoint
from sooner.lab.experiments.plan import Plan
from sooner.lab.experiments.result import Result, curve_of
from sooner.lab.experiments.run import Stages
from sooner.lab.experiments.significance import Significance
from sooner.lab.experiments.tuned import table_of
from sooner.lab.statistics import p_values
from sooner.report.comparison.contents import Comparison, Highlight, Line, Table, Trajectories
from sooner.report.comparison.page import write_comparison
from sooner.report.comparison.training import Course, write_training_figure

_SHOWN = 12  # mean times in a printed table; the record has all of them


@dataclass(frozen=True)
class Pages:
    """The path of the page, and its tables."""

    page: Path
    tables: tuple[Table, ...]


def write_pages(folder: Path, result: Result, stages: Stages, work: Path, significance: Significance | None) -> Pages:
    """Write the page and the figures of a result into a folder."""
    if not result.outcomes:
        raise InvalidArgument("result", "of at least 1 trial", "none", "Run a model of the plan first.")
    plan = result.plan
    tests = () if significance is None else (_p_table(significance),)
    tables = (_error_table(result), *_sampled_tables(result), *tests, *_history_tables(result), *_tuning_tables(result))
    about = {"plan": plan.name, "profile": plan.profile, "data": plan.data.set}
    if result.encoder_minutes is not None:
        about["minutes, encoder"] = f"{result.encoder_minutes:g}"
    for name, outcomes in result.outcomes.items():
        about[f"minutes of training, {name}"] = ", ".join(f"{outcome.training_minutes:g}" for outcome in outcomes)
    comparison = Comparison(
        plan.title,
        "Balanced error on the test set against the mean decision time, averaged over seeds. "
        + ("Dashed lines: published." if result.published else "The paper gives no numbers for this experiment."),
        _lines(result),
        tables=tables,
        trajectories=_trajectories(plan, stages, work),
        about=about,
        shortened=plan.about,
    )
    page = write_comparison(folder, comparison).page
    if courses := [course_of(name, points) for name in result.outcomes if (points := result.history(name))]:
        write_training_figure(folder / "training.png", plan.title, courses)
    return Pages(page, tables)


def course_of(name: str, points: Sequence[HistoryPoint]) -> Course:
    """The history of a model as it is drawn."""
    nothing = (np.nan, np.nan)
    losses, loss_sem = zip(*(point.loss or nothing for point in points), strict=True)
    errors, error_sem = zip(*(point.last_error or nothing for point in points), strict=True)
    steps = [float(point.step) for point in points]
    return Course(name, *map(np.array, (steps, losses, errors, loss_sem, error_sem)))


def _lines(result: Result) -> tuple[Line, ...]:
    lines = []
    for name, outcomes in result.outcomes.items():
        means = {time: mean for time in result.plan.times if (mean := result.mean(name, time)) is not None}
        if means:
            errors, sem = np.array(list(means.values())).T
            highlight: Highlight = "headline" if name == result.plan.headline else "plain"
            line = Line(name, "ours", np.array(list(means)), errors, trials=len(outcomes), sem=sem, highlight=highlight)
            lines.append(line)
    for name, rows in result.published.items():
        times, errors, sem, _ = np.array(rows, dtype=np.float64).T
        lines.append(Line(name, "published", times, errors, trials=rows[0].trials, sem=sem))
    # These come last because the index of a name determines its colour.
    for name in result.outcomes:
        if (point := result.sampled(name)) is not None:
            times, errors, sem = np.array([[point.mean_time[0], *point.error]]).T
            lines.append(Line(f"{name} (sampled)", "ours", times, errors, trials=point.trials, sem=sem))
    return tuple(lines)


def _error_table(result: Result) -> Table:
    """Our error and the published error of every model."""
    times = result.plan.headline_times or _spread(result.plan.times)
    rows: list[tuple[str, ...]] = []
    for name in (*result.outcomes, *(name for name in result.published if name not in result.outcomes)):
        ours = result.outcomes.get(name, ())
        if ours:
            rows.append((name, f"ours, {len(ours)}", *(_mean_text(result.mean(name, time)) for time in times)))
        published = {row.mean_time: row for row in result.published.get(name, ())}
        if published:
            trials = next(iter(published.values())).trials
            cells = (f"{published[time].error:.2f}" if time in published else "" for time in times)
            rows.append(("" if ours else name, f"published, {trials}", *cells))
    columns = ("model", "trials", *(f"{time:g}" for time in times))
    note = "Mean over seeds ± standard error, in percent, at the mean times above."
    return Table("Balanced error in percent at mean times", columns, tuple(rows), note)


def _sampled_tables(result: Result) -> tuple[Table, ...]:
    """Our results with sampled halting times beside the published ones, which were sampled too; empty without any."""
    rows: list[tuple[str, ...]] = []
    for name in result.outcomes:
        if (means := result.sampled(name)) is not None:
            cells = _mean_text(means.mean_time), _mean_text(means.error)
            rows.append((f"{name} (sampled)", f"ours, {means.trials}", *cells))
            for row in result.published.get(name, ()):
                rows.append(("", f"published, {row.trials}", f"{row.mean_time:.2f}", f"{row.error:.2f}"))
    note = (
        "Halting times are sampled once per test series and trial. Mean over seeds ± standard error, error in percent."
    )
    columns = ("model", "trials", "mean time", "balanced error")
    return (Table("Sampled halting times", columns, tuple(rows), note),) if rows else ()


def _history_tables(result: Result) -> tuple[Table, ...]:
    """Loss and last-observation error of each model at some of the validated steps; empty if the plan asks for none."""
    rows: list[tuple[str, ...]] = []
    for name in result.outcomes:
        points = result.history(name)
        for index in _spread(tuple(range(len(points)))):
            point = points[int(index)]
            step = f"{point.step:,}"
            rows.append((name if index == 0 else "", step, _mean_text(point.loss, 4), _mean_text(point.last_error)))
    columns = ("model", "step", "validation loss", "balanced error at the last observation, percent")
    note = "On the validation set, mean over seeds ± standard error."
    return (Table("During training", columns, tuple(rows), note),) if rows else ()


def _tuning_tables(result: Result) -> tuple[Table, ...]:
    return tuple(Table(f"Tuning of {name}", *table_of(entry)) for name, entry in result.tuned.items())


def _spread(times: tuple[float, ...]) -> tuple[float, ...]:
    indices = np.unique(np.linspace(0, len(times) - 1, min(len(times), _SHOWN)).round().astype(int))
    return tuple(times[index] for index in indices)


def _mean_text(mean: tuple[float, float] | None, digits: int = 2) -> str:
    if mean is None:
        return ""
    text = f"{mean[0]:.{digits}f}"
    return text if np.isnan(mean[1]) else f"{text} ± {mean[1]:.{digits}f}"


def _p_table(significance: Significance) -> Table:
    triangle = p_values(significance.pairs)
    rows = tuple(
        (str(cell), *row, *[""] * (len(triangle.columns) - len(row)))
        for cell, row in zip(triangle.rows, triangle.starred(), strict=True)
    )
    note = f"Asterisks: p < 0.05, 0.01, 0.001. {significance.at}"
    return Table("p-values of the Tukey-Kramer test", ("", *map(str, triangle.columns)), rows, note)


def _trajectories(plan: Plan, stages: Stages, work: Path) -> tuple[Trajectories, ...]:
    """The first test series of each class, scored by the first trained model that uses MSPRT."""
    trained = (trial for trial in stages.trials if trial.contender.rule == "msprt" and trial.scores.outcome(work))
    trial = next(trained, None)
    if trial is None or not plan.trajectories:
        return ()
    curve, _, _, labels = curve_of(trial, work)
    scores = np.load(trial.scores.folder(work) / "scores.npy", mmap_mode="r")
    times = plan.headline_times or plan.times
    index = int(np.searchsorted(curve.mean_times, times[len(times) // 2], side="right")) - 1
    threshold = float(curve.thresholds[max(index, 0)])
    _, firsts = np.unique(labels, return_index=True)
    return tuple(
        Trajectories(
            f"{trial.contender.name}, series {series}",
            int(labels[series]),
            scores[series].copy(),
            threshold if np.isfinite(threshold) else None,
        )
        for series in firsts[: plan.trajectories].tolist()
    )
