"""A whole plan in small: ten gray digits, a few steps of every kind of model, seconds in all.

As a program it carries the plan out in a folder, writes down the stages it begins, and kills itself in the midst of one.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from sooner.data.sets.mnist import LabelledImages, Mnist
from sooner.lab.experiments import Work, plan_file, run, sets

PLAN = """
title = "In small"
times = [1, 2, 5, 10, 20]
phases = { early = 2, late = 10 }
headline = "pooling"
headline_times = [2, 5]
published = "sat_nmnist_h"
trajectories = 2

[data]
set = "nmnist-h"
train = 100
validation = 30
test = 60

[encoder]
model = { name = "frames", encoder = "convolution", width = 8, moments = 2 }
loss.weights = { multiplet = 1.0 }
optimizer.lr = 1e-2
training = { batch_size = 20, iterations = 30, validate_every = 10 }

[models.MSPRT-TANDEM]
model = { hidden = 8, order = 3, formula = "m_tandem_oblivion", prior = "corrected" }
optimizer.lr = 1e-2
training = { batch_size = 25, iterations = 30, validate_every = 10 }

[models.MSPRT-TANDEM.search]
"optimizer.lr" = [1.5e-2, 2e-2, 3e-2, 4e-2]
"model.order" = [0, 1, 2, 3]

[models."NP test"]
scores_of = "MSPRT-TANDEM"
rule = "fixed_time"

[models."EARLIEST 1e-2"]
rule = "halting"
model = { name = "earliest", hidden = 8, penalty = 1e-2 }
training = { batch_size = 50, iterations = 20, validate_every = 10 }

[models.pooling]
reads = "frames"
masks = "redrawn"
model = { name = "pooling", moments = 2 }
loss.weights = { multiplet = 1.0 }
training = { batch_size = 25, iterations = 12, validate_every = 6, precision = "bf16-mixed" }

[profiles.cpu]
about = "All of it."
"""

STAGES = [
    "encoder",
    "features, train",
    "features, validation",
    "features, test",
    "MSPRT-TANDEM, seed 0",
    "scores of MSPRT-TANDEM, seed 0",
    "EARLIEST 1e-2, seed 0",
    "scores of EARLIEST 1e-2, seed 0",
    "pooling, seed 0",
    "scores of pooling, seed 0",
]
"""Of one seed, in the order in which they are done."""


def digits():
    """Digit k is dark in the k-th part of its pixels and light elsewhere: what few pixels show is soon learned."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for size in (200, 60, 60):
        labels = torch.arange(size) % 10
        dark = torch.arange(784) // 79 == labels[:, None]
        gray = torch.randint(0, 50, dark.shape, generator=generator) + 200 * ~dark
        parts.append(LabelledImages(gray.to(torch.uint8).reshape(size, 28, 28), labels))
    return Mnist(*parts)


def read(folder, *changes, text=PLAN, profile="cpu"):
    """The plan of a text, some of its words changed."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = Path(folder) / "small.toml"
    path.write_text(text, encoding="utf-8")
    return plan_file.read_plan(path, profile)


class Heard:
    """An observer who writes down what he is told of."""

    def __init__(self):
        self.labels, self.places, self.left = [], [], []

    def stage(self, label, place, total, seconds_left):
        self.labels.append(label)
        self.places.append((place, total))
        self.left.append(seconds_left)

    def step(self, done, total):
        pass


class Doomed(Heard):
    """Writes labels to a file, and kills its process without warning in the midst of the third stage.

    It works alone up to there. Then it waits for the file `shared.txt`, which says that another process shares its work.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def stage(self, label, place, total, seconds_left):
        super().stage(label, place, total, seconds_left)
        with (self.folder / "begun.txt").open("a") as file:
            file.write(f"{label}\n")

    def step(self, done, total):  # noqa: ARG002
        if len(self.labels) == 3:
            deadline = time.monotonic() + 120
            while not (self.folder / "shared.txt").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sets._digits = digits
    home = Path(sys.argv[1])
    run(read(home), Work(home / "runs", seeds=1, observer=Doomed(home)))
