"""From series to a fitted model, and to scores of series that the model has not seen.

Small data go to `Rocket`, which leaves one series out at a time; everything else holds a share out.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_random_state

from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument, UnknownName
from sooner.evaluate.posterior import PosteriorCalibration, fit_posterior
from sooner.inputs import as_between, as_groups, as_whole
from sooner.models import Model, PrefixScorer, Rocket
from sooner.progress import ProgressBar, tell
from sooner.rules import MSPRT, Halting, ThresholdRule
from sooner.scores import Scored
from sooner.series import Series, with_mask
from sooner.train.settings import LossSettings, ModelSettings, OptimizerSettings, Settings, TrainingSettings, to_dict
from sooner.train.untrained import untrained
from sooner.train.upgrade import decay_per_step

TRAINED = {"recurrent": "peephole", "lstm": "lstm", "gru": "gru", "earliest": None}
"""The models that are trained step by step, and the cell of those that have one."""
MODELS = ("auto", "rocket", "prefix", *TRAINED)
OWN = "own"
"""The name of a user's own `Model`, which is trained step by step like the others."""

SMALL = 2000
"""Up to so many series, "auto" takes `Rocket`: its time grows with the cube of that number, and it learns from tens of series."""
_LARGEST = 2**30
_LOOKS, _PATIENCE = 50, 15
"""About so many looks at the held-out share in a training, and so many without a gain before it ends."""
_DECAY = 1e-4
"""Weight decay of a step, as a multiple of the learning rate."""
_OF_A_RECURRENT_MODEL = (
    *("order", "loss", "max_epochs", "hidden", "learning_rate", "batch_size"),
    *("device", "engine", "workers"),
)
_KEPT = 2000
"""So many held-out series are kept with a model, for later choices of a threshold."""


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted model with what it needs of its past.

    Attributes:
        name: which model it is, one of `MODELS` but "auto", or "own".
        model: in evaluation mode.
        settings: what it was built and trained with, where that was by settings.
        standardizer: what its observations go through first.
        held_out: scores that thresholds are chosen on.
        record: what happened in training, ready for JSON.
        posterior: how posteriors at the decision are calibrated.
    """

    name: str
    model: Model
    settings: Settings | None
    standardizer: Standardizer
    held_out: Scored
    record: Mapping[str, Any]
    posterior: PosteriorCalibration


@dataclass(frozen=True)
class FitOptions:
    """How to fit; the arguments are those of `EarlyClassifier`, checked."""

    model: Any
    settings: Settings
    validation_share: float
    seed: int
    folder: Path | None
    verbose: bool

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and self.model not in MODELS:
            raise UnknownName("model", self.model, MODELS)

    @classmethod
    def of(cls, classifier: Any, series: int) -> "FitOptions":
        """Check the arguments of an `EarlyClassifier` that is to be fitted to so many series."""
        seed, share = classifier.random_state, classifier.validation_share
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        seed = as_whole(seed, name="random_state", low=0, remedy="The same number gives the same result.")
        remedy = "It is a fraction of the series: 0.2 means 20%."
        share = as_between(share, name="validation_share", low=0.0, high=1.0, remedy=remedy)
        folder = None if classifier.folder is None else Path(classifier.folder)
        settings = classifier.settings or recurrent_settings(
            round((1 - share) * series),
            seed=seed,
            **{name: getattr(classifier, name) for name in _OF_A_RECURRENT_MODEL},
        )
        return cls(classifier.model, settings, share, seed, folder, bool(classifier.verbose))

    def name_for(self, series: Series) -> str:
        """The model that is taken for these series."""
        if is_own_model(self.model):
            return OWN
        if not isinstance(self.model, str):
            return "prefix"
        if self.model != "auto":
            return self.model
        small = len(series) <= SMALL and series.observations.numel() * 4 <= _LARGEST
        return "rocket" if small else "recurrent"

    def refuse_silent(self, family: type[ThresholdRule], name: str) -> None:
        """A rule that reads a halting probability needs a model that has one."""
        built = settings_for(name, self.settings).model.name if name in TRAINED else name
        if issubclass(family, Halting) and built not in ("earliest", OWN):
            remedy = 'Only model="earliest" says when to stop.'
            raise InvalidArgument("rule", f"one that reads scores for the model {name!r}", "'halting'", remedy)

    def reason_for(self, series: Series) -> str:
        """The same with the reason, for a person."""
        name = self.name_for(series)
        if self.model != "auto":
            return f"Model: {name}"
        few, size = len(series) <= SMALL, f"{len(series):,} series"
        if few and name == "recurrent":
            return f'Model: {name} ("auto": {size} with more than {_LARGEST // 2**30} GB of observations)'
        return f'Model: {name} ("auto": {size}, {"at most" if few else "more than"} {SMALL:,})'


def is_own_model(model: Any) -> bool:
    """Whether this is a user's own `Model`: an untrained one, or what makes one of (features, classes)."""
    return isinstance(model, Model) or (isinstance(model, type) and issubclass(model, Model)) or _is_factory(model)


def own_model(model: Any, features: tuple[int, ...], classes: int) -> Model:
    """A fresh copy of a user's own model; the one that was given stays untrained."""
    try:
        made = copy.deepcopy(model) if isinstance(model, Model) else model(features, classes)
    except TypeError as error:
        raise InvalidArgument(
            "model", "one that makes a Model of (features, classes)", repr(model), f"{error}."
        ) from error
    if not isinstance(made, Model):
        remedy = "Derive it from sooner.models.Model."
        raise InvalidArgument("model", "one that makes a Model", type(made).__name__, remedy)
    if (made.features, made.classes) != (tuple(features), classes):
        got = f"{made.features} and {made.classes} classes"
        remedy = (
            "Pass what makes the model: EarlyClassifier(model=lambda features, classes: MyModel(features, classes))."
        )
        raise InvalidArgument(
            "model", f"for observations of shape {tuple(features)} and {classes} classes", got, remedy
        )
    return made


def learn(series: Series, options: FitOptions, family: type[ThresholdRule] = MSPRT) -> Learned:
    """Fit the model of the options, or the one that suits the series; series of weight 0 are left out.

    The family is that of the rule which is to read its scores: a model that it cannot read is refused before training.
    """
    if series.weights is not None and not bool(series.weights.all()):
        series = series.take(np.flatnonzero(series.weights))
    require_two_per_class(series)
    require_every_class(series)
    name = options.name_for(series)
    options.refuse_silent(family, name)
    if options.verbose:
        tell(options.reason_for(series))
    if name not in (*TRAINED, OWN) and options.settings.training.engine != "local":
        remedy = 'It is fitted in one go, by this process. Take model="recurrent" to train on a cluster.'
        engine = options.settings.training.engine
        raise InvalidArgument("engine", f"'local' for the model {name!r}", repr(engine), remedy)
    if name == "rocket":
        return _fit_rocket(series, options, family)
    training, held = series.hold_out(options.validation_share, options.seed)
    require_every_class(training)
    standardizer = Standardizer.fit(training)
    ready, unseen = standardizer.apply(training), standardizer.apply(held)
    if name == "prefix":
        model, settings, record = _fit_prefix(ready, options)
    else:
        settings = settings_for(name, options.settings)
        model, record = _train(ready, unseen, settings, options, family)
    model.eval()
    held_out = scored(model, unseen)
    posterior = fit_posterior(held_out, family)
    return Learned(name, model, settings, standardizer, held_out.at_most(_KEPT), record, posterior)


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
        OptimizerSettings(lr=lr, weight_decay=decay_per_step(_DECAY, lr), schedule="cosine"),
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
    if name == OWN:
        return settings  # its `model` table is only noted
    cell = TRAINED[name]
    model = replace(settings.model, name="earliest") if cell is None else replace(settings.model, cell=cell)
    return replace(settings, model=model)


@torch.no_grad()
def scored(model: Model, series: Series, *, rows: int = 500) -> Scored:
    """The scores of all series, computed some rows at a time."""
    chunks = zip(series.observations.split(rows), series.lengths.split(rows), strict=True)
    scores, halting = zip(*(model.scores_and_halting(*chunk) for chunk in chunks), strict=True)
    return Scored(
        torch.cat(scores).cpu().numpy(),
        series.lengths.numpy(),
        None if series.labels is None else series.labels.numpy(),
        None if series.groups is None else as_groups(series.groups, len(series)),
        torch.cat(halting).cpu().numpy() if model.halts else None,
    )


def require_two_per_class(series: Series) -> None:
    """Nothing can be held out where every class has one series."""
    if int(series.class_counts().max()) < 2:
        got = f"{len(series)} series of {len(series)} classes"
        raise InvalidArgument("y", "a class with at least 2 series", got, "Bring more series of each class.")


def require_every_class(series: Series) -> None:
    """Nothing can be learned about a class without a series."""
    absent = np.flatnonzero(series.class_counts() == 0)
    if len(absent):
        got = f"none of {series.classes.tolist()[absent[0]]!r}"
        remedy = "Drop the class, give its series a weight above 0, or split otherwise: other groups, a smaller share."
        raise InvalidArgument("y", "a series of every class to learn from", got, remedy)


def prepared(standardizer: Standardizer, observations: torch.Tensor) -> torch.Tensor:
    """What a model reads, of live observations: with mask channels where it has some, standardised."""
    return standardizer.apply_step(with_mask(observations) if standardizer.mask_channels else observations)


def _fit_rocket(series: Series, options: FitOptions, family: type[ThresholdRule]) -> Learned:
    standardizer = Standardizer.fit(series)
    ready = standardizer.apply(series)
    groups = None if ready.groups is None else ready.group_indices()
    with _watched(options.verbose) as watch:
        fitted = Rocket.fit(
            ready.observations,
            ready.labels,
            ready.lengths,
            classes=len(ready.classes),
            weights=None if ready.weights is None else ready.weights.numpy(),
            groups=groups,
            seed=options.seed,
            watch=watch,
        )
    unit = "series" if groups is None else "group"
    record = {
        "series": len(ready),
        "held_out": f"left out one {unit} at a time",
        "checkpoints": list(fitted.model.evaluation_times),
    }
    held_out = Scored(fitted.left_out.numpy(), ready.lengths.numpy(), ready.labels.numpy(), groups)
    # The slope was fitted with the classifiers; only its cross-fitted scores tell how sure they are too often.
    posterior = fit_posterior(replace(held_out, scores=fitted.cross_fitted.numpy()), family, slope_spread=0.0)
    return Learned("rocket", fitted.model, None, standardizer, held_out.at_most(_KEPT), record, posterior)


def _fit_prefix(ready: Series, options: FitOptions) -> tuple[Model, None, Mapping[str, Any]]:
    if ready.weights is not None and not np.allclose(ready.weights, ready.weights[0]):
        remedy = 'Take model="rocket" or "recurrent", or leave the weights out.'
        raise InvalidArgument("sample_weight", "None for a classifier on prefixes", "weights", remedy)
    classifier = None if isinstance(options.model, str) else options.model
    model = PrefixScorer(ready.features, len(ready.classes), classifier=classifier)
    model.fit(ready.observations, ready.labels, ready.lengths, seed=options.seed)
    return model, None, {"series": len(ready)}


@contextmanager
def _watched(verbose: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """What moves a bar, where one is to be shown."""
    if not verbose:
        yield None
        return
    bar = ProgressBar("convolving series", 1)
    bar.show()
    try:
        yield bar.turn_to
    finally:
        bar.hide()


def _train(
    ready: Series, unseen: Series, settings: Settings, options: FitOptions, family: type[ThresholdRule]
) -> tuple[Model, Mapping[str, Any]]:
    from sooner.train import train

    classes = len(ready.classes)
    if is_own_model(options.model):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            model = own_model(options.model, ready.features, classes)
        if issubclass(family, Halting) and not model.halts:
            remedy = (
                "Set `halts = True` in the model and give the probability as `Windows.halting` and `LiveStep.halting`."
            )
            raise InvalidArgument("rule", "one that reads scores for this model", "'halting'", remedy)
    else:
        model = untrained(settings.model, ready, classes, seed=options.seed)
    if options.folder is not None:
        _refuse_other_data(options.folder, ready, unseen)
    record = train(
        model,
        ready,
        replace(unseen, weights=None),
        settings,
        folder=options.folder,
        resume=options.folder is not None,
        verbose=options.verbose,
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


def _refuse_other_data(folder: Path, ready: Series, unseen: Series) -> None:
    """A run goes on with the data it began with."""
    digest = hashlib.sha256(b"" if ready.weights is None else ready.weights.numpy().tobytes())
    for series in (ready, unseen):
        for tensor in (series.observations, series.labels, series.lengths):
            digest.update(tensor.contiguous().numpy().tobytes())
    note = folder / "data.sha256"
    if note.exists() and note.read_text(encoding="utf-8").strip() != digest.hexdigest():
        remedy = "Bring the data it began with, or name another folder."
        raise InvalidArgument("folder", "without a run on other data", str(folder), remedy)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(digest.hexdigest() + "\n", encoding="utf-8")


def _is_factory(model: Any) -> bool:
    """A function, where a scikit-learn classifier would be an object with `fit`."""
    return callable(model) and not hasattr(model, "fit")


def _weights_of(loss: Any) -> Mapping[str, float]:
    """The weights of the losses, from their names joined by "+"."""
    if isinstance(loss, str):
        return dict.fromkeys((name.strip() for name in loss.split("+")), 1.0)
    if not isinstance(loss, Mapping):
        remedy = 'For example "lsel+multiplet", or {"lsel": 10.0, "multiplet": 1.0}.'
        raise InvalidArgument("loss", "names joined by '+', or a dict", repr(loss), remedy)
    return loss
