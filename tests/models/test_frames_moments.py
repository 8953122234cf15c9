"""Some moments of each series are enough for a step of training: which, how many, and never padding."""

import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.models import Dense, FrameClassifier
from sooner.models.base import Model
from sooner.models.image.encoders import Identity
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import Settings, changed

SERIES, TIME = 400, 6


class Seen(Identity):
    """Notes the rows that it reads."""

    def __init__(self):
        super().__init__((2,))
        self.rows = []

    def encode(self, rows):
        self.rows.append(rows.clone())
        return super().encode(rows)


def _numbered(series=SERIES, time=TIME):
    """An observation is (series, time)."""
    return torch.stack(torch.meshgrid(torch.arange(series).float(), torch.arange(time).float(), indexing="ij"), dim=2)


def _model(moments):
    return FrameClassifier(Seen(), 3, moments=moments).train()


@pytest.mark.parametrize("moments", [1, 2, 5])
def test_a_step_reads_so_many_observations_of_each_series(moments):
    model = _model(moments)
    windows, lengths = model.training_windows(_numbered(), None)
    assert windows.logits.shape == (SERIES, moments, 1, 3)
    assert lengths is None
    (rows,) = model.encoder.rows
    assert torch.bincount(rows[:, 0].long()).tolist() == [moments] * SERIES


def test_logits_are_those_of_the_observations_that_were_read():
    model = _model(3)
    windows, _ = model.training_windows(_numbered(), None)
    (rows,) = model.encoder.rows
    with torch.no_grad():
        torch.testing.assert_close(windows.logits.flatten(0, 2), model.head(rows))


def test_every_call_draws_anew_and_the_seed_decides():
    model = _model(2)

    def drawn(seed=None):
        if seed is not None:
            torch.manual_seed(seed)
        model.training_windows(_numbered(), None)
        return model.encoder.rows[-1]

    first, next_one, again = drawn(0), drawn(), drawn(0)
    assert not torch.equal(first, next_one)
    assert torch.equal(first, again)


def test_each_time_of_a_series_is_as_likely_as_the_other():
    torch.manual_seed(0)
    model = _model(3)
    for _ in range(10):
        model.training_windows(_numbered(), None)
    times = torch.cat(model.encoder.rows)[:, 1].long()
    counts, expected = torch.bincount(times, minlength=TIME).double(), 10 * 3 * SERIES / TIME
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert chi2 < (TIME - 1) + 5 * (2 * (TIME - 1)) ** 0.5


def test_lengths_are_respected_and_nothing_beyond_them_is_read():
    torch.manual_seed(0)
    lengths = torch.arange(SERIES) % TIME + 1
    observations = _numbered()
    observations[torch.arange(TIME) >= lengths[:, None]] = torch.nan
    model = _model(4)
    windows, left = model.training_windows(observations, lengths)
    assert left is None
    assert bool(torch.isfinite(windows.logits).all())
    (rows,) = model.encoder.rows
    series, times = rows.long().T
    assert bool((times < lengths[series]).all())
    # The last moment of a series is among those that are drawn.
    assert all(int(times[lengths[series] == length].max()) == length - 1 for length in range(1, TIME + 1))


@pytest.mark.parametrize("moments", ["all", TIME, TIME + 1, 100])
def test_all_moments_are_read_as_they_stand(moments):
    model, lengths = _model(moments), torch.arange(SERIES) % TIME + 1
    state = torch.get_rng_state()
    windows, left = model.training_windows(_numbered(), lengths)
    assert torch.equal(left, lengths)
    assert torch.equal(windows.logits, model(_numbered(), lengths).logits)
    windows, left = model.training_windows(_numbered(), None)
    assert left is None
    assert torch.equal(windows.logits, model(_numbered()).logits)
    assert torch.equal(torch.get_rng_state(), state)


def test_whoever_says_nothing_reads_all():
    model = FrameClassifier(Dense((2,), 4), 3)
    assert model.moments == "all"
    assert model.training_windows(_numbered(), None)[0].logits.shape == (SERIES, TIME, 1, 3)


def test_outside_of_training_every_observation_is_read():
    model = _model(1)
    assert model(_numbered()).logits.shape == (SERIES, TIME, 1, 3)
    assert model.eval().scores(_numbered()).shape == (SERIES, TIME, 3)
    assert isinstance(model, Model)


def test_training_on_some_moments_learns_and_validates_on_all_of_them():
    labels = torch.arange(60) % 3
    noise = torch.randn(60, TIME, 3, generator=torch.Generator().manual_seed(0))
    examples = Series.from_arrays(3 * torch.eye(3)[labels][:, None] + 0.5 * noise, labels)
    values = {
        "loss.weights": {"multiplet": 1.0},
        "optimizer.lr": 0.05,
        "training.batch_size": 20,
        "training.iterations": 40,
        "training.validate_every": 20,
    }
    found = []
    for moments in (1, "all"):
        torch.manual_seed(0)
        model = FrameClassifier(Dense((3,), 4), 3, moments=moments)
        found.append(train(model, examples, examples, changed(Settings(), values)).best)
    assert all(best.metric > 0.95 for best in found)
    assert found[0].loss != found[1].loss


@pytest.mark.parametrize("moments", [0, -1, 1.5, "some", None])
def test_what_counts_nothing_is_refused(moments):
    with pytest.raises(
        InvalidArgument, match=r'^`moments` must be .*It counts observations of a series; or say "all"\.$'
    ):
        FrameClassifier(Dense((2,), 4), 3, moments=moments)
