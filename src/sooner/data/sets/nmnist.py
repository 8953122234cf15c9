"""Digits that are revealed over time: NMNIST, NMNIST-H and NMNIST-100f, generated on the fly from MNIST.

=========== === =======================================================================================
set          T  what frame t shows; every other pixel is 255
=========== === =======================================================================================
nmnist       20 the first 40t pixels of a random order of its own for each image (the last frame: all)
nmnist-h     20 the first 10t of them
nmnist-100f 100 15 pixels drawn with replacement, afresh for each frame
=========== === =======================================================================================

The j-th random number of an image is a hash of (set, split, seed, epoch, index, j), so that an image has the same bytes
in any order and on any machine. NumPy's generators were rejected: their bits are stable, but not their permutations.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Shaped
from torch import Tensor

from sooner.errors import InvalidArgument, refuse_unknown
from sooner.inputs import as_indices, as_labels, as_seed, as_tensor, as_whole
from sooner.types import ArrayLike, IntArray, Labels

NmnistName: TypeAlias = Literal["nmnist", "nmnist-h", "nmnist-100f"]
Split: TypeAlias = Literal["train", "validation", "test"]
Frames = Shaped[Tensor, "batch time height width"]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]

SIDE = 28
PIXELS = SIDE * SIDE
NOISE = 255
DRAWS = 15  # pixels in a frame of NMNIST-100f

_NUMBERS = {"nmnist": 1, "nmnist-h": 2, "nmnist-100f": 3}
_PIXELS_A_FRAME = {"nmnist": 40, "nmnist-h": 10}
FRAMES = {"nmnist": 20, "nmnist-h": 20, "nmnist-100f": 100}
"""T of each set."""
_SPLITS = {"train": 1, "validation": 2, "test": 3}

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


class FrameBatch(NamedTuple):
    """Frames (batch, time, 28, 28), and the digit of each series."""

    observations: Frames
    labels: Labels


@dataclass(frozen=True, eq=False)
class Nmnist:
    """One split of one of the three sets.

    Args:
        images: (series, 28, 28), uint8, of MNIST.
        labels: (series,), the digits.
        kind: the name of the set.
        split: the splits share no masks.
        seed: of the masks.

    >>> digits = Nmnist(torch.zeros(2, 28, 28, dtype=torch.uint8), [3, 8], kind="nmnist-h", split="test")
    >>> frames, labels = digits.batch([1])
    >>> (frames < 255).sum(dim=(2, 3)).tolist()[0][:4], labels.tolist()
    ([10, 20, 30, 40], [8])
    """

    images: Tensor
    labels: Tensor
    kind: NmnistName = "nmnist"
    split: Split = "train"
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_unknown("kind", self.kind, FRAMES)
        refuse_unknown("split", self.split, _SPLITS)
        images = as_tensor(self.images, name="images")
        if images.ndim != 3 or tuple(images.shape[1:]) != (SIDE, SIDE) or images.dtype != torch.uint8:
            got, remedy = f"shape {tuple(images.shape)}, {images.dtype}", "Pass what `sooner.data.sets.mnist` loads."
            raise InvalidArgument("images", "uint8 of shape (series, 28, 28)", got, remedy)
        object.__setattr__(self, "images", images.cpu().contiguous())
        object.__setattr__(self, "labels", as_labels(self.labels, torch.empty(len(images), 10)))
        object.__setattr__(self, "seed", as_seed(self.seed))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def time(self) -> int:
        """T, the number of frames of a series."""
        return FRAMES[self.kind]

    def batch(self, indices: ArrayLike, epoch: int = 0, dtype: Literal["uint8", "float32"] = "uint8") -> FrameBatch:
        """The frames (batch, time, 28, 28) and labels of the series at these indices.

        Args:
            indices: (batch,), in this split.
            epoch: every epoch has other masks; always 0 for fixed masks (as in the paper).
            dtype: "uint8" for the pixels, or "float32" for x / 127.5 - 1.
        """
        refuse_unknown("dtype", dtype, ("uint8", "float32"))
        chosen = as_indices(indices, len(self), what="series", least=0)
        epoch = as_whole(epoch, name="epoch", low=0, remedy="Epochs count from 0.")
        keys = stream_keys((_NUMBERS[self.kind], _SPLITS[self.split], self.seed, epoch), chosen)
        rows = torch.from_numpy(chosen)
        pixels = self.images.reshape(-1, PIXELS)[rows]
        pixels = pixels if dtype == "uint8" else pixels.float() / 127.5 - 1.0
        hidden = NOISE if dtype == "uint8" else 1.0
        if self.kind == "nmnist-100f":
            drawn = torch.from_numpy(draws(keys, self.time * DRAWS, PIXELS))
            frames = torch.full((len(drawn), self.time, PIXELS), hidden, dtype=pixels.dtype)
            shape = (len(drawn), self.time, DRAWS)
            frames.scatter_(2, drawn.reshape(shape), pixels.gather(1, drawn).reshape(shape))
        else:
            first = first_shown(random_orders(keys, PIXELS), _PIXELS_A_FRAME[self.kind])
            frames = revealed(pixels, torch.from_numpy(first), time=self.time, hidden=hidden)
        return FrameBatch(frames.reshape(-1, self.time, SIDE, SIDE), self.labels[rows])


def stream_keys(stream: tuple[int, ...], indices: IntArray) -> Words:
    """(batch,): the key of the random numbers of each index, in the stream with these numbers.

    >>> [hex(key) for key in stream_keys((1, 2), np.array([0, 7])).tolist()]
    ['0x77f95428d6f1cd82', '0xb9b36d74d2f41fc7']
    """
    key = 0
    for number in stream:
        word = ((key ^ (number & _WORD)) + _GOLDEN) & _WORD
        key = int(_mixed(np.array([word], dtype=np.uint64))[0])
    return _mixed(np.uint64(key) ^ _mixed(indices.astype(np.uint64) + np.uint64(1)))


def random_orders(keys: Words, items: int) -> npt.NDArray[np.int64]:
    """(batch, items): a random order of 0..items-1 for each key.

    The lowest bits of each hash are replaced by its item, so that all hashes differ, and the sorted hashes contain the order.
    """
    low = np.uint64((1 << max(items - 1, 1).bit_length()) - 1)
    hashes = _hashes(keys, items)
    hashes &= ~low
    hashes |= np.arange(items, dtype=np.uint64)
    hashes.sort(axis=1)
    return (hashes & low).astype(np.int64)


def draws(keys: Words, count: int, items: int) -> npt.NDArray[np.int64]:
    """(batch, count): independent numbers in 0..items-1, uniform up to items / 2^32."""
    high = _hashes(keys, count) >> np.uint64(32)
    return ((high * np.uint64(items)) >> np.uint64(32)).astype(np.int64)


def first_shown(orders: npt.NDArray[np.int64], pixels: int) -> Bytes:
    """(batch, items): the first frame, from 0, that shows each item, if each frame adds the next `pixels` of its order."""
    first = np.empty(orders.shape, dtype=np.uint8)
    np.put_along_axis(first, orders, (np.arange(orders.shape[1]) // pixels).astype(np.uint8)[None], axis=1)
    return first


def revealed(
    pixels: Shaped[Tensor, "batch items"], first: Shaped[Tensor, "batch items"], *, time: int, hidden: float
) -> Shaped[Tensor, "batch {time} items"]:
    """Frame t shows the pixels whose first frame is at most t, and `hidden` everywhere else."""
    shown = first[:, None] <= torch.arange(time, dtype=torch.uint8)[:, None]
    return torch.where(shown, pixels[:, None], torch.tensor(hidden, dtype=pixels.dtype))


def _hashes(keys: Words, count: int) -> Words:
    """(batch, count): the first numbers of splitmix64 from each key."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return _mixed(keys[:, None] + steps)


def _mixed(words: Words) -> Words:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014): every bit of a word depends on every other."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
