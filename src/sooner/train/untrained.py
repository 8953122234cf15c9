"""New models."""

import torch

from sooner.models import Model, build_model
from sooner.models.settings import ModelSettings
from sooner.train.sources import Source, class_counts


def untrained(settings: ModelSettings, source: Source, classes: int, *, seed: int) -> Model:
    """The model of the settings, with random weights and the class frequencies of the source as its prior."""
    counts = class_counts(source, classes)[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(settings, source.shape[1:], classes, log_prior=(counts / counts.sum()).log())
