"""Features of the frames of videos, computed once by a backbone and stored.

A cache is a folder with a file `<video>.npy` of shape (frames, width) for each video, and a `manifest.json` with their settings.
Its name contains a hash of the backbone, the view and the number type. Files are written atomically, so a run that is killed
keeps all finished videos. One large array was rejected: several workers could not write it.

Workers are threads that decode (FFmpeg releases Python's lock); the backbone processes `rows` frames of one worker at a time. So
batches do not depend on the number of workers, and memory holds `rows` frames per worker.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sooner.bfloat16 import refuse_bfloat16
from sooner.data.sets.video.frames import VIEWS, Fault, Frames, Images, View, decoded, pyav
from sooner.errors import InvalidArgument, refuse_unknown, short_reason
from sooner.inputs import as_whole
from sooner.storage import remove_stale, whole_file

Vectors: TypeAlias = npt.NDArray[np.floating[Any]]
Number: TypeAlias = Literal["float16", "float32"]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the last finished video ("" at the start), the number of finished videos, and their total."""

MANIFEST = "manifest.json"

_MANIFEST = {"width": int, "dtype": str, "view": dict, "videos": dict, "failed": dict}
# The header that `_save` writes. NumPy's own parser tries to repair a damaged one, prints warnings, and raises any exception.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '[<>|]f[248]', 'fortran_order': False, 'shape': \([0-9]+, [0-9]+\), \} *\n", re.S
)
_PARTS = ".parts"


@dataclass(frozen=True)
class Features:
    """A cache of features."""

    folder: Path
    width: int  # of the vector of a frame
    dtype: str
    frames: Mapping[str, int]  # the number of frames of each video
    failed: tuple[tuple[str, str], ...] = ()  # (video, reason)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], view: View | None = None) -> "Features":
        """The cache in this folder, or the only one (of this view) in its subfolders."""
        root = Path(folder)
        known = [root] if (root / MANIFEST).is_file() else sorted(file.parent for file in root.glob(f"*/{MANIFEST}"))
        known = known if view is None else _of_view(known, view)
        if len(known) != 1:
            got = f"{root}, which holds none" if not known else f"{root}, which holds {len(known)}"
            names = ", ".join(cache.name for cache in known)
            remedy = f"Give one of them: {names}." if known else "Make one with `sooner.data.sets.video.extract`."
            raise InvalidArgument("features", "a folder with one cache of features", got, remedy)
        manifest = _read_manifest(known[0])
        failed = tuple(manifest["failed"].items())
        return cls(known[0], manifest["width"], manifest["dtype"], manifest["videos"], failed)

    def of(self, video: str) -> Vectors:
        """(frames, width): the features of a video, memory-mapped and read-only."""
        try:
            vectors, shape = _opened(_file(self.folder, video)), (self.frames.get(video), self.width)
            if vectors.shape != shape or vectors.dtype != self.dtype:
                raise OSError(f"{vectors.dtype} of shape {vectors.shape}, not {self.dtype} of shape {shape}")
            return vectors
        except OSError as error:
            got = f"{video!r}, whose file in {self.folder} cannot be read ({error})"
            remedy = "Run the extraction again: it makes what is missing."
            raise InvalidArgument("video", "one with features", got, remedy) from None


def _of_view(known: list[Path], view: View) -> list[Path]:
    """The caches with this view; an error if there are only others."""
    matching = [cache for cache in known if _read_manifest(cache)["view"] == _as_json(view)]
    if known and not matching:
        name = next((name for name, named in VIEWS.items() if named == view), "")
        remedy = f"Make them with `sooner data features --view {name}`." if name else "Make them with this view."
        expected = f"made with {f'the view {name!r}' if name else view}"
        raise InvalidArgument("features", expected, f"others in {', '.join(cache.name for cache in known)}", remedy)
    return matching


def extract_features(
    videos: Mapping[str, Path],
    backbone: nn.Module,
    folder: str | os.PathLike[str],
    *,
    view: View | None = None,
    dtype: Number = "float16",
    rows: int = 64,
    workers: int = 4,
    progress: Progress | None = None,
) -> Features:
    """Store the backbone's vector of every frame of every video, except for those stored before; returns the open cache.

    Unreadable videos are listed in `failed`, and retried in the next run. The backbone runs in evaluation mode without gradients,
    on its device.

    Args:
        videos: the file of each video, by the name of its features.
        backbone: from images (rows, 3, height, width) to vectors (rows, width).
        folder: the parent folder of the cache.
        view: of the frames.
        dtype: of the features; "float16" keeps three digits in half the bytes.
        rows: number of frames in a batch of the backbone.
        workers: number of videos decoded concurrently.
        progress: called in this thread, at the start and after each video.
    """
    rows = as_whole(rows, name="rows", low=1, remedy="It is the number of frames that are shown at once.")
    workers = as_whole(workers, name="workers", low=1, remedy="It is the number of videos that are decoded at once.")
    refuse_unknown("dtype", dtype, get_args(Number))
    pyav()
    refuse_bfloat16(backbone, "backbone")
    view = View() if view is None else view
    with _evaluating(backbone):
        settings = _settings(backbone, view, dtype)
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        cache = Path(folder) / f"{type(backbone).__name__}-{key[:12]}"
        (cache / _PARTS).mkdir(parents=True, exist_ok=True)
        remove_stale(cache / _PARTS)
        job = _Extraction(backbone, view, rows, np.dtype(dtype), cache)
        results: dict[str, int | Fault] = {}
        try:
            _extract(job, videos, settings["width"], workers, results, progress or (lambda *_: None))
        finally:
            # In the order of the videos, not of the workers.
            results = {video: results[video] for video in videos if video in results}
            _write_manifest(cache, settings, results)
    failed = tuple((video, result.reason) for video, result in results.items() if isinstance(result, Fault))
    return Features(cache, settings["width"], dtype, _read_manifest(cache)["videos"], failed)


def fingerprint(backbone: nn.Module) -> str:
    """sha256 of a network: its printed modules, exported code, and every parameter and buffer."""
    digest = hashlib.sha256(repr(backbone).encode())
    for name, module in backbone.named_modules():
        code = getattr(module, "code", "")
        digest.update(f"{name}:{code if isinstance(code, str) else ''}".encode())
    for name, tensor in (*backbone.named_parameters(), *backbone.named_buffers()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class _Extraction:
    """The state that the workers share."""

    backbone: nn.Module
    view: View
    rows: int
    dtype: np.dtype[Any]
    folder: Path
    serving: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, video: str, path: Path) -> int | Fault:
        """Store the features of one video, and return its number of frames or its fault."""
        vectors: list[Vectors] = []
        for frames in decoded(path, self.view, self.rows):
            if isinstance(frames, Fault):
                return frames
            if self.stopped.is_set():
                return Fault("the run was stopped")
            images = _images(self.backbone, self.view, frames)
            with self.serving:
                vectors.append(_encoded(self.backbone, images).numpy())
        with np.errstate(over="ignore"):
            array = np.concatenate(vectors).astype(self.dtype)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            got = f"{vectors[0].dtype.type(np.concatenate(vectors)[tuple(bad[0])])} for frame {bad[0][0]} of {video!r}"
            remedy = 'Pass dtype="float32", or check that video.'
            raise InvalidArgument("backbone", f"one whose vectors are finite in {self.dtype}", got, remedy)
        _save(self.folder, video, array)
        return len(array)


def _extract(
    job: _Extraction,
    videos: Mapping[str, Path],
    width: int,
    workers: int,
    results: dict[str, int | Fault],
    tell: Progress,
) -> None:
    """Fill `results` for every video; after an interruption, no other video is started."""
    stored = {video: _stored_frames(_file(job.folder, video), width, job.dtype) for video in videos}
    results.update({video: count for video, count in stored.items() if count})
    tell("", len(results), len(videos))
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = {pool.submit(job.run, video, path): video for video, path in videos.items() if not stored[video]}
        for future in as_completed(waiting):
            results[waiting[future]] = future.result()
            tell(waiting[future], len(results), len(videos))
    finally:
        job.stopped.set()
        pool.shutdown(cancel_futures=True)


def _images(backbone: nn.Module, view: View, frames: Frames) -> Images:
    device = next((tensor.device for tensor in (*backbone.parameters(), *backbone.buffers())), frames.device)
    return view.show(frames.to(device))


def _encoded(backbone: nn.Module, images: Images) -> Tensor:
    with torch.no_grad():  # here, because it applies to one thread
        vectors: Tensor = backbone(images)
    return vectors.float().cpu()


def _settings(backbone: nn.Module, view: View, dtype: Number) -> dict[str, Any]:
    """The settings of the manifest; two black frames of the sets' size give the width."""
    tall, wide = (view.crop, view.crop) if view.crop else view.size(240, 320)
    expected = f"a module from images (rows, 3, {tall}, {wide}) to vectors (rows, width)"
    remedy = "Take the network without its classifier, and the `view` it was trained for."
    try:
        vectors = _encoded(backbone, _images(backbone, view, torch.zeros(2, 3, tall, wide, dtype=torch.uint8)))
    except Exception as error:  # a module that is no backbone may raise any exception
        got = f"{type(error).__name__}: {short_reason(error)}"
        raise InvalidArgument("backbone", expected, got, remedy) from error
    if vectors.ndim != 2 or len(vectors) != 2:
        raise InvalidArgument("backbone", expected, f"an output of shape {tuple(vectors.shape)}", remedy)
    network = {"architecture": type(backbone).__name__, "backbone": fingerprint(backbone)}
    return {**network, "view": _as_json(view), "dtype": dtype, "width": vectors.shape[1]}


def _as_json(view: View) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(view).items()}


@contextmanager
def _evaluating(backbone: nn.Module) -> Iterator[None]:
    # Not `eval()`: exported programs refuse it, and every module must get its own mode back.
    modes = [(module, module.training) for module in backbone.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training


def _file(folder: Path, video: str) -> Path:
    path = PurePosixPath(video)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidArgument("videos", "named by a path below their folder", repr(video), "Give it another name.")
    return folder / f"{video}.npy"


def _opened(file: Path) -> Vectors:
    """The memory-mapped array of a file; an OSError for a damaged file."""
    with file.open("rb") as start:
        header = _HEADER.match(start.read(256))
        if header is None or header.end() != 10 + int.from_bytes(header[1], "little"):
            raise OSError("its header is not as it was written")
    try:
        with np.errstate(over="ignore"):  # a damaged shape
            vectors: Vectors = np.lib.format.open_memmap(file, mode="r")
        return vectors
    except (ValueError, OverflowError) as error:
        raise OSError(f"no array: {error}") from None


def _stored_frames(file: Path, width: int, dtype: np.dtype[Any]) -> int | None:
    """The number of frames in a complete file of this width and type."""
    try:
        array = _opened(file)
    except OSError:
        return None
    return len(array) if array.shape[1:] == (width,) and array.dtype == dtype else None


def _save(folder: Path, video: str, array: Vectors) -> None:
    target = _file(folder, video)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, folder=folder / _PARTS) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for key, expected in _MANIFEST.items():
            if not isinstance(manifest[key], expected):
                raise TypeError(f"{key} is no {expected.__name__}")
        return {key: manifest[key] for key in _MANIFEST}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        got = f"{folder / MANIFEST}, which cannot be read ({type(error).__name__}: {error})"
        remedy = "Remove that file and run the extraction again: features that are there are kept."
        raise InvalidArgument("features", "a folder with a manifest", got, remedy) from None


def _write_manifest(folder: Path, settings: Mapping[str, Any], results: Mapping[str, int | Fault]) -> None:
    """Write the settings, and the results of this run and those before."""
    before = _read_manifest(folder) if (folder / MANIFEST).exists() else {"videos": {}, "failed": {}}
    counts, faults = dict(before["videos"]), dict(before["failed"])
    for video, result in results.items():
        counts.pop(video, None)
        faults.pop(video, None)
        if isinstance(result, Fault):
            faults[video] = result.reason
        else:
            counts[video] = result
    with whole_file(folder / MANIFEST, folder=folder / _PARTS) as temporary:
        temporary.write_text(json.dumps({**settings, "videos": counts, "failed": faults}, indent=1), encoding="utf-8")
