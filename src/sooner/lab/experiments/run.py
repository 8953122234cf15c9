"""From a plan to its stages, and through them: encoder, features, tuning, trainings, scores."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.lab.experiments.plan import Contender, Plan
from sooner.lab.experiments.sets import SPLITS, Sets, Split, Videos
from sooner.lab.experiments.stages import Stage, taken
from sooner.lab.tuning import tune
from sooner.models import Model, build_model, encode_to_file, features_from_file
from sooner.models.image.frames import FrameClassifier
from sooner.series import Series
from sooner.train import Source, train
from sooner.train.settings import Settings, cache_key, changed, settings_from_dict, to_dict
from sooner.train.sources import InOrder
from sooner.train.untrained import untrained

_PATIENCE = 2.0  # seconds between two looks at what another process does
_ROWS = 100  # series that are scored at once


class StageObserver(Protocol):
    """Who is told how things go on."""

    def stage(self, label: str, index: int, total: int, seconds_left: float | None) -> None:
        """A stage begins; the time that all of them still take is an estimate from those that are done."""

    def step(self, done: int, total: int) -> None:
        """So much of the stage is done."""


class Silent:
    """An observer who does not care."""

    def stage(self, label: str, index: int, total: int, seconds_left: float | None) -> None:
        """Nothing."""

    def step(self, done: int, total: int) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Work:
    """Where and how a plan is carried out.

    Args:
        folder: of all stages, shared between plans.
        seeds: how many trials each model has.
        trials: of tuning, for models with a search space; 0 takes the settings as they are.
        only: the names of the models to run now; () runs all of them.
        videos: where features of videos are.
        verbose: let trainings show their own bars.
        observer: who is told.
    """

    folder: Path
    seeds: int = 3
    trials: int = 0
    only: tuple[str, ...] = ()
    videos: Videos | None = None
    verbose: bool = False
    observer: StageObserver = field(default_factory=Silent)


@dataclass(frozen=True, eq=False)
class Trial:
    """A contender with one seed: the stages of its training and of its scores on the test set."""

    contender: Contender
    seed: int
    training: Stage
    scores: Stage


@dataclass(frozen=True, eq=False)
class Stages:
    """All that a plan needs, in an order in which it can be done; the encoder and its features where there is one."""

    trials: tuple[Trial, ...]
    in_order: tuple[Stage, ...]
    encoder: Stage | None = None
    features: Mapping[Split, Stage] = field(default_factory=dict)


def run(plan: Plan, work: Work) -> Stages:
    """Do every stage that is not done yet; what other processes are doing is left to them, and waited for."""
    stages, wanted = wanted_of(plan, work)
    while open_ones := [stage for stage in wanted if stage.outcome(work.folder) is None]:
        if not _advance(open_ones, wanted, work):
            time.sleep(_PATIENCE)
    return stages


def stages_of(plan: Plan, work: Work) -> Stages:
    """The stages of a plan, none of them done by this."""
    sets = Sets(plan.data, work.videos, work.folder / "clips")
    encoder, features = None, {}
    if plan.encoder is not None:
        # A training as every other: where a model of the plan has the same settings, it is the same stage.
        encoder = replace(_training_stage(plan.encoder, 0, {}, None, sets, work), label="encoder")
        features = {split: _features_stage(plan.encoder, encoder, split, sets, work) for split in SPLITS}
    trained: dict[tuple[str, int], Trial] = {}
    tuned = {
        each.name: _tuning_stage(each, features, sets, work)
        for each in plan.contenders
        if work.trials and each.search and not each.scores_of
    }
    for seed in range(work.seeds):
        for each in (one for one in plan.contenders if not one.scores_of):
            training = _training_stage(each, seed, features, tuned.get(each.name), sets, work)
            scores = _scores_stage(each, seed, training, features, sets, work)
            trained[each.name, seed] = Trial(each, seed, training, scores)
    trials = [
        replace(trained[each.scores_of or each.name, seed], contender=each)
        for seed in range(work.seeds)
        for each in plan.contenders
    ]
    return Stages(tuple(trials), tuple(_ordered([trial.scores for trial in trials])), encoder, features)


def wanted_of(plan: Plan, work: Work) -> tuple[Stages, list[Stage]]:
    """The stages of a plan, and those of them that are to be done now."""
    stages = stages_of(plan, work)
    names = [each.contender.name for each in stages.trials]
    for name in work.only:
        if name not in names:
            raise InvalidArgument("only", f"among {', '.join(dict.fromkeys(names))}", repr(name), "Names are exact.")
    chosen = [trial.scores for trial in stages.trials if not work.only or trial.contender.name in work.only]
    return stages, _ordered(chosen)


def _ordered(goals: Sequence[Stage]) -> list[Stage]:
    """The goals and all they need, each once, needs first."""
    found: dict[str, Stage] = {}

    def visit(stage: Stage) -> None:
        for need in stage.needs:
            visit(need)
        found.setdefault(stage.digest, stage)

    for goal in goals:
        visit(goal)
    return list(found.values())


def _advance(open_ones: list[Stage], wanted: list[Stage], work: Work) -> bool:
    """Do one stage; False if all that could be done is being done by others."""
    for stage in open_ones:
        if any(need.outcome(work.folder) is None for need in stage.needs):
            continue
        with taken(stage.folder(work.folder)) as mine:
            if not mine or stage.outcome(work.folder) is not None:
                continue
            done = len(wanted) - len(open_ones)
            work.observer.stage(stage.label, done + 1, len(wanted), _seconds_left(open_ones, wanted, work.folder))
            stage.perform(work.folder)
            return True
    return False


def _seconds_left(open_ones: list[Stage], wanted: list[Stage], folder: Path) -> float | None:
    """As long as stages of the same name took before, or else those of their kind; None while nothing is known."""
    known = [(stage, outcome["seconds"]) for stage in wanted if (outcome := stage.outcome(folder))]
    total = 0.0
    for stage in open_ones:
        alike = [seconds for other, seconds in known if _family(other) == _family(stage)]
        alike = alike or [seconds for other, seconds in known if other.kind == stage.kind]
        if not alike:
            return None
        total += sum(alike) / len(alike)
    return total


def _family(stage: Stage) -> str:
    return stage.label.partition(", seed")[0]


def _features_stage(encoder: Contender, training: Stage, split: Split, sets: Sets, work: Work) -> Stage:
    """The features of a split in a file, and the accuracy of the encoder's own classifier on its single frames."""

    def act(folder: Path) -> Mapping[str, Any]:
        source = sets.frames(split, masks="fixed", seed=0)
        model = _finished(encoder.settings, sets, source, training, work.folder)
        assert isinstance(model, FrameClassifier)
        batches = InOrder(source, _ROWS)

        def told() -> Any:
            for index, batch in enumerate(batches):
                work.observer.step(index, len(batches))
                yield batch.observations

        features = encode_to_file(model.encoder, told(), folder / "features.npy")
        return {"series": len(source), "frame_accuracy": _frame_accuracy(model, features, source.labels)}

    return Stage("features", f"features, {split}", {"split": split, "data": sets.identity}, (training,), act)


@torch.no_grad()
def _frame_accuracy(model: FrameClassifier, features: Tensor, labels: Tensor) -> float:
    """Balanced accuracy of single frames, averaged over time."""
    hits = torch.cat([model.head(part).argmax(dim=2) for part in features.split(_ROWS)]) == labels[:, None]
    return float(torch.stack([hits[labels == k].double().mean() for k in labels.unique()]).mean())


def _tuning_stage(each: Contender, features: Mapping[Split, Stage], sets: Sets, work: Work) -> Stage:
    def act(folder: Path) -> Mapping[str, Any]:
        training, validation = (_source(each, split, 0, features, sets, work) for split in ("train", "validation"))
        assert each.search is not None
        found = tune(
            lambda settings: _untrained(settings, sets, training),
            training,
            validation,
            each.settings,
            each.search,
            trials=work.trials,
            storage=f"sqlite:///{(folder / 'study.db').resolve()}",
            folder=folder,
            verbose=work.verbose,
        )
        return {"settings": to_dict(found.settings), "metric": found.metric}

    assert each.search is not None
    space = {key: repr(axis) for key, axis in each.search.axes.items()}
    about = {"settings": cache_key(each.settings), "space": space, "trials": work.trials}
    data = {"reads": each.reads, "masks": each.masks, "data": sets.limited(each.validation).identity}
    needs = tuple(features.values()) if each.reads == "features" else ()
    return Stage("tuning", f"tuning {each.name}", {**about, **data}, needs, act)


def _training_stage(
    each: Contender, seed: int, features: Mapping[Split, Stage], tuned: Stage | None, sets: Sets, work: Work
) -> Stage:
    def act(folder: Path) -> Mapping[str, Any]:
        settings = _settings(each, seed, tuned, work.folder)
        training, validation = (_source(each, split, seed, features, sets, work) for split in ("train", "validation"))
        return _trained(_untrained(settings, sets, training), training, validation, settings, folder, work)

    settings = changed(each.settings, {"training.seed": seed})
    data = sets.limited(each.validation).identity
    ingredients = {"settings": cache_key(settings), "reads": each.reads, "masks": each.masks, "data": data}
    needs = tuple(features.values()) if each.reads == "features" else ()
    return Stage("training", f"{each.name}, seed {seed}", ingredients, needs + ((tuned,) if tuned else ()), act)


def _scores_stage(
    each: Contender, seed: int, training: Stage, features: Mapping[Split, Stage], sets: Sets, work: Work
) -> Stage:
    def act(folder: Path) -> Mapping[str, Any]:
        source = _source(each, "test", seed, features, sets, work)
        outcome = training.outcome(work.folder)
        assert outcome is not None
        model = _finished(settings_from_dict(outcome["settings"]), sets, source, training, work.folder)
        scores, halting = _scored(model, source, work.observer)
        np.save(folder / "labels.npy", source.labels.numpy())
        np.save(folder / "scores.npy", scores)
        if halting is not None:
            np.save(folder / "halting.npy", halting)
        return {"series": len(source)}

    return Stage("scores", f"scores of {each.name}, seed {seed}", {}, (training,), act)


def _source(
    each: Contender, split: Split, seed: int, features: Mapping[Split, Stage], sets: Sets, work: Work
) -> Source:
    masks = each.masks if split == "train" else "fixed"
    frames = sets.limited(each.validation).frames(split, masks=masks, seed=seed)
    if each.reads == "frames" or not features:
        return frames
    vectors = features_from_file(features[split].folder(work.folder) / "features.npy")
    return Series.from_arrays(vectors[: len(frames)], frames.labels, classes=np.arange(sets.classes))


def _settings(each: Contender, seed: int, tuned: Stage | None, work: Path) -> Settings:
    found = None if tuned is None else tuned.outcome(work)
    settings = each.settings if found is None else settings_from_dict(found["settings"])
    return changed(settings, {"training.seed": seed})


def _untrained(settings: Settings, sets: Sets, source: Source) -> Model:
    """A model whose weights are drawn from the seed of the settings, and whose prior is that of the source."""
    return untrained(settings.model, source, sets.classes, seed=settings.training.seed)


def _finished(settings: Settings, sets: Sets, source: Source, training: Stage, work: Path) -> Model:
    """The model that a training left, prior and all."""
    model = build_model(settings.model, source.shape[1:], sets.classes, log_prior=torch.zeros(sets.classes))
    model.load_state_dict(torch.load(training.folder(work) / "weights.pt", weights_only=True))
    return model.eval()


def _trained(
    model: Model, training: Source, validation: Source, settings: Settings, folder: Path, work: Work
) -> Mapping[str, Any]:
    total = settings.training.iterations
    record = train(
        model,
        training,
        validation,
        settings,
        folder=folder,
        resume=True,
        verbose=work.verbose,
        # A training that shows a bar of its own needs no second one.
        watch=None if work.verbose else lambda found: work.observer.step(found.step, total),
    )
    torch.save(model.state_dict(), folder / "weights.pt")
    return {
        "settings": to_dict(settings),
        "best": record.best._asdict(),
        "training_seconds": record.seconds,
        **record.precision.to_dict(),
        "versions": dict(record.versions),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _scored(model: Model, source: Source, observer: StageObserver) -> tuple[Any, Any]:
    """(series, time, classes), and the model's own statistic if it has one."""
    scores, halting = [], []
    batches = InOrder(source, _ROWS)
    with torch.no_grad():
        for index, batch in enumerate(batches):
            observer.step(index, len(batches))
            said, own = model.scores_and_halting(batch.observations, batch.lengths)
            scores.append(said.float().numpy())
            if own is not None:
                halting.append(own.float().numpy())
    return np.concatenate(scores), np.concatenate(halting) if halting else None
