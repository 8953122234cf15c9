"""What came out of a plan: rows for each model and seed, their means beside the published ones, and the record of it all.

A row holds what the rule gives at one threshold: the largest whose mean time is not above the one asked for. So its error
is that of real decisions on the test set, and follows from the numbers of wrong decisions in each class, which stand beside it.
A model that halts by itself has a sampled point as well, at halting times that are drawn from its probabilities.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sooner.estimator.dial import family_named
from sooner.evaluate import over_seeds, sat_curve
from sooner.lab.experiments.plan import Contender, Plan
from sooner.lab.experiments.published import PublishedRow, published
from sooner.lab.experiments.run import Stages, Trial
from sooner.models.earliest import draw_halts
from sooner.train.settings import to_dict
from sooner.types import FloatArray, IntArray, SATCurve


@dataclass(frozen=True)
class Row:
    """What a rule gives at one threshold, on the test set.

    Args:
        asked: the mean time that was asked for.
        threshold: the largest whose mean time is not above it; infinite where waiting for the end is not too long.
        mean_time: what the threshold takes.
        error: balanced, in percent.
        wrong: wrong decisions in each class.
        series: the series of each class.
    """

    asked: float
    threshold: float
    mean_time: float
    error: float
    wrong: tuple[int, ...]
    series: tuple[int, ...]


@dataclass(frozen=True)
class Sampled:
    """The point of EARLIEST at halting times that are drawn, one draw of the test set, as the published points were made.

    Args:
        draws: the seed of the draws.
        mean_time: the mean of the halting times.
        error, wrong, series: as in `Row`.
    """

    draws: int
    mean_time: float
    error: float
    wrong: tuple[int, ...]
    series: tuple[int, ...]


@dataclass(frozen=True)
class SeedResult:
    """One trial: a row for each mean time that its curve reaches, and the minutes that its training took.

    `sampled` is there where the model halts by itself. `precision_note` says why the training was in another precision than its
    settings ask for; it is empty where it was not.
    """

    seed: int
    rows: tuple[Row, ...]
    training_minutes: float
    best: Mapping[str, float]
    parameters: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    sampled: Sampled | None = None
    precision_note: str = ""


class SampledMean(NamedTuple):
    """(mean, standard error) of mean times and of errors in percent, over so many trials."""

    mean_time: tuple[float, float]
    error: tuple[float, float]
    trials: int


@dataclass(frozen=True)
class Result:
    """All trials of a plan that are done, by the name of the model."""

    plan: Plan
    outcomes: Mapping[str, tuple[SeedResult, ...]]
    encoder_minutes: float | None
    classes: int
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The seeds of each model of the plan that are not done."""
    frame_accuracy: Mapping[str, float] = field(default_factory=dict)
    """Accuracy of the encoder's own classifier on single frames, by split."""

    @property
    def published(self) -> Mapping[str, tuple[PublishedRow, ...]]:
        """The paper's rows, by the name of the model in the plan."""
        named = {each.published: each.name for each in self.plan.contenders if each.published}
        found = published(self.plan.published) if self.plan.published else {}
        return {named.get(name, name): rows for name, rows in found.items()}

    def errors(self, name: str, time: float) -> FloatArray:
        """The error in percent at a mean time, of each seed whose curve reaches it."""
        rows = (row for outcome in self.outcomes[name] for row in outcome.rows if row.asked == time)
        return np.array([row.error for row in rows])

    def mean(self, name: str, time: float) -> tuple[float, float] | None:
        """Mean and standard error over seeds, in percent; None where not every seed's curve reaches the time."""
        errors = self.errors(name, time)
        if len(errors) < len(self.outcomes[name]) or not len(errors):
            return None
        return _mean(errors.tolist())

    def sampled(self, name: str) -> SampledMean | None:
        """Mean and standard error over seeds of the sampled points; None for models that have none."""
        points = [outcome.sampled for outcome in self.outcomes[name] if outcome.sampled is not None]
        if not points:
            return None
        times, errors = (_mean([getattr(each, key) for each in points]) for key in ("mean_time", "error"))
        return SampledMean(times, errors, len(points))

    def headline(self) -> dict[str, float]:
        """The mean error of the headline model at its mean times."""
        name = self.plan.headline
        if name not in self.outcomes:
            return {}
        means = {time: self.mean(name, time) for time in self.plan.headline_times}
        return {f"{time:g}": round(mean[0], 4) for time, mean in means.items() if mean is not None}

    def to_dict(self, command: str, date: str) -> dict[str, Any]:
        """The record: plain numbers from which every mean can be computed again."""
        plan, name = self.plan, self.plan.headline
        models = {
            each: {
                "command": command,
                "date": date,
                "mean": self._table(each),
                **self._sampled(each),
                "seeds": [_brief(outcome) for outcome in outcomes],
            }
            for each, outcomes in self.outcomes.items()
        }
        return {
            "name": plan.name,
            "title": plan.title,
            "command": command,
            "date": date,
            "profile": plan.profile,
            "shortened": plan.about,
            "left_out": {each: list(seeds) for each, seeds in self.left_out.items()},
            "headline_model": name,
            "headline": self.headline(),
            "seeds": [self._full(outcome) for outcome in self.outcomes.get(name, ())],
            "models": models,
            "rows": {each: {time: mean[0] for time, mean in model["mean"].items()} for each, model in models.items()},
            "published": {
                each: {f"{row.mean_time:g}": row.error for row in rows} for each, rows in self.published.items()
            },
            "encoder_minutes": self.encoder_minutes,
            "data": asdict(plan.data),
            "settings": {each.name: self._settings(each) for each in plan.contenders if not each.scores_of},
            "contenders": {each.name: _about(each) for each in plan.contenders},
            "encoder": None if plan.encoder is None else to_dict(plan.encoder.settings),
            "frame_accuracy": dict(self.frame_accuracy),
            "machine": {"processor": platform.machine(), "cores": _cores(), "system": platform.system()},
        }

    def _table(self, name: str) -> dict[str, list[float | None]]:
        means = {time: self.mean(name, time) for time in self.plan.times}
        return {f"{time:g}": _rounded(mean) for time, mean in means.items() if mean is not None}

    def _sampled(self, name: str) -> dict[str, Any]:
        found = self.sampled(name)
        if found is None:
            return {}
        return {"sampled": {"mean_time": _rounded(found.mean_time), "error": _rounded(found.error)}}

    def _settings(self, each: Contender) -> Mapping[str, Any]:
        """As they were used, which tuning may have changed; the plan's own while nothing is trained."""
        outcomes = self.outcomes.get(each.name)
        return outcomes[0].settings if outcomes else to_dict(each.settings)

    def _full(self, outcome: SeedResult) -> dict[str, Any]:
        rows = [_plain(row) for row in outcome.rows if row.asked in self.plan.headline_times]
        return {"seed": outcome.seed, "training_minutes": outcome.training_minutes, "rows": rows}


def result_of(plan: Plan, stages: Stages, work: Path) -> Result:
    """The trials that are done; those that are not are left out, and named."""
    outcomes: dict[str, list[SeedResult]] = {}
    left_out: dict[str, list[int]] = {}
    times = sorted({*plan.times, *plan.headline_times, *(time for _, time in plan.phases)})
    for trial in stages.trials:
        if trial.scores.outcome(work) is not None:
            outcomes.setdefault(trial.contender.name, []).append(_outcome(trial, times, work))
        else:
            left_out.setdefault(trial.contender.name, []).append(trial.seed)
    seconds = None if stages.encoder is None else (stages.encoder.outcome(work) or {}).get("training_seconds")
    classes = next((len(rows[0].rows[0].series) for rows in outcomes.values() if rows[0].rows), 0)
    minutes = None if seconds is None else round(seconds / 60, 2)
    missing = {name: tuple(seeds) for name, seeds in left_out.items()}
    accuracy = {
        split: round(done["frame_accuracy"], 4)
        for split in ("validation", "test")
        if split in stages.features and (done := stages.features[split].outcome(work))
    }
    return Result(plan, {name: tuple(each) for name, each in outcomes.items()}, minutes, classes, missing, accuracy)


def curve_of(trial: Trial, work: Path) -> tuple[SATCurve, FloatArray, IntArray, IntArray]:
    """The exact curve of a trial on the test set; the statistic it rests on, the predictions and the labels."""
    folder = trial.scores.folder(work)
    scores, labels, own = np.load(folder / "scores.npy"), np.load(folder / "labels.npy"), folder / "halting.npy"
    halting = torch.from_numpy(np.load(own)) if own.exists() else None
    rule = family_named(trial.contender.rule)
    statistic = rule.statistic_with(torch.from_numpy(scores), halting).double().numpy()
    return sat_curve(scores, labels, rule=rule, halting=halting), statistic, scores.argmax(axis=2), labels


def _outcome(trial: Trial, times: list[float], work: Path) -> SeedResult:
    curve, statistic, predictions, labels = curve_of(trial, work)
    classes = np.load(trial.scores.folder(work) / "scores.npy", mmap_mode="r").shape[2]
    rows = []
    for time in times:
        index = int(np.searchsorted(curve.mean_times, time, side="right")) - 1
        if index >= 0:
            rows.append(_row(time, float(curve.thresholds[index]), statistic, predictions, labels, classes))
    sampled = None
    if trial.contender.rule == "halting":  # the statistic is a probability, so times can be drawn from it as well
        sampled = _drawn(trial.seed, statistic, predictions, labels, classes)
    training = trial.training.outcome(work)
    assert training is not None
    minutes = round(training["training_seconds"] / 60, 2)
    note = training.get("precision_note", "")  # stages of the past have none
    about = training["best"], training["parameters"], training["settings"]
    return SeedResult(trial.seed, tuple(rows), minutes, *about, sampled, note)


def _row(
    asked: float, threshold: float, statistic: FloatArray, predictions: IntArray, labels: IntArray, classes: int
) -> Row:
    crossed = statistic >= threshold
    stops = np.where(crossed.any(axis=1), crossed.argmax(axis=1), statistic.shape[1] - 1)
    error, wrong, series = _counted(stops, predictions, labels, classes)
    return Row(asked, threshold, float((stops + 1).mean()), error, wrong, series)


def _drawn(seed: int, halting: FloatArray, predictions: IntArray, labels: IntArray, classes: int) -> Sampled:
    """The halting times of the whole test set, drawn at once."""
    ends = torch.full((len(halting),), halting.shape[1])
    probabilities = torch.from_numpy(halting).float()  # as the model gave them
    times = draw_halts(probabilities, ends, torch.Generator().manual_seed(seed)).times.numpy()
    error, wrong, series = _counted(times - 1, predictions, labels, classes)
    return Sampled(seed, round(float(times.mean()), 4), error, wrong, series)


def _counted(
    stops: IntArray, predictions: IntArray, labels: IntArray, classes: int
) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
    """The balanced error in percent at these stops, the wrong decisions in each class, and its series."""
    wrong = predictions[np.arange(len(labels)), stops] != labels
    counts, mistakes = np.bincount(labels, minlength=classes), np.bincount(labels[wrong], minlength=classes)
    present = counts > 0
    error = 100 * float((mistakes[present] / counts[present]).mean())
    return round(error, 4), tuple(mistakes.tolist()), tuple(counts.tolist())


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and standard error over seeds."""
    found = over_seeds(np.array(values)[:, None])
    return float(found.mean[0]), float(found.sem[0])


def _rounded(mean: tuple[float, float]) -> list[float | None]:
    """For the record; a single trial has no standard error."""
    return [round(mean[0], 4), None if np.isnan(mean[1]) else round(mean[1], 4)]


def _about(each: Contender) -> dict[str, Any]:
    """What a model read and how it stopped, beside its settings."""
    return {key: getattr(each, key) for key in ("reads", "masks", "rule", "validation", "scores_of")}


def _plain(row: Row) -> dict[str, Any]:
    return {**asdict(row), "threshold": row.threshold if np.isfinite(row.threshold) else "inf"}


def _brief(outcome: SeedResult) -> dict[str, Any]:
    errors = {f"{row.asked:g}": row.error for row in outcome.rows}
    best = {key: value if np.isfinite(value) else None for key, value in outcome.best.items()}
    about = {"seed": outcome.seed, "training_minutes": outcome.training_minutes, "parameters": outcome.parameters}
    note = {"precision_note": outcome.precision_note} if outcome.precision_note else {}
    sampled = {} if outcome.sampled is None else {"sampled": asdict(outcome.sampled)}
    return {**about, **note, "best_validation": best, "errors": errors, **sampled}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
