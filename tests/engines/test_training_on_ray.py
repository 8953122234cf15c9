"""Training by workers of a cluster: what they share, what they survive, and that it is the training of one process."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from on_ray import Doomed, two_cores
from small_training import SETTINGS, TRAINING, VALIDATION, linear
from sooner.data import digits
from sooner.errors import InvalidArgument, TrainingDiverged
from sooner.evaluate import mean_accuracy
from sooner.models import build_model
from sooner.series import Series
from sooner.train import train
from sooner.train.learner import Learner, state_copy
from sooner.train.precision import Precision
from sooner.train.settings import changed, settings_from_dict
from sooner.train.sources import InOrder, Shuffled, batch_indices, worker_share
from sooner.train.team import Team

pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = pytest.mark.ray


ALONE = changed(SETTINGS, {"training.engine": "ray"})
TOGETHER = changed(ALONE, {"training.workers": 2})


@pytest.fixture(scope="module")
def cluster():
    with two_cores():
        yield


def weights_of(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


def trained(settings, model=None, **options):
    model = linear(dropout=0.3) if model is None else model
    return model, train(model, TRAINING, VALIDATION, settings, **options)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_parts_of_a_batch_are_disjoint_and_together_they_are_the_batch(workers):
    for step in range(12):
        batch = batch_indices(step, 23, 8, seed=1)
        parts = [worker_share(batch, worker, workers) for worker in range(workers)]
        assert np.concatenate(parts).tolist() == batch.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        loaders = [Shuffled(TRAINING, 8, 1, worker, workers) for worker in range(workers)]
        seen = torch.cat([loader.batch(step).indices for loader in loaders]).tolist()
        assert seen == batch_indices(step, len(TRAINING), 8, seed=1).tolist()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_series_of_the_validation_set_is_read_by_one_worker(workers):
    loaders = [list(InOrder(VALIDATION, 32, worker, workers)) for worker in range(workers)]
    assert [len(loader) for loader in loaders] == [len(InOrder(VALIDATION, 32, w, workers)) for w in range(workers)]
    seen = sorted(torch.cat([batch.indices for loader in loaders for batch in loader]).tolist())
    assert seen == list(range(len(VALIDATION)))


def test_the_mean_of_the_gradients_of_unequal_parts_is_the_gradient_of_the_batch():
    model = build_model(SETTINGS.model, (3,), 3, log_prior=np.zeros(3)).eval()  # no part is normalised by itself
    settings = changed(SETTINGS, {"training.batch_size": 5})
    start = state_copy(model)

    def gradient(worker, workers):
        model.load_state_dict(start)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Team, "share_buffers", lambda *_: None)
            patch.setattr(Team, "average_gradients", lambda *_: None)
            Learner(model, TRAINING, VALIDATION, settings, Precision("32"), Team(worker, workers)).step()
        return torch.cat([weight.grad.flatten() for weight in model.parameters()])

    parts = [gradient(worker, 2) for worker in range(2)]
    torch.testing.assert_close((parts[0] + parts[1]) / 2, gradient(0, 1))


@pytest.fixture(scope="module")
def unbroken(cluster, tmp_path_factory):  # noqa: ARG001
    """A run of two workers; dropout and batch normalisation make it another one than that of one process."""
    folder = tmp_path_factory.mktemp("unbroken")
    model, record = trained(TOGETHER, folder=folder)
    return SimpleNamespace(model=model, record=record, folder=folder)


@pytest.mark.cluster
def test_a_run_that_began_here_goes_on_there_as_if_nothing_had_happened(cluster, tmp_path, capfd):  # noqa: ARG001
    whole, record = trained(SETTINGS)
    trained(changed(SETTINGS, {"training.iterations": 20}), folder=tmp_path)
    heard = []
    options = {"folder": tmp_path, "resume": True, "verbose": True, "watch": heard.append}
    resumed, same = trained(ALONE, **options)
    assert torch.equal(weights_of(resumed), weights_of(whole))
    assert (same.history, same.best, same.steps, same.device) == (record.history, record.best, 47, "cpu")
    assert heard == list(record.history[2:])
    assert "47/47" in capfd.readouterr().err
    assert not resumed.training


@pytest.mark.cluster
def test_the_validation_of_all_workers_is_that_of_the_whole_set(unbroken):
    model, record = unbroken.model, unbroken.record
    assert [found.step for found in record.history] == [10, 20, 30, 40, 47]
    assert mean_accuracy(model.scores(VALIDATION.observations.float()), VALIDATION.labels) == record.best.metric
    learner = Learner(model, TRAINING, VALIDATION, SETTINGS, Precision("32"))
    judged = [learner._loss(batch) for batch in InOrder(VALIDATION, 64)]
    loss = sum(float(each.total.detach()) * len(each.scores) for each in judged) / len(VALIDATION)
    assert record.best.loss == pytest.approx(loss, rel=1e-6)


@pytest.mark.cluster
def test_a_run_that_began_there_goes_on_here(unbroken):
    longer = changed(SETTINGS, {"training.iterations": 60})
    _, record = trained(longer, folder=unbroken.folder, resume=True)
    assert record.history[:5] == unbroken.record.history
    assert [found.step for found in record.history[5:]] == [50, 60]


@pytest.mark.cluster
@pytest.mark.parametrize("rank", [1])
def test_a_worker_killed_in_the_midst_of_training_changes_nothing(unbroken, tmp_path, rank):
    doomed = Doomed(tmp_path / "alive", step=25, rank=rank)
    model, record = trained(TOGETHER, doomed, folder=tmp_path / "run")
    assert not doomed.file.exists()
    assert len(list((tmp_path / "run" / "logs").glob("start_*"))) == 2
    assert torch.equal(weights_of(model), weights_of(unbroken.model))
    assert record.history == unbroken.record.history


@pytest.mark.cluster
def test_two_workers_at_half_the_batch_end_within_the_spread_of_seeds(cluster):  # noqa: ARG001
    parts = digits.load()
    learned, judged = (Series.from_arrays(part.observations, part.labels) for part in (parts.train, parts.validation))
    tables = {
        "model": {"hidden": 24},
        "optimizer": {"lr": 5e-3},
        "training": {"batch_size": 101, "iterations": 60, "validate_every": 20, "device": "cpu"},
    }

    def reached(**training):
        settings = settings_from_dict({**tables, "training": {**tables["training"], **training}})
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            model = build_model(settings.model, (64,), 10, log_prior=np.zeros(10))
        return train(model, learned, judged, settings).best.metric

    alone = [reached(seed=seed) for seed in range(3)]
    together = reached(engine="ray", workers=2)
    assert abs(together - alone[0]) < max(alone) - min(alone)


@pytest.mark.cluster
def test_a_loss_that_is_no_number_ends_it_with_its_own_sentence(cluster):  # noqa: ARG001
    wild = changed(TOGETHER, {"loss.weights.lsif": 1.0, "optimizer.lr": 1e4, "optimizer.name": "sgdw"})
    with pytest.raises(TrainingDiverged, match=r"The loss at step \d+ is not finite \(multiplet = ") as caught:
        trained(wild)
    assert set(caught.value.series) <= set(batch_indices(caught.value.step, len(TRAINING), 64, seed=0).tolist())


class Enough(Exception):
    pass


@pytest.mark.cluster
def test_who_watches_may_end_it(cluster, tmp_path):  # noqa: ARG001
    endless = changed(TOGETHER, {"training.iterations": 10**6})

    def look(found):
        if found.step >= 30:
            raise Enough

    with pytest.raises(Enough):
        trained(endless, folder=tmp_path, watch=look)
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["learner"]["step"] < 10**6


REFUSED = {
    "a cluster that is too small": (
        lambda: trained(changed(ALONE, {"training.workers": 3})),
        "`training.workers` must be at most 2, the cores of the cluster, got 3. Start more machines first, or ask for fewer.",
    ),
    "a device that no worker has": (
        lambda: trained(changed(TOGETHER, {"training.device": "cuda"})),
        "`training.device` must be one that every worker has, got 'cuda' for 2 worker(s) where the cluster has 0 GPU(s). "
        '"auto" takes what there is.',
    ),
    "fewer series than workers": (
        lambda: train(linear(), TRAINING, VALIDATION.head(1), TOGETHER),
        "`observations` must be of at least 2 series, one for each worker, got 1 in validation. Ask for fewer workers.",
    ),
}


@pytest.mark.cluster
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_there_gets_this_sentence(case, cluster):  # noqa: ARG001
    call, message = REFUSED[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message
