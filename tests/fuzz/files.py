"""Other files of data: arrays, the text format of the archives, MNIST, lists of videos and caches of their features."""

import gzip
import hashlib
import io
import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.case import Case, Target
from fuzz.mutations import BYTES, TEXT, WORDS, spoiled


def array_of(chance: random.Random, kinds: tuple[str, ...] = ("f8", "f4", ">f8", "i8", "u1", "?")) -> Any:
    """A small array of cases."""
    shape = [chance.randint(1, 4) for _ in range(chance.choice((2, 3, 3, 3, 1, 4)))]
    values = np.array([round(chance.gauss(0, 3), 2) for _ in range(int(np.prod(shape)))]).reshape(shape)
    return np.abs(values).astype(chance.choice(kinds))


def make_npz(chance: random.Random, folder: Path) -> Case:
    from sooner.data import read as files

    x = array_of(chance)
    count = len(x) if chance.random() < 0.95 else chance.randint(0, 5)
    names = chance.choice((("X", "y"), ("X", "y"), ("observations", "labels")))
    y: Any = np.array([chance.choice(("a", "b", "c")) for _ in range(count)])
    arrays = {
        names[0]: x,
        names[1]: chance.choice((y, y, np.arange(count) % 2, y.astype("S1"), np.linspace(0, 1, count))),
    }
    for name in ("lengths", "groups", "ids", "channels", "classes"):
        if chance.random() < 0.1:
            arrays[name] = chance.choice((np.arange(1, count + 1), y, np.arange(count) % 2, array_of(chance)))
    file = io.BytesIO()
    (np.savez_compressed if chance.random() < 0.3 else np.savez)(file, **arrays)
    path = folder / "data.npz"
    path.write_bytes(_spoiled_zip(chance, file.getvalue()))

    def judge(table: Any) -> str | None:
        with np.load(path, allow_pickle=False) as loaded:
            found = {name: loaded[name] for name in loaded.files}
        x, y = (found["X"], found["y"]) if "X" in found else (found["observations"], found["labels"])
        x = x[:, None] if "X" in found and x.ndim == 2 else x
        x = np.moveaxis(x, -1, 1) if "X" in found else (x[..., None] if x.ndim == 2 else x)
        return _differ(table, x, y, found.get("lengths"))

    return Case(path.read_bytes(), lambda: files.read(path), judge)


def _spoiled_zip(chance: random.Random, data: bytes) -> bytes:
    """The bytes of a zip file spoiled, or those of an array within it, whose checksum then is right."""
    if chance.random() < 0.5:
        return spoiled(chance, data, [], BYTES)
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(file, "w") as parts:
        victim = chance.choice(whole.namelist())
        for name in whole.namelist():
            content = whole.read(name)
            parts.writestr(name, _spoiled_npy(chance, content) if name == victim else content)
    return file.getvalue()


def _spoiled_npy(chance: random.Random, data: bytes) -> bytes:
    """Bytes, or the numbers and words of the header."""
    if chance.random() < 0.4:
        return spoiled(chance, data, [], BYTES)
    head = re.search(rb"\{.*?\}", data)
    if head is None:
        return data
    other = chance.choice((*WORDS, "10000000000000", "1000000000", "<f8", "|O", "<M8[s]", "<c16", "|V8", "<U3", "True"))
    tokens = list(re.finditer(rb"[\w<>|]+", head[0]))
    token = chance.choice(tokens)
    text = head[0][: token.start()] + other.encode() + head[0][token.end() :]
    return data[: head.start()] + text + data[head.end() :]


def make_npy(chance: random.Random, folder: Path) -> Case:
    from sooner.data import read as files

    x, path, labels = array_of(chance), folder / "x.npy", folder / "y.npy"
    for target, array in ((path, x), (labels, np.arange(len(x)) % 2)):
        file = io.BytesIO()
        np.save(file, array)
        spoils = target is path or chance.random() < 0.2
        target.write_bytes(_spoiled_npy(chance, file.getvalue()) if spoils else file.getvalue())

    def judge(table: Any) -> str | None:
        found = np.load(path, allow_pickle=False)
        found = found[:, None] if found.ndim == 2 else found
        return _differ(table, np.moveaxis(found, -1, 1), np.load(labels, allow_pickle=False), None)

    return Case(path.read_bytes() + b"\n--\n" + labels.read_bytes(), lambda: files.read(path, y=labels), judge)


def _differ(series: Any, x: Any, y: Any, lengths: Any) -> str | None:
    """A record against arrays (series, time, *features)."""
    x = np.array(x).astype(float)
    if lengths is not None:
        x = np.stack(
            [
                np.where(np.arange(len(case)).reshape(-1, *[1] * (case.ndim - 1)) < n, case, 0)
                for case, n in zip(x, lengths, strict=True)
            ]
        )
    if series.observations.shape != x.shape or not np.array_equal(series.observations.double().numpy(), x):
        return f"observations {series.observations.tolist()}, not {x.tolist()}"
    names = series.names(series.labels).tolist()
    return None if names == np.asarray(y).tolist() else f"labels {names}, not {np.asarray(y).tolist()}"


def make_ts(chance: random.Random, folder: Path) -> Case:
    from sooner.data import read as files

    path, missing = folder / "data.ts", chance.choice(("refuse", "mask"))
    path.write_bytes(spoiled(chance, _ts(chance), [_ts(chance)], TEXT))

    def judge(series: Any) -> str | None:
        lines = [line.strip().lower() for line in path.read_text().replace("\r", "\n").split("\n")]
        at = lines.index("@data")
        cases = [line.split(":") for line in lines[at + 1 :] if line]
        names = [name.strip() for *_, name in cases]
        if [name.lower() for name in series.names(series.labels).tolist()] != names:
            return f"labels {series.names(series.labels).tolist()}, not {names}"
        for place, (*channels, _) in enumerate(cases):
            values = np.array([[_ts_number(cell) for cell in channel.split(",")] for channel in channels]).T
            if missing == "mask":
                values = np.column_stack([np.nan_to_num(values, nan=0.0), ~np.isnan(values)])
            read = series.observations[place, : series.lengths[place]].numpy()
            if read.shape != values.shape or not np.allclose(read, values, rtol=1e-12, atol=0):
                return f"series {place}: {read.tolist()}, not {values.tolist()}"
        return None

    return Case(path.read_bytes(), lambda: files.read(path, missing=missing), judge)


def _ts_number(cell: str) -> float:
    return float(cell.replace("?", "nan"))


def _ts(chance: random.Random) -> bytes:
    channels, equal = chance.randint(1, 3), chance.random() < 0.5
    head = [
        "#text",
        "@problemName P",
        "@timestamps false",
        "@missing false",
        f"@univariate {str(channels == 1).lower()}",
    ]
    head += [f"@dimension {channels}"] * (channels > 1) + [f"@equalLength {str(equal).lower()}"]
    head += ["@seriesLength 4"] * equal + ["@classLabel true a b", "@data"]
    rows = []
    for n in range(chance.randint(2, 5)):
        length = 4 if equal else chance.randint(1, 5)
        cells = [
            ",".join("?" if chance.random() < 0.02 else f"{chance.gauss(0, 1):.3f}" for _ in range(length))
            for _ in range(channels)
        ]
        rows.append(":".join([*cells, "ab"[n % 2]]))
    return "\n".join([*head, *rows, ""]).encode()


def make_mnist(chance: random.Random, folder: Path) -> Case:
    """Four small idx files whose hashes are known: what is read is they, or a sentence."""
    from sooner.data import mnist

    shapes = [(4, 28, 28), (4,), (3, 28, 28), (3,)]
    sound = {
        name: mnist._to_idx(np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape))
        for name, shape in zip(mnist.SHA256, shapes, strict=True)
    }
    home = folder / "mnist"
    home.mkdir(exist_ok=True)
    for old in home.iterdir():
        old.unlink()
    victim, packed = chance.choice(list(sound)), chance.random() < 0.6
    kept = b""
    for name, content in sound.items():
        data = gzip.compress(content, 1) if packed else content
        data = spoiled(chance, data, [], BYTES) if name == victim else data
        kept = data if name == victim else kept
        (home / (f"{name}.gz" if packed else name)).write_bytes(data)

    def run() -> Any:
        before = mnist.SHA256, mnist.SOURCES
        mnist.SHA256 = {name: hashlib.sha256(content).hexdigest() for name, content in sound.items()}
        mnist.SOURCES = {"the folder": mnist._from_beside}
        try:
            return mnist.load(home)
        finally:
            mnist.SHA256, mnist.SOURCES = before

    def judge(read: Any) -> str | None:
        wanted = np.arange(4 * 28 * 28, dtype=np.uint8).reshape(4, 28, 28)
        return None if np.array_equal(read.train.images.numpy(), wanted) else "other images"

    return Case(kept, run, judge)


def make_video_lists(chance: random.Random, folder: Path) -> Case:
    from sooner.data.sets.video import lists

    kind = chance.choice(("ucf101", "hmdb51"))
    sound = _ucf101() if kind == "ucf101" else _hmdb51()
    home = folder / kind
    home.mkdir(exist_ok=True)
    for old in home.iterdir():
        old.unlink()
    victim = chance.choice(list(sound))
    files = {
        name: spoiled(chance, data, list(sound.values()), TEXT) if name == victim else data
        for name, data in sound.items()
    }
    for name, data in files.items():
        (home / name).write_bytes(data)

    def judge(found: Any) -> str | None:
        text = b"\n".join(files.values())
        names = [video.name for video in found.videos]
        strange = [name for name in names if name.rpartition("/")[2].encode(errors="surrogateescape") not in text]
        if strange or len(set(names)) != len(names):
            return f"{strange[:3]} not listed, or twice in {names}"
        groups = [{video.group for video in part} for part in (found.train, found.validation)]
        return "a group on both sides" if groups[0] & groups[1] else None

    return Case(files[victim], lambda: lists.split_lists(kind, home), judge)


def _ucf101() -> dict[str, bytes]:
    names = ("Archery", "Biking")
    train = [f"{name}/v_{name}_g{g:02d}_c01.avi {n}" for n, name in enumerate(names, 1) for g in range(4)]
    test = [f"{name}/v_{name}_g{g:02d}_c01.avi" for name in names for g in (5, 6)]
    listed = {"classInd.txt": ["1 Archery", "2 Biking"], "trainlist01.txt": train, "testlist01.txt": test}
    return {name: "\r\n".join(rows).encode() for name, rows in listed.items()}


def _hmdb51() -> dict[str, bytes]:
    return {
        f"{name}_test_split1.txt": "\n".join(f"Film{n}_{name}_f_cm.avi {1 + n % 2} " for n in range(5)).encode()
        for name in ("clap", "wave")
    }


def make_features(chance: random.Random, folder: Path) -> Case:
    """A cache of the features of videos: its manifest, or the file of one video."""
    from dataclasses import asdict

    from sooner.data.sets.video.features import MANIFEST, Features, View

    home = folder / "cache"
    (home / "a").mkdir(parents=True, exist_ok=True)
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    file = io.BytesIO()
    np.save(file, vectors)
    said = {"width": 2, "dtype": "float32", "videos": {"a/b.avi": 3}, "failed": {}, "view": asdict(View())}
    manifest, array = json.dumps(said).encode(), file.getvalue()
    if chance.random() < 0.5:
        manifest = spoiled(chance, manifest, [], TEXT)
    else:
        array = _spoiled_npy(chance, array)
    (home / MANIFEST).write_bytes(manifest)
    (home / "a" / "b.avi.npy").write_bytes(array)

    def judge(found: Any) -> str | None:
        return None if found.shape[1:] == (2,) else f"vectors of shape {found.shape}"

    return Case(manifest + b"\n--\n" + array, lambda: Features.open(home).of("a/b.avi"), judge)


TARGETS = [
    Target("npz", 5, make_npz),
    Target("npy", 4, make_npy),
    Target("ts", 8, make_ts),
    Target("mnist", 1, make_mnist),
    Target("video lists", 2, make_video_lists),
    Target("video features", 2, make_features),
]
