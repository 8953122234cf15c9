"""A small task: noise with one of two frequencies, or none, in the first of two channels, and a level in the second."""

import numpy as np

NAMES = np.array(["calm", "fast", "slow"])


def waves(series=60, time=30, seed=0):
    """X in aeon's layout and labels by name."""
    random = np.random.default_rng(seed)
    places = np.arange(series) % 3
    speed = np.array([0.0, 1.1, 0.5])[places][:, None]
    phase = random.uniform(0, 6, (series, 1))
    x = random.normal(size=(series, 2, time))
    x[:, 0] = 0.6 * x[:, 0] + np.where(speed > 0, np.sin(np.arange(time) * speed + phase), 0.0)
    x[:, 1] += np.array([0.0, 0.7, -0.7])[places][:, None]
    return 5.0 + 3.0 * x, NAMES[places]


def unequal(x, seed=0):
    """The same series, cut to lengths of their own."""
    random = np.random.default_rng(seed)
    return [case[:, : random.integers(12, case.shape[1] + 1)] for case in x]
