"""A training that takes a second: a linear model of single observations on a Gaussian process.

As a program it trains in a folder, and may kill itself without warning at a step; or it works on a shared study.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

from sooner.data import Gaussian
from sooner.lab.tuning import SearchSpace, tune
from sooner.models import LiveStep, Model
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import Settings, changed
from sooner.types import Windows

PROCESS = Gaussian.equidistant(3, 1.0)
TRAINING = Series.from_arrays(*PROCESS.sample(300, 6, seed=0))
VALIDATION = Series.from_arrays(*PROCESS.sample(200, 6, seed=1))
SETTINGS = changed(
    Settings(),
    {
        "optimizer.lr": 0.03,
        "training.batch_size": 64,
        "training.iterations": 47,
        "training.validate_every": 10,
        "training.device": "cpu",
    },
)
SPACE = SearchSpace.from_dict({"optimizer.lr": [1e-6, 0.1]})


class Linear(Model):
    """Order 0: each observation alone, with dropout and batch norm so that randomness and buffers matter."""

    def __init__(self, features, classes, *, dropout=0.0):
        super().__init__(features, classes, order=0)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.BatchNorm1d(features[0])
        self.linear = nn.Linear(features[0], classes)
        self.steps = 0
        self.dies_at = None

    def forward(self, observations, lengths=None):  # noqa: ARG002
        if self.training:
            if self.steps == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.steps += 1
        normed = self.norm(observations.flatten(0, 1)).view(observations.shape)
        return Windows(self.linear(self.dropout(normed))[:, :, None])

    def init(self, streams):
        return (torch.zeros(streams, self.classes),)

    def step(self, state, observation):
        scores = state[0] + self.linear(self.norm(observation))
        return LiveStep((scores,), scores)

    @classmethod
    def examples(cls):
        yield cls((3,), 3)


def linear(settings=SETTINGS, *, dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(settings.training.seed)
        return Linear((3,), 3, dropout=dropout)


def train_and_die(folder, step):
    model = linear(dropout=0.3)
    model.dies_at = step
    train(model, TRAINING, VALIDATION, SETTINGS, folder=folder)


def share_study(storage, trials):
    tune(lambda _: linear(), TRAINING, VALIDATION, SETTINGS, SPACE, trials=trials, storage=storage, pruner="none")


if __name__ == "__main__":
    torch.set_num_threads(1)
    verb, place, number = sys.argv[1:]
    {"die": lambda: train_and_die(Path(place), int(number)), "study": lambda: share_study(place, int(number))}[verb]()
