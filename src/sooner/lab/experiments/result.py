"""The results of a plan: rows for each model and seed, their means beside the published ones, and the record.

A row describes the rule at one threshold: the largest whose mean time is at most the requested one. So its error is that of real
decisions on the test set, and follows from the numbers of wrong decisions in each class, which are in the row too. A model with
its own halting probability also has a sampled point, at halting times drawn from these probabilities.
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
from sooner.lab.experiments.history import HistoryPoint, mean_history, to_record
from sooner.lab.experiments.plan import Contender, Plan
from sooner.lab.experiments.published import PublishedRow, published
from sooner.lab.experiments.run import Stages, Trial
from sooner.lab.experiments.tuned import entry_of
from sooner.models.earliest import draw_halts
from sooner.train.settings import to_dict
from sooner.types import FloatArray, IntArray, SATCurve


@dataclass(frozen=True)
class Row:
    """The decisions on the test set at the largest threshold whose mean time is at most `asked` (infinite at the full time).

    The balanced error is in percent; `wrong` and `series` are the numbers of wrong decisions and of series in each class.
    """

    asked: float
    threshold: float
    mean_time: float
    error: float
    wrong: tuple[int, ...]
    series: tuple[int, ...]


@dataclass(frozen=True)
class Sampled:
    """The point of EARLIEST at halting times drawn once for the test set with the seed `draws`, as the published points were."""

    draws: int
    mean_time: float
    error: float
    wrong: tuple[int, ...]
    series: tuple[int, ...]


@dataclass(frozen=True)
class SeedResult:
    """One trial: a row for each mean time that its curve reaches, and facts about its training.

    `sampled` is None for models without a halting probability. `precision_note` says why the precision of the training differed
    from its settings; it is empty if it did not. `history` has all validations; stages of earlier versions have none.
    """

    seed: int
    rows: tuple[Row, ...]
    training_minutes: float
    best: Mapping[str, float | None]
    parameters: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    sampled: Sampled | None = None
    precision_note: str = ""
    history: tuple[Mapping[str, Any], ...] = ()


class SampledMean(NamedTuple):
    """(mean, standard error) of the mean times and of the errors in percent, over trials."""

    mean_time: tuple[float, float]
    error: tuple[float, float]
    trials: int


@dataclass(frozen=True)
class Result:
    """All finished trials of a plan, by model.

    Args:
        plan: the plan.
        outcomes: the finished trials of each model.
        encoder_minutes: training time of the encoder, if there is one.
        left_out: the seeds of each model that are not finished.
        frame_accuracy: accuracy of the encoder's own classifier on single frames, by split.
        tuned: how the settings of models were found that were tuned (`sooner.lab.experiments.tuned`).
    """

    plan: Plan
    outcomes: Mapping[str, tuple[SeedResult, ...]]
    encoder_minutes: float | None
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    frame_accuracy: Mapping[str, float] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def published(self) -> Mapping[str, tuple[PublishedRow, ...]]:
        """The published rows, by the name of the model in the plan."""
        names = {contender.published: contender.name for contender in self.plan.contenders if contender.published}
        tables = published(self.plan.published) if self.plan.published else {}
        return {names.get(name, name): rows for name, rows in tables.items()}

    def errors(self, name: str, time: float) -> FloatArray:
        """The error in percent at a mean time, for each seed whose curve reaches it."""
        return np.array([row.error for outcome in self.outcomes[name] for row in outcome.rows if row.asked == time])

    def mean(self, name: str, time: float) -> tuple[float, float] | None:
        """Mean and standard error over seeds, in percent; None if the curve of a seed does not reach the time."""
        errors = self.errors(name, time)
        if len(errors) < len(self.outcomes[name]) or not len(errors):
            return None
        return _mean(errors.tolist())

    def sampled(self, name: str) -> SampledMean | None:
        """Mean and standard error over seeds of the sampled points; None for models without them."""
        points = [outcome.sampled for outcome in self.outcomes[name] if outcome.sampled is not None]
        if not points:
            return None
        times, errors = ([getattr(point, key) for point in points] for key in ("mean_time", "error"))
        return SampledMean(_mean(times), _mean(errors), len(points))

    def history(self, name: str) -> tuple[HistoryPoint, ...]:
        """Loss and last-observation error during the training, if the plan asks for them and the trainings kept them."""
        if name not in self.plan.history:
            return ()
        return mean_history([outcome.history for outcome in self.outcomes[name]])

    def headline(self) -> dict[str, float]:
        """The mean error of the headline model at its mean times."""
        if self.plan.headline not in self.outcomes:
            return {}
        means = {time: self.mean(self.plan.headline, time) for time in self.plan.headline_times}
        return {f"{time:g}": round(mean[0], 4) for time, mean in means.items() if mean is not None}

    def to_dict(self, command: str, date: str) -> dict[str, Any]:
        """The record: plain numbers from which every mean can be computed again."""
        plan = self.plan
        models = {
            name: {
                "command": command,
                "date": date,
                **({"tuned": True} if plan.contender(name).trained_as in self.tuned else {}),
                "mean": self._means(name),
                **self._sampled_means(name),
                **({"history": to_record(points)} if (points := self.history(name)) else {}),
                "seeds": [_brief(outcome) for outcome in outcomes],
            }
            for name, outcomes in self.outcomes.items()
        }
        return {
            "name": plan.name,
            "title": plan.title,
            "command": command,
            "date": date,
            "profile": plan.profile,
            "shortened": plan.about,
            "left_out": {name: list(seeds) for name, seeds in self.left_out.items()},
            "headline_model": plan.headline,
            "headline": self.headline(),
            "seeds": [self._headline_rows(outcome) for outcome in self.outcomes.get(plan.headline, ())],
            "models": models,
            "rows": {name: {time: mean[0] for time, mean in model["mean"].items()} for name, model in models.items()},
            "published": {
                name: {f"{row.mean_time:g}": row.error for row in rows} for name, rows in self.published.items()
            },
            "tuning": {
                name: {"command": command, "date": date, **entry, "mean": models[name]["mean"]}
                for name, entry in self.tuned.items()
            },
            "encoder_minutes": self.encoder_minutes,
            "data": asdict(plan.data),
            "settings": {each.name: self._settings(each) for each in plan.contenders if not each.scores_of},
            "contenders": {contender.name: _reading_and_rule(contender) for contender in plan.contenders},
            "encoder": None if plan.encoder is None else to_dict(plan.encoder.settings),
            "encoder_set": None if plan.encoder is None else plan.encoder_data.set,
            "frame_accuracy": dict(self.frame_accuracy),
            "machine": {"processor": platform.machine(), "cores": _cores(), "system": platform.system()},
        }

    def _means(self, name: str) -> dict[str, list[float | None]]:
        means = {time: self.mean(name, time) for time in self.plan.times}
        return {f"{time:g}": _rounded(mean) for time, mean in means.items() if mean is not None}

    def _sampled_means(self, name: str) -> dict[str, Any]:
        means = self.sampled(name)
        if means is None:
            return {}
        return {"sampled": {"mean_time": _rounded(means.mean_time), "error": _rounded(means.error)}}

    def _settings(self, contender: Contender) -> Mapping[str, Any]:
        """The settings that were used, which tuning may have changed; those of the plan before the first training."""
        outcomes = self.outcomes.get(contender.name)
        return outcomes[0].settings if outcomes else to_dict(contender.settings)

    def _headline_rows(self, outcome: SeedResult) -> dict[str, Any]:
        rows = [
            {**asdict(row), "threshold": row.threshold if np.isfinite(row.threshold) else "inf"}
            for row in outcome.rows
            if row.asked in self.plan.headline_times
        ]
        return {"seed": outcome.seed, "training_minutes": outcome.training_minutes, "rows": rows}


def result_of(plan: Plan, stages: Stages, work: Path) -> Result:
    """The finished trials; `left_out` has the others."""
    outcomes: dict[str, list[SeedResult]] = {}
    left_out: dict[str, list[int]] = {}
    times = sorted({*plan.times, *plan.headline_times, *(time for _, time in plan.phases)})
    for trial in stages.trials:
        if trial.scores.outcome(work) is not None:
            outcomes.setdefault(trial.contender.name, []).append(_seed_result(trial, times, work))
        else:
            left_out.setdefault(trial.contender.name, []).append(trial.seed)
    tuned = {
        trial.contender.name: entry_of(trial.tuning.outcome(work), trial.contender)
        for trial in stages.trials
        if trial.tuning is not None and trial.contender.name == trial.contender.trained_as in outcomes
    }
    encoder = None if stages.encoder is None else stages.encoder.outcome(work)
    accuracy = {
        split: round(done["frame_accuracy"], 4)
        for split in ("validation", "test")
        if split in stages.features and (done := stages.features[split].outcome(work))
    }
    return Result(
        plan,
        {name: tuple(results) for name, results in outcomes.items()},
        None if encoder is None else round(encoder["training_seconds"] / 60, 2),
        {name: tuple(seeds) for name, seeds in left_out.items()},
        accuracy,
        tuned,
    )


def curve_of(trial: Trial, work: Path) -> tuple[SATCurve, FloatArray, IntArray, IntArray]:
    """The exact curve of a trial on the test set, the statistic of its rule, the predictions and the labels."""
    folder = trial.scores.folder(work)
    scores, labels, file = np.load(folder / "scores.npy"), np.load(folder / "labels.npy"), folder / "halting.npy"
    halting = torch.from_numpy(np.load(file)) if file.exists() else None
    rule = family_named(trial.contender.rule)
    statistic = rule.statistic_with(torch.from_numpy(scores), halting).double().numpy()
    return sat_curve(scores, labels, rule=rule, halting=halting), statistic, scores.argmax(axis=2), labels


def _seed_result(trial: Trial, times: list[float], work: Path) -> SeedResult:
    curve, statistic, predictions, labels = curve_of(trial, work)
    classes = np.load(trial.scores.folder(work) / "scores.npy", mmap_mode="r").shape[2]
    rows = []
    for time in times:
        index = int(np.searchsorted(curve.mean_times, time, side="right")) - 1
        if index >= 0:
            threshold = float(curve.thresholds[index])
            crossed = statistic >= threshold
            stops = np.where(crossed.any(axis=1), crossed.argmax(axis=1), statistic.shape[1] - 1)
            mean_time = float((stops + 1).mean())
            rows.append(Row(time, threshold, mean_time, *_errors_at(stops, predictions, labels, classes)))
    training = trial.training.outcome(work)
    return SeedResult(
        trial.seed,
        tuple(rows),
        round(training["training_seconds"] / 60, 2),
        training["best"],
        training["parameters"],
        training["settings"],
        # This statistic is a probability, so halting times can be drawn from it.
        _sampled(trial.seed, statistic, predictions, labels, classes) if trial.contender.rule == "halting" else None,
        # Stages of earlier versions have neither.
        training.get("precision_note", ""),
        tuple(training.get("history", ())),
    )


def _sampled(seed: int, halting: FloatArray, predictions: IntArray, labels: IntArray, classes: int) -> Sampled:
    ends = torch.full((len(halting),), halting.shape[1])
    probabilities = torch.from_numpy(halting).float()  # the precision of the model
    times = draw_halts(probabilities, ends, torch.Generator().manual_seed(seed))[1].numpy()
    return Sampled(seed, round(float(times.mean()), 4), *_errors_at(times - 1, predictions, labels, classes))


def _errors_at(
    stops: IntArray, predictions: IntArray, labels: IntArray, classes: int
) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
    """The balanced error in percent at these stops, and the numbers of wrong decisions and of series in each class."""
    wrong = predictions[np.arange(len(labels)), stops] != labels
    counts, mistakes = np.bincount(labels, minlength=classes), np.bincount(labels[wrong], minlength=classes)
    present = counts > 0
    error = 100 * float((mistakes[present] / counts[present]).mean())
    return round(error, 4), tuple(mistakes.tolist()), tuple(counts.tolist())


def _mean(values: list[float]) -> tuple[float, float]:
    means = over_seeds(np.array(values)[:, None])
    return float(means.mean[0]), float(means.sem[0])


def _rounded(mean: tuple[float, float]) -> list[float | None]:
    """Mean and standard error for the record; a single trial has no standard error."""
    return [round(mean[0], 4), None if np.isnan(mean[1]) else round(mean[1], 4)]


def _reading_and_rule(contender: Contender) -> dict[str, Any]:
    return {key: getattr(contender, key) for key in ("reads", "masks", "rule", "validation", "scores_of")}


def _brief(outcome: SeedResult) -> dict[str, Any]:
    note = {"precision_note": outcome.precision_note} if outcome.precision_note else {}
    sampled = {} if outcome.sampled is None else {"sampled": asdict(outcome.sampled)}
    return {
        "seed": outcome.seed,
        "training_minutes": outcome.training_minutes,
        "parameters": outcome.parameters,
        **note,
        "best_validation": {
            key: None if value is None or not np.isfinite(value) else value for key, value in outcome.best.items()
        },
        "errors": {f"{row.asked:g}": row.error for row in outcome.rows},
        **sampled,
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
