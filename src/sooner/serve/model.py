"""The model of the service: what it is, and reading another one from bytes."""

import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sooner.errors import SoonerError
from sooner.estimator import EarlyClassifier, load
from sooner.estimator.promises import fingerprint
from sooner.serve.answers import Refusal, sentence


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
        "promise": None if promise is None else str(promise),
        "version": f"sooner {version('sooner')}",
        "fingerprint": fingerprint(clf),
        "trained": dict(clf.training_),
    }


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


def refuse_other(old: EarlyClassifier, new: EarlyClassifier) -> None:
    """Refuse a model that reads other observations, or names other classes, than the one it replaces."""
    for name, ours, theirs in (
        ("classes", old.classes_.tolist(), new.classes_.tolist()),
        ("channels", description_of(old)["channels"], description_of(new)["channels"]),
        ("features", list(old.model_.features), list(new.model_.features)),
    ):
        if ours != theirs:
            text = f"The new model must have the same {name}, {ours}, got {theirs}. Start another service for it."
            raise Refusal(409, text)
