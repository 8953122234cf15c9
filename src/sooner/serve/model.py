"""The model of the service: what it is, and reading another one from bytes."""

import re
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sooner.errors import InvalidArgument, SoonerError
from sooner.estimator import EarlyClassifier, load
from sooner.estimator.promises import fingerprint
from sooner.serve.answers import Refusal, sentence
from sooner.serve.dial import threshold_of
from sooner.storage import write_whole
from sooner.stream import LiveSeries, LiveSettings
from sooner.stream.journal import Journal


def description_of(clf: EarlyClassifier) -> dict[str, Any]:
    """For `GET /v1/model`."""
    promise = clf.promise_
    columns = clf.columns_
    return {
        "classes": clf.classes_.tolist(),
        "channels": list(columns.channels) if columns is not None and columns.channels is not None else None,
        "features": list(clf.model_.features),
        "model": clf.model_name_,
        "rule": repr(clf.rule_),
        "threshold": threshold_of(clf.rule_),
        "promise": None if promise is None else str(promise),
        "version": f"sooner {version('sooner')}",
        "fingerprint": fingerprint(clf),
        "trained": dict(clf.training_),
    }


class ModelFolder:
    """The models of a service whose model may be changed, by their fingerprints, beside its journal.

    Args:
        folder: of the journal.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "models"
        self._given = self._folder / "given"

    def keep(self, clf: EarlyClassifier) -> str:
        """Keep a classifier; returns its name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = fingerprint(clf)
        if not self._file(name).exists():
            clf.save(self._file(name))
        return name

    def find(self, name: str) -> EarlyClassifier:
        """The classifier of that name."""
        if not re.fullmatch("[0-9a-f]{64}", name) or not self._file(name).exists():
            remedy = "Restore the folder from a copy."
            raise InvalidArgument("journal", f"a folder with the model {name}", "one without", remedy)
        return load(self._file(name))

    def is_new(self, name: str) -> bool:
        """Whether another model was given at the last start; the given one is remembered."""
        before = self._given.read_text() if self._given.exists() else None
        write_whole(self._given, name)
        return before is not None and before != name

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.sooner"


def classifier_of(content: bytes, reader: Callable[[Path], EarlyClassifier] = load) -> EarlyClassifier:
    """The classifier in the bytes of a model file."""
    with tempfile.TemporaryDirectory(prefix="sooner-") as folder:
        file = Path(folder) / "model.sooner"
        file.write_bytes(content)
        try:
            return reader(file)
        except SoonerError as error:
            text = sentence(error).replace(f"`{file}`", "The body")
            raise Refusal(422, text) from None


def continued(
    clf: EarlyClassifier, threshold: float | None, journal: Journal | None, settings: LiveSettings, now: float
) -> tuple[EarlyClassifier, LiveSeries, list[str]]:
    """The live series of a service at its start, with the model that new series take, and what there is to say about them.

    Without a journal they are new. A journal goes on with its newest model, unless another one was given than at the last start.

    Args:
        clf: the given model.
        threshold: another threshold than that of the model.
        journal: restored first.
        settings: when series end.
        now: the time in seconds.
    """
    if journal is None:
        if threshold is not None:
            clf.threshold = threshold
        return clf, LiveSeries(clf, settings, now=now), []
    said, models = list(journal.findings), ModelFolder(journal.folder)
    name = models.keep(clf)
    if threshold is not None:
        clf.threshold = threshold
    live = LiveSeries(clf, settings, journal=journal, model=name, models=models.find, now=now)
    if live.last_id + len(live):
        said.append(
            f"Continuing with {len(live):,} open series after {live.last_id:,} decisions from {journal.folder}."
        )
    if models.is_new(name) and live.model != name:
        refuse_other(models.find(live.model), clf)
        live.swap(clf, name, now)
        said.append("New series take the given model; open ones end with the model that they began with.")
    elif live.model != name:
        said.append("Continuing with the model that was put in place of the given one while the service ran.")
        clf = models.find(live.model)
        if threshold is not None:
            clf.threshold = threshold
    if threshold is not None and live.rule != clf.rule_:
        live.set_rule(clf.rule_, now)  # else the dial stays where it was
    return clf, live, said


def refuse_other(old: EarlyClassifier, new: EarlyClassifier) -> None:
    """Refuse a model that reads other observations, or names other classes, than the one it replaces."""
    for name, ours, theirs in (
        ("classes", old.classes_.tolist(), new.classes_.tolist()),
        ("channels", description_of(old)["channels"], description_of(new)["channels"]),
        ("features", list(old.model_.features), list(new.model_.features)),
    ):
        if ours != theirs:
            remedy = "Start another service for it, with a journal of its own."
            raise InvalidArgument("model", f"one with the {name} {ours}, as before", f"{theirs}", remedy)
