"""Model files and snapshots: what is read decides as what was written, or it is refused."""

import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.case import Case, Target
from fuzz.mutations import BYTES, TEXT, spoiled

MODELS = ("rocket", "gru")


@cache
def _cases() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.arange(24) % 2
    return random.normal(size=(24, 2, 8)) + y[:, None, None], y


@cache
def fitted(name: str) -> Any:
    """A small classifier."""
    from sooner import EarlyClassifier

    clf = EarlyClassifier(model=name, max_epochs=1, hidden=4, device="cpu").fit(*_cases())
    clf.threshold = 1.0
    return clf


@cache
def _written(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        fitted(name).save(Path(folder) / "model.sooner")
        return (Path(folder) / "model.sooner").read_bytes()


@cache
def _decisions(name: str) -> Any:
    return fitted(name).decide(_cases()[0])


@cache
def _snapshot(name: str) -> bytes:
    fleet = fitted(name).stream(keyed=True)
    for t in range(3):
        fleet.update({key: _cases()[0][key, :, t] for key in range(6) if key not in fleet.decided})
    return bytes(fleet.snapshot())


def make_model(chance: random.Random, folder: Path) -> Case:
    from sooner import load

    name = chance.choice(MODELS)
    path = folder / "model.sooner"
    path.write_bytes(_spoiled(chance, _written(name), [_written(other) for other in MODELS]))
    wanted = _decisions(name)

    def judge(clf: Any) -> str | None:
        found = clf.decide(_cases()[0])
        same = [np.array_equal(getattr(found, part), getattr(wanted, part)) for part in ("labels", "times", "crossed")]
        return None if all(same) else f"{found}, not {wanted}"

    return Case(path.read_bytes(), lambda: load(path), judge)


def make_snapshot(chance: random.Random, _folder: Path) -> Case:
    name = chance.choice(MODELS)
    sound = _snapshot(name)
    data = _spoiled(chance, sound, [_snapshot(other) for other in MODELS])

    def run() -> Any:
        return _continued(name, data)

    def judge(found: Any) -> str | None:
        wanted = _continued(name, sound)
        return None if found == wanted else f"{found}, not {wanted}"

    return Case(data, run, judge)


def _continued(name: str, snapshot: bytes) -> Any:
    fleet = fitted(name).stream(keyed=True)
    fleet.restore(snapshot)
    fleet.update({key: _cases()[0][key, :, 3] for key in list(fleet.keys())})
    return {**fleet.decided, **fleet.finish_all()}


def _spoiled(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Anywhere, or within the header of safetensors, whose length is then set right."""
    if chance.random() < 0.5:
        return spoiled(chance, data, others, BYTES)
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size]
    if chance.random() < 0.3:
        said = json.loads(header)
        said["__metadata__"][chance.choice(("version", "format", "contents", "about"))] = chance.choice(
            ("", "1", "\u00b2", "9" * 5000, "sooner.model", "null", "{}", "[" * 9000)
        )
        header = json.dumps(said).encode()
    else:
        header = spoiled(chance, header, [], TEXT)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


TARGETS = [Target("model files", 1.5, make_model), Target("snapshots", 1.5, make_snapshot)]
