"""The lines of `sooner stream`, JSON and CSV, through the verb itself: bytes at its standard input, records at its output."""

import csv
import io
import json
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzz.case import Case, Target
from fuzz.mutations import TABLES, TEXT, spoiled

THRESHOLD = 3.0
CLASSES = ("calm", "storm")


@cache
def _classifier() -> Any:
    """Each observation is the evidence for both classes."""
    import torch

    from sooner.models import FrameClassifier
    from sooner.models.image.encoders import Identity
    from sooner.rules import MSPRT
    from sooner.stream import Fleet

    model = FrameClassifier(Identity((2,)), 2).eval()
    model.head.weight.data.copy_(torch.eye(2))

    def stream(*, keyed: bool, deadline: int | None, at_end: Any, coverage: None) -> Any:
        assert keyed
        assert coverage is None
        return Fleet(model, MSPRT(THRESHOLD), classes=CLASSES, deadline=deadline, at_end=at_end)

    return SimpleNamespace(stream=stream, columns_=None, promise_=None)


def _observations(chance: random.Random) -> Iterator[tuple[Any, list[Any], bool]]:
    keys = [None] if chance.random() < 0.1 else chance.sample(("a", "b", 7, "a b", "7"), chance.randint(1, 4))
    for _ in range(chance.randint(1, 12)):
        yield chance.choice(keys), [round(chance.uniform(0, 2), 2) for _ in range(2)], chance.random() < 0.1


def json_lines(chance: random.Random) -> bytes:
    whole, lines = chance.random() < 0.6, []
    for t, (key, values, ended) in enumerate(_observations(chance)):
        said: dict[str, Any] = {} if key is None else {"series": key}
        said |= {"x": values} if whole else dict(zip("uv", values, strict=True))
        said |= {"time": t} if chance.random() < 0.2 else {}
        lines.append(json.dumps(said | ({"end": True} if ended else {})))
    return ("\n".join(lines) + "\n").encode()


def csv_lines(chance: random.Random) -> bytes:
    rows = [(f"{key}", *map(str, values), "1" if ended else "") for key, values, ended in _observations(chance)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=chance.choice(("\n", "\r\n"))).writerows([("series", "u", "v", "end"), *rows])
    return text.getvalue().encode()


def make_json(chance: random.Random, _folder: Path) -> Case:
    data = spoiled(chance, json_lines(chance), [json_lines(chance)], TEXT)
    return _case(chance, data, "jsonl", _said_in_json)


def make_csv(chance: random.Random, _folder: Path) -> Case:
    data = spoiled(chance, csv_lines(chance), [csv_lines(chance)], TABLES)
    return _case(chance, data, "csv", _said_in_csv)


def _case(chance: random.Random, data: bytes, layout: Any, said: Any) -> Case:
    from sooner.cli import stream as verb

    deadline, late = chance.choice((None, None, 2)), chance.choice(("ignore", "ignore", "refuse"))

    def run() -> list[Any]:
        before = verb.load, sys.stdin, sys.stdout
        verb.load = lambda _path: _classifier()
        sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        sys.stdout = io.StringIO()
        try:
            verb.stream(Path("model.sooner"), layout=layout, deadline=deadline, late=late)
            return [json.loads(line) for line in sys.stdout.getvalue().splitlines()]
        finally:
            verb.load, sys.stdin, sys.stdout = before

    def judge(records: list[Any]) -> str | None:
        wanted = list(_decided(said(data.decode()), deadline))
        given = [{name: line[name] for name in ("series", "label", "time", "crossed")} for line in records]
        return None if given == wanted else f"{records}, not {wanted}"

    return Case(data, run, judge)


def _said_in_json(text: str) -> Iterator[tuple[Any, Any, bool]]:
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.strip():
            said = json.loads(line)
            key, ended = said.pop("series", None), said.pop("end", False)
            said.pop("time", None)
            whole = isinstance(said.get("x"), list) or list(said) == ["x"]
            values = said["x"] if whole else list(said.values())
            yield key, values if said else None, ended


def _said_in_csv(text: str) -> Iterator[tuple[Any, Any, bool]]:
    for row in csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=None)):
        given = {name: cell or "" for name, cell in row.items() if name is not None}
        said = {name.strip().removeprefix("\ufeff"): cell.strip() for name, cell in given.items()}
        if not any(said.values()):
            continue
        key, ended = said.pop("series", None), said.pop("end", "").lower() in ("1", "true", "yes")
        said.pop("time", None)
        yield key, None if ended and not any(said.values()) else [float(cell or "nan") for cell in said.values()], ended


def _decided(arrivals: Iterator[tuple[Any, Any, bool]], deadline: int | None) -> Iterator[dict[str, Any]]:
    """Sums of observations, and the first at which one class is ahead of the other."""
    sums: dict[Any, Any] = {}
    closed: set[Any] = set()
    for key, values, ended in arrivals:
        if values is not None and key not in closed:
            total, count = sums.get(key, (np.zeros(2, np.float32), 0))
            total, count = total + np.array(values, np.float64).astype(np.float32), count + 1
            sums[key] = total, count
            crossed = abs(float(total[0] - total[1])) >= THRESHOLD
            if crossed or count == deadline:
                yield _record(key, *sums.pop(key), crossed)
                closed.add(key)
        if ended:
            if key in sums:
                yield _record(key, *sums.pop(key), False)
            closed.discard(key)
    yield from (_record(key, *seen, False) for key, seen in sums.items())


def _record(key: Any, total: Any, count: int, crossed: bool) -> dict[str, Any]:
    return {"series": key, "label": CLASSES[int(total.argmax())], "time": count, "crossed": crossed}


TARGETS = [Target("lines of JSON", 12, make_json), Target("lines of CSV", 8, make_csv)]
