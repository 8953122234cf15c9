"""Series that are made on the fly: other ones in each epoch, and the same ones whenever they are asked for again."""

import numpy as np
import pytest
import torch

from small_training import PROCESS, SETTINGS, TRAINING, VALIDATION, linear
from sooner.errors import InvalidArgument
from sooner.series import Series
from sooner.train import Drawn, Source, train
from sooner.train.settings import changed
from sooner.train.sources import InOrder, Shuffled, class_counts, epoch_of

SHAPE = (6, 3)


def noisy(rows, epoch):
    """The stored series with noise that is a function of their places and the epoch."""
    noise = [torch.randn(SHAPE, generator=torch.Generator().manual_seed(1000 * epoch + int(row))) for row in rows]
    return TRAINING.observations[rows] + torch.stack(noise)


def _drawn(draw=noisy):
    return Drawn(TRAINING.labels, SHAPE, draw)


def _weights(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


class Cut(Exception):
    pass


# --- what is taken ------------------------------------------------------------------------------------------------------


def test_a_batch_is_what_the_function_makes_of_places_and_epoch():
    asked = []

    def draw(rows, epoch):
        asked.append((rows.tolist(), epoch))
        return rows[:, None, None].expand(-1, *SHAPE).float() + 100 * epoch

    source = _drawn(draw)
    batch = InOrder(source, 3).take(np.array([7, 2, 7]), epoch=3)
    assert asked == [([7, 2, 7], 3)]
    assert batch.observations[:, 0, 0].tolist() == [307.0, 302.0, 307.0]
    assert torch.equal(batch.labels, TRAINING.labels[[7, 2, 7]])
    assert (batch.lengths, batch.indices.tolist()) == (None, [7, 2, 7])
    assert InOrder(source, 3).take([1]).observations[0, 0, 0] == 1.0
    assert isinstance(source, Source)
    assert len(source) == len(TRAINING) == 300


def test_stored_series_are_the_same_in_every_epoch():
    first, later = (InOrder(TRAINING, 2).take([3, 1], epoch=epoch) for epoch in (0, 9))
    assert torch.equal(first.observations, later.observations)
    assert torch.equal(first.observations, TRAINING.observations[[3, 1]])
    assert isinstance(TRAINING, Source)
    assert TRAINING.shape == SHAPE


def test_steps_of_an_epoch_show_its_own_series():
    batches = [Shuffled(_drawn(), batch_size=64, seed=0).batch(step) for step in range(9)]
    for step, batch in enumerate(batches):
        assert epoch_of(step, 300, 64) == step // 4
        assert torch.equal(batch.observations, noisy(batch.indices, step // 4))
    assert torch.equal(batches[6].observations, Shuffled(_drawn(), batch_size=64, seed=0).batch(6).observations)


def test_validation_shows_epoch_0_whenever_it_comes():
    epochs = []
    source = Drawn(TRAINING.labels, SHAPE, lambda rows, epoch: epochs.append(epoch) or TRAINING.observations[rows])
    for _ in range(2):
        rows = torch.cat([batch.indices for batch in InOrder(source, 128)])
        assert rows.tolist() == list(range(300))
    assert set(epochs) == {0}


@pytest.mark.parametrize("size", [1, 64, 300, 500])
def test_an_epoch_ends_where_no_full_batch_is_left(size):
    per_epoch = max(300 // size, 1)
    assert [epoch_of(step, 300, size) for step in (0, per_epoch - 1, per_epoch, 3 * per_epoch)] == [0, 0, 1, 3]


# --- training on them ---------------------------------------------------------------------------------------------------


def test_other_noise_in_each_epoch_reaches_the_training():
    shown = []

    def draw(rows, epoch):
        shown.append(epoch)
        return noisy(rows, epoch)

    redrawn, fixed = linear(), linear()
    train(redrawn, _drawn(draw), VALIDATION, SETTINGS)
    train(fixed, _drawn(lambda rows, _epoch: noisy(rows, 0)), VALIDATION, SETTINGS)
    # 47 steps of 64 out of 300 series: 4 steps an epoch.
    assert shown == [step // 4 for step in range(47)]
    assert not torch.equal(_weights(redrawn), _weights(fixed))


def test_what_is_drawn_without_noise_trains_as_what_is_stored():
    stored, drawn = linear(dropout=0.3), linear(dropout=0.3)
    records = [
        train(stored, TRAINING, VALIDATION, SETTINGS),
        train(
            drawn,
            _drawn(lambda rows, _epoch: TRAINING.observations[rows]),
            Drawn(VALIDATION.labels, SHAPE, lambda rows, _epoch: VALIDATION.observations[rows]),
            SETTINGS,
        ),
    ]
    assert torch.equal(_weights(stored), _weights(drawn))
    assert records[0].history == records[1].history


@pytest.mark.parametrize("step", [5, 23, 46])
def test_cut_in_the_midst_of_an_epoch_and_resumed_it_is_as_if_nothing_had_happened(tmp_path, step):
    settings = changed(SETTINGS, {"training.validate_every": 9})
    whole = linear(dropout=0.3)
    unbroken = train(whole, _drawn(), VALIDATION, settings)
    broken = linear(dropout=0.3)

    def cut(*_):
        if broken.training and broken.steps == step:
            raise Cut

    broken.register_forward_pre_hook(cut)
    with pytest.raises(Cut):
        train(broken, _drawn(), VALIDATION, settings, folder=tmp_path)
    resumed = linear(dropout=0.3)
    record = train(resumed, _drawn(), VALIDATION, settings, folder=tmp_path, resume=True)
    assert torch.equal(_weights(resumed), _weights(whole))
    assert record.history == unbroken.history


def test_bytes_can_be_drawn():
    """As frames are: the model brings them to numbers of its own."""
    labels = torch.arange(60) % 3
    images = (80 * labels[:, None, None] + torch.arange(18).reshape(6, 3)).to(torch.uint8)
    from sooner.models import Dense, FrameClassifier

    torch.manual_seed(0)
    model = FrameClassifier(Dense((3,), 4), 3)
    source = Drawn(labels, SHAPE, lambda rows, _epoch: images[rows])
    settings = changed(SETTINGS, {"training.batch_size": 20, "training.iterations": 4})
    record = train(model, source, source, settings)
    assert record.steps == 4
    assert np.isfinite(record.best.loss)


# --- classes and slips --------------------------------------------------------------------------------------------------


def test_classes_are_counted_once_for_all_times():
    source = Drawn([0, 2, 2, 1, 2], SHAPE, noisy)
    assert class_counts(source, 3).tolist() == [[1.0, 1.0, 3.0]]
    assert torch.equal(class_counts(_drawn(), 3), class_counts(TRAINING, 3))
    assert (source.lengths, source.weights) == (None, None)
    assert source.labels.dtype == torch.int64


def test_lengths_and_weights_of_stored_series_still_count():
    stored = Series.from_arrays(np.zeros((3, 2, 1)), [0, 1, 1], lengths=[1, 2, 2], weights=[2.0, 1.0, 0.0])
    assert class_counts(stored, 2).tolist() == [[2.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (2, "`labels` must be in 0..1, got 2 at index 1. The model has 2 classes."),
        (4, "`labels` must be of all 4 classes, got none of class 1."),
    ],
)
def test_labels_that_do_not_fit_the_model_are_told(classes, message):
    with pytest.raises(InvalidArgument) as caught:
        class_counts(Drawn([0, 2, 3 if classes == 4 else 1], SHAPE, noisy), classes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "`labels` must be a batch of at least 1 series, got an empty batch."),
        ([0, -1], "`labels` must be at least 0, got -1 at index 1. Classes count from 0."),
        ([0.0, 1.0], "`labels` must be whole numbers, got dtype torch.float64."),
        ([[0, 1]], "`labels` must be of shape ("),
        (["a", "b"], "`labels` must be an array of numbers"),
        (3, "`labels` must be "),
    ],
    ids=["none", "negative", "floats", "two axes", "texts", "no axis"],
)
def test_labels_are_checked(labels, message):
    with pytest.raises(InvalidArgument) as caught:
        Drawn(labels, SHAPE, noisy)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("shape", [(), (0, 3), (6, 0), (6, -1)])
def test_a_series_without_time_or_features_is_refused(shape):
    with pytest.raises(InvalidArgument, match=r"^`shape` must be "):
        Drawn([0, 1], shape, noisy)


def test_a_model_for_other_observations_is_refused_before_anything_is_drawn():
    def never(_rows, _epoch):
        raise AssertionError

    wrong = Drawn(TRAINING.labels, (6, 4), never)
    for training, validation in ((wrong, VALIDATION), (TRAINING, wrong)):
        with pytest.raises(InvalidArgument, match=r"^`observations` must be of shape \(batch, time, 3\), got shape"):
            train(linear(), training, validation, SETTINGS)


def test_too_large_a_set_to_hold_is_no_matter():
    """Shapes are compared without making a single series."""
    few = PROCESS.sample(30, 6, seed=2)[0]
    labels = torch.arange(3_000_000) % 3
    source = Drawn(labels, SHAPE, lambda rows, _epoch: few[rows % 30])
    record = train(linear(), source, VALIDATION, changed(SETTINGS, {"training.iterations": 2}))
    assert record.steps == 2


# --- crops -----------------------------------------------------------------------------------------------------------------


def _numbered(lengths=None):
    """Series i has the observation 100 i + t at time t."""
    values = 100.0 * torch.arange(20)[:, None] + torch.arange(12.0)
    return Series.from_arrays(values, np.arange(20) % 2, lengths=lengths)


def test_a_crop_is_consecutive_observations_of_its_series_and_every_start_occurs():
    batches, starts = Shuffled(_numbered(), 10, seed=0, crop=5), set()
    for step in range(40):
        batch = batches.batch(step)
        assert batch.observations.shape == (10, 5, 1)
        offsets = batch.observations[..., 0] - 100 * batch.indices[:, None]
        assert torch.equal(offsets, offsets[:, :1] + torch.arange(5))
        starts |= set(offsets[:, 0].tolist())
    assert starts == set(range(8))


def test_crops_are_a_function_of_seed_and_step_and_workers_share_them():
    whole = Shuffled(_numbered(), 10, seed=3, crop=4).batch(7)
    shares = [Shuffled(_numbered(), 10, 3, worker, 3, crop=4).batch(7) for worker in range(3)]
    assert torch.equal(whole.observations, torch.cat([share.observations for share in shares]))
    assert not torch.equal(whole.observations, Shuffled(_numbered(), 10, seed=4, crop=4).batch(7).observations)


def test_every_nth_step_reads_whole_series():
    batches = Shuffled(_numbered(), 10, seed=0, crop=4, whole_every=3)
    assert [batches.batch(step).observations.shape[1] for step in range(7)] == [4, 4, 12, 4, 4, 12, 4]


def test_a_crop_ends_where_its_series_ends():
    lengths = np.array([3, 12] * 10)
    batches = Shuffled(_numbered(lengths), 10, seed=0, crop=5)
    for batch in map(batches.batch, range(20)):
        assert batch.lengths.tolist() == np.minimum(lengths[batch.indices], 5).tolist()
        last = batch.observations[torch.arange(10), batch.lengths - 1, 0] - 100 * batch.indices
        assert bool((last < torch.from_numpy(lengths)[batch.indices]).all())


def test_a_model_learns_from_crops_and_is_validated_on_whole_series():
    cropped, whole = linear(), linear()
    crops = {"training.crop": 3, "training.whole_every": 4, "training.iterations": 60}
    assert train(cropped, TRAINING, VALIDATION, changed(SETTINGS, crops)).best.metric > 0.5
    train(whole, TRAINING, VALIDATION, changed(SETTINGS, {"training.iterations": 60}))
    assert not torch.equal(_weights(cropped), _weights(whole))
