"""From a plan to its stages, and their execution: encoder, features, tuning, trainings, scores."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.lab.experiments.plan import Contender, Plan, for_trials
from sooner.lab.experiments.sets import SPLITS, Sets, Split, Videos
from sooner.lab.experiments.stages import Stage, taken
from sooner.lab.experiments.tuned import outcome_of
from sooner.lab.tuning import tune
from sooner.models import Model, build_model, encode_to_file, features_from_file
from sooner.models.image.frames import FrameClassifier
from sooner.series import Series
from sooner.train import Source, train
from sooner.train.settings import Settings, cache_key, changed, settings_from_dict, to_dict
from sooner.train.sources import InOrder, Minibatch
from sooner.train.untrained import untrained

_POLL_SECONDS = 2.0  # between two checks of what other processes have finished
_ROWS = 100  # batch size for scoring


class StageObserver(Protocol):
    """Receives the progress of a plan."""

    def stage(self, label: str, index: int, total: int, seconds_left: float | None) -> None:
        """A stage starts; the remaining time of all stages is estimated from the finished ones."""

    def step(self, done: int, total: int) -> None:
        """A stage has made progress."""


class SilentObserver:
    """Ignores the progress."""

    def stage(self, *_: object) -> None:
        """Do nothing."""

    step = stage


@dataclass(frozen=True)
class Work:
    """Where and how a plan is run.

    Args:
        folder: the folder of all stages; plans share it.
        seeds: number of trials of each model.
        trials: number of tuning trials for models with a search space; 0 uses the settings of the plan.
        only: the names of the models to run now; () runs all of them.
        videos: the folders of video features.
        verbose: show the progress bars of trainings.
        observer: receives the progress.
    """

    folder: Path
    seeds: int = 3
    trials: int = 0
    only: tuple[str, ...] = ()
    videos: Videos | None = None
    verbose: bool = False
    observer: StageObserver = field(default_factory=SilentObserver)


@dataclass(frozen=True, eq=False)
class Trial:
    """A contender with one seed: the stages of its training and of its scores on the test set, and of its tuning, if any."""

    contender: Contender
    seed: int
    training: Stage
    scores: Stage
    tuning: Stage | None = None


@dataclass(frozen=True, eq=False)
class Stages:
    """All stages of a plan; `in_order` has every stage after those that it needs."""

    trials: tuple[Trial, ...]
    in_order: tuple[Stage, ...]
    encoder: Stage | None = None
    features: Mapping[Split, Stage] = field(default_factory=dict)


def run(plan: Plan, work: Work) -> Stages:
    """Run every unfinished stage; stages that other processes are running are waited for."""
    stages, wanted = wanted_of(plan, work)
    while unfinished := [stage for stage in wanted if stage.outcome(work.folder) is None]:
        if not _advance(unfinished, wanted, work):
            time.sleep(_POLL_SECONDS)
    return stages


def stages_of(plan: Plan, work: Work) -> Stages:
    """The stages of a plan; this runs none of them."""
    maker = StageMaker(Sets(plan.data, work.videos, work.folder / "clips"), work, tuning=plan.tuning)
    encoder = None
    if plan.encoder is not None:
        # Where a model of this plan, or the encoder of another, has the same settings and data, its training is the same stage.
        trainer = StageMaker(Sets(plan.encoder_data), work)
        encoder = replace(trainer.training(plan.encoder, 0), label="encoder")
        maker.features.update({split: maker.encoding(plan.encoder, encoder, split) for split in SPLITS})
    seeds = range(work.seeds)
    trained = {
        (each.name, seed): maker.trial(each, seed) for seed in seeds for each in plan.contenders if not each.scores_of
    }
    trials = tuple(
        replace(trained[contender.trained_as, seed], contender=contender)
        for seed in seeds
        for contender in plan.contenders
    )
    return Stages(trials, tuple(_ordered([trial.scores for trial in trials])), encoder, maker.features)


def wanted_of(plan: Plan, work: Work) -> tuple[Stages, list[Stage]]:
    """The stages of a plan, and those that `work.only` selects."""
    stages = stages_of(plan, work)
    names = [contender.name for contender in plan.contenders]
    for name in work.only:
        if name not in names:
            raise InvalidArgument("only", f"among {', '.join(names)}", repr(name), "Names are exact.")
    return stages, _ordered(
        [trial.scores for trial in stages.trials if not work.only or trial.contender.name in work.only]
    )


def _ordered(goals: Sequence[Stage]) -> list[Stage]:
    """The goals and all stages they need, each once, after its own needs."""
    by_digest: dict[str, Stage] = {}
    for goal in goals:
        for stage in (*_ordered(goal.needs), goal):
            by_digest.setdefault(stage.digest, stage)
    return list(by_digest.values())


def _advance(unfinished: list[Stage], wanted: list[Stage], work: Work) -> bool:
    """Run one stage; False if other processes are running all stages that can be run now."""
    for stage in unfinished:
        if any(need.outcome(work.folder) is None for need in stage.needs):
            continue
        with taken(stage.folder(work.folder)) as mine:
            if not mine or stage.outcome(work.folder) is not None:
                continue
            index = len(wanted) - len(unfinished) + 1
            work.observer.stage(stage.label, index, len(wanted), _seconds_left(unfinished, wanted, work.folder))
            stage.perform(work.folder)
            return True
    return False


def _seconds_left(unfinished: list[Stage], wanted: list[Stage], folder: Path) -> float | None:
    """An estimate from finished stages with the same label but another seed, or else the same name; None without any."""
    known = [(stage, outcome["seconds"]) for stage in wanted if (outcome := stage.outcome(folder))]
    total = 0.0
    for stage in unfinished:
        similar = [seconds for other, seconds in known if _without_seed(other) == _without_seed(stage)]
        similar = similar or [seconds for other, seconds in known if other.name == stage.name]
        if not similar:
            return None
        total += sum(similar) / len(similar)
    return total


def _without_seed(stage: Stage) -> str:
    return stage.label.partition(", seed")[0]


@dataclass(frozen=True)
class StageMaker:
    """Makes the stages of a plan.

    Args:
        sets: the data of the plan.
        work: where and how it is run.
        features: the stages of the encoder's features, if there is an encoder.
        tuning: keys of [training] for the trials of tuning.
    """

    sets: Sets
    work: Work
    features: dict[Split, Stage] = field(default_factory=dict)
    tuning: tuple[tuple[str, Any], ...] = ()

    def encoding(self, encoder: Contender, training: Stage, split: Split) -> Stage:
        """The features of a split in a file, and the accuracy of the encoder's own classifier on its single frames."""

        def act(folder: Path) -> Mapping[str, Any]:
            source = self.sets.frames(split, masks="fixed", seed=0)
            model = self._trained_model(encoder.settings, source, training)
            assert isinstance(model, FrameClassifier)
            observations = (batch.observations for batch in self._batches(source))
            features = encode_to_file(model.encoder, observations, folder / "features.npy")
            return {"series": len(source), "frame_accuracy": _frame_accuracy(model, features, source.labels)}

        return Stage("features", f"features, {split}", {"split": split, "data": self.sets.identity}, (training,), act)

    def trial(self, contender: Contender, seed: int) -> Trial:
        """The training of a contender, tuned before if it has a search space, and its scores."""
        tuning = self._tuning(contender) if self.work.trials and contender.search else None
        training = self.training(contender, seed, tuning)
        return Trial(contender, seed, training, self._scores(contender, seed, training), tuning)

    def training(self, contender: Contender, seed: int, tuning: Stage | None = None) -> Stage:
        """The training of a contender with one seed."""

        def act(folder: Path) -> Mapping[str, Any]:
            tuned = None if tuning is None else tuning.outcome(self.work.folder)
            settings = contender.settings if tuned is None else settings_from_dict(tuned["settings"])
            return self._train(contender, changed(settings, {"training.seed": seed}), folder)

        settings = changed(contender.settings, {"training.seed": seed})
        ingredients = {"settings": cache_key(settings), **self._inputs(contender)}
        needs = (*self._needs(contender), *([tuning] if tuning else []))
        return Stage("training", f"{contender.name}, seed {seed}", ingredients, needs, act)

    def source(self, contender: Contender, split: Split, seed: int) -> Source:
        """The series of a split as the contender reads them."""
        masks = contender.masks if split == "train" else "fixed"
        frames = self.sets.limited(contender.validation).frames(split, masks=masks, seed=seed)
        if contender.reads == "frames" or not self.features:
            return frames
        vectors = features_from_file(self.features[split].folder(self.work.folder) / "features.npy")
        return Series.from_arrays(vectors[: len(frames)], frames.labels, classes=np.arange(self.sets.classes))

    def untrained(self, settings: Settings, source: Source) -> Model:
        """A model with weights drawn from the seed of the settings, and the class frequencies of the source as its prior."""
        return untrained(settings.model, source, self.sets.classes, seed=settings.training.seed)

    def _tuning(self, contender: Contender) -> Stage:
        search, settings = contender.search, for_trials(contender.settings, self.tuning)
        assert search is not None

        def act(folder: Path) -> Mapping[str, Any]:
            training, validation = (self.source(contender, split, 0) for split in ("train", "validation"))
            record = tune(
                lambda settings: self.untrained(settings, training),
                training,
                validation,
                settings,
                search,
                trials=self.work.trials,
                storage=f"sqlite:///{(folder / 'study.db').resolve()}",
                folder=folder,
                verbose=self.work.verbose,
            )
            return outcome_of(record, contender.settings, settings, search)

        space = {key: repr(axis) for key, axis in search.axes.items()}
        ingredients = {"settings": cache_key(settings), "space": space, "trials": self.work.trials}
        inputs = {**ingredients, **self._inputs(contender)}
        return Stage("tuning", f"tuning {contender.name}", inputs, self._needs(contender), act)

    def _scores(self, contender: Contender, seed: int, training: Stage) -> Stage:
        def act(folder: Path) -> Mapping[str, Any]:
            source = self.source(contender, "test", seed)
            settings = settings_from_dict(training.outcome(self.work.folder)["settings"])
            self._score(self._trained_model(settings, source, training), source, folder)
            return {"series": len(source)}

        return Stage("scores", f"scores of {contender.name}, seed {seed}", {}, (training,), act)

    def _inputs(self, contender: Contender) -> dict[str, Any]:
        data = self.sets.limited(contender.validation).identity
        return {"reads": contender.reads, "masks": contender.masks, "data": data}

    def _needs(self, contender: Contender) -> tuple[Stage, ...]:
        return tuple(self.features.values()) if contender.reads == "features" else ()

    def _trained_model(self, settings: Settings, source: Source, training: Stage) -> Model:
        model = build_model(
            settings.model, source.shape[1:], self.sets.classes, log_prior=torch.zeros(self.sets.classes)
        )
        model.load_state_dict(torch.load(training.folder(self.work.folder) / "weights.pt", weights_only=True))
        return model.eval()

    def _train(self, contender: Contender, settings: Settings, folder: Path) -> Mapping[str, Any]:
        seed, iterations = settings.training.seed, settings.training.iterations
        training, validation = (self.source(contender, split, seed) for split in ("train", "validation"))
        model = self.untrained(settings, training)
        record = train(
            model,
            training,
            validation,
            settings,
            folder=folder,
            resume=True,
            verbose=self.work.verbose,
            # A verbose training shows its own progress bar.
            watch=None if self.work.verbose else lambda found: self.work.observer.step(found.step, iterations),
        )
        torch.save(model.state_dict(), folder / "weights.pt")
        return {
            "settings": to_dict(settings),
            "best": record.best._asdict(),
            "history": [validation._asdict() for validation in record.history],
            "training_seconds": record.seconds,
            **record.precision.to_dict(),
            "versions": dict(record.versions),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }

    @torch.no_grad()
    def _score(self, model: Model, source: Source, folder: Path) -> None:
        """Write the scores of the series, (series, time, classes), and the halting probabilities if the model has some."""
        scores, halting = [], []
        for batch in self._batches(source):
            batch_scores, batch_halting = model.scores_and_halting(batch.observations, batch.lengths)
            scores.append(batch_scores.float().numpy())
            if batch_halting is not None:
                halting.append(batch_halting.float().numpy())
        np.save(folder / "labels.npy", source.labels.numpy())
        np.save(folder / "scores.npy", np.concatenate(scores))
        if halting:
            np.save(folder / "halting.npy", np.concatenate(halting))

    def _batches(self, source: Source) -> Iterator[Minibatch]:
        batches = InOrder(source, _ROWS)
        for index, batch in enumerate(batches):
            self.work.observer.step(index, len(batches))
            yield batch


@torch.no_grad()
def _frame_accuracy(model: FrameClassifier, features: Tensor, labels: Tensor) -> float:
    """Balanced accuracy of single frames, averaged over time."""
    hits = torch.cat([model.head(batch).argmax(dim=2) for batch in features.split(_ROWS)]) == labels[:, None]
    return float(torch.stack([hits[labels == k].double().mean() for k in labels.unique()]).mean())
