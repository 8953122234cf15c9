"""The handwritten digits of scikit-learn, revealed a few pixels at a time.

1,797 images of 8 x 8 pixels, ten classes. Frame t shows the first 4t pixels of an image in a random order; the others are
grey (0), halfway between paper (-1) and ink (+1). The last of the 16 frames shows the whole digit.
"""

from typing import NamedTuple

import numpy as np
import torch

from sooner.data.sets.nmnist import first_shown, random_orders, revealed, stream_keys
from sooner.inputs import as_seed
from sooner.series import Series

SIDE = 8
PIXELS = SIDE * SIDE
PIXELS_A_FRAME = 4
TIME = PIXELS // PIXELS_A_FRAME
HIDDEN = 0.0

_INK = 16.0  # the largest value in scikit-learn's images
_STREAM = 4  # the three sets of `nmnist` are 1..3


class Digits(NamedTuple):
    """Three sets of series with observations (series, 16, 64), float32: 60, 20 and 20% of each digit."""

    train: Series
    validation: Series
    test: Series


def load(seed: int = 0) -> Digits:
    """The three splits; the seed sets the masks and the division.

    >>> digits = load()
    >>> [len(split) for split in digits], digits.train.features, digits.test.classes.tolist()
    ([1079, 359, 359], (64,), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    seed = as_seed(seed)
    from sklearn.datasets import load_digits  # late: it takes a second

    images, labels = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images.astype(np.float32)) / (_INK / 2) - 1.0
    keys = stream_keys((_STREAM, seed), np.arange(len(pixels)))
    first = torch.from_numpy(first_shown(random_orders(keys, PIXELS), PIXELS_A_FRAME))
    series = Series.from_arrays(revealed(pixels, first, time=TIME, hidden=HIDDEN), labels)
    rest, test = series.split(0.2, seed)
    train, validation = rest.split(0.25, seed)
    return Digits(train, validation, test)
