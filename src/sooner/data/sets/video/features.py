"""Features of the frames of videos, computed once and kept: decode, show to a backbone, write, go on where it stopped.

A cache is a folder with one file for each video, `<name>.npy` of shape (frames, width), and a `manifest.json` that says what
made them. Files and not one large array, because a file that has its name is complete: a run that is killed at any moment
keeps whatever was done, and any number of workers can write. Its own name holds a hash of the backbone, the view and the
number type, so features of different networks never mix.

Each worker is a thread that decodes one video after the other (FFmpeg works outside of Python's lock) and hands its frames,
`rows` at a time, to the backbone, which serves one worker at a time. So a video is read once, its batches are the same with
any number of workers, and memory holds `rows` frames a worker, however long the videos are.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sooner.bfloat16 import refuse_bfloat16
from sooner.data.sets.video.frames import VIEWS, Fault, Frames, Images, View, decoded, pyav
from sooner.errors import InvalidArgument, UnknownName
from sooner.inputs import as_whole
from sooner.storage import whole_file

Vectors: TypeAlias = npt.NDArray[np.floating[Any]]
Number: TypeAlias = Literal["float16", "float32"]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the video just done ("" at the start), how many are done, and how many there are."""

MANIFEST = "manifest.json"

_NUMBERS = ("float16", "float32")
_MANIFEST = {"width": int, "dtype": str, "view": dict, "videos": dict, "failed": dict}
# As `_save` writes it. NumPy's own parser tries to mend a damaged one, raises whatever its parts raise, and prints warnings.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '[<>|]f[248]', 'fortran_order': False, 'shape': \([0-9]+, [0-9]+\), \} *\n", re.S
)
_PARTS = ".parts"
_STALE = 3600.0  # seconds after which a half-written file belongs to a process that was killed


@dataclass(frozen=True)
class Features:
    """A cache of features, open for reading.

    Args:
        folder: where the files lie.
        width: the length of a frame's vector.
        dtype: its numbers.
        frames: how many frames each video has.
        failed: (video, reason) of those that could not be read to their end.
    """

    folder: Path
    width: int
    dtype: str
    frames: Mapping[str, int]
    failed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def open(cls, folder: str | os.PathLike[str], view: View | None = None) -> "Features":
        """The cache in this folder, or the only one in a folder below it; where a view is given, the only one of that view."""
        root = Path(folder)
        known = [root] if (root / MANIFEST).is_file() else sorted(file.parent for file in root.glob(f"*/{MANIFEST}"))
        known = known if view is None else _of_view(known, view)
        if len(known) != 1:
            got = f"{root}, which holds none" if not known else f"{root}, which holds {len(known)}"
            names = ", ".join(cache.name for cache in known)
            remedy = f"Give one of them: {names}." if known else "Make one with `sooner.data.sets.video.extract`."
            raise InvalidArgument("features", "a folder with one cache of features", got, remedy)
        said = _read_manifest(known[0])
        return cls(known[0], said["width"], said["dtype"], said["videos"], tuple(said["failed"].items()))

    def of(self, video: str) -> Vectors:
        """(frames, width): the features of a video, mapped into memory, read only."""
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
    """The caches that were made with a view; where there are only others, that is told."""
    found = [cache for cache in known if _read_manifest(cache)["view"] == _plain(view)]
    if known and not found:
        name = next((name for name, one in VIEWS.items() if one == view), "")
        remedy = f"Make them with `sooner data features --view {name}`." if name else "Make them with this view."
        expected = f"made with {f'the view {name!r}' if name else view}"
        raise InvalidArgument("features", expected, f"others in {', '.join(cache.name for cache in known)}", remedy)
    return found


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
    """Write the backbone's vector of every frame of every video, and open the cache; what is already there is kept.

    A video that is missing, damaged or cut short is passed over and named in `failed`, and tried again the next time. The
    backbone works in evaluation mode and without gradients, on the device it is on, and is left as it was found.

    Args:
        videos: where each video lies, by the name under which its features are kept.
        backbone: from images (rows, 3, height, width) to vectors (rows, width).
        folder: for caches; this one gets a folder of its own in it.
        view: how frames are shown to the backbone.
        dtype: of the features; "float16" keeps three digits in half the room.
        rows: frames that the backbone sees at once.
        workers: videos that are decoded at once.
        progress: called in this thread, at the start and after each video.
    """
    rows = as_whole(rows, name="rows", low=1, remedy="It is the number of frames that are shown at once.")
    workers = as_whole(workers, name="workers", low=1, remedy="It is the number of videos that are decoded at once.")
    if dtype not in _NUMBERS:
        raise UnknownName("dtype", dtype, _NUMBERS)
    pyav()
    refuse_bfloat16(backbone, "backbone")
    view = View() if view is None else view
    with _evaluating(backbone):
        said = _description(backbone, view, dtype)
        job = _Extraction(backbone, view, rows, np.dtype(dtype), _cache(Path(folder), backbone, said))
        results: dict[str, int | Fault] = {}
        try:
            _work_off(job, videos, said["width"], workers, results, progress or _silent)
        finally:
            # In the order of the videos: workers finish as they please.
            results = {video: results[video] for video in videos if video in results}
            _write_manifest(job.folder, said, results)
    failed = tuple((video, result.reason) for video, result in results.items() if isinstance(result, Fault))
    return Features(job.folder, said["width"], dtype, _read_manifest(job.folder)["videos"], failed)


def fingerprint(backbone: nn.Module) -> str:
    """sha256 of what a network is: its modules as they are printed, exported code, and every parameter and buffer."""
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
    """What the workers share."""

    backbone: nn.Module
    view: View
    rows: int
    dtype: np.dtype[Any]
    folder: Path
    serving: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, video: str, path: Path) -> int | Fault:
        """Keep the features of one video, and tell its number of frames or what is wrong with it."""
        vectors: list[Vectors] = []
        for part in decoded(path, self.view, self.rows):
            if isinstance(part, Fault):
                return part
            if self.stopped.is_set():
                return Fault("the run was stopped")
            images = _shown(self.backbone, self.view, part)
            with self.serving:
                vectors.append(_encoded(self.backbone, images).numpy())
        with np.errstate(over="ignore"):
            array = np.concatenate(vectors).astype(self.dtype)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            got = f"{vectors[0].dtype.type(np.concatenate(vectors)[tuple(bad[0])])} for frame {bad[0][0]} of {video!r}"
            expected, remedy = (
                f"one whose vectors are finite in {self.dtype}",
                'Pass dtype="float32", or check that video.',
            )
            raise InvalidArgument("backbone", expected, got, remedy)
        _save(self.folder, video, array)
        return len(array)


def _work_off(
    job: _Extraction,
    videos: Mapping[str, Path],
    width: int,
    workers: int,
    results: dict[str, int | Fault],
    tell: Progress,
) -> None:
    """Fill `results` for every video; whatever interrupts lets the videos in hand go and starts no other."""
    kept = {video: _kept(_file(job.folder, video), width, job.dtype) for video in videos}
    results.update({video: count for video, count in kept.items() if count})
    tell("", len(results), len(videos))
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = {pool.submit(job.run, video, path): video for video, path in videos.items() if not kept[video]}
        for future in as_completed(waiting):
            results[waiting[future]] = future.result()
            tell(waiting[future], len(results), len(videos))
    finally:
        job.stopped.set()
        pool.shutdown(cancel_futures=True)


def _shown(backbone: nn.Module, view: View, part: Frames) -> Images:
    device = next((tensor.device for tensor in (*backbone.parameters(), *backbone.buffers())), part.device)
    return view.show(part.to(device))


def _encoded(backbone: nn.Module, images: Images) -> Tensor:
    with torch.no_grad():  # here, because it holds for one thread
        vectors: Tensor = backbone(images)
    return vectors.float().cpu()


def _description(backbone: nn.Module, view: View, dtype: Number) -> dict[str, Any]:
    """What makes the features, as the manifest says it; two black frames of the sets' size tell the width."""
    tall, wide = (view.crop, view.crop) if view.crop else view.size(240, 320)
    expected = f"a module from images (rows, 3, {tall}, {wide}) to vectors (rows, width)"
    remedy = "Take the network without its classifier, and the `view` it was trained for."
    try:
        vectors = _encoded(backbone, _shown(backbone, view, torch.zeros(2, 3, tall, wide, dtype=torch.uint8)))
    except Exception as error:  # whatever a module that is no backbone provokes
        said = " ".join(str(error).split())
        raise InvalidArgument("backbone", expected, f"{type(error).__name__}: {said[:160]}", remedy) from error
    if vectors.ndim != 2 or len(vectors) != 2:
        raise InvalidArgument("backbone", expected, f"an output of shape {tuple(vectors.shape)}", remedy)
    made_by = {"architecture": type(backbone).__name__, "backbone": fingerprint(backbone), "view": _plain(view)}
    return {**made_by, "dtype": dtype, "width": vectors.shape[1]}


def _plain(view: View) -> dict[str, Any]:
    """The view as JSON gives it back."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(view).items()}


@contextmanager
def _evaluating(backbone: nn.Module) -> Iterator[None]:
    # Not `eval()`: exported programs refuse it, and a module has to come back as it was, each part in its own mode.
    modes = [(module, module.training) for module in backbone.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training


def _cache(folder: Path, backbone: nn.Module, said: Mapping[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    cache = folder / f"{type(backbone).__name__}-{key[:12]}"
    (cache / _PARTS).mkdir(parents=True, exist_ok=True)
    for part in (cache / _PARTS).iterdir():
        if time.time() - part.stat().st_mtime > _STALE:
            part.unlink(missing_ok=True)
    return cache


def _file(folder: Path, video: str) -> Path:
    path = PurePosixPath(video)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidArgument("videos", "named by a path below their folder", repr(video), "Give it another name.")
    return folder / f"{video}.npy"


def _opened(file: Path) -> Vectors:
    """The array of a file, mapped into memory; an OSError where it holds none."""
    with file.open("rb") as start:
        found = _HEADER.match(start.read(256))
        if found is None or found.end() != 10 + int.from_bytes(found[1], "little"):
            raise OSError("its header is not as it was written")
    try:
        with np.errstate(over="ignore"):  # a damaged shape
            vectors: Vectors = np.lib.format.open_memmap(file, mode="r")
        return vectors
    except (ValueError, OverflowError) as error:
        raise OSError(f"no array: {error}") from None


def _kept(file: Path, width: int, dtype: np.dtype[Any]) -> int | None:
    """The number of frames in a complete file of this kind."""
    try:
        array = _opened(file)
    except OSError:
        return None
    return len(array) if array.shape[1:] == (width,) and array.dtype == dtype else None


def _save(folder: Path, video: str, array: Vectors) -> None:
    target = _file(folder, video)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, folder=folder / _PARTS) as part, part.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for key, kind in _MANIFEST.items():
            if not isinstance(said[key], kind):
                raise TypeError(f"{key} is no {kind.__name__}")
        return {key: said[key] for key in _MANIFEST}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        got = f"{folder / MANIFEST}, which cannot be read ({type(error).__name__}: {error})"
        remedy = "Remove that file and run the extraction again: features that are there are kept."
        raise InvalidArgument("features", "a folder with a manifest", got, remedy) from None


def _write_manifest(folder: Path, said: Mapping[str, Any], results: Mapping[str, int | Fault]) -> None:
    """What made the features, and what came of each video, in this run or before."""
    before = _read_manifest(folder) if (folder / MANIFEST).exists() else {"videos": {}, "failed": {}}
    counts, faults = dict(before["videos"]), dict(before["failed"])
    for video, result in results.items():
        counts.pop(video, None)
        faults.pop(video, None)
        if isinstance(result, Fault):
            faults[video] = result.reason
        else:
            counts[video] = result
    with whole_file(folder / MANIFEST, folder=folder / _PARTS) as part:
        part.write_text(json.dumps({**said, "videos": counts, "failed": faults}, indent=1), encoding="utf-8")


def _silent(_video: str, _done: int, _total: int) -> None: ...
