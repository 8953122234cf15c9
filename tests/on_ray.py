"""A cluster of two cores for tests, whose workers find the modules of the tests."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import small_plan
from small_training import SETTINGS, Linear
from sooner.engines.ray.cluster import connected
from sooner.lab.experiments import sets


@contextmanager
def two_cores(prepare=None):
    """Nearly as a person gets it, but Ray takes more care of its workers, and they may be prepared by a function."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
        if prepare is None:
            with connected(cpus=2):
                yield
            return
        import ray

        options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init("local", runtime_env={"worker_process_setup_hook": prepare}, **options)
        try:
            yield
        finally:
            ray.shutdown()


def small_digits():
    """Prepares a worker: nobody has to have MNIST."""
    sets._digits = small_plan.digits


class Doomed(Linear):
    """Kills its process without warning at a forward pass of training, if the file with its name on it is still there."""

    def __init__(self, file, step, rank=None):
        with torch.random.fork_rng():
            torch.manual_seed(SETTINGS.training.seed)
            super().__init__((3,), 3, dropout=0.3)
        self.file, self.at, self.rank = Path(file), step, rank
        self.file.touch()

    @classmethod
    def examples(cls):
        """None: the laws of models are not for it."""
        return iter(())

    def forward(self, observations, lengths=None):
        mine = self.rank is None or os.environ.get("RANK") == str(self.rank)
        if self.training and self.steps == self.at and mine and self.file.exists():
            self.file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(observations, lengths)
