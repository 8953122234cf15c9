"""From series to a fitted model, and to scores of series that the model has not seen.

Small data go to `Rocket`, which leaves one series out at a time; everything else holds a share out.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from sooner.data.series import Series, with_mask
from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument, UnknownName
from sooner.evaluate import Achieved, achieved, sat_curve
from sooner.evaluate.metrics import as_groups
from sooner.inputs import as_whole
from sooner.models import Model, PrefixScorer, Rocket, build_model
from sooner.models.prefix import Classifier
from sooner.progress import Bar, tell
from sooner.rules import Rule, ThresholdRule
from sooner.settings import LossSettings, ModelSettings, OptimizerSettings, Settings, TrainingSettings, to_dict
from sooner.types import ArrayLike, FloatArray, IntArray, Labels, Lengths, SATCurve, Scores
from sooner.upgrade import decay_of_a_step

if TYPE_CHECKING:
    from sooner.train import Examples

Order: TypeAlias = int | Literal["full"]

TRAINED = {"recurrent": "peephole", "lstm": "lstm", "gru": "gru", "earliest": None}
"""The models that are trained step by step, and the cell of those that have one."""
MODELS = ("auto", "rocket", "prefix", *TRAINED)

SMALL = 2000
"""Up to so many series, "auto" takes `Rocket`: its time grows with the cube of that number, and it learns from tens of series."""
_LARGEST = 2**30
_LOOKS, _PATIENCE = 50, 15
"""About so many looks at the held-out share in a training, and so many without a gain before it ends."""
_DECAY = 1e-4
"""Weight decay of a step, as a multiple of the learning rate."""
_KEPT = 2000
"""So many held-out series are kept with a model, for later choices of a threshold."""


class Scored(NamedTuple):
    """Scores (n_cases, n_timepoints, n_classes), zero beyond each length, and the lengths."""

    scores: FloatArray
    lengths: IntArray


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of labelled series that the model has not seen, and the group of each as a number, where groups are known."""

    scores: Scores
    labels: Labels
    lengths: Lengths
    groups: Labels | None = None

    @classmethod
    def of(cls, scored: "Scored", labels: ArrayLike, groups: Any = None) -> "HeldOut":
        """The same of other series, whose groups may be of any type."""
        scores, lengths = torch.as_tensor(scored.scores), torch.as_tensor(scored.lengths)
        owners = None if groups is None else torch.as_tensor(as_groups(groups, len(scores)))
        return cls(scores, torch.as_tensor(labels), lengths, owners)

    def part(self, most: int) -> "HeldOut":
        """At most so many of them, evenly chosen."""
        if len(self.labels) <= most:
            return self
        rows = torch.linspace(0, len(self.labels) - 1, most).long()
        groups = None if self.groups is None else self.groups[rows]
        return HeldOut(self.scores[rows], self.labels[rows], self.lengths[rows], groups)

    def achieved(self, rule: Rule) -> Achieved:
        """What a rule reaches on them."""
        return achieved(rule, self.scores, self.labels, lengths=self.lengths, groups=self.groups)

    def curve(self, family: type[ThresholdRule]) -> SATCurve:
        """What the rules of a family reach on them."""
        return sat_curve(self.scores, self.labels, lengths=self.lengths, rule=family)


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted model with what it needs of its past.

    Attributes:
        name: which model it is, one of `MODELS` but "auto".
        model: in evaluation mode.
        settings: what it was built and trained with, where that was by settings.
        standardizer: what its observations go through first.
        held_out: scores that thresholds are chosen on.
        record: what happened in training, ready for JSON.
    """

    name: str
    model: Model
    settings: Settings | None
    standardizer: Standardizer
    held_out: HeldOut
    record: Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """How to learn; the arguments are those of `EarlyClassifier`, checked."""

    model: str | Classifier
    settings: Settings
    validation_share: float
    seed: int
    folder: Path | None
    verbose: bool

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and self.model not in MODELS:
            raise UnknownName("model", self.model, MODELS)

    def name_for(self, series: Series) -> str:
        """The model that is taken for these series."""
        if not isinstance(self.model, str):
            return "prefix"
        if self.model != "auto":
            return self.model
        small = len(series) <= SMALL and series.observations.numel() * 4 <= _LARGEST
        return "rocket" if small else "recurrent"

    def reason_for(self, series: Series) -> str:
        """The same with the reason, for a person."""
        name = self.name_for(series)
        if self.model != "auto":
            return f"Model: {name}"
        few, size = len(series) <= SMALL, f"{len(series):,} series"
        if few and name == "recurrent":
            return f'Model: {name} ("auto": {size} with more than {_LARGEST // 2**30} GB of observations)'
        return f'Model: {name} ("auto": {size}, {"at most" if few else "more than"} {SMALL:,})'


def learn(series: Series, weights: FloatArray | None, way: Way) -> Learned:
    """Fit the model that `way` names, or the one that suits the series; those of no weight are as if they were not there."""
    if weights is not None and not weights.all():
        series, weights = series.take(np.flatnonzero(weights)), weights[weights > 0]
    refuse_lonely(series)
    refuse_absent(series)
    name = way.name_for(series)
    if way.verbose:
        tell(way.reason_for(series))
    if name not in TRAINED and way.settings.training.engine != "local":
        remedy = 'It is fitted in one go, by this process. Take model="recurrent" to train on a cluster.'
        raise InvalidArgument("engine", f"'local' for the model {name!r}", repr(way.settings.training.engine), remedy)
    if name == "rocket":
        return _fit_rocket(series, weights, way)
    training, held = _split(series, way)
    refuse_absent(series.take(training))
    standardizer = Standardizer.fit(series.take(training))
    ready, unseen = standardizer.apply(series.take(training)), standardizer.apply(series.take(held))
    counts = None if weights is None else weights[training]
    settings: Settings | None = None
    if name == "prefix":
        if counts is not None and not np.allclose(counts, counts[0]):
            remedy = 'Take model="rocket" or "recurrent", or leave the weights out.'
            raise InvalidArgument("sample_weight", "None for a classifier on prefixes", "weights", remedy)
        classifier = None if isinstance(way.model, str) else way.model
        model: Model = PrefixScorer(ready.features, len(ready.classes), classifier=classifier)
        record: Mapping[str, Any] = {"series": len(ready)}
        assert isinstance(model, PrefixScorer)
        model.fit(ready.observations, ready.labels, ready.lengths, seed=way.seed)
    else:
        settings = settings_for(name, way.settings)
        model, record = _train(ready, unseen, counts, settings, way)
    model.eval()
    return Learned(name, model, settings, standardizer, held_out_scores(model, unseen).part(_KEPT), record)


def recurrent_settings(
    series: int,
    *,
    order: Any,
    loss: Any,
    max_epochs: int,
    hidden: int,
    learning_rate: float,
    batch_size: int,
    device: str,
    engine: str,
    workers: int,
    seed: int,
) -> Settings:
    """The settings of a model that is trained on so many series; the other arguments are those of `EarlyClassifier`."""
    epochs = as_whole(max_epochs, name="max_epochs", low=1, remedy="It is the number of passes over the data.")
    size = as_whole(batch_size, name="batch_size", low=1, remedy="It is the number of series in a step.")
    size = min(size, max(8, series // 8))  # a step on all of a small set at once would learn little
    steps = epochs * max(1, series // size)
    lr = OptimizerSettings(lr=learning_rate).lr  # checked there
    return Settings(
        ModelSettings(
            hidden=hidden, order="full" if isinstance(order, str) and order == "auto" else order, prior="corrected"
        ),
        LossSettings(weights=_weights_of(loss)),
        OptimizerSettings(lr=lr, weight_decay=decay_of_a_step(_DECAY, lr), schedule="cosine"),
        TrainingSettings(
            batch_size=size,
            iterations=steps,
            validate_every=max(1, steps // _LOOKS),
            patience=_PATIENCE,
            gradient_clip=1.0,
            seed=seed,
            device=device,
            engine=engine,
            workers=workers,
        ),
    )


def settings_for(name: str, settings: Settings) -> Settings:
    """The settings with the model of that name."""
    cell = TRAINED[name]
    model = replace(settings.model, name="earliest") if cell is None else replace(settings.model, cell=cell)
    return replace(settings, model=model)


@torch.no_grad()
def scores_of(model: Model, series: Series, *, rows: int = 500) -> Scores:
    """The scores of all series, computed a part at a time."""
    parts = zip(series.observations.split(rows), series.lengths.split(rows), strict=True)
    return torch.cat([model.scores(*part).cpu() for part in parts])


def held_out_scores(model: Model, unseen: Series) -> HeldOut:
    """What the model says about series it has not seen."""
    groups = None if unseen.groups is None else torch.as_tensor(as_groups(unseen.groups, len(unseen)))
    return HeldOut(scores_of(model, unseen), unseen.labels, unseen.lengths, groups)


def refuse_lonely(series: Series) -> None:
    """Nothing can be held out where every class has one series."""
    if int(series.class_counts().max()) < 2:
        got = f"{len(series)} series of {len(series)} classes"
        raise InvalidArgument("y", "a class with at least 2 series", got, "Bring more series of each class.")


def refuse_absent(series: Series) -> None:
    """Nothing can be learned about a class without a series."""
    absent = np.flatnonzero(series.class_counts() == 0)
    if len(absent):
        got = f"none of {series.classes.tolist()[absent[0]]!r}"
        remedy = "Drop the class, give its series a weight above 0, or split otherwise: other groups, a smaller share."
        raise InvalidArgument("y", "a series of every class to learn from", got, remedy)


def prepared(standardizer: Standardizer, observations: torch.Tensor) -> torch.Tensor:
    """What a model reads, of live observations: with mask channels where it has some, standardised."""
    return standardizer.apply_step(with_mask(observations) if standardizer.mask_channels else observations)


def _fit_rocket(series: Series, weights: FloatArray | None, way: Way) -> Learned:
    standardizer = Standardizer.fit(series)
    ready = standardizer.apply(series)
    classes = len(ready.classes)
    groups = None if ready.groups is None else ready.group_places()
    with _watched(way.verbose) as watch:
        model, left_out = Rocket.fit(
            ready.observations,
            ready.labels,
            ready.lengths,
            classes=classes,
            weights=weights,
            groups=groups,
            seed=way.seed,
            watch=watch,
        )
    unit = "series" if groups is None else "group"
    record = {
        "series": len(ready),
        "held_out": f"left out one {unit} at a time",
        "checkpoints": list(model.checkpoints),
    }
    owners = None if groups is None else torch.as_tensor(groups)
    held_out = HeldOut(left_out, ready.labels, ready.lengths, owners).part(_KEPT)
    return Learned("rocket", model, None, standardizer, held_out, record)


@contextmanager
def _watched(verbose: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """What moves a bar, where one is to be shown."""
    if not verbose:
        yield None
        return
    bar = Bar("convolving series", 1)
    bar.show()
    try:
        yield bar.turn_to
    finally:
        bar.hide()


def _split(series: Series, way: Way) -> tuple[np.ndarray, np.ndarray]:
    """Places to train on, and places held out."""
    # Series whose only observation is their place, in float64: exact for any number of them.
    order = torch.arange(len(series)).double()[:, None, None]
    places = Series(order, series.labels, series.classes, groups=series.groups)
    cut = places.split if series.groups is None else places.split_by_group
    training, held = (part.observations.flatten().long().numpy() for part in cut(way.validation_share, way.seed))
    return training, held


def _train(
    ready: Series, unseen: Series, weights: FloatArray | None, settings: Settings, way: Way
) -> tuple[Model, Mapping[str, Any]]:
    from sooner.train import train

    torch.manual_seed(way.seed)
    counts = ready.class_counts() if weights is None else np.bincount(ready.labels, weights=weights)
    log_prior = np.log(counts / counts.sum())
    model = build_model(settings.model, ready.features, len(ready.classes), log_prior=log_prior)
    if way.folder is not None:
        _refuse_other_data(way.folder, ready, unseen, weights=weights)
    record = train(
        model,
        _examples(ready, weights),
        _examples(unseen, None),
        settings,
        folder=way.folder,
        resume=way.folder is not None,
        verbose=way.verbose,
    )
    best = {"step": record.best.step, "metric": record.best.metric}
    return model, {
        "series": len(ready),
        "held_out": len(unseen),
        "settings": to_dict(settings),
        "best": best,
        "steps": record.steps,
        "seconds": record.seconds,
        **record.precision.to_dict(),
        "versions": dict(record.versions),
    }


def _examples(series: Series, weights: FloatArray | None) -> "Examples":
    from sooner.train import Examples

    equal = bool((series.lengths == series.observations.shape[1]).all())
    kept = None if weights is None else torch.as_tensor(weights)
    return Examples(series.observations, series.labels, None if equal else series.lengths, kept)


def _refuse_other_data(folder: Path, *parts: Series, weights: FloatArray | None) -> None:
    """A run goes on with the data it began with."""
    digest = hashlib.sha256(b"" if weights is None else weights.tobytes())
    for part in parts:
        for tensor in (part.observations, part.labels, part.lengths):
            digest.update(tensor.contiguous().numpy().tobytes())
    note = folder / "data.sha256"
    if note.exists() and note.read_text(encoding="utf-8").strip() != digest.hexdigest():
        remedy = "Bring the data it began with, or name another folder."
        raise InvalidArgument("folder", "without a run on other data", str(folder), remedy)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(digest.hexdigest() + "\n", encoding="utf-8")


def _weights_of(loss: Any) -> Mapping[str, float]:
    """The weights of the losses, from their names joined by "+"."""
    if isinstance(loss, str):
        return dict.fromkeys((name.strip() for name in loss.split("+")), 1.0)
    if not isinstance(loss, Mapping):
        remedy = 'For example "lsel+multiplet", or {"lsel": 10.0, "multiplet": 1.0}.'
        raise InvalidArgument("loss", "names joined by '+', or a dict", repr(loss), remedy)
    return loss
